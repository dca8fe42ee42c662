/* Products of sparse matrices, on integers, whose results are exact: compared with a loop of the program's own, while the CPU, system
 * calls and BLAS calls change the arrays in between. With and without the library the program prints the same; with it (argument
 * "with") also that devices have kept the matrix is checked. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "semcache.h"

#ifdef __cplusplus
extern "C" {
#endif
void dcopy_(const int *, const double *, const int *, double *, const int *);
void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
#ifdef __cplusplus
}
#endif

static int with;

static void fail(const char *what, int line, int got, int wanted)
{
    printf("line %d: %s: %d (%s), not %d\n", line, what, got, semcache_message(got), wanted);
    exit(1);
}

#define ANSWERS(call, wanted)                                              \
    do {                                                                   \
        int got_ = (call), wanted_ = with ? (wanted) : SEMCACHE_ABSENT;    \
        if (got_ != wanted_)                                               \
            fail(#call, __LINE__, got_, wanted_);                          \
    } while (0)

#define HOLDS(condition)                         \
    do {                                         \
        if (!(condition))                        \
            fail(#condition, __LINE__, 0, 1);    \
    } while (0)

static uint64_t state = 1;
static int drawn(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* A matrix in memory of its own; numbers are read and written by their type. */
struct sparse {
    semcache_csr csr;
    void *offsets, *columns, *values;
    int64_t nnz;
};

static int is_complex(const semcache_csr *a) { return a->type == 'c' || a->type == 'z'; }
static size_t element(const semcache_csr *a) { return (a->type == 's' || a->type == 'c' ? 4 : 8) * (size_t)(1 + is_complex(a)); }

static double part(const semcache_csr *a, const void *of, int64_t i)
{
    return a->type == 's' || a->type == 'c' ? (double)((const float *)of)[i] : ((const double *)of)[i];
}

static void set_part(const semcache_csr *a, void *of, int64_t i, double value)
{
    if (a->type == 's' || a->type == 'c')
        ((float *)of)[i] = (float)value;
    else
        ((double *)of)[i] = value;
}

static int64_t whole(const semcache_csr *a, const void *of, int64_t i)
{
    return a->index_bytes == 4 ? ((const int32_t *)of)[i] : ((const int64_t *)of)[i];
}

static void set_whole(const semcache_csr *a, void *of, int64_t i, int64_t value)
{
    if (a->index_bytes == 4)
        ((int32_t *)of)[i] = (int32_t)value;
    else
        ((int64_t *)of)[i] = value;
}

static struct sparse made(char type, int index_bytes, int base, int64_t rows, int64_t cols, int most)
{
    struct sparse s;
    memset(&s, 0, sizeof s);
    s.csr.size = (uint32_t)sizeof s.csr;
    s.csr.type = (uint32_t)type;
    s.csr.index_bytes = (uint32_t)index_bytes;
    s.csr.base = (uint32_t)base;
    s.csr.rows = rows;
    s.csr.cols = cols;
    size_t room = (size_t)(rows * most + 1);
    s.offsets = malloc((size_t)(rows + 1) * (size_t)index_bytes);
    s.columns = malloc(room * (size_t)index_bytes);
    s.values = malloc(room * element(&s.csr));
    s.csr.row_offsets = s.offsets;
    s.csr.columns = s.columns;
    s.csr.values = s.values;
    for (int64_t i = 0; i < rows; i++) {
        set_whole(&s.csr, s.offsets, i, s.nnz + base);
        for (int j = drawn(most + 1); j > 0; j--, s.nnz++) {
            set_whole(&s.csr, s.columns, s.nnz, drawn((int)cols) + base);
            for (int p = 0; p <= is_complex(&s.csr); p++)
                set_part(&s.csr, s.values, s.nnz * (1 + is_complex(&s.csr)) + p, drawn(7) - 3);
        }
    }
    set_whole(&s.csr, s.offsets, rows, s.nnz + base);
    return s;
}

static void freed(struct sparse *s)
{
    free(s->offsets);
    free(s->columns);
    free(s->values);
}

