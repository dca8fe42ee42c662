#include "common.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void die(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    fflush(stdout);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
    exit(1);
}

enum { MOST_THREADS = 64 };

int default_threads(void)
{
    const char *set = getenv("BENCH_THREADS");
    long n = set ? atol(set) : sysconf(_SC_NPROCESSORS_ONLN);
    long most = set ? MOST_THREADS : 16;
    return (int)(n < 1 ? 1 : n > most ? most : n);
}

struct part {
    void (*f)(void *, size_t, size_t, int);
    void *arg;
    size_t from, to;
    int thread;
};

static void *part_run(void *p)
{
    struct part *part = p;
    part->f(part->arg, part->from, part->to, part->thread);
    return NULL;
}

void parallel(size_t n, int threads, void (*f)(void *, size_t, size_t, int), void *arg)
{
    pthread_t id[MOST_THREADS];
    struct part parts[MOST_THREADS];
    if (threads <= 0)
        threads = default_threads();
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    for (int t = 0; t < threads; t++) {
        parts[t] = (struct part){f, arg, n * (size_t)t / (size_t)threads, n * (size_t)(t + 1) / (size_t)threads, t};
        if (t > 0 && pthread_create(&id[t], NULL, part_run, &parts[t]))
            die("cannot start a thread");
    }
    part_run(&parts[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(id[t], NULL);
}

double *doubles(size_t n)
{
    double *a = malloc((n ? n : 1) * sizeof *a);
    if (!a)
        die("out of memory: %zu doubles", n);
    return a;
}

struct range {
    double *a;
    uint32_t seed;
};

__attribute__((optimize("O3"))) static void fill_part(void *arg, size_t from, size_t to, int thread)
{
    const struct range *r = arg;
    double *a = r->a;
    uint32_t seed = r->seed;
    (void)thread;
    for (size_t i = from; i < to; i++)
        a[i] = value(seed, i);
}

static void poison_part(void *arg, size_t from, size_t to, int thread)
{
    const struct range *r = arg;
    (void)thread;
    for (size_t i = from; i < to; i++)
        r->a[i] = NAN;
}

/* From about this many elements on, several threads are faster than one. */
static int threads_for(size_t n)
{
    return n < (1u << 18) ? 1 : 0;
}

void fill(double *a, size_t n, uint32_t seed)
{
    struct range r = {a, seed};
    parallel(n, threads_for(n), fill_part, &r);
}

void poison(double *a, size_t n)
{
    struct range r = {a, 0};
    parallel(n, threads_for(n), poison_part, &r);
}

typedef double lanes __attribute__((vector_size(32)));

struct sums {
    const double *a;
    double of[MOST_THREADS];
};

static void sum_part(void *arg, size_t from, size_t to, int thread)
{
    struct sums *s = arg;
    const double *a = s->a;
    lanes l[8] = {0};
    double total = 0;
    size_t i = from;
    for (; i + 32 <= to; i += 32)
        for (int j = 0; j < 8; j++) {
            lanes x;
            memcpy(&x, a + i + 4 * (size_t)j, sizeof x);
            l[j] += x;
        }
    for (; i < to; i++)
        total += a[i];
    for (int j = 0; j < 8; j++)
        total += l[j][0] + l[j][1] + l[j][2] + l[j][3];
    s->of[thread] = total;
}

double sum(const double *a, size_t n, int threads)
{
    struct sums s = {.a = a};
    double total = 0;
    parallel(n, threads, sum_part, &s);
    for (int t = 0; t < MOST_THREADS; t++)
        total += s.of[t];
    return total;
}

void same(const char *what, double got, double wanted)
{
    if (!(got == wanted))
        die("WRONG: %s is %.17g, must be %.17g", what, got, wanted);
}

double product_entry(const struct product *p, size_t i, size_t j)
{
    int64_t s = 0;
    for (size_t k = 0; k < p->k; k++) {
        int64_t b = (int64_t)value(p->b, j * p->k + k);
        if (p->two_terms)
            b += (int64_t)value(p->c, j * p->k + k);
        s += (int64_t)value(p->a, k * p->m + i) * b;
    }
    return p->alpha * (double)s;
}

struct totals {
    const struct product *p;
    int64_t of[MOST_THREADS];
};

/* Sum over i, j of D = sum over k of (sum of column k of A) (sum of row k of B + C). */
__attribute__((optimize("O3"))) static void totals_part(void *arg, size_t from, size_t to, int thread)
{
    struct totals *t = arg;
    const struct product *p = t->p;
    size_t width = to - from;
    int32_t *rows = calloc(width + 1, sizeof *rows);
    int64_t total = 0;
    if (!rows)
        die("out of memory");
    for (size_t j = 0; j < p->n; j++)
        for (size_t k = 0; k < width; k++) {
            int32_t b = (int32_t)value(p->b, j * p->k + from + k);
            if (p->two_terms)
                b += (int32_t)value(p->c, j * p->k + from + k);
            rows[k] += b;
        }
    for (size_t k = 0; k < width; k++) {
        int32_t column = 0;
        for (size_t i = 0; i < p->m; i++)
            column += (int32_t)value(p->a, (from + k) * p->m + i);
        total += (int64_t)column * rows[k];
    }
    free(rows);
    t->of[thread] = total;
}

double product_sum(const struct product *p)
{
    struct totals t = {.p = p};
    int64_t total = 0;
    parallel(p->k, p->m * p->k + p->k * p->n < (1u << 18) ? 1 : 0, totals_part, &t);
    for (int i = 0; i < MOST_THREADS; i++)
        total += t.of[i];
    return p->alpha * (double)total;
}

void product_check(const char *what, const struct product *p, const double *d, double total)
{
    char name[200];
    snprintf(name, sizeof name, "%s, %zu x %zu x %zu: the sum of all entries", what, p->m, p->n, p->k);
    same(name, total, product_sum(p));
    for (size_t s = 0; d && s < 64; s++) {
        /* Two corners, then entries spread over all columns. */
        size_t i = s == 0 ? 0 : s == 1 ? p->m - 1 : (s * 7919 + 13) * 31 % p->m;
        size_t j = s == 0 ? 0 : s == 1 ? p->n - 1 : s * p->n / 64;
        snprintf(name, sizeof name, "%s, %zu x %zu x %zu: entry %zu, %zu", what, p->m, p->n, p->k, i, j);
        same(name, d[j * p->m + i], product_entry(p, i, j));
    }
}

double row_times(size_t m, size_t n, uint32_t a, uint32_t x, size_t i)
{
    int64_t s = 0;
    for (size_t j = 0; j < n; j++)
        s += (int64_t)value(a, j * m + i) * (int64_t)value(x, j);
    return (double)s;
}

void add(struct series *s, double seconds)
{
    if (s->n < (int)(sizeof s->s / sizeof *s->s))
        s->s[s->n++] = seconds;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(const struct series *s)
{
    struct series t = *s;
    if (!t.n)
        return 0;
    qsort(t.s, (size_t)t.n, sizeof *t.s, ascending);
    return t.n % 2 ? t.s[t.n / 2] : (t.s[t.n / 2 - 1] + t.s[t.n / 2]) / 2;
}

const char *list(const struct series *s, char *text, size_t bytes)
{
    size_t at = 0;
    at += (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < s->n && at + 32 < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%.9g", i ? "," : "", s->s[i]);
    snprintf(text + at, bytes - at, "]");
    return text;
}

void emit(const char *bench, size_t size, const char *variant, const struct series *s, const char *more)
{
    char text[8192];
    printf("{\"bench\":\"%s\",\"size\":%zu,\"variant\":\"%s\",\"seconds\":%s%s}\n", bench, size, variant,
           list(s, text, sizeof text), more ? more : "");
    fflush(stdout);
}

int listed(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *w = words; w; w = strchr(w, ',') ? strchr(w, ',') + 1 : NULL)
        if (!strncmp(w, word, n) && (w[n] == ',' || !w[n]))
            return 1;
    return 0;
}

void jacobi_update(int n, double d, const double *b, const double *y, double *x)
{
    for (int i = 0; i < n; i++)
        x[i] = (b[i] - y[i]) / d;
}
