/* Jacobi iteration for a dense, diagonally dominant system, one dgemv per step.
 *
 *   jacobi N [ITERATIONS [LDA]]
 *
 * Solves (R + d I) x = b with integer R and b made so that the solution is a vector of small integers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void dgemv_(const char *trans, const int *m, const int *n, const double *alpha, const double *a,
            const int *lda, const double *x, const int *incx, const double *beta, double *y,
            const int *incy);

static const double PADDING = -7777.0;

static double entry(int i, int j)
{
    return i == j ? 0.0 : (double)((7L * i + 3L * j) % 5 - 2);
}

static double wanted(int i)
{
    return i % 7 + 1;
}

static double *vector(size_t n)
{
    double *v = malloc((n ? n : 1) * sizeof *v);
    if (!v) {
        fprintf(stderr, "jacobi: out of memory\n");
        exit(1);
    }
    return v;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    int iterations = argc > 2 ? atoi(argv[2]) : 100;
    int lda = argc > 3 ? atoi(argv[3]) : n;
    int one = 1;
    double alpha = 1, beta = 0, d = 4.0 * n, change = 0, error = 0, sum = 0;

    if (n < 1 || iterations < 1 || lda < n) {
        fprintf(stderr, "usage: jacobi N [ITERATIONS [LDA]], with LDA at least N\n");
        return 2;
    }
    double *r = vector((size_t)lda * n), *x = vector(n), *y = vector(n), *b = vector(n);

    for (int i = 0; i < n; i++) {
        x[i] = 0;
        b[i] = d * wanted(i);
    }
    for (int j = 0; j < n; j++) {
        double *column = r + (size_t)j * lda;
        for (int i = 0; i < n; i++) {
            column[i] = entry(i, j);
            b[i] += column[i] * wanted(j);
        }
        for (int i = n; i < lda; i++)
            column[i] = PADDING;
    }

    for (int k = 0; k < iterations; k++) {
        dgemv_("N", &n, &n, &alpha, r, &lda, x, &one, &beta, y, &one);
        change = 0;
        for (int i = 0; i < n; i++) {
            double next = (b[i] - y[i]) / d;
            change = fmax(change, fabs(next - x[i]));
            x[i] = next;
        }
    }

    for (int i = 0; i < n; i++) {
        error = fmax(error, fabs(x[i] - wanted(i)));
        sum += (i % 13 + 1) * x[i];
    }
    for (int j = 0; j < n; j++)
        for (int i = n; i < lda; i++)
            if (r[(size_t)j * lda + i] != PADDING) {
                printf("jacobi: padding of column %d was changed\n", j);
                return 1;
            }
    printf("jacobi n=%d lda=%d iterations=%d\n", n, lda, iterations);
    printf("checksum %.6f\n", sum);
    if (iterations >= 60)
        printf("error below 1e-9: %s, last change below 1e-9: %s\n", error < 1e-9 ? "yes" : "NO",
               change < 1e-9 ? "yes" : "NO");
    else
        printf("error %.6e\n", error);
    free(b);
    free(y);
    free(x);
    free(r);
    return 0;
}