static void *vectors(const semcache_csr *a, int64_t length, int64_t ld, int many)
{
    int parts = 1 + is_complex(a);
    void *x = malloc((size_t)(ld * many + 1) * element(a));
    (void)length;
    for (int64_t i = 0; i < ld * many * parts; i++)
        set_part(a, x, i, drawn(9) - 4);
    return x;
}

/* Y = alpha op(A) X + beta Y by a loop, with alpha and beta real. */
static void plain(const semcache_csr *a, char op, double alpha, const void *x, int64_t ldx, double beta, void *y, int64_t ldy, int many)
{
    int64_t to = op == 'N' ? a->rows : a->cols;
    int c = is_complex(a), parts = 1 + c;
    for (int v = 0; v < many; v++) {
        for (int64_t i = 0; i < to * parts; i++)
            set_part(a, y, v * ldy * parts + i, beta == 0 ? 0 : beta * part(a, y, v * ldy * parts + i));
        for (int64_t row = 0; row < a->rows; row++)
            for (int64_t k = whole(a, a->row_offsets, row) - a->base; k < whole(a, a->row_offsets, row + 1) - a->base; k++) {
                int64_t column = whole(a, a->columns, k) - a->base, i = op == 'N' ? row : column, j = op == 'N' ? column : row;
                double re = part(a, a->values, k * parts), im = c ? part(a, a->values, k * parts + 1) : 0;
                double xr = part(a, x, (v * ldx + j) * parts), xi = c ? part(a, x, (v * ldx + j) * parts + 1) : 0;
                if (op == 'C')
                    im = -im;
                int64_t at = (v * ldy + i) * parts;
                set_part(a, y, at, part(a, y, at) + alpha * (re * xr - im * xi));
                if (c)
                    set_part(a, y, at + 1, part(a, y, at + 1) + alpha * (re * xi + im * xr));
            }
    }
}

static double total;

/* A product by the library, or by the loop where it is absent, compared with the loop's. */
static void product(const struct sparse *s, char op, double alpha, double beta, void *x, int64_t ldx, void *y, int64_t ldy, int many)
{
    const semcache_csr *a = &s->csr;
    int64_t from = op == 'N' ? a->cols : a->rows, to = op == 'N' ? a->rows : a->cols;
    size_t bytes = (size_t)(ldy * many) * element(a);
    void *wanted = malloc(bytes + 1);
    double numbers[2][2] = {{0, 0}, {0, 0}};
    set_part(a, numbers[0], 0, alpha);
    set_part(a, numbers[1], 0, beta);
    memcpy(wanted, y, bytes);
    semcache_matrix X = semcache_view(x, from, many, ldx, element(a)), Y = semcache_view(y, to, many, ldy, element(a));
    int status = semcache_csr_multiply(a, op, numbers[0], &X, numbers[1], &Y);
    if (status == SEMCACHE_ABSENT && !with)
        plain(a, op, alpha, x, ldx, beta, y, ldy, many);
    else if (status != SEMCACHE_OK)
        fail("product", __LINE__, status, SEMCACHE_OK);
    plain(a, op, alpha, x, ldx, beta, wanted, ldy, many);
    for (int64_t i = 0; i < ldy * many * (1 + is_complex(a)); i++) {
        if (part(a, y, i) != part(a, wanted, i)) {
            printf("type %c, op %c, %d vectors: element %lld is %g, not %g\n", (char)a->type, op, many, (long long)i, part(a, y, i),
                   part(a, wanted, i));
            exit(1);
        }
        total += part(a, y, i) * (double)(i % 13);
    }
    free(wanted);
}

static int64_t on_devices(const void *at, int64_t n, size_t bytes)
{
    semcache_matrix view = semcache_view(at, n, 1, n, bytes);
    int64_t held = 0;
    return semcache_residency(&view, SEMCACHE_ALL_DEVICES, &held) == SEMCACHE_OK ? held : 0;
}

