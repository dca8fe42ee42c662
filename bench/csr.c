#include "csr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

enum { BAND = 15, RANDOM = 16 };

struct making {
    struct csr *a;
    int64_t k; /* points along an edge of the cube */
    int pattern;
};
enum { LAPLACE, BANDED, RANDOMLY, POWER };

static uint64_t mixed(uint64_t h)
{
    h ^= h >> 31;
    h *= 0x7fb5d329728ea185u;
    h ^= h >> 27;
    h *= 0x81dadef4bc2dd44du;
    return h ^ h >> 33;
}

/* How many of 3 neighbours along an edge exist. */
static int64_t beside(int64_t at, int64_t k) { return 1 + (at > 0) + (at < k - 1); }

static int64_t length(const struct making *m, int64_t i)
{
    int64_t n = m->a->rows, k = m->k;
    switch (m->pattern) {
    case LAPLACE:
        return beside(i % k, k) * beside(i / k % k, k) * beside(i / k / k, k);
    case BANDED:
        return (i + BAND / 2 < n ? i + BAND / 2 : n - 1) - (i > BAND / 2 ? i - BAND / 2 : 0) + 1;
    case RANDOMLY:
        return RANDOM < n ? RANDOM : n;
    default: {
        /* The sum over all ranks is about 2 n. Multiplying by 8 gives a mean of 16. */
        double rank = 1 + (double)(mixed((uint64_t)i) % (uint64_t)n);
        int64_t l = (int64_t)(8 * sqrt((double)n / rank));
        return l < 1 ? 1 : l < n ? l : n;
    }
    }
}

static void fill_rows(void *arg, size_t from, size_t to, int thread)
{
    (void)thread;
    const struct making *m = arg;
    struct csr *a = m->a;
    int64_t n = a->rows, k = m->k;
    for (int64_t i = (int64_t)from; i < (int64_t)to; i++) {
        int64_t at = a->offsets[i], many = a->offsets[i + 1] - at;
        if (m->pattern == LAPLACE) {
            int64_t x = i % k, y = i / k % k, z = i / k / k;
            for (int64_t c = z > 0 ? z - 1 : 0; c <= z + 1 && c < k; c++)
                for (int64_t b = y > 0 ? y - 1 : 0; b <= y + 1 && b < k; b++)
                    for (int64_t d = x > 0 ? x - 1 : 0; d <= x + 1 && d < k; d++, at++) {
                        a->columns[at] = (int32_t)((c * k + b) * k + d);
                        a->values[at] = a->columns[at] == i ? 26 : -1;
                    }
            continue;
        }
        for (int64_t j = 0; j < many; j++, at++) {
            uint64_t seed = mixed((uint64_t)i * 0x9E3779B97F4A7C15u + (uint64_t)j);
            a->columns[at] = (int32_t)(m->pattern == BANDED ? (i > BAND / 2 ? i - BAND / 2 : 0) + j : (int64_t)(seed % (uint64_t)n));
            a->values[at] = (double)(int)(seed >> 40 & 7) - 3;
        }
    }
}

struct csr csr_matrix(const char *pattern, int64_t rows)
{
    static const char *const patterns[] = {"laplace", "banded", "random", "power"};
    struct csr a = {.rows = rows};
    struct making m = {&a, (int64_t)cbrt((double)rows), 0};
    while (m.pattern < 4 && strcmp(patterns[m.pattern], pattern))
        m.pattern++;
    if (m.pattern == 4)
        die("no pattern %s", pattern);
    if (m.pattern == LAPLACE) {
        while ((m.k + 1) * (m.k + 1) * (m.k + 1) <= rows)
            m.k++;
        a.rows = m.k * m.k * m.k;
    }
    a.offsets = malloc(((size_t)a.rows + 1) * sizeof *a.offsets);
    if (!a.offsets)
        die("no memory");
    int64_t sum = 0;
    for (int64_t i = 0; i < a.rows; i++) {
        a.offsets[i] = (int32_t)sum;
        sum += length(&m, i);
    }
    if (sum > INT32_MAX)
        die("%s of %lld rows has more than 2^31 entries", pattern, (long long)rows);
    a.offsets[a.rows] = (int32_t)sum;
    a.nnz = sum;
    a.columns = malloc((size_t)sum * sizeof *a.columns);
    a.values = malloc((size_t)sum * sizeof *a.values);
    if (!a.columns || !a.values)
        die("no memory");
    parallel((size_t)a.rows, 0, fill_rows, &m);
    return a;
}

struct product_of {
    const struct csr *a;
    const double *x;
    double *y;
};

static void rows_times(void *arg, size_t from, size_t to, int thread)
{
    (void)thread;
    const struct product_of *p = arg;
    for (size_t i = from; i < to; i++) {
        double s = 0;
        for (int64_t j = p->a->offsets[i]; j < p->a->offsets[i + 1]; j++)
            s += p->a->values[j] * p->x[p->a->columns[j]];
        p->y[i] = s;
    }
}

void csr_times(const struct csr *a, const double *x, double *y)
{
    struct product_of p = {a, x, y};
    parallel((size_t)a->rows, 0, rows_times, &p);
}

double *csr_right_side(const struct csr *a)
{
    double *x = doubles((size_t)a->rows), *b = doubles((size_t)a->rows);
    for (int64_t i = 0; i < a->rows; i++)
        x[i] = (double)(int)(i % 5) - 2;
    csr_times(a, x, b);
    free(x);
    return b;
}

void csr_check_solution(const struct csr *a, const double *b, const double *x, double wanted)
{
    double *y = doubles((size_t)a->rows), apart = 0, all = 0;
    csr_times(a, x, y);
    for (int64_t i = 0; i < a->rows; i++) {
        apart += (b[i] - y[i]) * (b[i] - y[i]);
        all += b[i] * b[i];
    }
    free(y);
    double found = sqrt(apart / all);
    if (!(fabs(found - wanted) <= 1e-6 * wanted + 1e-12))
        die("WRONG: the residual is %.9g, must be %.9g", found, wanted);
}

double csr_step_bytes(const struct csr *a)
{
    return (double)a->nnz * 12 + (double)a->rows * (4 + 16 * 8);
}
