/* A program that does everything at once, with one right answer: threads multiply matrices, read and write
 * them with the CPU, free, reallocate and allocate, on matrices of their own and on shared ones (under a
 * lock, or on disjoint rows whose elements share pages).
 *
 *   stress SEED [STEPS [THREADS]]
 *
 * All numbers are integers small enough that no sum rounds, and everything that threads share commutes, so
 * the hash on stdout depends on the arguments alone. stderr says how many allocations got an address that
 * had been freed before. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);
void dgemv_(const char *t, const int *m, const int *n, const double *alpha, const double *a, const int *lda,
            const double *x, const int *incx, const double *beta, double *y, const int *incy);
void dger_(const int *m, const int *n, const double *alpha, const double *x, const int *incx, const double *y,
           const int *incy, double *a, const int *lda);
void daxpy_(const int *n, const double *alpha, const double *x, const int *incx, double *y, const int *incy);
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);

enum { SLOTS = 6, LARGEST = 96, ROWS = 24, COLUMNS = 40, MODULUS = 8191, MOST_THREADS = 64 };
static const double EXACT = 1099511627776.0; /* 2^40: products of two reduced numbers stay far below 2^53 */
static const double PADDING = -12345.0;

struct matrix {
    double *at;
    int rows, columns, ld;
    double bound; /* no entry is larger in absolute value */
};

struct thread {
    int index, steps;
    uint64_t random, hash;
    struct matrix slot[SLOTS];
    uintptr_t *freed;
    size_t freed_count, reused;
};

static int threads = 8;
static struct matrix rows_shared; /* thread t owns rows t * ROWS .. (t + 1) * ROWS */
static double rows_bound[MOST_THREADS];
static struct matrix locked; /* the thread that holds the lock adds to it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what)
{
    fprintf(stderr, "stress: %s\n", what);
    exit(1);
}

static uint64_t draw(struct thread *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random * 0x2545f4914f6cdd1dULL >> 16;
}

static int below(struct thread *t, int n)
{
    return (int)(draw(t) % (uint64_t)n);
}

static void mix(struct thread *t, double value)
{
    t->hash = (t->hash ^ (uint64_t)(int64_t)value) * 0x100000001b3ULL;
}

static double *entry(const struct matrix *m, int i, int j)
{
    return m->at + (size_t)j * m->ld + i;
}

static int entry_value(struct thread *t)
{
    return below(t, 9) - 4;
}

static void fill_columns(struct thread *t, struct matrix *m, int from)
{
    for (int j = from; j < m->columns; j++)
        for (int i = 0; i < m->ld; i++)
            *entry(m, i, j) = i < m->rows ? entry_value(t) : PADDING;
}

static void remember_freed(struct thread *t, uintptr_t at)
{
    t->freed = realloc(t->freed, (t->freed_count + 1) * sizeof *t->freed);
    if (!t->freed)
        die("out of memory");
    t->freed[t->freed_count++] = at;
}

static void look_for_reuse(struct thread *t, uintptr_t at)
{
    for (size_t i = 0; i < t->freed_count; i++)
        if (t->freed[i] == at) {
            t->freed[i] = t->freed[--t->freed_count];
            t->reused++;
            return;
        }
}

static void allocate(struct thread *t, struct matrix *m)
{
    m->rows = 1 + below(t, LARGEST);
    m->columns = 1 + below(t, LARGEST);
    m->ld = m->rows + below(t, 4) * below(t, 8);
    m->bound = 4;
    size_t bytes = (size_t)m->ld * m->columns * sizeof(double);
    switch (below(t, 4)) {
    case 0:
        m->at = calloc(bytes, 1);
        for (size_t i = 0; m->at && i < bytes / sizeof(double); i++)
            if (m->at[i] != 0)
                die("calloc gave memory that is not zero");
        break;
    case 1: {
        void *at = NULL;
        m->at = posix_memalign(&at, 64, bytes) ? NULL : at;
        break;
    }
    default:
        m->at = malloc(bytes);
    }
    if (!m->at)
        die("out of memory");
    look_for_reuse(t, (uintptr_t)m->at);
    fill_columns(t, m, 0);
}

/* Replaces every entry of the first `rows` rows by its remainder: same class, small again. */
static void reduce(struct matrix *m, int first, int rows, double *bound)
{
    for (int j = 0; j < m->columns; j++)
        for (int i = first; i < first + rows; i++)
            *entry(m, i, j) = fmod(*entry(m, i, j), MODULUS);
    *bound = MODULUS;
}

static void check_padding(const struct matrix *m)
{
    for (int j = 0; j < m->columns; j++)
        for (int i = m->rows; i < m->ld; i++)
            if (*entry(m, i, j) != PADDING)
                die("the bytes between two columns were changed");
}

