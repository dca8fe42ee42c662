/* Jacobi iteration with a dense matrix: y = R x by dgemv_; the CPU computes x from y, b and the diagonal.
 *
 *   jacobi N ITERATIONS REPETITIONS
 *
 * Seconds are per iteration. R has a zero diagonal and integer entries; b is made so that the solution is a vector
 * of small integers. */
#include <math.h>
#include <stdlib.h>

#include "blas.h"
#include "common.h"
#include "jacobi.h"

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: jacobi N ITERATIONS REPETITIONS");
    int n = atoi(argv[1]), iterations = atoi(argv[2]), repetitions = atoi(argv[3]), step = 1;
    double one = 1, zero = 0, *r, *x = doubles((size_t)n), *y = doubles((size_t)n), *b = doubles((size_t)n);
    struct series s = {0};
    r = jacobi_matrix(n);
    jacobi_right_side(n, b);
    poison(y, (size_t)n);
    wake(1.0);

    /* Two products with integers, which are exact; they also copy R to the device where it stays. */
    fill(x, (size_t)n, 7);
    for (int k = 0; k < 2; k++)
        dgemv_("N", &n, &n, &one, r, &n, x, &step, &zero, y, &step);
    jacobi_check_product(n, y, 7);

    for (int t = -1; t < repetitions; t++) {
        for (int i = 0; i < n; i++)
            x[i] = 0;
        double start = now();
        for (int k = 0; k < iterations; k++) {
            dgemv_("N", &n, &n, &one, r, &n, x, &step, &zero, y, &step);
            jacobi_update(n, jacobi_diagonal(n), b, y, x);
        }
        double end = now();
        jacobi_check_solution(n, iterations, x);
        if (t >= 0)
            add(&s, (end - start) / iterations);
    }
    emit("jacobi", (size_t)n, "iteration", &s, "");
    free(b);
    free(y);
    free(x);
    free(r);
    return 0;
}
