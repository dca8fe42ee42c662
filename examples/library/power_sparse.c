/* The largest eigenvalue of a sparse matrix in compressed rows by power iteration: first with products by a loop, then by the library.
 *
 *   power_sparse [K]        gcc -O2 -o power_sparse power_sparse.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * The matrix is a Laplacian of 27 points on a cube of K^3, whose eigenvalues are known. Of a step only one number comes home. Results go to
 * stdout, the same with and without semcache; seconds and bytes go to stderr. */
#include "csr.h"

enum { STEPS = 200 };

static double power_iteration(const semcache_csr *a, int k, product *multiply)
{
    int n = (int)a->rows;
    double *x = doubles((size_t)n), *y = doubles((size_t)n), norm = 0;
    /* Signs change along one axis, as those of an eigenvector do. */
    for (int i = 0; i < n; i++)
        x[i] = i % k % 2 ? -1 : 1;
    scale(n, 1 / sqrt(dot(n, x, x)), x);
    for (int i = 0; i < STEPS; i++) {
        multiply(a, x, y);
        norm = sqrt(dot(n, y, y));
        scale(n, 1 / norm, y);
        double *swap = x;
        x = y;
        y = swap;
    }
    free(x);
    free(y);
    return norm;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"plain", "library"};
    static product *const products[] = {by_loop, by_library};
    int k = edge_of(argc, argv, 100);
    semcache_csr a = stencil(k, 0);
    /* The matrix is 27 less a product of three matrices, one for each axis, with 1 on three diagonals. */
    double angle = acos(-1.0) / (k + 1), most = 1 + 2 * cos(angle), least = 1 + 2 * cos(k * angle), found[2];
    double known = 27 - least * (least < 0 ? most * most : least * least);
    bring_up();
    for (int way = 0; way < 2; way++) {
        meter m = metered();
        found[way] = power_iteration(&a, k, products[way]);
        report(names[way], &m);
        printf("RESULT power_sparse %s: eigenvalue %.6f, known within 0.1 %%: %s\n", names[way], found[way],
               fabs(found[way] - known) < 1e-3 * known ? "yes" : "NO");
    }
    /* Devices may add in another order. */
    printf("RESULT power_sparse: eigenvalues agree within 1e-9: %s\n", fabs(found[0] - found[1]) < 1e-9 ? "yes" : "NO");
    free_csr(&a);
    return 0;
}
