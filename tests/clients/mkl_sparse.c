/* Products of sparse matrices by MKL's inspector-executor functions, on whole numbers: results are compared with a loop of the program's
   own, and what it prints is exact. INT and SUFFIX are those of the library that it is linked with. */
#include <complex.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef INT
#define INT int32_t
#define SUFFIX
#endif
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define NAME(name) GLUE(name, SUFFIX)

struct descr { int type, mode, diag; };
static const struct descr general = {20, 0, 0}, symmetric = {21, 40, 50};
static const int operations[] = {10, 11, 12};
enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102 };

int NAME(mkl_sparse_destroy)(void *);
int NAME(mkl_sparse_optimize)(void *);

static uint64_t state = 1;
static int drawn(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static void *block(size_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
    if (!memory) exit(3);
    return memset(memory, 0, bytes);
}

static void fail(const char *what, long got, long wanted)
{
    printf("%s: %ld, not %ld\n", what, got, wanted);
    fflush(stdout);
    _exit(1);
}

#define IS(call, wanted)                                     \
    do {                                                                                                                                  \
        long got_ = (long)(call);                                                                                                         \
        if (got_ != (wanted)) fail(#call, got_, (wanted));                                                                                \
    } while (0)

/* A pattern, with room for one entry more. */
struct pattern {
    int base;
    INT rows, cols, count, *starts, *columns;
};

static struct pattern made(int base, INT rows, INT cols, int most)
{
    struct pattern p = {base, rows, cols, 0, block((size_t)(rows + 1) * sizeof(INT)), block((size_t)(rows * most + 1) * sizeof(INT))};
    for (INT i = 0; i < rows; i++) {
        p.starts[i] = p.count + base;
        for (int j = drawn(most + 1); j > 0; j--) p.columns[p.count++] = (INT)drawn((int)cols) + base;
    }
    p.starts[rows] = p.count + base;
    return p;
}

static void freed(struct pattern *p)
{
    free(p->starts);
    free(p->columns);
}

#define SAME(x) (x)
#define TYPE(letter, T, conjugate, number)                                                                                                \
    int NAME(mkl_sparse_##letter##_create_csr)(void **, int, INT, INT, INT *, INT *, INT *, T *);                                         \
    int NAME(mkl_sparse_##letter##_update_values)(void *, INT, const INT *, const INT *, const T *);                                      \
    int NAME(mkl_sparse_##letter##_mv)(int, T, const void *, struct descr, const T *, T, T *);                                            \
    int NAME(mkl_sparse_##letter##_mm)(int, T, const void *, struct descr, int, const T *, INT, INT, T, T *, INT);                        \
    static T *letter##_drawn(size_t count)                                                                                                \
    {                                                                                                                                     \
        T *x = block(count * sizeof(T));                                                                                                  \
        for (size_t i = 0; i < count; i++) x[i] = (T)number;                                                                              \
        return x;                                                                                                                         \
    }                                                                                                                                     \
    /* A product by the library, and one by a loop: as many vectors as `many`, with these distances between elements and vectors. */      \
    static void letter##_product(const void *a, const struct pattern *p, const T *values, int o, int layout, INT many, INT ldx, INT ldy)  \
    {                                                                                                                                     \
        INT from = o ? p->rows : p->cols, to = o ? p->cols : p->rows;                                                                     \
        size_t bytes = (size_t)(ldy * (layout == ROW_MAJOR ? to : many)) * sizeof(T);                                                     \
        T *x = letter##_drawn((size_t)(ldx * (layout == ROW_MAJOR ? from : many))), *y = letter##_drawn(bytes / sizeof(T));               \
        T *wanted = memcpy(block(bytes), y, bytes), alpha = (T)number, beta = (T)(drawn(3) ? number : 0);                                 \
        if (layout)                                                                                                                       \
            IS(NAME(mkl_sparse_##letter##_mm)(operations[o], alpha, a, general, layout, x, many, ldx, beta, y, ldy), 0);                  \
        else                                                                                                                              \
            IS(NAME(mkl_sparse_##letter##_mv)(operations[o], alpha, a, general, x, beta, y), 0);                                          \
        INT xi = layout == ROW_MAJOR ? ldx : 1, xj = layout == ROW_MAJOR ? 1 : ldx;                                                       \
        INT yi = layout == ROW_MAJOR ? ldy : 1, yj = layout == ROW_MAJOR ? 1 : ldy;                                                       \
        for (INT v = 0; v < many; v++) {                                                                                                  \
            for (INT i = 0; i < to; i++) wanted[i * yi + v * yj] *= beta;                                                                 \
            for (INT i = 0; i < p->rows; i++)                                                                                             \
                for (INT k = p->starts[i] - p->base; k < p->starts[i + 1] - p->base; k++) {                                               \
                    INT j = p->columns[k] - p->base, at = o ? j : i, of = o ? i : j;                                                      \
                    wanted[at * yi + v * yj] += alpha * (o == 2 ? conjugate(values[k]) : values[k]) * x[of * xi + v * xj];                \
                }                                                                                                                         \
        }                                                                                                                                 \
        for (size_t i = 0; i < bytes / sizeof(T); i++)                                                                                    \
            if (y[i] != wanted[i]) fail(#letter ", element", (long)i, layout);                                                            \
        free(x), free(y), free(wanted);                                                                                                   \
    }                                                                                                                                     \
    static void letter##_all(INT rows, INT cols)                                                                                          \
    {                                                                                                                                     \
        for (int base = 0; base < 2; base++) {                                                                                            \
            struct pattern p = made(base, rows, cols, 10);                                                                                \
            T *values = letter##_drawn((size_t)p.count);                                                                                  \
            for (int o = 0; o < 3; o++) {                                                                                                 \
                INT from = o ? rows : cols, to = o ? cols : rows;                                                                         \
                static const int layouts[] = {0, COLUMN_MAJOR, COLUMN_MAJOR, ROW_MAJOR, ROW_MAJOR};                                       \
                for (int i = 0; i < 5; i++) {                                                                                             \
                    /* A handle of its own for each product, as PyTorch makes them. */                                                    \
                    void *a;                                                                                                              \
                    INT many = i % 2 ? 1 : 3;                                                                                             \
                    IS(NAME(mkl_sparse_##letter##_create_csr)(&a, base, rows, cols, p.starts, p.starts + 1, p.columns, values), 0);       \
                    if (i == 0)                                                                                                           \
                        letter##_product(a, &p, values, o, 0, 1, from, to);                                                               \
                    else if (layouts[i] == ROW_MAJOR)                                                                                     \
                        letter##_product(a, &p, values, o, ROW_MAJOR, many, many, many == 1 ? 1 : 4);                                     \
                    else                                                                                                                  \
                        letter##_product(a, &p, values, o, COLUMN_MAJOR, many, from + 2, to + 3);                                         \
                    IS(NAME(mkl_sparse_destroy)(a), 0);                                                                                   \
                    if (p.count) values[drawn((int)p.count)] = (T)number;                                                                 \
                    if (p.count) p.columns[drawn((int)p.count)] = (INT)drawn((int)cols) + base;                                           \
                }                                                                                                                         \
            }                                                                                                                             \
            free(values);                                                                                                                 \
            freed(&p);                                                                                                                    \
        }                                                                                                                                 \
        printf(#letter ": right\n");                                                                                                      \
    }
#define REAL (drawn(7) - 3)
#define COMPLEX (drawn(7) - 3 + (drawn(7) - 3) * I)
TYPE(s, float, SAME, REAL)
TYPE(d, double, SAME, REAL)
TYPE(c, float complex, conjf, COMPLEX)
TYPE(z, double complex, conj, COMPLEX)

/* What the library answers itself, and matrices that it has copied. */
static void others(INT n)
{
    struct pattern p = made(0, n, n, 6);
    double *values = d_drawn((size_t)p.count), *x = d_drawn((size_t)n), *y = block((size_t)n * 8), sum = 0;
    void *a;
    IS(NAME(mkl_sparse_d_create_csr)(&a, 0, n, n, p.starts, p.starts + 1, p.columns, values), 0);
    IS(NAME(mkl_sparse_d_mv)(10, 1, NULL, general, x, 0, y), 1);
    IS(NAME(mkl_sparse_d_mv)(10, 1, a, general, NULL, 0, y), 1);
    IS(NAME(mkl_sparse_d_mv)(99, 1, a, general, x, 0, y), 3);
    IS(NAME(mkl_sparse_d_mv)(10, 1, a, (struct descr){77, 0, 0}, x, 0, y), 3);
    IS(NAME(mkl_sparse_d_mm)(10, 1, a, general, COLUMN_MAJOR, x, 0, n, 0, y, n), 3);
    IS(NAME(mkl_sparse_d_mv)(10, 0, a, general, x, 0, y), 0);
    for (INT i = 0; i < n; i++) IS(y[i], 0);
    /* The lower triangle stands for all of a symmetric matrix. */
    IS(NAME(mkl_sparse_d_mv)(10, 1, a, symmetric, x, 0, y), 0);
    for (INT i = 0; i < n; i++) sum += y[i] * (double)(i % 17);
    printf("symmetric: %.0f\n", sum);
    /* After optimize it computes with arrays of its own, which take new values only by update_values. */
    IS(NAME(mkl_sparse_optimize)(a), 0);
    for (int o = 0; o < 3; o++) d_product(a, &p, values, o, 0, 1, n, n);
    double *fresh = d_drawn((size_t)p.count);
    IS(NAME(mkl_sparse_d_update_values)(a, 0, NULL, NULL, fresh), 0);
    for (int o = 0; o < 3; o++) d_product(a, &p, fresh, o, 0, 1, n, n);
    IS(NAME(mkl_sparse_destroy)(a), 0);
    /* Rows with gaps between them. */
    INT *ends = block((size_t)n * sizeof(INT));
    for (INT i = 0; i < n; i++) ends[i] = p.starts[i] + (p.starts[i + 1] - p.starts[i]) / 2;
    IS(NAME(mkl_sparse_d_create_csr)(&a, 0, n, n, p.starts, ends, p.columns, values), 0);
    IS(NAME(mkl_sparse_d_mv)(10, 1, a, general, x, 0, y), 0);
    sum = 0;
    for (INT i = 0; i < n; i++) sum += y[i] * (double)(i % 17);
    printf("gaps: %.0f\n", sum);
    IS(NAME(mkl_sparse_destroy)(a), 0);
    /* Y of one product is X of the next. */
    for (INT k = 0; k < p.count; k++) values[k] = drawn(3) - 1;
    IS(NAME(mkl_sparse_d_create_csr)(&a, 0, n, n, p.starts, p.starts + 1, p.columns, values), 0);
    for (int i = 0; i < 10; i++) {
        IS(NAME(mkl_sparse_d_mv)(10, 1, a, general, x, 0, y), 0);
        double *swap = x;
        x = y, y = swap;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) d_product(a, &p, values, 0, 0, 1, n, n), _exit(7);
    int status = 0;
    IS(waitpid(child, &status, 0), child);
    IS(WEXITSTATUS(status), 7);
    sum = 0;
    for (INT i = 0; i < n; i++) sum += x[i] * (double)(i % 17);
    printf("iterated: %.0f\n", sum);
    IS(NAME(mkl_sparse_destroy)(a), 0);
    free(values), free(fresh), free(ends), free(x), free(y);
    freed(&p);
}

int run(int scale);
int run(int scale)
{
    INT n = (INT)scale;
    s_all(n, n / 2 + 100);
    d_all(n / 2, n);
    c_all(n, n);
    z_all(n / 2 + 1, n / 3);
    others(n);
    return 0;
}

int main(int argc, char **argv) { return run(argc > 1 ? atoi(argv[1]) : 1500); }
