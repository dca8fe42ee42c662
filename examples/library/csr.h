/* What the examples with sparse matrices share: a matrix, its product by a loop and by the library, and vectors by BLAS. */
#ifndef EXAMPLE_CSR_H
#define EXAMPLE_CSR_H

#include "example.h"

#ifdef __cplusplus
extern "C" {
#endif
void dcopy_(const int *, const double *, const int *, double *, const int *);
#ifdef __cplusplus
}
#endif

/* Points along an edge of the cube: the program's argument. 27 K^3 entries are counted with 32 bits. */
static inline int edge_of(int argc, char **argv, int otherwise)
{
    int k = order_of(argc, argv, otherwise);
    if (k > 430) {
        fprintf(stderr, "%s: at most 430 points along an edge\n", argv[0]);
        exit(2);
    }
    return k;
}

static inline int32_t *integers(size_t count)
{
    return (int32_t *)(void *)doubles((count + 1) / 2);
}

/* The 27-point stencil on a cube of k^3 points in compressed rows: 26 on the diagonal and -1 beside it, with zeros behind the boundary. A
 * wind, which blows along all three axes, makes the matrix unsymmetric: its neighbours upwind weigh more. */
static inline semcache_csr stencil(int k, double wind)
{
    size_t rows = (size_t)k * (size_t)k * (size_t)k, at = 0;
    int32_t *offsets = integers(rows + 1), *columns = integers(27 * rows);
    double *values = doubles(27 * rows);
    int32_t row = 0;
    for (int z = 0; z < k; z++)
        for (int y = 0; y < k; y++)
            for (int x = 0; x < k; x++, row++) {
                offsets[row] = (int32_t)at;
                for (int c = -1; c <= 1; c++)
                    for (int b = -1; b <= 1; b++)
                        for (int a = -1; a <= 1; a++) {
                            if (x + a < 0 || x + a >= k || y + b < 0 || y + b >= k || z + c < 0 || z + c >= k)
                                continue;
                            int beside = abs(a) + abs(b) + abs(c);
                            columns[at] = row + (c * k + b) * k + a;
                            values[at++] = beside == 0 ? 26 + 3 * wind : beside == 1 && a + b + c < 0 ? -1 - wind : -1;
                        }
            }
    offsets[rows] = (int32_t)at;
    semcache_csr of;
    of.size = (uint32_t)sizeof of;
    of.type = 'd';
    of.index_bytes = sizeof *offsets;
    of.base = 0;
    of.rows = of.cols = (int64_t)rows;
    of.row_offsets = offsets;
    of.columns = columns;
    of.values = values;
    return of;
}

static inline void free_csr(const semcache_csr *a)
{
    free((void *)a->row_offsets);
    free((void *)a->columns);
    free((void *)a->values);
}

/* y = A x, by a way that a program calls for it. */
typedef void product(const semcache_csr *a, const double *x, double *y);

/* By a loop. */
static inline void by_loop(const semcache_csr *a, const double *x, double *y)
{
    const int32_t *offsets = (const int32_t *)a->row_offsets, *columns = (const int32_t *)a->columns;
    const double *values = (const double *)a->values;
    for (int64_t i = 0; i < a->rows; i++) {
        double sum = 0;
        for (int32_t j = offsets[i]; j < offsets[i + 1]; j++)
            sum += values[j] * x[columns[j]];
        y[i] = sum;
    }
}

/* By the library; where the program runs without it, by the loop. Pays if A stays as it is for several products, and if x and y are used by
 * BLAS calls in between: then A, x and y stay on devices. */
static inline void by_library(const semcache_csr *a, const double *x, double *y)
{
    const double one = 1, zero = 0;
    semcache_matrix X = semcache_view(x, a->cols, 1, a->cols, sizeof *x), Y = semcache_view(y, a->rows, 1, a->rows, sizeof *y);
    int status = semcache_csr_multiply(a, 'N', &one, &X, &zero, &Y);
    if (status == SEMCACHE_ABSENT) {
        by_loop(a, x, y);
    } else if (status != SEMCACHE_OK) {
        fprintf(stderr, "semcache_csr_multiply: %s\n", semcache_message(status));
        exit(1);
    }
}

/* Vectors, which BLAS calls leave on devices. */
static inline double dot(int n, const double *x, const double *y)
{
    const int one = 1;
    return ddot_(&n, x, &one, y, &one);
}

/* y = a x + y */
static inline void add(int n, double a, const double *x, double *y)
{
    const int one = 1;
    daxpy_(&n, &a, x, &one, y, &one);
}

/* x = a x */
static inline void scale(int n, double a, double *x)
{
    const int one = 1;
    dscal_(&n, &a, x, &one);
}

/* y = x */
static inline void assign(int n, const double *x, double *y)
{
    const int one = 1;
    dcopy_(&n, x, &one, y, &one);
}

/* The solution that right sides are made for, and b = A wanted. */
static inline double wanted(int64_t i)
{
    return (double)(i % 5 + 1);
}

static inline double *right_side(const semcache_csr *a)
{
    double *x = doubles((size_t)a->cols), *b = doubles((size_t)a->rows);
    for (int64_t i = 0; i < a->cols; i++)
        x[i] = wanted(i);
    by_loop(a, x, b);
    free(x);
    return b;
}

/* |b - A x| / |b|, by loops. */
static inline double residual(const semcache_csr *a, const double *b, const double *x)
{
    double *y = doubles((size_t)a->rows), apart = 0, all = 0;
    by_loop(a, x, y);
    for (int64_t i = 0; i < a->rows; i++) {
        apart += (b[i] - y[i]) * (b[i] - y[i]);
        all += b[i] * b[i];
    }
    free(y);
    return sqrt(apart / all);
}

/* A solver of A x = b, which begins with x = 0 and returns the number of its steps. */
typedef int solver(const semcache_csr *a, const double *b, double *x, product *multiply);

/* Solves a system with products by the loop, and again with products by the library. */
static inline void compare(const char *name, const semcache_csr *a, solver *solve)
{
    static const char *const names[] = {"plain", "library"};
    static product *const products[] = {by_loop, by_library};
    size_t n = (size_t)a->rows;
    double *b = right_side(a), *x[2];
    int steps[2], apart = 0;
    bring_up();
    for (int way = 0; way < 2; way++) {
        x[way] = doubles(n);
        memset(x[way], 0, n * sizeof *x[way]);
        meter m = metered();
        steps[way] = solve(a, b, x[way], products[way]);
        report(names[way], &m);
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += (double)(i % 13 + 1) * x[way][i];
        printf("RESULT %s %s: %d steps, checksum %.3f, residual below 1e-9: %s\n", name, names[way], steps[way], sum,
               residual(a, b, x[way]) < 1e-9 ? "yes" : "NO");
    }
    /* Devices may add in another order. */
    for (size_t i = 0; i < n; i++)
        apart += !(fabs(x[0][i] - x[1][i]) < 1e-7);
    printf("RESULT %s: as many steps: %s; solutions agree within 1e-7: %s\n", name, abs(steps[0] - steps[1]) <= 1 ? "yes" : "NO",
           apart == 0 ? "yes" : "NO");
    free(b);
    free(x[0]);
    free(x[1]);
}

#endif
