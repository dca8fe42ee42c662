/* LAPACK's blocked LU factorisation of one matrix in malloc's memory.
 *
 *   lu N
 *
 * Prints one JSON line: seconds of dgetrf, and the scaled residual of a system that is then solved with the factors by loops of
 * this program, which read all of them. A residual that LAPACK's own testers would refuse ends the program. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

void dgetrf_(const int *m, const int *n, double *a, const int *lda, int *pivots, int *info);

struct rows {
    size_t n;
    const double *x;
    double *r, norm[64];
};

/* r = b - A x for rows of the original A, with b = 1; and the largest sum of a row. */
static void residuals(void *arg, size_t from, size_t to, int thread)
{
    struct rows *p = arg;
    double *sums = calloc(to - from + 1, sizeof *sums), norm = 0;
    if (!sums)
        die("out of memory");
    for (size_t i = from; i < to; i++)
        p->r[i] = 1;
    for (size_t j = 0; j < p->n; j++)
        for (size_t i = from; i < to; i++) {
            double a = value(3, j * p->n + i);
            p->r[i] -= a * p->x[j];
            sums[i - from] += fabs(a);
        }
    for (size_t i = 0; i < to - from; i++)
        norm = fmax(norm, sums[i]);
    p->norm[thread] = norm;
    free(sums);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: lu N");
    int n = atoi(argv[1]), info = -1;
    size_t order = (size_t)n;
    double *a = doubles(order * order), *x = doubles(order), *r = doubles(order);
    int *pivots = malloc(order * sizeof *pivots);
    if (!pivots)
        die("out of memory");
    fill(a, order * order, 3);
    double began = now();
    dgetrf_(&n, &n, a, &n, pivots, &info);
    double took = now() - began;
    if (info)
        die("WRONG: dgetrf returns %d", info);

    for (size_t i = 0; i < order; i++)
        x[i] = 1;
    for (size_t i = 0; i < order; i++) {
        double t = x[i];
        x[i] = x[pivots[i] - 1];
        x[pivots[i] - 1] = t;
    }
    for (size_t j = 0; j < order; j++)
        for (size_t i = j + 1; i < order; i++)
            x[i] -= a[j * order + i] * x[j];
    for (size_t j = order; j-- > 0;) {
        x[j] /= a[j * order + j];
        for (size_t i = 0; i < j; i++)
            x[i] -= a[j * order + i] * x[j];
    }
    double read = now() - began;
    struct rows p = {.n = order, .x = x, .r = r};
    parallel(order, 0, residuals, &p);
    double norm = 0, residual = 0, largest = 0;
    for (int t = 0; t < 64; t++)
        norm = fmax(norm, p.norm[t]);
    for (size_t i = 0; i < order; i++) {
        residual = fmax(residual, fabs(r[i]));
        largest = fmax(largest, fabs(x[i]));
        if (!isfinite(x[i]))
            die("WRONG: x[%zu] is %g", i, x[i]);
    }
    double scaled = residual / (norm * largest * (double)order * DBL_EPSILON / 2);
    printf("{\"seconds\":%.6f,\"read\":%.6f,\"check\":%.3g}\n", took, read, scaled);
    if (!(scaled < 30))
        die("WRONG: the scaled residual is %g", scaled);
    free(pivots);
    free(r);
    free(x);
    free(a);
    return 0;
}