static void all_kinds(void)
{
    static const char types[] = "sdcz", ops[] = "NTC";
    for (int t = 0; t < 4; t++)
        for (int wide = 4; wide <= 8; wide += 4)
            for (int base = 0; base < 2; base++) {
                int64_t rows = 1500 + drawn(900), cols = 700 + drawn(2000);
                struct sparse s = made(types[t], wide, base, rows, cols, 9);
                for (int o = 0; o < 3; o++)
                    for (int many = 1; many <= 3; many += 2) {
                        int64_t from = ops[o] == 'N' ? cols : rows, to = ops[o] == 'N' ? rows : cols;
                        void *x = vectors(&s.csr, from, from + 2, many), *y = vectors(&s.csr, to, to + 3, many);
                        for (int i = 0; i < 3; i++)
                            product(&s, ops[o], drawn(5) - 2, drawn(3) - 1, x, from + 2, y, to + 3, many);
                        free(x);
                        free(y);
                    }
                freed(&s);
            }
    printf("all kinds: %.0f\n", total);
}

/* What the program changes between products is what the next one uses. */
static void changes(void)
{
    const int64_t n = 3000;
    struct sparse s = made('d', 4, 0, n, n, 12);
    double *x = (double *)vectors(&s.csr, n, n, 1), *y = (double *)vectors(&s.csr, n, n, 1);
    int32_t *columns = (int32_t *)s.columns, *offsets = (int32_t *)s.offsets;
    double *values = (double *)s.values;
    int file = open("/dev/zero", O_RDONLY), count = (int)n, one = 1;
    double half = 2;
    for (int i = 0; i < 120; i++) {
        switch (drawn(9)) {
        case 0: values[drawn((int)s.nnz)] = drawn(9) - 4; break;
        case 1: columns[drawn((int)s.nnz)] = drawn((int)n); break;
        case 2: {
            /* A row gets longer by the first entry of the next one. */
            int row = 1 + drawn((int)n - 1);
            if (offsets[row] < offsets[row + 1])
                offsets[row]++;
            break;
        }
        case 3: HOLDS(read(file, values + drawn((int)s.nnz - 600), 4000) == 4000); break;
        case 4: HOLDS(read(file, columns + drawn((int)s.nnz - 600), 2000) == 2000); break;
        case 5: daxpy_(&count, &half, x, &one, values + drawn((int)(s.nnz - n)), &one); break;
        case 6: x[drawn((int)n)] = drawn(5); break;
        case 7: {
            semcache_matrix view = semcache_view(columns, s.nnz, 1, s.nnz, 4);
            int evicted = semcache_evict(&view, SEMCACHE_ALL_DEVICES);
            HOLDS(!with || evicted == SEMCACHE_OK || evicted == SEMCACHE_UNTRACKED);
            break;
        }
        default: break;
        }
        /* Small numbers stay exact. */
        for (int64_t k = 0; i % 16 == 15 && k < s.nnz; k++)
            values[k] = drawn(7) - 3;
        product(&s, "NNT"[drawn(3)], 1, 0, x, n, y, n, 1);
    }
    printf("changes: %.0f\n", total);
    close(file);
    freed(&s);
    free(x);
    free(y);
}

