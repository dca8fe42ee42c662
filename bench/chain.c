/* Many small BLAS calls on vectors that the CPU does not access in between (see chain.h).
 *
 *   chain N CALLS REPETITIONS
 *
 * Seconds are per call. All vectors and the matrix are from malloc. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "chain.h"
#include "common.h"

static int n, step = 1, columns = CHAIN_COLUMNS;
static double *x, *y, *z, *w, *a;

static void axpy(double alpha)
{
    daxpy_(&n, &alpha, x, &step, y, &step);
}

static double dot(void)
{
    return ddot_(&n, x, &step, y, &step);
}

static void gemv(void)
{
    double one = 1, zero = 0;
    dgemv_("N", &n, &columns, &one, a, &n, w, &step, &zero, z, &step);
}

static void spots(int of_z, const struct chain *c, double *out)
{
    const volatile double *v = of_z ? z : y;
    for (int s = 0; s < CHAIN_SPOTS; s++)
        out[s] = v[c->spot[s]];
}

static void finish(void)
{
    volatile double last = y[n - 1] + z[n - 1];
    (void)last;
}

int main(int argc, char **argv)
{
    static const struct chain_calls calls = {axpy, dot, gemv, spots, finish};
    struct chain c;
    if (argc < 4)
        die("usage: chain N CALLS REPETITIONS");
    n = atoi(argv[1]);
    size_t N = (size_t)n;
    x = doubles(N);
    y = doubles(N);
    z = doubles(N);
    w = doubles(N);
    a = doubles(N * CHAIN_COLUMNS);
    fill(x, N, SEED_X);
    fill(y, N, SEED_Y);
    fill(w, N, SEED_W);
    fill(a, N * CHAIN_COLUMNS, SEED_A);
    poison(z, N);
    wake(1.0);
    gemv();
    chain_prepare(&c, n);
    for (int v = 0; CHAIN_VARIANTS[v]; v++)
        chain_run(&c, &calls, CHAIN_VARIANTS[v], CHAIN_VARIANTS[v],
                  !strcmp(CHAIN_VARIANTS[v], "read") ? atoi(argv[2]) / 10 : atoi(argv[2]), atoi(argv[3]));
    chain_check(&c, y, z);
    free(a);
    free(w);
    free(z);
    free(y);
    free(x);
    return 0;
}
