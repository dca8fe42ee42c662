/* A matrix-vector product whose result the CPU reads each time, as an iteration on a resident matrix makes it.
 *
 *   vector SIZES STEPS      SIZES: comma-separated
 *
 * Four variants for each size: "block", x and y are the first elements of large allocations, or "small", allocations of their own size,
 * which the library does not track below 1 MiB; and x "stays", or is "rewritten" by the CPU before each call. Seconds are of one step: the
 * writing, the call and the reading of all of y, the mean of ten steps in a row. The first half of the steps is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "common.h"

enum { LARGE = 1 << 22, TOGETHER = 10 };

static double next(size_t j, int step)
{
    return (double)((int)((j * 7 + (size_t)step) % 5) - 2);
}

static void measure(int n, int steps, int small, int rewritten)
{
    size_t N = (size_t)n, length = small ? N : LARGE;
    double *A = doubles(N * N), *x = doubles(length), *y = doubles(length);
    double one = 1, zero = 0, began = 0;
    int step = 1;
    fill(A, N * N, 1);
    for (size_t j = 0; j < N; j++)
        x[j] = next(j, 0);
    poison(y, N);
    struct series s = {0};
    for (int i = 0; i < steps; i++) {
        if (i % TOGETHER == 0)
            began = now();
        if (rewritten)
            for (size_t j = 0; j < N; j++)
                x[j] = next(j, i);
        dgemv_("T", &n, &n, &one, A, &n, x, &step, &zero, y, &step);
        double total = sum(y, N, 1);
        if (i % TOGETHER == TOGETHER - 1 && i >= steps / 2 && s.n < (int)(sizeof s.s / sizeof *s.s))
            add(&s, (now() - began) / TOGETHER);
        if (i % 97 == 0 || i == steps - 1) {
            size_t at = (size_t)i % N;
            double want = 0;
            for (size_t j = 0; j < N; j++)
                want += value(1, at * N + j) * next(j, rewritten ? i : 0);
            same("an element of y", y[at], want);
            same("the sum of y", sum(y, N, 1), total);
        }
    }
    char variant[64];
    snprintf(variant, sizeof variant, "%s, x %s", small ? "small" : "block", rewritten ? "rewritten" : "stays");
    emit("vector", N, variant, &s, "");
    free(y);
    free(x);
    free(A);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("usage: vector SIZES STEPS");
    wake(1.0);
    for (char *w = strtok(argv[1], ","); w; w = strtok(NULL, ","))
        for (int variant = 0; variant < 4; variant++)
            measure(atoi(w), atoi(argv[2]), variant / 2, variant % 2);
    return 0;
}
