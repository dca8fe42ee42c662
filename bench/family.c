#include "family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

const char *const family_names[ROUTINES] = {"dgemm", "dsymm", "dsyrk", "dsyr2k", "dtrmm", "dtrsm", "zhemm", "zherk", "zher2k"};

static const double MARK = 0.375;

int family_list(char *words, enum routine list[ROUTINES])
{
    int n = 0;
    for (char *w = strtok(words, ","); w; w = strtok(NULL, ",")) {
        int r = 0;
        while (r < ROUTINES && strcmp(w, family_names[r]))
            r++;
        if (r == ROUTINES || n == ROUTINES)
            die("%s is no family", w);
        list[n++] = (enum routine)r;
    }
    return n;
}

size_t parts(enum routine r)
{
    return r >= HEMM ? 2 : 1;
}

int has_b(enum routine r)
{
    return r != SYRK && r != HERK;
}

static int in_place(enum routine r)
{
    return r == TRMM || r == TRSM;
}

int has_c(enum routine r)
{
    return !in_place(r);
}

double *result(const struct work *w)
{
    return in_place(w->routine) ? w->B : w->C;
}

int result_is_half(enum routine r)
{
    return r == SYRK || r == SYR2K || r == HERK || r == HER2K;
}

static int a_is_half(enum routine r)
{
    return r == SYMM || r == HEMM || in_place(r);
}

/* -- the lower half, by several threads ------------------------------------------------------------------------- */

struct half {
    const struct work *w;
    double *m;
    void (*column)(const struct half *h, size_t j, int thread);
    double sums[64];
    int threads;
};

/* The column at which the part of thread t of `threads` begins, for parts of equal area. */
static size_t border(size_t n, int t, int threads)
{
    return t >= threads ? n : (size_t)((double)n * (1 - sqrt(1 - (double)t / threads)));
}

static void half_part(void *arg, size_t from, size_t to, int thread)
{
    struct half *h = arg;
    for (size_t t = from; t < to; t++)
        for (size_t j = border(h->w->n, (int)t, h->threads); j < border(h->w->n, (int)t + 1, h->threads); j++)
            h->column(h, j, thread);
}

static void over_half(struct half *h, int threads)
{
    if (!threads)
        threads = h->w->n < 512 ? 1 : default_threads();
    h->threads = threads > 64 ? 64 : threads;
    parallel((size_t)h->threads, h->threads, half_part, h);
}

/* -- writing ------------------------------------------------------------------------------------------------------ */

static int sign(uint32_t seed, size_t i)
{
    return value(seed ^ 0x5151u, i) < 0 ? -1 : 1;
}

static int alternating(size_t i)
{
    return i % 2 ? -1 : 1;
}

__attribute__((optimize("O3"))) static void fill_column(const struct half *h, size_t j, int thread)
{
    const struct work *w = h->w;
    size_t n = w->n, p = parts(w->routine);
    double *m = h->m;
    uint32_t seed = w->a;
    (void)thread;
    if (in_place(w->routine)) {
        double twice = 2 * sign(seed, j) * alternating(j);
        m[j * n + j] = alternating(j);
        for (size_t i = j + 1; i < n; i++)
            m[j * n + i] = twice * (value(seed ^ 0x5151u, i) < 0 ? -1.0 : 1.0);
        return;
    }
    for (size_t x = p * (j * n + j); x < p * (j * n + n); x++)
        m[x] = value(seed, x);
    if (p == 2)
        m[2 * (j * n + j) + 1] = 0;
}

void family_fill(const struct work *w)
{
    size_t all = parts(w->routine) * w->n * w->n;
    if (a_is_half(w->routine)) {
        struct half h = {.w = w, .m = w->A, .column = fill_column};
        over_half(&h, 0);
    } else {
        fill(w->A, all, w->a);
    }
    if (has_b(w->routine))
        fill(w->B, all, w->b);
}

struct constant {
    double *m, value;
};

static void constant_part(void *arg, size_t from, size_t to, int thread)
{
    const struct constant *c = arg;
    (void)thread;
    for (size_t i = from; i < to; i++)
        c->m[i] = c->value;
}

void family_prepare(const struct work *w, double unread)
{
    size_t all = parts(w->routine) * w->n * w->n;
    struct constant a = {w->A, unread}, c = {w->C, MARK};
    parallel(all, 0, constant_part, &a);
    if (has_c(w->routine))
        parallel(all, 0, constant_part, &c);
}

/* -- reading ------------------------------------------------------------------------------------------------------ */

static void read_column(const struct half *h, size_t j, int thread)
{
    size_t n = h->w->n, p = parts(h->w->routine);
    ((struct half *)h)->sums[thread] += sum(h->m + p * (j * n + j), p * (n - j), 1);
}

