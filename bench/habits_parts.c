#include "habits.h"

#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

static int scale = 1;

void scale_by(int by)
{
    scale = by < 1 ? 1 : by;
}

int scaled(int n)
{
    int least = n < 32 ? n : 32;
    return n / scale < least ? least : n / scale;
}

/* -- products ---------------------------------------------------------------------------------------------------- */

static size_t at(int a, int b)
{
    return (size_t)a * (size_t)b;
}

size_t entries(const struct product_on *p)
{
    return at(p->m, p->n);
}

struct sums {
    const double *a;
    size_t m;
    int64_t *of;
};

__attribute__((optimize("O3"))) static void sums_part(void *arg, size_t from, size_t to, int thread)
{
    const struct sums *s = arg;
    (void)thread;
    for (size_t j = from; j < to; j++) {
        /* 1024 entries of fewer than 21 bits each have a sum of 31. */
        int64_t all = 0;
        for (size_t i = 0; i < s->m; i += 1024) {
            int32_t part = 0;
            for (size_t k = i; k < i + 1024 && k < s->m; k++)
                part += (int32_t)s->a[j * s->m + k];
            all += part;
        }
        s->of[j] = all;
    }
}

void column_sums(const double *a, size_t m, size_t n, int64_t *sums)
{
    struct sums s = {a, m, sums};
    parallel(n, m * n < (1u << 18) ? 1 : 0, sums_part, &s);
}

void count_a(struct product_on *p)
{
    column_sums(p->A, (size_t)p->m, (size_t)p->k, p->columns);
}

void count_b(struct product_on *p)
{
    for (int i = 0; i < p->k; i++)
        p->rows[i] = 0;
    for (int j = 0; j < p->n; j++)
        for (int i = 0; i < p->k; i++)
            p->rows[i] += (int64_t)p->B[at(j, p->k) + (size_t)i];
}

struct product_on new_product(int m, int n, int k, size_t room)
{
    static uint32_t seed = 1000;
    struct product_on p = {m, n, k, 1, doubles(at(m, k) + room), doubles(at(k, n) + room), doubles(at(m, n) + room), NULL, NULL};
    p.columns = calloc((size_t)k, sizeof *p.columns);
    p.rows = calloc((size_t)k, sizeof *p.rows);
    if (!p.columns || !p.rows)
        die("out of memory");
    fill(p.A, at(m, k), seed++);
    fill(p.B, at(k, n), seed++);
    poison(p.C, at(m, n));
    count_a(&p);
    count_b(&p);
    return p;
}

void end_product(struct product_on *p)
{
    free(p->rows);
    free(p->columns);
    free(p->C);
    free(p->B);
    free(p->A);
}

void multiply(const struct product_on *p)
{
    const double zero = 0;
    const int one = 1;
    if (p->n == 1)
        dgemv_("N", &p->m, &p->k, &p->alpha, p->A, &p->m, p->B, &one, &zero, p->C, &one);
    else
        dgemm_("N", "N", &p->m, &p->n, &p->k, &p->alpha, p->A, &p->m, p->B, &p->k, &zero, p->C, &p->m);
}

double total(const struct product_on *p)
{
    int64_t all = 0;
    for (int i = 0; i < p->k; i++)
        all += p->columns[i] * p->rows[i];
    return p->alpha * (double)all;
}

void check_product(const char *what, const struct product_on *p)
{
    char name[100];
    snprintf(name, sizeof name, "%s: the sum of all entries", what);
    same(name, sum(p->C, entries(p), 1), total(p));
    for (int s = 0; s < 16; s++) {
        int i = (int)((unsigned)s * 7919u % (unsigned)p->m), j = (int)((unsigned)s * 31u % (unsigned)p->n);
        int64_t entry = 0;
        for (int k = 0; k < p->k; k++)
            entry += (int64_t)p->A[at(k, p->m) + (size_t)i] * (int64_t)p->B[at(j, p->k) + (size_t)k];
        snprintf(name, sizeof name, "%s: entry %d, %d", what, i, j);
        same(name, p->C[at(j, p->m) + (size_t)i], p->alpha * (double)entry);
    }
}

void change_some(double *a, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i += 64)
        a[i] = value(seed, i);
}

/* -- steps ------------------------------------------------------------------------------------------------------- */

/* What the library expects of the next call it has learned after eight steps, but for A/B probes. */
enum { LEAST_WARM = 8, LEAST = 4, MOST = 200 };
static const double WARM_S = 0.08, MEASURED_S = 0.16;

struct steps steps_of(int warm)
{
    return (struct steps){.warm = warm, .until = now() + WARM_S / scale};
}

int more(struct steps *s)
{
    return s->warm > 0 || s->s.n < LEAST || (s->s.n < MOST && now() < s->until);
}

void took(struct steps *s, double seconds)
{
    if (s->warm <= 0) {
        add(&s->s, seconds);
        return;
    }
    s->warm--;
    s->made++;
    if (s->made >= LEAST_WARM && now() > s->until)
        s->warm = 0;
    if (s->warm == 0)
        s->until = now() + MEASURED_S / scale;
}

void told(const char *label, const char *pattern, int n, const struct steps *s)
{
    char more[100];
    snprintf(more, sizeof more, ",\"pattern\":\"%s\"", pattern);
    emit("habits", (size_t)n, label, &s->s, more);
}
