/* Conjugate gradients for a sparse matrix in compressed rows: first with products by a loop, then with products by the library.
 *
 *   cg_sparse [K]        gcc -O2 -o cg_sparse cg_sparse.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * The system is a Laplacian of 27 points on a cube of K^3, whose solution is a vector of small integers. Of a step only two numbers come
 * home. Results go to stdout, the same with and without semcache; seconds and bytes go to stderr. */
#include "csr.h"

enum { MOST = 2000 };

static int conjugate_gradients(const semcache_csr *a, const double *b, double *x, product *multiply)
{
    int n = (int)a->rows, steps = 0;
    double *r = doubles((size_t)n), *p = doubles((size_t)n), *q = doubles((size_t)n);
    assign(n, b, r);
    assign(n, b, p);
    double rho = dot(n, r, r), goal = 1e-20 * rho;
    while (rho > goal && steps < MOST) {
        multiply(a, p, q);
        double alpha = rho / dot(n, p, q);
        add(n, alpha, p, x);
        add(n, -alpha, q, r);
        double next = dot(n, r, r);
        scale(n, next / rho, p);
        add(n, 1, r, p);
        rho = next;
        steps++;
    }
    free(r);
    free(p);
    free(q);
    return steps;
}

int main(int argc, char **argv)
{
    semcache_csr a = stencil(edge_of(argc, argv, 100), 0);
    compare("cg_sparse", &a, conjugate_gradients);
    free_csr(&a);
    return 0;
}
