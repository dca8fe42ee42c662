/* X = L^-1 B in B's place, then C = E X, from and to host memory (XKBlas, Fig. 8), and each of the two alone. An ordinary BLAS
 * program.
 *
 *   compose N REPETITIONS [READERS]
 *
 * By turns: "trsm" reads all of X after it, "gemm" all of C, "both" calls one after the other and then reads X and C. The CPU
 * rewrites all inputs in place before each. "both" need not upload X, which "gemm" does: "saved" is the number of these bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "common.h"
#include "family.h"

static int n, readers = 8;
static size_t all;
static double *E, *C;

enum { TRSM_ALONE = 1, GEMM_ALONE = 2, BOTH = 3 };

struct sums {
    uint32_t seed;
    int by_column;
    double *out;
};

/* Sums of the columns, or of the rows, of the matrix with that seed. */
static void sums_part(void *arg, size_t from, size_t to, int thread)
{
    const struct sums *s = arg;
    (void)thread;
    for (size_t x = from; x < to; x++)
        s->out[x] = 0;
    if (s->by_column) {
        for (size_t j = from; j < to; j++)
            for (size_t i = 0; i < (size_t)n; i++)
                s->out[j] += value(s->seed, j * (size_t)n + i);
        return;
    }
    for (size_t j = 0; j < (size_t)n; j++)
        for (size_t i = from; i < to; i++)
            s->out[i] += value(s->seed, j * (size_t)n + i);
}

/* L x in x's place; L is its own inverse (family.h), so that is L^-1 x, too. */
static void times_triangle(const struct work *w, double *x)
{
    double before = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        double d = i % 2 ? -1 : 1, e = value(w->a ^ 0x5151u, i) < 0 ? -1 : 1, b = x[i];
        x[i] = d * b + 2 * e * before;
        before += e * d * b;
    }
}

static void check_product(const char *what, const struct work *w, uint32_t e, int solved, double total)
{
    double *rows = doubles((size_t)n), *columns = doubles((size_t)n), expected = 0;
    struct sums of_b = {w->b, 0, rows}, of_e = {e, 1, columns};
    parallel((size_t)n, 0, sums_part, &of_b);
    parallel((size_t)n, 0, sums_part, &of_e);
    if (solved)
        times_triangle(w, rows);
    for (size_t k = 0; k < (size_t)n; k++)
        expected += columns[k] * rows[k];
    same(what, total, w->alpha * expected);
    for (size_t s = 0; s < 64; s++) {
        size_t i = s == 0 ? 0 : (s * 7919 + 13) * 31 % (size_t)n, j = s == 0 ? 0 : s == 1 ? (size_t)n - 1 : s * (size_t)n / 64;
        double entry = 0;
        for (size_t k = 0; k < (size_t)n; k++)
            rows[k] = value(w->b, j * (size_t)n + k);
        if (solved)
            times_triangle(w, rows);
        for (size_t k = 0; k < (size_t)n; k++)
            entry += value(e, k * (size_t)n + i) * rows[k];
        same(what, C[j * (size_t)n + i], w->alpha * entry);
    }
    free(rows);
    free(columns);
}

static void once(struct work *w, int parts, uint32_t seed, struct series *out)
{
    double one = 1, zero = 0, solution = 0, product = 0;
    uint32_t e = 5 * seed + 2;
    w->a = 5 * seed;
    w->b = 5 * seed + 1;
    w->applied = 1;
    w->alpha = 1;
    family_fill(w);
    fill(E, all, e);
    poison(C, all);
    double start = now();
    if (parts & TRSM_ALONE)
        dtrsm_("L", "L", "N", "N", &n, &n, &w->alpha, w->A, &n, w->B, &n);
    if (parts & GEMM_ALONE)
        dgemm_("N", "N", &n, &n, &n, &one, E, &n, w->B, &n, &zero, C, &n);
    if (parts & TRSM_ALONE)
        solution = family_read(w, readers);
    if (parts & GEMM_ALONE)
        product = sum(C, all, readers);
    double seconds = now() - start;
    if (parts & TRSM_ALONE)
        family_check("compose", w, w->B, solution);
    if (parts & GEMM_ALONE)
        check_product("the product", w, e, parts == BOTH, product);
    if (out)
        add(out, seconds);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {NULL, "trsm", "gemm", "both"};
    struct series of[4] = {{0}};
    char more[100];
    if (argc < 3)
        die("usage: compose N REPETITIONS [READERS]");
    n = atoi(argv[1]);
    int repetitions = atoi(argv[2]);
    if (argc > 3)
        readers = atoi(argv[3]);
    all = (size_t)n * (size_t)n;
    struct work w = {.routine = TRSM, .n = (size_t)n, .A = doubles(all), .B = doubles(all)};
    E = doubles(all);
    C = doubles(all);
    family_prepare(&w, 0.0 / 0.0);
    for (int r = -1; r < repetitions; r++)
        for (int parts = TRSM_ALONE; parts <= BOTH; parts++)
            once(&w, parts, (uint32_t)(4 * (r + 2) + parts), r < 0 ? NULL : &of[parts]);
    snprintf(more, sizeof more, ",\"saved\":%zu", all * sizeof(double));
    for (int parts = TRSM_ALONE; parts <= BOTH; parts++)
        emit("compose", (size_t)n, names[parts], &of[parts], parts == BOTH ? more : "");
    free(w.A);
    free(w.B);
    free(E);
    free(C);
    return 0;
}
