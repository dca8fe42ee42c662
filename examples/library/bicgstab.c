/* BiCGSTAB for an unsymmetric sparse matrix in compressed rows: first with products by a loop, then with products by the library.
 *
 *   bicgstab [K]        gcc -O2 -o bicgstab bicgstab.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * The system is convection and diffusion on a cube of K^3 points, whose solution is a vector of small integers. Of a step only five numbers
 * come home. Results go to stdout, the same with and without semcache; seconds and bytes go to stderr. */
#include "csr.h"

enum { MOST = 1000 };

static int bicgstab(const semcache_csr *a, const double *b, double *x, product *multiply)
{
    int n = (int)a->rows, steps = 0;
    double *r = doubles((size_t)n), *p = doubles((size_t)n), *v = doubles((size_t)n), *t = doubles((size_t)n);
    /* b is the shadow of the first residual. */
    assign(n, b, r);
    assign(n, b, p);
    double square = dot(n, r, r), rho = square, goal = 1e-20 * square;
    while (square > goal && steps < MOST) {
        multiply(a, p, v);
        double alpha = rho / dot(n, b, v);
        add(n, -alpha, v, r);
        multiply(a, r, t);
        /* Zero if r is: half a step was enough. */
        double most = dot(n, t, t), omega = most > 0 ? dot(n, t, r) / most : 0;
        add(n, alpha, p, x);
        add(n, omega, r, x);
        add(n, -omega, t, r);
        square = dot(n, r, r);
        double next = dot(n, b, r), beta = next / rho * alpha / omega;
        add(n, -omega, v, p);
        scale(n, beta, p);
        add(n, 1, r, p);
        rho = next;
        steps++;
    }
    free(r);
    free(p);
    free(v);
    free(t);
    return steps;
}

int main(int argc, char **argv)
{
    semcache_csr a = stencil(edge_of(argc, argv, 100), 1.5);
    compare("bicgstab", &a, bicgstab);
    free_csr(&a);
    return 0;
}
