// Eigen, compiled with EIGEN_USE_BLAS, on whole numbers: everything printed is exact but the last two lines.
#define EIGEN_USE_BLAS
#include <Eigen/Dense>
#include <complex>
#include <cstdio>

using namespace Eigen;

template <typename Matrix> static Matrix whole(Index rows, Index columns, Index p, Index q, Index m)
{
    return Matrix::NullaryExpr(rows, columns, [=](Index i, Index j) {
        return typename Matrix::Scalar(double((p * i + q * j + i * j) % m) - double(m / 2));
    });
}

template <typename Matrix> static void exact(const char *name, const Matrix &a)
{
    double sum = 0, weighted = 0;
    for (Index j = 0; j < a.cols(); j++)
        for (Index i = 0; i < a.rows(); i++) {
            double v = double(std::real(a(i, j))) + 3 * double(std::imag(a(i, j)));
            sum += v;
            weighted += v * double((i + 3 * j) % 17);
        }
    std::printf("%s %.0f %.0f\n", name, sum, weighted);
}

template <typename Matrix> static void products(const char *name)
{
    using Scalar = typename Matrix::Scalar;
    const Index n = 200;
    Matrix a = whole<Matrix>(n, n, 3, 5, 7), b = whole<Matrix>(n, n, 2, 7, 5), c;
    std::printf("%s\n", name);
    c.noalias() = a * b;
    c(3, 4) += Scalar(1);
    exact("a*b", c);
    exact("a'*c", Matrix(a.adjoint() * c));
    exact("a*x", Matrix(a * b.col(1)));
}

template <typename Matrix> static void triangles(const char *name)
{
    const Index n = 200;
    Matrix a = whole<Matrix>(n, n, 3, 5, 7), b = whole<Matrix>(n, n, 2, 7, 5);
    std::printf("%s\n", name);
    Matrix s = Matrix::Zero(n, n);
    s.template selfadjointView<Lower>().rankUpdate(a); // syrk, herk
    exact("rankUpdate", Matrix(s.template triangularView<Lower>()));
    exact("symm", Matrix(s.template selfadjointView<Lower>() * b));
    Matrix l = whole<Matrix>(n, n, 1, 2, 3).template triangularView<StrictlyLower>();
    l.diagonal().setOnes();
    exact("trmm", Matrix(l.template triangularView<Lower>() * b));
    exact("trsm", Matrix(l.template triangularView<UnitLower>().solve(Matrix(l * b))));
    LLT<Matrix> llt(Matrix(l * l.adjoint()));
    exact("llt", Matrix(llt.matrixL()));
}

int main()
{
    products<MatrixXd>("double");
    products<MatrixXf>("float");
    products<MatrixXcd>("complex double");
    products<MatrixXcf>("complex float");
    triangles<MatrixXd>("double");
    triangles<MatrixXcf>("complex float");
    using Rows = Matrix<double, Dynamic, Dynamic, RowMajor>;
    exact("row-major", Rows(whole<Rows>(150, 180, 3, 5, 7) * whole<Rows>(180, 160, 2, 7, 5).eval()));
    MatrixXd a = whole<MatrixXd>(200, 200, 3, 5, 7), b = whole<MatrixXd>(200, 3, 2, 7, 5);
    MatrixXd s = a + a.transpose() + 900 * MatrixXd::Identity(200, 200);
    std::printf("lu %.8g\n", s.partialPivLu().solve(b).cwiseAbs().sum());
    std::printf("qr %.8g\n", s.householderQr().solve(b).cwiseAbs().sum());
}