double family_read(const struct work *w, int threads)
{
    struct half h = {.w = w, .m = result(w), .column = read_column};
    double total = 0;
    if (!result_is_half(w->routine))
        return sum(h.m, parts(w->routine) * w->n * w->n, threads);
    over_half(&h, threads);
    for (int t = 0; t < 64; t++)
        total += h.sums[t];
    return total;
}

/* -- what it must be ---------------------------------------------------------------------------------------------- */

struct whole {
    int64_t re, im;
};

static struct whole at(uint32_t seed, size_t n, size_t p, size_t i, size_t j)
{
    size_t x = p * (j * n + i);
    return (struct whole){(int64_t)value(seed, x), p == 2 ? (int64_t)value(seed, x + 1) : 0};
}

static struct whole conjugate(struct whole x)
{
    return (struct whole){x.re, -x.im};
}

static struct whole plus_product(struct whole s, struct whole x, struct whole y)
{
    return (struct whole){s.re + x.re * y.re - x.im * y.im, s.im + x.re * y.im + x.im * y.re};
}

/* Entry of A; if the routine reads only the lower half of A, the upper half mirrors it. */
static struct whole a_at(const struct work *w, size_t i, size_t j)
{
    size_t n = w->n, p = parts(w->routine);
    if (w->routine != SYMM && w->routine != HEMM)
        return at(w->a, n, p, i, j);
    struct whole x = i >= j ? at(w->a, n, p, i, j) : conjugate(at(w->a, n, p, j, i));
    if (i == j)
        x.im = 0;
    return x;
}

static struct whole entry(const struct work *w, size_t i, size_t j)
{
    size_t n = w->n, p = parts(w->routine);
    struct whole s = {0, 0};
    if (in_place(w->routine)) {
        s.re = (int64_t)value(w->b, j * n + i);
        if (w->applied % 2 == 0)
            return s;
        s.re *= alternating(i);
        for (size_t k = 0; k < i; k++)
            s.re += 2 * sign(w->a, i) * sign(w->a, k) * alternating(k) * (int64_t)value(w->b, j * n + k);
        return s;
    }
    for (size_t k = 0; k < n; k++) {
        struct whole left = a_at(w, i, k);
        if (!result_is_half(w->routine)) {
            s = plus_product(s, left, at(w->b, n, p, k, j));
        } else if (!has_b(w->routine)) {
            s = plus_product(s, left, conjugate(a_at(w, j, k)));
        } else {
            s = plus_product(s, left, conjugate(at(w->b, n, p, j, k)));
            s = plus_product(s, at(w->b, n, p, i, k), conjugate(a_at(w, j, k)));
        }
    }
    return s;
}

double family_entry(const struct work *w, size_t i, size_t j)
{
    return w->alpha * (double)entry(w, i, j).re;
}

struct sums {
    const struct work *w;
    int64_t *columns, *rows; /* of the whole A, of B; p numbers each */
    struct whole of[64];
};

/* Sums of B's rows, and of A's columns if the routine reads all of A. */
__attribute__((optimize("O3"))) static void rows_part(void *arg, size_t from, size_t to, int thread)
{
    struct sums *s = arg;
    size_t pitch = parts(s->w->routine) * s->w->n;
    uint32_t seed = s->w->b;
    int32_t *row = calloc(to - from + 1, sizeof *row);
    (void)thread;
    if (!row)
        die("out of memory");
    for (size_t j = 0; j < s->w->n; j++)
        for (size_t x = from; x < to; x++)
            row[x - from] += (int32_t)value(seed, j * pitch + x);
    for (size_t x = from; x < to; x++)
        s->rows[x] = row[x - from];
    free(row);
}

__attribute__((optimize("O3"))) static void columns_part(void *arg, size_t from, size_t to, int thread)
{
    struct sums *s = arg;
    const struct work *w = s->w;
    size_t n = w->n, p = parts(w->routine);
    (void)thread;
    if (in_place(w->routine)) {
        for (size_t k = from; k < to; k++) {
            int64_t below = 0;
            for (size_t i = k + 1; i < n; i++)
                below += value(w->a ^ 0x5151u, i) < 0 ? -1 : 1;
            s->columns[k] = alternating(k) * (1 + 2 * sign(w->a, k) * below);
        }
        return;
    }
    if (w->routine == GEMM) {
        for (size_t k = from; k < to; k++) {
            int32_t column = 0;
            for (size_t x = k * n; x < k * n + n; x++)
                column += (int32_t)value(w->a, x);
            s->columns[k] = column;
        }
        return;
    }
    /* A column of the whole matrix: its lower part, and the row left of the diagonal. */
    for (size_t k = from; k < to; k++) {
        struct whole c = {0, 0};
        for (size_t i = k; i < n; i++) {
            struct whole x = at(w->a, n, p, i, k);
            c.re += x.re;
            c.im += i == k ? 0 : x.im;
        }
        for (size_t j = 0; j < k; j++) {
            struct whole x = at(w->a, n, p, k, j);
            c.re += x.re;
            c.im -= x.im;
        }
        s->columns[p * k] = c.re;
        if (p == 2)
            s->columns[p * k + 1] = c.im;
    }
}