static void look(struct thread *t, const struct matrix *m)
{
    switch (below(t, 3)) {
    case 0: /* everything */
        for (int j = 0; j < m->columns; j++)
            for (int i = 0; i < m->rows; i++)
                mix(t, *entry(m, i, j));
        check_padding(m);
        break;
    case 1: { /* a column */
        int j = below(t, m->columns);
        for (int i = 0; i < m->rows; i++)
            mix(t, *entry(m, i, j));
        break;
    }
    default: /* a few entries */
        for (int k = 0; k < 4; k++)
            mix(t, *entry(m, below(t, m->rows), below(t, m->columns)));
    }
}

static struct matrix *pick(struct thread *t)
{
    return &t->slot[below(t, SLOTS)];
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Makes sure that one more product of `k` terms stays exact. */
static void keep_small(struct matrix *a, struct matrix *b, int k)
{
    if (a->bound * b->bound * k > EXACT / 4) {
        reduce(a, 0, a->rows, &a->bound);
        reduce(b, 0, b->rows, &b->bound);
    }
}

static void multiply(struct thread *t)
{
    struct matrix *a = pick(t), *b = pick(t), *c = pick(t);
    if (c == a || c == b)
        return;
    int ta = below(t, 2), tb = below(t, 2);
    int m = least(ta ? a->columns : a->rows, c->rows), n = least(tb ? b->rows : b->columns, c->columns);
    int k = least(ta ? a->rows : a->columns, tb ? b->columns : b->rows);
    double alpha = below(t, 2) ? 1 : -2, beta = below(t, 2);
    keep_small(a, b, k);
    if (c->bound > EXACT / 4)
        reduce(c, 0, c->rows, &c->bound);
    dgemm_(ta ? "T" : "N", tb ? "T" : "N", &m, &n, &k, &alpha, a->at, &a->ld, b->at, &b->ld, &beta, c->at,
           &c->ld);
    c->bound += 2 * a->bound * b->bound * k;
}

static void vectors(struct thread *t)
{
    struct matrix *a = pick(t), *x = pick(t), *y = pick(t);
    int one = 1;
    double alpha = 1;
    if (x == y || a == y || a == x)
        return;
    int m = least(a->rows, y->rows), n = least(a->columns, x->rows);
    keep_small(a, x, n);
    if (y->bound > EXACT / 4)
        reduce(y, 0, y->rows, &y->bound);
    switch (below(t, 4)) {
    case 0:
        dgemv_("N", &m, &n, &alpha, a->at, &a->ld, x->at, &one, &alpha, y->at, &one);
        y->bound += a->bound * x->bound * n;
        break;
    case 1: /* a row of x: strided */
        n = least(a->columns, x->columns);
        dgemv_("N", &m, &n, &alpha, a->at, &a->ld, x->at, &x->ld, &alpha, y->at, &one);
        y->bound += a->bound * x->bound * n;
        break;
    case 2:
        m = least(a->rows, y->rows);
        n = least(a->columns, x->rows);
        keep_small(x, y, 1);
        if (a->bound > EXACT / 4)
            reduce(a, 0, a->rows, &a->bound);
        dger_(&m, &n, &alpha, y->at, &one, x->at, &one, a->at, &a->ld);
        a->bound += x->bound * y->bound;
        break;
    default:
        m = least(x->rows, y->rows);
        if (x->bound > EXACT / 4)
            reduce(x, 0, x->rows, &x->bound);
        daxpy_(&m, &alpha, x->at, &one, y->at, &one);
        y->bound += x->bound;
        keep_small(x, y, m);
        mix(t, ddot_(&m, x->at, &one, y->at, &one));
    }
}

static void resize(struct thread *t, struct matrix *m)
{
    int columns = 1 + below(t, LARGEST), before = m->columns;
    uintptr_t old = (uintptr_t)m->at;
    m->at = realloc(m->at, (size_t)m->ld * columns * sizeof(double));
    if (!m->at)
        die("out of memory");
    if ((uintptr_t)m->at != old) {
        remember_freed(t, old);
        look_for_reuse(t, (uintptr_t)m->at);
    }
    m->columns = columns;
    fill_columns(t, m, before);
    if (m->bound < 4)
        m->bound = 4;
}

static void write_some(struct thread *t, struct matrix *m)
{
    if (m->bound < 4)
        m->bound = 4;
    if (below(t, 3) == 0) {
        fill_columns(t, m, below(t, m->columns));
        return;
    }
    for (int k = below(t, 5); k >= 0; k--)
        *entry(m, below(t, m->rows), below(t, m->columns)) = entry_value(t);
}

/* The rows of this thread in the shared matrix, whose pages hold rows of all threads. */
static void own_rows(struct thread *t)
{
    struct matrix mine = { rows_shared.at + t->index * ROWS, ROWS, rows_shared.columns, rows_shared.ld,
                           rows_bound[t->index] };
    struct matrix *a = pick(t), *b = pick(t);
    switch (below(t, 4)) {
    case 0:
        for (int j = below(t, COLUMNS), end = j + 1 + below(t, COLUMNS - j); j < end; j++)
            for (int i = below(t, ROWS); i < ROWS; i++)
                *entry(&mine, i, j) = entry_value(t);
        if (rows_bound[t->index] < 4)
            rows_bound[t->index] = 4;
        break;
    case 1:
        for (int k = 0; k < 8; k++)
            mix(t, *entry(&mine, below(t, ROWS), below(t, COLUMNS)));
        break;
    default: {
        int m = least(a->rows, ROWS), n = least(b->columns, COLUMNS), k = least(a->columns, b->rows);
        double alpha = 1, beta = below(t, 2);
        keep_small(a, b, k);
        if (mine.bound > EXACT / 4)
            reduce(&mine, 0, ROWS, &mine.bound);
        dgemm_("N", "N", &m, &n, &k, &alpha, a->at, &a->ld, b->at, &b->ld, &beta, mine.at, &mine.ld);
        rows_bound[t->index] = mine.bound + a->bound * b->bound * k;
    }
    }
}

static void under_lock(struct thread *t)
{
    struct matrix *a = pick(t), *b = pick(t);
    int m = least(a->rows, locked.rows), n = least(b->columns, locked.columns), k = least(a->columns, b->rows);
    double one = 1;
    int i = below(t, locked.rows), j = below(t, locked.columns), change = entry_value(t);
    keep_small(a, b, k);
    pthread_mutex_lock(&lock);
    if (locked.bound > EXACT / 4)
        reduce(&locked, 0, locked.rows, &locked.bound);
    dgemm_("N", "N", &m, &n, &k, &one, a->at, &a->ld, b->at, &b->ld, &one, locked.at, &locked.ld);
    locked.bound += a->bound * b->bound * k;
    if (change) {
        *entry(&locked, i, j) += change; /* addition commutes with the additions of the others */
        locked.bound += 4;
    }
    pthread_mutex_unlock(&lock);
}

static void *run(void *argument)
{
    struct thread *t = argument;
    for (int s = 0; s < SLOTS; s++)
        allocate(t, &t->slot[s]);
    for (int step = 0; step < t->steps; step++) {
        struct matrix *m = pick(t);
        switch (below(t, 12)) {
        case 0:
            remember_freed(t, (uintptr_t)m->at);
            free(m->at);
            allocate(t, m);
            break;
        case 1:
            resize(t, m);
            break;
        case 2:
            write_some(t, m);
            break;
        case 3:
        case 4:
            look(t, m);
            break;
        case 5:
        case 6:
            own_rows(t);
            break;
        case 7:
            under_lock(t);
            break;
        case 8:
            vectors(t);
            break;
        default:
            multiply(t);
        }
    }
    for (int s = 0; s < SLOTS; s++) {
        struct matrix *m = &t->slot[s];
        for (int j = 0; j < m->columns; j++)
            for (int i = 0; i < m->rows; i++)
                mix(t, *entry(m, i, j));
        check_padding(m);
        free(m->at);
    }
    free(t->freed);
    return NULL;
}

static void zeros(struct matrix *m, int rows, int columns)
{
    *m = (struct matrix){ calloc((size_t)rows * columns, sizeof(double)), rows, columns, rows, 0 };
    if (!m->at)
        die("out of memory");
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, hash = 0xcbf29ce484222325ULL;
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    size_t reused = 0;
    if (argc > 3)
        threads = atoi(argv[3]);
    if (threads < 1 || threads > MOST_THREADS)
        die("usage: stress SEED [STEPS [THREADS]]");
    struct thread *all = calloc(threads, sizeof *all);
    pthread_t *handles = calloc(threads, sizeof *handles);
    if (!all || !handles)
        die("out of memory");
    zeros(&rows_shared, threads * ROWS, COLUMNS);
    zeros(&locked, 64, 64);
    for (int i = 0; i < threads; i++) {
        all[i].index = i;
        all[i].steps = steps;
        all[i].random = (seed * 1000003 + i + 1) * 0x9e3779b97f4a7c15ULL | 1;
        all[i].hash = 0xcbf29ce484222325ULL;
        for (int k = 0; k < 8; k++)
            draw(&all[i]);
        if (pthread_create(&handles[i], NULL, run, &all[i]))
            die("cannot start a thread");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        hash = (hash ^ all[i].hash) * 0x100000001b3ULL;
        reused += all[i].reused;
    }
    all[0].hash = hash;
    for (int j = 0; j < rows_shared.columns; j++)
        for (int i = 0; i < rows_shared.rows; i++)
            mix(&all[0], *entry(&rows_shared, i, j));
    for (int j = 0; j < locked.columns; j++)
        for (int i = 0; i < locked.rows; i++) {
            double r = fmod(*entry(&locked, i, j), MODULUS);
            mix(&all[0], r < 0 ? r + MODULUS : r);
        }
    printf("stress seed=%llu steps=%d threads=%d hash=%016llx\n", (unsigned long long)seed, steps, threads,
           (unsigned long long)all[0].hash);
    fprintf(stderr, "reused %zu\n", reused);
    free(rows_shared.at);
    free(locked.at);
    free(handles);
    free(all);
    return 0;
}