/* The steps of a solver: the same vectors in each product, changed by devices in between, and now and then by the CPU or an eviction. */
static void steps(void)
{
    const int64_t n = 20000;
    const int one = 1, length = (int)n;
    struct sparse s = made('d', 4, 0, n, n, 3);
    double *values = (double *)s.values, *vector[4], *wanted[2];
    int32_t *columns = (int32_t *)s.columns;
    for (int i = 0; i < 4; i++)
        vector[i] = (double *)vectors(&s.csr, n, n, 1);
    for (int i = 0; i < 2; i++)
        wanted[i] = (double *)vectors(&s.csr, n, n, 1);
    double *u = vector[0], *v = vector[1], *x = vector[2], *y = vector[3];
    memcpy(wanted[1], y, (size_t)n * 8);
    for (int i = 0; i < 150; i++) {
        double times = drawn(5), numbers[2] = {1.0 + drawn(3), i % 11 == 7 ? 1.0 : 0.0};
        dcopy_(&length, u, &one, x, &one);
        daxpy_(&length, &times, v, &one, x, &one);
        for (int64_t k = 0; k < n; k++)
            wanted[0][k] = u[k] + times * v[k];
        switch (drawn(25)) {
        case 0: values[drawn((int)s.nnz)] = drawn(9) - 4; break;
        case 1: columns[drawn((int)s.nnz)] = drawn((int)n); break;
        case 2: u[drawn((int)n)] = drawn(5); break;
        case 3: {
            semcache_matrix view = semcache_view(drawn(2) ? values : x, n, 1, n, 8);
            int evicted = semcache_evict(&view, SEMCACHE_ALL_DEVICES);
            HOLDS(!with || evicted == SEMCACHE_OK || evicted == SEMCACHE_UNTRACKED);
            break;
        }
        default: break;
        }
        semcache_matrix X = semcache_view(x, n, 1, n, 8), Y = semcache_view(y, n, 1, n, 8);
        int status = semcache_csr_multiply(&s.csr, 'N', &numbers[0], &X, &numbers[1], &Y);
        if (status == SEMCACHE_ABSENT && !with)
            plain(&s.csr, 'N', numbers[0], x, n, numbers[1], y, n, 1);
        else if (status != SEMCACHE_OK)
            fail("steps", __LINE__, status, SEMCACHE_OK);
        plain(&s.csr, 'N', numbers[0], wanted[0], n, numbers[1], wanted[1], n, 1);
        switch (drawn(10)) {
        case 0: HOLDS(memcmp(y, wanted[1], (size_t)n * 8) == 0); break;
        case 1: HOLDS(memcmp(x, wanted[0], (size_t)n * 8) == 0); break;
        case 2: {
            int at = drawn((int)n);
            HOLDS(y[at] == wanted[1][at]);
            y[at] = wanted[1][at] = drawn(9);
            break;
        }
        default: break;
        }
    }
    HOLDS(memcmp(y, wanted[1], (size_t)n * 8) == 0);
    for (int64_t i = 0; i < n; i++)
        total += y[i] * (double)(i % 7) / 1024;
    printf("steps: %.0f\n", total);
    freed(&s);
    for (int i = 0; i < 4; i++)
        free(vector[i]);
    for (int i = 0; i < 2; i++)
        free(wanted[i]);
}

/* Column indices that end in the middle of a page, of which the block has more: what the CPU writes there counts in
 * the next product, also where nobody notices writes to accessible pages. The other arrays are of whole pages. */
static void shared_page(void)
{
    enum { N = 9 * 512, EACH = 3 };
    const int64_t n = N, nnz = N * EACH;
    double *x = (double *)malloc(N * 8), *y = (double *)malloc(N * 8), *wanted = (double *)malloc(N * 8), numbers[2] = {1, 0};
    double *values = (double *)malloc(N * EACH * 8);
    int32_t *columns = (int32_t *)malloc(N * EACH * 4 + 400), *offsets = (int32_t *)malloc((N + 1) * 4);
    semcache_csr a = {sizeof a, 'd', 4, 0, n, n, offsets, columns, values};
    for (int i = 0; i <= N; i++)
        offsets[i] = i * EACH;
    for (int64_t i = 0; i < nnz; i++) {
        values[i] = drawn(9) - 4;
        columns[i] = drawn(N);
    }
    for (int i = 0; i < N; i++)
        x[i] = drawn(9);
    semcache_matrix X = semcache_view(x, n, 1, n, 8), Y = semcache_view(y, n, 1, n, 8);
    for (int i = 0; i < 40; i++) {
        int status = semcache_csr_multiply(&a, 'N', &numbers[0], &X, &numbers[1], &Y);
        if (status == SEMCACHE_ABSENT && !with)
            plain(&a, 'N', 1, x, n, 0, y, n, 1);
        else if (status != SEMCACHE_OK)
            fail("shared page", __LINE__, status, SEMCACHE_OK);
        if (i % 4 == 3) {
            plain(&a, 'N', 1, x, n, 0, wanted, n, 1);
            HOLDS(memcmp(y, wanted, N * 8) == 0);
            /* One of the last entries, whose indices lie on the last page. */
            columns[nnz - 1 - drawn(90)] = drawn(N);
        }
    }
    for (int i = 0; i < N; i++)
        total += y[i] * (double)(i % 7);
    printf("shared page: %.0f\n", total);
    free(x);
    free(y);
    free(wanted);
    free(values);
    free(columns);
    free(offsets);
}

