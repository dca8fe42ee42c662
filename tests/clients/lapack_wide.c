/* The solvers of solvers.c in double precision, with 64-bit integers under plain names, as some programs' LAPACK has them: plain loops. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t INT;

static double *at(double *a, INT ld, INT i, INT j) { return a + i + ld * j; }

void dgetrf_(const INT *m, const INT *n, double *a, const INT *lda, INT *pivots, INT *info)
{
    INT ld = *lda, least = *m < *n ? *m : *n;
    *info = 0;
    for (INT j = 0; j < least; j++) {
        INT pivot = j;
        for (INT i = j + 1; i < *m; i++)
            if (fabs(*at(a, ld, i, j)) > fabs(*at(a, ld, pivot, j)))
                pivot = i;
        pivots[j] = pivot + 1;
        double of = *at(a, ld, pivot, j);
        if (of == 0) {
            if (!*info)
                *info = j + 1;
            continue;
        }
        for (INT c = 0; c < *n; c++) {
            double t = *at(a, ld, j, c);
            *at(a, ld, j, c) = *at(a, ld, pivot, c);
            *at(a, ld, pivot, c) = t;
        }
        for (INT i = j + 1; i < *m; i++)
            *at(a, ld, i, j) /= of;
        for (INT c = j + 1; c < *n; c++)
            for (INT i = j + 1; i < *m; i++)
                *at(a, ld, i, c) -= *at(a, ld, i, j) * *at(a, ld, j, c);
    }
}

/* Solves with the triangle of a (or its transpose). */
static void triangle(INT n, const double *a, INT ld, double *b, int lower, int transposed, int unit)
{
    int forward = lower != transposed;
    for (INT step = 0; step < n; step++) {
        INT j = forward ? step : n - 1 - step;
        if (!unit)
            b[j] /= a[j + ld * j];
        for (INT i = forward ? j + 1 : 0; i < (forward ? n : j); i++)
            b[i] -= (transposed ? a[j + ld * i] : a[i + ld * j]) * b[j];
    }
}

void dgetrs_(const char *op, const INT *n, const INT *sides, const double *a, const INT *lda, const INT *pivots, double *b, const INT *ldb,
             INT *info)
{
    *info = 0;
    for (INT s = 0; s < *sides; s++) {
        double *x = b + *ldb * s;
        if (*op != 'N')
            triangle(*n, a, *lda, x, 0, 1, 0), triangle(*n, a, *lda, x, 1, 1, 1);
        for (INT k = 0; k < *n; k++) {
            INT i = *op == 'N' ? k : *n - 1 - k, with = pivots[i] - 1;
            double t = x[i];
            x[i] = x[with], x[with] = t;
        }
        if (*op == 'N')
            triangle(*n, a, *lda, x, 1, 0, 1), triangle(*n, a, *lda, x, 0, 0, 0);
    }
}

void dgesv_(const INT *n, const INT *sides, double *a, const INT *lda, INT *pivots, double *b, const INT *ldb, INT *info)
{
    dgetrf_(n, n, a, lda, pivots, info);
    if (!*info)
        dgetrs_("N", n, sides, a, lda, pivots, b, ldb, info);
}

void dpotrf_(const char *uplo, const INT *n, double *a, const INT *lda, INT *info)
{
    const INT step = *uplo == 'L' ? 1 : *lda, row = *uplo == 'L' ? *lda : 1;
    for (INT j = 0; j < *n; j++) {
        double square = a[j * step + j * row];
        if (!(square > 0)) {
            *info = j + 1;
            return;
        }
        double root = a[j * step + j * row] = sqrt(square);
        for (INT i = j + 1; i < *n; i++)
            a[i * step + j * row] /= root;
        for (INT c = j + 1; c < *n; c++)
            for (INT i = c; i < *n; i++)
                a[i * step + c * row] -= a[i * step + j * row] * a[c * step + j * row];
    }
    *info = 0;
}

void dpotrs_(const char *uplo, const INT *n, const INT *sides, const double *a, const INT *lda, double *b, const INT *ldb, INT *info)
{
    int lower = *uplo == 'L';
    *info = 0;
    for (INT s = 0; s < *sides; s++) {
        triangle(*n, a, *lda, b + *ldb * s, lower, !lower, 0);
        triangle(*n, a, *lda, b + *ldb * s, lower, lower, 0);
    }
}

void dposv_(const char *uplo, const INT *n, const INT *sides, double *a, const INT *lda, double *b, const INT *ldb, INT *info)
{
    dpotrf_(uplo, n, a, lda, info);
    if (!*info)
        dpotrs_(uplo, n, sides, a, lda, b, ldb, info);
}
