#include "mpi_rows.h"

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../include/semcache.h"

void rows_start(struct rows *r, enum kind kind, int n)
{
    *r = (struct rows){.kind = kind, .n = n};
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->ranks);
    if (n < r->ranks)
        die("fewer rows than ranks");
    r->counts = malloc((size_t)r->ranks * sizeof *r->counts);
    r->offsets = malloc((size_t)r->ranks * sizeof *r->offsets);
    if (!r->counts || !r->offsets)
        die("out of memory");
    for (int i = 0; i < r->ranks; i++) {
        r->offsets[i] = (int)((int64_t)n * i / r->ranks);
        r->counts[i] = (int)((int64_t)n * (i + 1) / r->ranks) - r->offsets[i];
    }
    r->from = r->offsets[r->rank];
    r->rows = r->counts[r->rank];
    /* The entries' root mean square is 591. Symmetric ones have eigenvalues up to 2 * 591 sqrt(n) in magnitude. */
    r->diagonal = kind == DOMINANT ? 4096.0 * n : floor(1500 * sqrt(n));
}

/* Entry i, j of all rows. */
static inline double entry(const struct rows *r, size_t i, size_t j)
{
    size_t n = (size_t)r->n;
    if (r->kind == DOMINANT)
        return i == j ? 0 : value(5, j * n + i);
    return i == j ? r->diagonal : value(6, i < j ? i * n + j : j * n + i);
}

static inline double wanted(size_t i)
{
    return (double)(i % 7 + 1);
}

struct work {
    const struct rows *r;
    double *out;
};

__attribute__((optimize("O3"))) static void fill_columns(void *arg, size_t from, size_t to, int thread)
{
    const struct work *w = arg;
    const struct rows r = *w->r;
    size_t rows = (size_t)r.rows, first = (size_t)r.from;
    (void)thread;
    for (size_t j = from; j < to; j++)
        for (size_t i = 0; i < rows; i++)
            w->out[j * rows + i] = entry(&r, first + i, j);
}

double *rows_matrix(const struct rows *r)
{
    struct work w = {r, doubles((size_t)r->rows * (size_t)r->n)};
    parallel((size_t)r->n, 0, fill_columns, &w);
    return w.out;
}

__attribute__((optimize("O3"))) static void times_solution(void *arg, size_t from, size_t to, int thread)
{
    const struct work *w = arg;
    const struct rows r = *w->r;
    size_t first = (size_t)r.from;
    (void)thread;
    for (size_t i = from; i < to; i++)
        w->out[i] = r.kind == DOMINANT ? r.diagonal * wanted(first + i) : 0;
    for (size_t j = 0; j < (size_t)r.n; j++)
        for (size_t i = from; i < to; i++)
            w->out[i] += entry(&r, first + i, j) * wanted(j);
}

double *rows_right_side(const struct rows *r)
{
    struct work w = {r, doubles((size_t)r->rows)};
    parallel((size_t)r->rows, 0, times_solution, &w);
    return w.out;
}

void rows_solution(const struct rows *r, double *x)
{
    for (int i = 0; i < r->n; i++)
        x[i] = wanted((size_t)i);
}

void rows_check_product(const struct rows *r, const double *b, const double *y)
{
    for (int i = 0; i < r->rows; i++) {
        double apart = r->kind == DOMINANT ? r->diagonal * wanted((size_t)(r->from + i)) : 0;
        same("an entry of the product", y[i] + apart, b[i]);
    }
}

void rows_check_solution(const struct rows *r, const double *x, double error)
{
    for (int i = 0; i < r->n; i++)
        if (!(fabs(x[i] - wanted((size_t)i)) <= error))
            die("WRONG: x[%d] is %.17g, must be %g", i, x[i], wanted((size_t)i));
}

double all_sum(double x)
{
    double total = 0;
    MPI_Allreduce(&x, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

double all_most(double x)
{
    double most = 0;
    MPI_Allreduce(&x, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

void all_moved(double bytes[3])
{
    semcache_statistics so_far = {.size = sizeof so_far};
    semcache_count(&so_far);
    double own[3] = {(double)so_far.h2d, (double)so_far.d2h, (double)so_far.p2p};
    MPI_Allreduce(own, bytes, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void figures_moved(struct figures *f, const double before[3], int steps)
{
    double after[3];
    all_moved(after);
    f->h2d = (after[0] - before[0]) / steps;
    f->d2h = (after[1] - before[1]) / steps;
    f->p2p = (after[2] - before[2]) / steps;
}

void rows_emit(const struct rows *r, const char *bench, const char *variant, int steps, const struct series *s, const struct figures *f)
{
    char more[300];
    if (r->rank)
        return;
    snprintf(more, sizeof more,
             ",\"ranks\":%d,\"steps\":%d,\"step\":%.9g,\"first\":%.6f,\"h2d\":%.0f,\"d2h\":%.0f,\"p2p\":%.0f,\"residual\":%.6e,\"check\":%.15g",
             r->ranks, steps, median(s), f->first, f->h2d, f->d2h, f->p2p, f->residual, f->check);
    emit(bench, (size_t)r->n, variant, s, more);
}