/* Y of one product is X of the next: nothing but the last one is looked at. */
static void iteration(void)
{
    const int64_t n = 20000;
    struct sparse s = made('d', 4, 1, n, n, 3);
    double *x = (double *)vectors(&s.csr, n, n, 1), *y = (double *)vectors(&s.csr, n, n, 1), numbers[2] = {1, 0};
    double *u = (double *)malloc((size_t)n * 8), *v = (double *)malloc((size_t)n * 8);
    memcpy(u, x, (size_t)n * 8);
    semcache_statistics before, after;
    before.size = after.size = sizeof before;
    for (int i = 0; i < 8; i++) {
        semcache_matrix X = semcache_view(x, n, 1, n, 8), Y = semcache_view(y, n, 1, n, 8);
        if (semcache_csr_multiply(&s.csr, 'N', &numbers[0], &X, &numbers[1], &Y) == SEMCACHE_ABSENT)
            plain(&s.csr, 'N', 1, x, n, 0, y, n, 1);
        if (i == 3)
            ANSWERS(semcache_count(&before), SEMCACHE_OK);
        double *swap = x;
        x = y;
        y = swap;
    }
    if (with && getenv("CSR_STAYS")) {
        ANSWERS(semcache_count(&after), SEMCACHE_OK);
        /* But for the pages that arrays share with other data, and parts of X that another device has. */
        HOLDS(after.h2d - before.h2d + after.d2h - before.d2h < 100000 && after.faults == before.faults);
        HOLDS(on_devices(s.columns, s.nnz, 4) > s.nnz * 3);
    }
    for (int i = 0; i < 8; i++) {
        plain(&s.csr, 'N', 1, u, n, 0, v, n, 1);
        double *swap = u;
        u = v;
        v = swap;
    }
    HOLDS(memcmp(u, x, (size_t)n * 8) == 0);
    for (int64_t i = 0; i < n; i++)
        total += x[i] * (double)(i % 7) / 1024;
    printf("iteration: %.0f\n", total);
    freed(&s);
    free(x);
    free(y);
    free(u);
    free(v);
}

