/* dgemm and dgemv of any shape, as an ordinary BLAS program.
 *
 *   shapes M N K REPETITIONS      C = alpha A B, A being M x K and B K x N
 *   shapes M K REPETITIONS        y = alpha A x, A being M x K
 *
 * The CPU rewrites the inputs in place before each call and reads all of the result; both are in the time of
 * "refilled". "calls" counts all calls of the process. */
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "common.h"

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        die("usage: shapes M N K REPETITIONS | shapes M K REPETITIONS");
    int vector = argc == 4, m = atoi(argv[1]), n = vector ? 1 : atoi(argv[2]), k = atoi(argv[argc - 2]);
    int repetitions = atoi(argv[argc - 1]), calls = 0, one = 1;
    if (m < 1 || n < 1 || k < 1 || repetitions < 1)
        die("shapes: sizes and repetitions are positive numbers");
    struct product p = {.m = (size_t)m, .n = (size_t)n, .k = (size_t)k};
    double *a = doubles(p.m * p.k), *b = doubles(p.k * p.n), *c = doubles(p.m * p.n);
    struct series whole = {0}, called = {0};
    const double zero = 0;
    poison(c, p.m * p.n);
    wake(0.5);
    double begun = now();
    for (int r = -1; r < repetitions && (r < 2 || now() - begun < 30); r++, calls++) {
        p.a = 20 + 2 * (uint32_t)r;
        p.b = 21 + 2 * (uint32_t)r;
        p.alpha = 1 + (r + 4) % 4; /* so that the result of an earlier repetition is wrong */
        fill(a, p.m * p.k, p.a);
        fill(b, p.k * p.n, p.b);
        double start = now();
        if (vector)
            dgemv_("N", &m, &k, &p.alpha, a, &m, b, &one, &zero, c, &one);
        else
            dgemm_("N", "N", &m, &n, &k, &p.alpha, a, &m, b, &k, &zero, c, &m);
        double returned = now();
        double total = sum(c, p.m * p.n, 8);
        double end = now();
        product_check("refilled", &p, c, total);
        if (r >= 0) {
            add(&whole, end - start);
            add(&called, returned - start);
        }
    }
    char more[4400], calls_s[4096];
    snprintf(more, sizeof more, ",\"call\":%s,\"calls\":%d,\"shape\":[%d,%d,%d]", list(&called, calls_s, sizeof calls_s), calls, m, n, k);
    emit(vector ? "dgemv" : "dgemm", p.m, "refilled", &whole, more);
    free(a);
    free(b);
    free(c);
    return 0;
}
