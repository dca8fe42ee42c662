// CHOLMOD's supernodal factorisation of the 3-D Laplacian on an N x N x N grid: syrk, gemm and trsm on dense blocks of
// many sizes, as its own code calls them. The right hand side belongs to a solution in whole numbers.
//
//   cholmod [N]      default 16
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cholmod.h>

int main(int argc, char **argv)
{
    const int n = argc > 1 ? std::atoi(argv[1]) : 16, size = n * n * n;
    cholmod_common common;
    cholmod_start(&common);
    common.supernodal = CHOLMOD_SUPERNODAL;
    common.nmethods = 1;
    common.method[0].ordering = CHOLMOD_AMD;
    cholmod_triplet *t = cholmod_allocate_triplet(size, size, 4 * size, 1, CHOLMOD_REAL, &common);
    auto entry = [&](int row, int column, double value) {
        static_cast<int *>(t->i)[t->nnz] = row;
        static_cast<int *>(t->j)[t->nnz] = column;
        static_cast<double *>(t->x)[t->nnz++] = value;
    };
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                const int at = (z * n + y) * n + x;
                entry(at, at, 6);
                if (x) entry(at - 1, at, -1);
                if (y) entry(at - n, at, -1);
                if (z) entry(at - n * n, at, -1);
            }
    cholmod_sparse *a = cholmod_triplet_to_sparse(t, 0, &common);
    cholmod_dense *wanted = cholmod_ones(size, 1, CHOLMOD_REAL, &common), *b = cholmod_zeros(size, 1, CHOLMOD_REAL, &common);
    for (int i = 0; i < size; i++) static_cast<double *>(wanted->x)[i] = i % 9 - 4;
    double one[2] = {1, 0}, nought[2] = {0, 0};
    cholmod_sdmult(a, 0, one, nought, wanted, b, &common);
    for (int again = 0; again < 2; again++) {
        cholmod_factor *l = cholmod_analyze(a, &common);
        cholmod_factorize(a, l, &common);
        cholmod_dense *x = cholmod_solve(CHOLMOD_A, l, b, &common);
        double worst = 0, determinant = 0;
        for (int i = 0; i < size; i++)
            worst = std::fmax(worst, std::fabs(static_cast<double *>(x->x)[i] - static_cast<double *>(wanted->x)[i]));
        std::printf("%d unknowns, %s, status %d, right to 1e-9: %d, rcond %.6g\n", size, l->is_super ? "supernodal" : "simplicial",
                    common.status, worst < 1e-9, cholmod_rcond(l, &common));
        // The logarithm of the determinant, from the diagonals of the supernodes.
        const int *super = static_cast<int *>(l->super), *pi = static_cast<int *>(l->pi), *px = static_cast<int *>(l->px);
        for (size_t s = 0; s < l->nsuper; s++)
            for (int k = 0; k < super[s + 1] - super[s]; k++)
                determinant += 2 * std::log(static_cast<double *>(l->x)[px[s] + (size_t)k * (pi[s + 1] - pi[s] + 1)]);
        std::printf("%zu supernodes, log det %.10g\n", l->nsuper, determinant);
        cholmod_free_dense(&x, &common);
        cholmod_free_factor(&l, &common);
    }
    cholmod_free_dense(&b, &common);
    cholmod_free_dense(&wanted, &common);
    cholmod_free_sparse(&a, &common);
    cholmod_free_triplet(&t, &common);
    cholmod_finish(&common);
}
