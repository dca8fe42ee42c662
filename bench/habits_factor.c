/* "factor": a right-looking LU factorisation as LAPACK's dgetrf and dgetrf2 make it: panels are factored by halves, down to
 * 8 columns, which loops of this program factor; it also exchanges rows, so it touches all columns between the level-3 calls.
 *
 * A is a permutation of L U with L(i, j) = e(i) e(j) below the diagonal and U(i, j) = g(i) h(j) above it, both with ones on the
 * diagonal and signs e, g and h: all numbers are small integers, in any order of the sums, and so are those of L's inverse. The
 * pivots are given: one column in eight exchanges rows. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "habits.h"

enum { PANEL = 128, LEAF = 8 };

struct lu {
    int n, *pivots;
    double *a, *first;
    double *e, *g, *h; /* signs */
};

static double *entry(const struct lu *f, int i, int j)
{
    return f->a + (size_t)j * (size_t)f->n + (size_t)i;
}

/* Exchanges the rows that columns [from, to) exchange, in columns [left, right). */
static void exchange(const struct lu *f, int from, int to, int left, int right)
{
    for (int j = left; j < right; j++)
        for (int i = from; i < to; i++)
            if (f->pivots[i] != i) {
                double *x = entry(f, i, j), *y = entry(f, f->pivots[i], j), t = *x;
                *x = *y;
                *y = t;
            }
}

/* Columns [mid, to) after columns [from, mid) are factored. */
static void update(const struct lu *f, int from, int mid, int to)
{
    const double one = 1, minus = -1;
    int above = mid - from, below = f->n - mid, wide = to - mid;
    dtrsm_("L", "L", "N", "U", &above, &wide, &one, entry(f, from, from), &f->n, entry(f, from, mid), &f->n);
    dgemm_("N", "N", &below, &wide, &above, &minus, entry(f, mid, from), &f->n, entry(f, from, mid), &f->n, &one,
           entry(f, mid, mid), &f->n);
}

__attribute__((optimize("O3"))) static void subtract(double *restrict x, const double *restrict y, double times, int n)
{
    for (int i = 0; i < n; i++)
        x[i] -= times * y[i];
}

static void columns(const struct lu *f, int from, int to)
{
    if (to - from > LEAF) {
        int mid = from + (to - from) / 2;
        columns(f, from, mid);
        exchange(f, from, mid, mid, to);
        update(f, from, mid, to);
        columns(f, mid, to);
        exchange(f, mid, to, from, mid);
        return;
    }
    for (int k = from; k < to; k++) {
        exchange(f, k, k + 1, from, to);
        double *below = entry(f, k + 1, k), by = 1 / *entry(f, k, k);
        for (int i = 0; i < f->n - k - 1; i++)
            below[i] *= by;
        for (int j = k + 1; j < to; j++)
            subtract(entry(f, k + 1, j), below, *entry(f, k, j), f->n - k - 1);
    }
}

static void factorise(const struct lu *f)
{
    for (int from = 0; from < f->n; from += PANEL) {
        int to = from + PANEL < f->n ? from + PANEL : f->n;
        columns(f, from, to);
        exchange(f, from, to, 0, from);
        exchange(f, from, to, to, f->n);
        if (to < f->n)
            update(f, from, to, f->n);
    }
}

static void copy_part(void *arg, size_t from, size_t to, int thread)
{
    struct lu *f = arg;
    (void)thread;
    memcpy(f->a + from, f->first + from, (to - from) * sizeof *f->a);
}

static void check_part(void *arg, size_t from, size_t to, int thread)
{
    const struct lu *f = arg;
    (void)thread;
    for (int j = (int)from; j < (int)to; j++)
        for (int i = 0; i < f->n; i++)
            same("an entry of the factors", *entry(f, i, j), i > j ? f->e[i] * f->e[j] : i < j ? f->g[i] * f->h[j] : 1);
}

static double *signs(size_t n, uint32_t seed)
{
    double *s = doubles(n);
    for (size_t i = 0; i < n; i++)
        s[i] = value(seed, i) < 0 ? -1 : 1;
    return s;
}

void factor(const char *label)
{
    struct lu f = {.n = scaled(3072)};
    size_t n = (size_t)f.n, all = n * n;
    f.a = doubles(all);
    f.first = doubles(all);
    f.e = signs(n, 61);
    f.g = signs(n, 62);
    f.h = signs(n, 63);
    double *products = doubles(n + 1);
    f.pivots = malloc(n * sizeof *f.pivots);
    if (!f.pivots)
        die("out of memory");
    products[0] = 0;
    for (size_t i = 0; i < n; i++) {
        products[i + 1] = products[i] + f.e[i] * f.g[i];
        f.pivots[i] = (int)i;
        if (i % 8 == 3)
            f.pivots[i] += (int)((size_t)(value(64, i) + 1024) * (n - i) / 2048);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++) {
            size_t least = i < j ? i : j;
            double both = f.e[i] * f.h[j] * products[least];
            f.first[j * n + i] = both + (i < j ? f.g[i] * f.h[j] : i > j ? f.e[i] * f.e[j] : 1);
        }
    /* The exchanges undone, the last one first. */
    for (size_t i = n; i-- > 0;)
        for (size_t j = 0; j < n; j++) {
            double *x = f.first + j * n + i, *y = f.first + j * n + (size_t)f.pivots[i], t = *x;
            *x = *y;
            *y = t;
        }
    struct steps s = steps_of(2);
    while (more(&s)) {
        parallel(all, 0, copy_part, &f);
        double start = now();
        factorise(&f);
        took(&s, now() - start);
        parallel(n, 0, check_part, &f);
    }
    told(label, "factor", f.n, &s);
    free(f.pivots);
    free(products);
    free(f.h);
    free(f.g);
    free(f.e);
    free(f.first);
    free(f.a);
}
