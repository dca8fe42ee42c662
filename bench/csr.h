/* Sparse matrices in compressed rows, by pattern and number of rows: the same for all programs that name them. */
#ifndef BENCH_CSR_H
#define BENCH_CSR_H

#include <stddef.h>
#include <stdint.h>

/* Rows and columns are as many; indices count from 0. All values and products with small integers are exact. */
struct csr {
    int64_t rows, nnz;
    int32_t *offsets; /* rows + 1 */
    int32_t *columns; /* ascending within a row, but for `random` and `power` */
    double *values;
};

/* PATTERN:
 *   laplace  27 points of a cube with k^3 points, the largest that has at most `rows`; symmetric, 26 on the diagonal and -1 beside it
 *   banded   15 diagonals
 *   random   16 columns in each row, from all
 *   power    the row of rank r has about n^0.5 / r^0.5 columns (at least 1), from all; ranks are scattered over the matrix
 * Ends the program if there is no such pattern. */
struct csr csr_matrix(const char *pattern, int64_t rows);

/* y = A x by the threads of common.h. */
void csr_times(const struct csr *a, const double *x, double *y);

/* What the programs for conjugate gradients share. The right side A x, x being integers from -2 to 2. */
double *csr_right_side(const struct csr *a);
/* |b - A x| / |b|; ends the program unless it is `wanted`, to six digits of it and 1e-12. */
void csr_check_solution(const struct csr *a, const double *b, const double *x, double wanted);
/* Bytes that a step reads and writes in memory: entries and offsets, and 16 vectors. */
double csr_step_bytes(const struct csr *a);

#endif
