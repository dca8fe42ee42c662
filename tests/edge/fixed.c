/* Always the same few calls, with reads and writes by the CPU between them. */
#include "edge.h"

void dsymv_(const char *u, const int *n, const double *alpha, const double *a, const int *lda, const double *x,
            const int *incx, const double *beta, double *y, const int *incy);
void dtrmv_(const char *u, const char *t, const char *d, const int *n, const double *a, const int *lda, double *x,
            const int *incx);
void dsyr_(const char *u, const int *n, const double *alpha, const double *x, const int *incx, double *a, const int *lda);
void drot_(const int *n, double *x, const int *incx, double *y, const int *incy, const double *c, const double *s);

enum { N = 56, NN = N * N };

int main(void)
{
    const int n = N, one = 1, all = NN;
    double *a = doubles(NN), *b = doubles(NN), *c = doubles(NN), *d = doubles(NN), *x = doubles(1024), *y = doubles(1024);
    fill(a, NN);
    fill(b, NN);
    fill(x, 1024);
    fill(y, 1024);
    for (int step = 0; step < 3; step++) {
        multiply(N, 1, a, b, step, c);
        dgemv_(step & 1 ? "T" : "N", &n, &n, &(double){1}, c, &n, x, &one, &(double){2}, y, &one);
        daxpy_(&n, &(double){3}, y, &one, x, &one);
        printf("dot %.0f\n", ddot_(&n, x, &one, y, &one));
        multiply(N, 1, c, b, 0, d);
        printf("d %.0f\n", d[step * 100 + 7]);
        a[step * 5] += 1;
        dger_(&n, &n, &(double){1}, a, &one, b, &one, c, &n);
        dswap_(&n, c + 5, &n, d + 9, &n);
        dsyr_(step & 1 ? "L" : "U", &n, &(double){-1}, a + N, &one, c, &n);
        dsymv_("L", &n, &(double){1}, c, &n, x, &one, &(double){step}, y, &one);
        dtrmv_("U", "T", "N", &n, a, &n, x, &one);
        drot_(&n, x, &one, y, &one, &(double){2}, &(double){-1});
        printf("largest %d\n", idamax_(&all, d, &one));
        for (int i = 0; i < NN; i += 3)
            c[i] = fmod(c[i], 11);
        for (int i = 0; i < N; i++)
            x[i] = fmod(x[i], 7), y[i] = fmod(y[i], 5);
    }
    show("c", c, NN);
    show("d", d, NN);
    show("y", y, N);
    show("x", x, 1024);
    return 0;
}