/* The lower half of X Y^H summed: by columns, each entry of X times the sum of Y down to its row. */
static void half_sum_part(void *arg, size_t from, size_t to, int thread)
{
    struct sums *s = arg;
    const struct work *w = s->w;
    size_t n = w->n, p = parts(w->routine);
    struct whole total = {0, 0};
    for (size_t k = from; k < to; k++) {
        struct whole a = {0, 0}, b = {0, 0};
        for (size_t i = 0; i < n; i++) {
            struct whole x = at(w->a, n, p, i, k);
            a.re += x.re;
            a.im += x.im;
            if (has_b(w->routine)) {
                struct whole y = at(w->b, n, p, i, k);
                b.re += y.re;
                b.im += y.im;
                total = plus_product(total, x, conjugate(b));
                total = plus_product(total, y, conjugate(a));
            } else {
                total = plus_product(total, x, conjugate(a));
            }
        }
    }
    s->of[thread] = total;
}

/* The sum of the real and the imaginary parts together, as family_read adds them up. */
static double expected_sum(const struct work *w)
{
    size_t n = w->n, p = parts(w->routine);
    struct sums s = {.w = w};
    struct whole total = {0, 0};
    int threads = n < 512 ? 1 : 0;
    if (result_is_half(w->routine)) {
        parallel(n, threads, half_sum_part, &s);
        for (int t = 0; t < 64; t++) {
            total.re += s.of[t].re;
            total.im += s.of[t].im;
        }
    } else {
        s.columns = calloc(p * n, sizeof *s.columns);
        s.rows = calloc(p * n, sizeof *s.rows);
        if (!s.columns || !s.rows)
            die("out of memory");
        parallel(p * n, threads, rows_part, &s);
        if (!in_place(w->routine) || w->applied % 2)
            parallel(n, threads, columns_part, &s);
        else
            for (size_t k = 0; k < n; k++)
                s.columns[k] = 1;
        for (size_t k = 0; k < n; k++) {
            struct whole c = {s.columns[p * k], p == 2 ? s.columns[p * k + 1] : 0};
            struct whole r = {s.rows[p * k], p == 2 ? s.rows[p * k + 1] : 0};
            total = plus_product(total, c, r);
        }
        free(s.columns);
        free(s.rows);
    }
    return w->alpha * (double)(total.re + total.im);
}

void family_check(const char *what, const struct work *w, const double *m, double total)
{
    size_t n = w->n, p = parts(w->routine);
    int half = result_is_half(w->routine);
    char name[200];
    snprintf(name, sizeof name, "%s, %s of %zu: the sum of all entries", what, family_names[w->routine], n);
    same(name, total, expected_sum(w));
    for (size_t s = 0; m && s < 64; s++) {
        /* Two corners, then entries spread over all columns. */
        size_t i = s == 0 ? 0 : s == 1 ? n - 1 : (s * 7919 + 13) * 31 % n;
        size_t j = s == 0 ? 0 : s == 1 ? n - 1 : s * n / 64;
        if (half && i < j) {
            snprintf(name, sizeof name, "%s, %s of %zu: entry %zu, %zu of the other half", what, family_names[w->routine], n, i, j);
            same(name, m[p * (j * n + i)], MARK);
            size_t swapped = i;
            i = j;
            j = swapped;
        }
        struct whole e = entry(w, i, j);
        snprintf(name, sizeof name, "%s, %s of %zu: entry %zu, %zu", what, family_names[w->routine], n, i, j);
        same(name, m[p * (j * n + i)], w->alpha * (double)e.re);
        if (p == 2)
            same(name, m[p * (j * n + i) + 1], w->alpha * (double)e.im);
    }
}

/* -- what it costs ------------------------------------------------------------------------------------------------ */

double family_compulsory(const struct work *w)
{
    double n = (double)w->n, all = n * n, half = n * (n + 1) / 2;
    double entries = (a_is_half(w->routine) ? half : all) + (has_b(w->routine) ? all : 0) +
                     (result_is_half(w->routine) ? half : all);
    return entries * (double)(parts(w->routine) * sizeof(double));
}

double family_operations(enum routine r, size_t size)
{
    double n = (double)size, cube = n * n * n;
    switch (r) {
    case GEMM:
    case SYMM:
    case SYR2K: return 2 * cube;
    case SYRK:
    case TRMM:
    case TRSM: return cube;
    case HEMM:
    case HER2K: return 8 * cube;
    default: return 4 * cube;
    }
}
