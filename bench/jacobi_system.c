#include "jacobi.h"

#include <math.h>
#include <stdlib.h>

#include "common.h"

/* |entries| <= 1024, of mean 512: the spectral radius of R / d is about 600 sqrt(n) / d. */
double jacobi_diagonal(int n)
{
    return 4096.0 * n;
}

static double entry(size_t n, size_t i, size_t j)
{
    return i == j ? 0.0 : value(5, j * n + i);
}

static double wanted(size_t i)
{
    return (double)(i % 7 + 1);
}

struct columns {
    double *r, *out;
    size_t n;
};

static void columns_fill(void *arg, size_t from, size_t to, int thread)
{
    struct columns *c = arg;
    (void)thread;
    for (size_t j = from; j < to; j++)
        for (size_t i = 0; i < c->n; i++)
            c->r[j * c->n + i] = entry(c->n, i, j);
}

double *jacobi_matrix(int n)
{
    struct columns c = {doubles((size_t)n * (size_t)n), NULL, (size_t)n};
    parallel(c.n, 0, columns_fill, &c);
    return c.r;
}

static void rows_times_wanted(void *arg, size_t from, size_t to, int thread)
{
    struct columns *c = arg;
    (void)thread;
    for (size_t i = from; i < to; i++)
        c->out[i] = jacobi_diagonal((int)c->n) * wanted(i);
    for (size_t j = 0; j < c->n; j++)
        for (size_t i = from; i < to; i++)
            c->out[i] += entry(c->n, i, j) * wanted(j);
}

void jacobi_right_side(int n, double *b)
{
    struct columns c = {NULL, b, (size_t)n};
    parallel(c.n, 0, rows_times_wanted, &c);
}

struct sums {
    size_t n;
    uint32_t seed;
    int64_t of[64];
};

static void column_sums(void *arg, size_t from, size_t to, int thread)
{
    struct sums *s = arg;
    int64_t total = 0;
    for (size_t j = from; j < to; j++) {
        int64_t column = 0;
        for (size_t i = 0; i < s->n; i++)
            column += (int64_t)entry(s->n, i, j);
        total += column * (int64_t)value(s->seed, j);
    }
    s->of[thread] = total;
}

void jacobi_check_product(int n, const double *y, unsigned seed)
{
    struct sums s = {.n = (size_t)n, .seed = seed};
    int64_t total = 0;
    parallel(s.n, 0, column_sums, &s);
    for (int t = 0; t < 64; t++)
        total += s.of[t];
    same("the sum of R x", sum(y, s.n, 1), (double)total);
    for (size_t k = 0; k < 64; k++) {
        size_t i = k == 63 ? s.n - 1 : k * s.n / 64;
        int64_t row = 0;
        for (size_t j = 0; j < s.n; j++)
            row += (int64_t)entry(s.n, i, j) * (int64_t)value(seed, j);
        same("an entry of R x", y[i], (double)row);
    }
}

void jacobi_check_solution(int n, int iterations, const double *x)
{
    /* Each iteration reduces the error by more than a factor of 4. */
    double bound = fmax(1e-12, 100 * pow(0.25, iterations));
    for (int i = 0; i < n; i++)
        if (!(fabs(x[i] - wanted((size_t)i)) <= bound * wanted((size_t)i) + bound))
            die("WRONG: x[%d] is %.17g after %d iterations, must be %g", i, x[i], iterations, wanted((size_t)i));
}
