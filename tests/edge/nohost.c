/* Linked against nothing that computes: a routine that devices run, and one that they do not. */
#include "edge.h"

void dtpsv_(const char *uplo, const char *trans, const char *diag, const int *n, const double *ap, double *x,
            const int *incx);
double cblas_ddot(int n, const double *x, int incx, const double *y, int incy);

int main(int argc, char **argv)
{
    enum { N = 40, NN = N * N };
    const int n = N, one = 1;
    double *a = doubles(NN), *b = doubles(NN), *c = doubles(NN);
    (void)argv;
    fill(a, NN);
    fill(b, NN);
    multiply(N, 1, a, b, 0, c);
    show("product", c, NN);
    multiply(2, 1, a, b, 0, c);
    show("small product", c, 4);
    multiply(N, 0, a, b, 0, c);
    show("cleared", c, NN);
    multiply(N, 1, a, b, 0, c);
    dgemm_("N", "N", &n, &n, &(int){0}, &(double){1}, a, &n, b, &n, &(double){-3}, c, &n);
    dgemm_("N", "N", &(int){7}, &(int){5}, &n, &(double){0}, a, &n, b, &n, &(double){2}, c + 3, &n);
    dgemv_("T", &n, &(int){9}, &(double){0}, a, &n, b, &one, &(double){5}, c + 700, &(int){-3});
    dgemv_("N", &n, &n, &(double){0}, a, &n, b, &one, &(double){0}, c + 900, &(int){2});
    dgemv_("N", &n, &(int){0}, &(double){1}, a, &n, b, &one, &(double){0}, c + 1100, &one);
    show("only scaled", c, NN);
    printf("none %d\n", idamax_(&(int){0}, a, &one));
    dgemv_("T", &n, &n, &(double){1}, a, &n, b, &one, &(double){1}, c, &one);
    daxpy_(&n, &(double){2}, b, &one, c, &one);
    dcopy_(&n, c, &one, c + N, &one);
    dswap_(&n, c + 2, &one, c + NN / 2, &(int){7});
    dger_(&n, &n, &(double){1}, a, &one, b, &one, c, &n);
    dscal_(&n, &(double){0}, c, &one);
    dscal_(&n, &(double){3}, c + N, &one);
    dgemm_("N", "N", &n, &n, &n, &(double){1}, c, &n, b, &n, &(double){0}, a, &n);
    show("a", a, NN);
    printf("%.0f %.0f %.0f %d\n", ddot_(&n, a, &one, b, &one), cblas_ddot(n, a, 1, b, 1), dasum_(&n, a, &one), idamax_(&n, a, &one));
    /* A result that only the host BLAS defines. */
    printf("%.0f\n", ddot_(&(int){0}, a, &one, b, &one));
    if (argc > 1)
        dtpsv_("U", "N", "N", &n, a, b, &one);
    return 0;
}
