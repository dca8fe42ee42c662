/* Stands in for MKL's inspector-executor sparse BLAS: matrices in compressed rows, and products of them by plain loops. As MKL does, it
   keeps the program's arrays until mkl_sparse_optimize copies them, and takes new values only by mkl_sparse_?_update_values then. The
   number of products is told on stderr at exit. Compiled once for each width of integers (INT) and suffix of names (SUFFIX). */
#include <complex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef INT
#define INT int32_t
#define SUFFIX
#endif
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define NAME(name) GLUE(name, SUFFIX)

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID = 3 };
struct descr { int type, mode, diag; };
struct matrix {
    int base, own;
    INT rows, cols;
    INT *starts, *ends, *columns;
    void *values;
    size_t element;
};

static long products;
__attribute__((destructor)) static void told(void)
{
    if (products) fprintf(stderr, "stand-in%s: %ld products\n", sizeof(INT) == 8 ? ", 64 bits" : "", products);
}

static long entries(const struct matrix *a)
{
    INT most = a->base;
    for (INT i = 0; i < a->rows; i++) most = a->ends[i] > most ? a->ends[i] : most;
    return (long)most - a->base;
}

static void *copied(const void *from, size_t bytes)
{
    void *to = aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
    return memcpy(to, from, bytes);
}

int NAME(mkl_sparse_optimize)(struct matrix *a)
{
    if (!a) return NOT_INITIALIZED;
    if (a->own || a->rows == 0 || a->ends != a->starts + 1) return SUCCESS;
    long n = entries(a);
    a->starts = copied(a->starts, (size_t)(a->rows + 1) * sizeof(INT));
    a->ends = a->starts + 1;
    a->columns = copied(a->columns, (size_t)n * sizeof(INT));
    a->values = copied(a->values, (size_t)n * a->element);
    a->own = 1;
    return SUCCESS;
}

int NAME(mkl_sparse_destroy)(struct matrix *a)
{
    if (!a) return NOT_INITIALIZED;
    if (a->own) {
        free(a->starts);
        free(a->columns);
        free(a->values);
    }
    memset(a, 0x5a, sizeof *a);
    free(a);
    return SUCCESS;
}

static int index_of(int operation, int real) { return operation == 10 ? 0 : operation == 11 ? 1 : operation == 12 ? (real ? 1 : 2) : -1; }

#define FUNCTIONS(letter, T, conjugate, real)                                                                                             \
    int NAME(mkl_sparse_##letter##_create_csr)(struct matrix **a, int base, INT rows, INT cols, INT *starts, INT *ends, INT *columns,     \
                                               T *values)                                                                                 \
    {                                                                                                                                     \
        *a = malloc(sizeof **a);                                                                                                          \
        **a = (struct matrix){base, 0, rows, cols, starts, ends, columns, values, sizeof(T)};                                             \
        return SUCCESS;                                                                                                                   \
    }                                                                                                                                     \
    int NAME(mkl_sparse_##letter##_export_csr)(const struct matrix *a, int *base, INT *rows, INT *cols, INT **starts, INT **ends,         \
                                               INT **columns, T **values)                                                                 \
    {                                                                                                                                     \
        if (!a) return NOT_INITIALIZED;                                                                                                   \
        *base = a->base, *rows = a->rows, *cols = a->cols;                                                                                \
        *starts = a->starts, *ends = a->ends, *columns = a->columns, *values = a->values;                                                 \
        return SUCCESS;                                                                                                                   \
    }                                                                                                                                     \
    int NAME(mkl_sparse_##letter##_update_values)(struct matrix *a, INT count, const INT *rows, const INT *columns, const T *values)      \
    {                                                                                                                                     \
        (void)count, (void)rows, (void)columns;                                                                                           \
        memcpy(a->values, values, (size_t)entries(a) * sizeof(T));                                                                        \
        return SUCCESS;                                                                                                                   \
    }                                                                                                                                     \
    static int letter##_multiply(int operation, T alpha, const struct matrix *a, struct descr d, const T *x, long xi, long xj, long many, \
                                 T beta, T *y, long yi, long yj)                                                                          \
    {                                                                                                                                     \
        int op = index_of(operation, real), symmetric = d.type == 21;                                                                     \
        if (!a || !x || !y) return NOT_INITIALIZED;                                                                                       \
        if (op < 0 || (d.type != 20 && !symmetric) || many < 1) return INVALID;                                                           \
        __atomic_fetch_add(&products, 1, __ATOMIC_RELAXED);                                                                               \
        const T *values = a->values;                                                                                                      \
        long to = op ? a->cols : a->rows;                                                                                                 \
        for (long v = 0; v < many; v++) {                                                                                                 \
            for (long i = 0; i < to; i++) y[i * yi + v * yj] = beta == 0 ? 0 : beta * y[i * yi + v * yj];                                 \
            for (long i = 0; i < a->rows; i++)                                                                                            \
                for (long k = a->starts[i] - a->base; k < a->ends[i] - a->base; k++) {                                                    \
                    long j = a->columns[k] - a->base;                                                                                     \
                    if (symmetric && (d.mode == 40 ? j > i : j < i)) continue;                                                            \
                    T value = op == 2 ? conjugate(values[k]) : values[k];                                                                 \
                    if (op)                                                                                                               \
                        y[j * yi + v * yj] += alpha * value * x[i * xi + v * xj];                                                         \
                    else                                                                                                                  \
                        y[i * yi + v * yj] += alpha * value * x[j * xi + v * xj];                                                         \
                    if (symmetric && i != j) y[j * yi + v * yj] += alpha * value * x[i * xi + v * xj];                                    \
                }                                                                                                                         \
        }                                                                                                                                 \
        return SUCCESS;                                                                                                                   \
    }                                                                                                                                     \
    int NAME(mkl_sparse_##letter##_mv)(int operation, T alpha, const struct matrix *a, struct descr d, const T *x, T beta, T *y)          \
    {                                                                                                                                     \
        return letter##_multiply(operation, alpha, a, d, x, 1, 0, 1, beta, y, 1, 0);                                                      \
    }                                                                                                                                     \
    int NAME(mkl_sparse_##letter##_mm)(int operation, T alpha, const struct matrix *a, struct descr d, int layout, const T *x,            \
                                       INT many, INT ldx, T beta, T *y, INT ldy)                                                          \
    {                                                                                                                                     \
        if (layout == 101) return letter##_multiply(operation, alpha, a, d, x, ldx, 1, many, beta, y, ldy, 1);                            \
        return letter##_multiply(operation, alpha, a, d, x, 1, ldx, many, beta, y, 1, ldy);                                               \
    }

#define SAME(x) (x)
FUNCTIONS(s, float, SAME, 1)
FUNCTIONS(d, double, SAME, 1)
FUNCTIONS(c, float complex, conjf, 0)
FUNCTIONS(z, double complex, conj, 0)
