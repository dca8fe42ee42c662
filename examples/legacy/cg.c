/* Conjugate gradients for a dense symmetric positive definite system.
 *
 *   cg N [ITERATIONS]
 *
 * The matrix and the right hand side are integers made so that the solution is a vector of small integers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void dgemv_(const char *trans, const int *m, const int *n, const double *alpha, const double *a,
            const int *lda, const double *x, const int *incx, const double *beta, double *y,
            const int *incy);
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);
double dnrm2_(const int *n, const double *x, const int *incx);
void daxpy_(const int *n, const double *alpha, const double *x, const int *incx, double *y,
            const int *incy);
void dscal_(const int *n, const double *alpha, double *x, const int *incx);

static double wanted(int i)
{
    return i % 5 + 1;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    int iterations = argc > 2 ? atoi(argv[2]) : 100;
    int one = 1, k;
    double zero = 0, unit = 1, error = 0, sum = 0;

    if (n < 1 || iterations < 1) {
        fprintf(stderr, "usage: cg N [ITERATIONS]\n");
        return 2;
    }
    double *a = malloc((size_t)n * n * sizeof *a);
    double *x = calloc(n, sizeof *x), *r = calloc(n, sizeof *r);
    double *p = calloc(n, sizeof *p), *q = calloc(n, sizeof *q);
    if (!a || !x || !r || !p || !q) {
        fprintf(stderr, "cg: out of memory\n");
        return 1;
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            double v = i == j ? 3.0 * n + i % 11 * (double)n / 8 : (double)((i + j) % 5 - 2);
            a[(size_t)j * n + i] = v;
            r[i] += v * wanted(j);
        }

    double start = dnrm2_(&n, r, &one);
    double rho = ddot_(&n, r, &one, r, &one);
    for (int i = 0; i < n; i++)
        p[i] = r[i];
    for (k = 0; k < iterations && sqrt(rho) > 1e-12 * start; k++) {
        dgemv_("N", &n, &n, &unit, a, &n, p, &one, &zero, q, &one);
        double alpha = rho / ddot_(&n, p, &one, q, &one), minus = -alpha;
        daxpy_(&n, &alpha, p, &one, x, &one);
        daxpy_(&n, &minus, q, &one, r, &one);
        double next = ddot_(&n, r, &one, r, &one), beta = next / rho;
        dscal_(&n, &beta, p, &one);
        daxpy_(&n, &unit, r, &one, p, &one);
        rho = next;
    }

    for (int i = 0; i < n; i++) {
        error = fmax(error, fabs(x[i] - wanted(i)));
        sum += (i % 13 + 1) * x[i];
    }
    printf("cg n=%d\n", n);
    printf("converged: %s, checksum %.6f, error below 1e-8: %s\n", k < iterations ? "yes" : "NO", sum,
           error < 1e-8 ? "yes" : "NO");
    free(q);
    free(p);
    free(r);
    free(x);
    free(a);
    return 0;
}
