// Armadillo on whole numbers: what is exact is printed in full, the rest to eight digits.
#include <armadillo>
#include <cstdio>

using namespace arma;

static mat whole(uword rows, uword columns, uword p, uword q, uword m)
{
    mat a(rows, columns);
    for (uword j = 0; j < columns; j++)
        for (uword i = 0; i < rows; i++) a(i, j) = double((p * i + q * j + i * j) % m) - double(m / 2);
    return a;
}

static void exact(const char *name, const mat &a)
{
    double weighted = 0;
    for (uword i = 0; i < a.n_elem; i++) weighted += a(i) * double(i % 17);
    std::printf("%s %.0f %.0f\n", name, accu(a), weighted);
}

int main()
{
    const uword n = 200;
    mat a = whole(n, n, 3, 5, 7), b = whole(n, n, 2, 7, 5);
    mat c = a * b;
    c(3, 4) += 1;
    exact("a*b", c);
    exact("c'*a", c.t() * a);
    exact("a*a'", a * a.t()); // syrk
    exact("a*x", a * b.col(0));
    exact("chain", a * b * c.cols(0, 9));
    std::printf("dot %.0f\n", dot(a.col(1), b.col(2)));
    fmat f = conv_to<fmat>::from(a), g = conv_to<fmat>::from(b);
    exact("single", conv_to<mat>::from(fmat(f * g - f)));
    cx_mat z(a, b), y(b, a);
    cx_mat zz = z * y.t();
    exact("complex", real(zz) + 3 * imag(zz));
    mat l = trimatl(whole(n, n, 1, 2, 3), -1) + eye(n, n);
    exact("chol", chol(mat(l * l.t()), "lower"));
    exact("solve", solve(trimatl(l), mat(l * b)));
    const uword m = 48; // LAPACK inside calls the BLAS for every column
    mat s = a.submat(0, 0, m - 1, m - 1);
    s = mat(s + s.t()) + 900 * eye(m, m);
    std::printf("solve %.8g\n", accu(abs(solve(s, b.rows(0, m - 1)))));
    std::printf("inv %.8g\n", accu(abs(inv(s))));
    vec values = eig_sym(s);
    std::printf("eig_sym %.8g %.8g\n", values(0), values(m - 1));
    std::printf("svd %.8g\n", svd(s)(0));
}
