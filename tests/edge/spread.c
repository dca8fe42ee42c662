/* D := A B and E := A C, then E := E + D by daxpy over all elements, and scal, copy, swap, dot, asum and nrm2 over them.
 * On several devices each holds panels of D and E, and computes with what it holds: between devices only A is copied. */
#include <stdio.h>
#include <stdlib.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
void dscal_(const int *, const double *, double *, const int *);
void dcopy_(const int *, const double *, const int *, double *, const int *);
void dswap_(const int *, double *, const int *, double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);
double dasum_(const int *, const double *, const int *);
double dnrm2_(const int *, const double *, const int *);

static double *matrix(int rows, int cols, int seed) {
    double *a = malloc((size_t)rows * cols * sizeof *a);
    for (size_t i = 0; i < (size_t)rows * cols; i++) a[i] = (double)((i * 7 + seed) % 5) - 2;
    return a;
}

/* A sum that every element changes. */
static double sum(const double *a, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += a[i] * (i % 97 + 1);
    return s;
}

int main(void) {
    const int n = 2048, k = 8, all = n * n, one = 1, part = all - 5;
    const double unit = 1, zero = 0, two = 2;
    double *a = matrix(n, k, 1), *b = matrix(k, n, 2), *c = matrix(k, n, 3), *d = matrix(n, n, 4), *e = matrix(n, n, 5);
    for (int round = 0; round < 3; round++) {
        dgemm_("N", "N", &n, &n, &k, &unit, a, &n, b, &k, &zero, d, &n);
        dgemm_("N", "N", &n, &n, &k, &unit, a, &n, c, &k, &zero, e, &n);
        daxpy_(&all, &unit, d, &one, e, &one);
        dscal_(&all, &two, d, &one);
        printf("%.17g %.17g\n", ddot_(&all, d, &one, e, &one), dasum_(&all, e, &one));
        dswap_(&all, d, &one, e, &one);
        dcopy_(&part, d, &one, e + 5, &one);
        daxpy_(&part, &two, d + 3, &one, e + 5, &one);
        // The square of a norm of integers is one.
        double norm = dnrm2_(&all, d, &one);
        printf("%.0f\n", norm * norm);
        if (round == 1) {
            // The CPU writes a piece in the middle: it lies on no device.
            for (int i = all / 2; i < all / 2 + 1000; i++) e[i] = i % 3;
            dscal_(&all, &two, e, &one);
        }
    }
    printf("%.17g %.17g\n", sum(d, all), sum(e, all));
    return 0;
}