/* What is not a matrix is refused, and nothing is computed. */
static void nonsense(void)
{
    const int64_t n = 2000;
    struct sparse s = made('d', 4, 0, n, n, 8);
    double *x = (double *)vectors(&s.csr, n, n, 1), *y = (double *)vectors(&s.csr, n, n, 1), one = 1, first = y[0];
    int32_t *columns = (int32_t *)s.columns, *offsets = (int32_t *)s.offsets, kept;
    semcache_matrix X = semcache_view(x, n, 1, n, 8), Y = semcache_view(y, n, 1, n, 8), wrong;
    semcache_csr a;
#define REFUSED(A, op, X, Y) ANSWERS(semcache_csr_multiply(A, op, &one, X, &one, Y), SEMCACHE_INVALID)
    REFUSED(NULL, 'N', &X, &Y);
    REFUSED(&s.csr, 'X', &X, &Y);
    REFUSED(&s.csr, 'N', NULL, &Y);
    REFUSED(&s.csr, 'N', &X, NULL);
    REFUSED(&s.csr, 'N', &X, &X);
    ANSWERS(semcache_csr_multiply(&s.csr, 'N', NULL, &X, &one, &Y), SEMCACHE_INVALID);
    wrong = semcache_view(x, n - 1, 1, n, 8);
    REFUSED(&s.csr, 'N', &wrong, &Y);
    wrong = semcache_view(x, n, 1, n, 4);
    REFUSED(&s.csr, 'N', &wrong, &Y);
    wrong = semcache_view(s.values, n, 1, n, 8);
    REFUSED(&s.csr, 'N', &X, &wrong);
#define WITH(field, value)          \
    do {                            \
        a = s.csr;                  \
        a.field = value;            \
        REFUSED(&a, 'N', &X, &Y);   \
    } while (0)
    WITH(size, 8);
    WITH(type, 'q');
    WITH(index_bytes, 2);
    WITH(base, 2);
    WITH(base, 1);
    WITH(rows, -1);
    WITH(rows, INT64_MAX);
    WITH(cols, n + 1);
    WITH(row_offsets, NULL);
    WITH(columns, NULL);
    WITH(values, NULL);
    for (int linked = 0; linked < 2; linked++) {
        static const int bad[] = {-1, 2000, INT32_MAX, INT32_MIN};
        for (int i = 0; i < 4; i++) {
            kept = columns[s.nnz / 2];
            columns[s.nnz / 2] = bad[i];
            REFUSED(&s.csr, 'N', &X, &Y);
            REFUSED(&s.csr, 'T', &X, &Y);
            columns[s.nnz / 2] = kept;
        }
        kept = offsets[n / 2];
        offsets[n / 2] = offsets[n / 2 + 1] + 1;
        REFUSED(&s.csr, 'N', &X, &Y);
        offsets[n / 2] = -1;
        REFUSED(&s.csr, 'N', &X, &Y);
        offsets[n / 2] = kept;
        HOLDS(y[0] == first);
        product(&s, 'N', 1, 0, x, n, y, n, 1);
        first = y[0];
    }
    /* Rows and entries that do not exist. */
    struct sparse none = made('d', 8, 0, 5, 3, 0);
    double few[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    product(&none, 'N', 1, 2, few, 3, few + 3, 5, 1);
    none.csr.rows = 0;
    product(&none, 'N', 1, 0, few, 3, few + 3, 5, 0);
    product(&none, 'T', 1, 2, few, 5, few + 5, 3, 1);
    freed(&none);
    /* More entries than the matrix has elements, since columns come more than once. */
    struct sparse narrow = made('d', 4, 0, n, 2, 9);
    product(&narrow, 'N', 1, 1, x, 2, y, n, 1);
    product(&narrow, 'T', 2, 1, y, n, x, 2, 1);
    freed(&narrow);
    /* NaN and infinity of entries reach the results that they belong to. */
    ((double *)s.values)[0] = 0.0 / (x[0] * 0);
    memset(x, 0, (size_t)n * 8);
    Y = semcache_view(y, n, 1, n, 8);
    double zero = 0;
    if (semcache_csr_multiply(&s.csr, 'N', &one, &X, &zero, &Y) == SEMCACHE_ABSENT)
        plain(&s.csr, 'N', 1, x, n, 0, y, n, 1);
    int64_t nans = 0;
    for (int64_t i = 0; i < n; i++)
        nans += y[i] != y[i];
    printf("nonsense: %lld NaN, %.0f\n", (long long)nans, total);
    freed(&s);
    free(x);
    free(y);
}

/* Memory that devices cannot keep, and memory that goes away. */
static void memory(void)
{
    struct sparse s = made('d', 4, 0, 600, 600, 6);
    double onstack[1200];
    for (int i = 0; i < 1200; i++)
        onstack[i] = i % 5;
    product(&s, 'N', 1, 0, onstack, 600, onstack + 600, 600, 1);
    for (int i = 0; i < 30; i++) {
        struct sparse t = made('d', 4, i % 2, 2000, 2000, 1 + drawn(9));
        void *x = vectors(&t.csr, 2000, 2000, 1), *y = vectors(&t.csr, 2000, 2000, 1);
        product(&t, 'N', 2, 1, x, 2000, y, 2000, 1);
        if (i % 3 == 0)
            product(&t, 'N', 1, 0, x, 2000, y, 2000, 1);
        free(x);
        free(y);
        freed(&t);
    }
    freed(&s);
    printf("memory: %.0f\n", total);
}

int main(int argc, char **argv)
{
    (void)argv;
    with = argc > 1;
    all_kinds();
    changes();
    iteration();
    steps();
    shared_page();
    nonsense();
    memory();
    return 0;
}
