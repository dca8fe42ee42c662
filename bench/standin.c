/* A stand-in for the parts of libcudart, cuBLAS, cuBLASXt and cuSPARSE that the peers use, on the CPU, so that the peers
 * can be tested on machines without a GPU. One shared library under all names; device memory is malloc's, every stream
 * operation is complete at once, level 3 comes from the host BLAS. STANDIN_GPUS sets another number of GPUs than one. Its
 * times have no meaning. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "cusparse.h"

#define STATUS __attribute__((visibility("default"))) int

/* -- libcudart ---------------------------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) const char *cudaGetErrorString(int status)
{
    return status ? "stand-in: out of memory" : "no error";
}
STATUS cudaGetDeviceCount(int *n)
{
    const char *set = getenv("STANDIN_GPUS");
    *n = set ? atoi(set) : 1;
    return 0;
}
STATUS cudaMalloc(void **p, size_t bytes)
{
    *p = malloc(bytes ? bytes : 1);
    return *p ? 0 : 2;
}
STATUS cudaMallocManaged(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(p, bytes);
}
STATUS cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(p, bytes);
}
STATUS cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    *device = host;
    return 0;
}
STATUS cudaMemset(void *p, int byte, size_t bytes)
{
    memset(p, byte, bytes);
    return 0;
}
STATUS cudaFree(void *p)
{
    free(p);
    return 0;
}
STATUS cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    (void)kind;
    memmove(to, from, bytes);
    return 0;
}
STATUS cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, stream_t s)
{
    (void)s;
    return cudaMemcpy(to, from, bytes, kind);
}
STATUS cudaMemcpyPeerAsync(void *to, int there, const void *from, int here, size_t bytes, stream_t s)
{
    (void)there, (void)here;
    return cudaMemcpyAsync(to, from, bytes, ON_DEVICE, s);
}
STATUS cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int kind,
                         stream_t s)
{
    for (size_t i = 0; i < rows; i++)
        cudaMemcpyAsync((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width, kind, s);
    return 0;
}
/* An event completes when it is recorded. */
struct event_type {
    int recorded;
};
STATUS cudaEventCreateWithFlags(event_t *e, unsigned flags)
{
    (void)flags;
    *e = calloc(1, sizeof **e);
    return *e ? 0 : 2;
}
STATUS cudaEventRecord(event_t e, stream_t s)
{
    (void)s;
    e->recorded = 1;
    return 0;
}
#define NOTHING(name, ...)      \
    STATUS name(__VA_ARGS__)    \
    {                           \
        return 0;               \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(cudaSetDevice, int g)
NOTHING(cudaHostRegister, void *p, size_t bytes, unsigned flags)
NOTHING(cudaHostUnregister, void *p)
NOTHING(cudaDeviceEnablePeerAccess, int g, unsigned flags)
NOTHING(cudaStreamCreateWithFlags, stream_t *s, unsigned flags)
NOTHING(cudaStreamSynchronize, stream_t s)
NOTHING(cudaStreamWaitEvent, stream_t s, event_t e, unsigned flags)
NOTHING(cudaDeviceSynchronize, void)
NOTHING(cudaMemPrefetchAsync, const void *p, size_t bytes, struct cuda_location where, unsigned flags, stream_t s)

/* -- libcublas ---------------------------------------------------------------------------------------------------- */

NOTHING(cublasCreate_v2, blas_t *b)
NOTHING(cublasSetStream_v2, blas_t b, stream_t s)
NOTHING(cublasSetPointerMode_v2, blas_t b, int mode)
NOTHING(cublasXtCreate, xt_t *x)
NOTHING(cublasXtDestroy, xt_t x)
NOTHING(cublasXtDeviceSelect, xt_t x, int n, int *devices)
NOTHING(cublasXtSetBlockDim, xt_t x, int block)

STATUS cublasDgemv_v2(blas_t h, int trans, int m, int n, const double *alpha, const double *a, int lda, const double *x, int incx,
                      const double *beta, double *y, int incy)
{
    dgemv_(trans ? "T" : "N", &m, &n, alpha, a, &lda, x, &incx, beta, y, &incy);
    return 0;
}
STATUS cublasDaxpy_v2(blas_t h, int n, const double *alpha, const double *x, int incx, double *y, int incy)
{
    daxpy_(&n, alpha, x, &incx, y, &incy);
    return 0;
}
STATUS cublasDscal_v2(blas_t h, int n, const double *alpha, double *x, int incx)
{
    dscal_(&n, alpha, x, &incx);
    return 0;
}
STATUS cublasDcopy_v2(blas_t h, int n, const double *x, int incx, double *y, int incy)
{
    for (int i = 0; i < n; i++)
        y[i * incy] = x[i * incx];
    return 0;
}
STATUS cublasDdot_v2(blas_t h, int n, const double *x, int incx, const double *y, int incy, double *out)
{
    *out = ddot_(&n, x, &incx, y, &incy);
    return 0;
}

/* -- libcusparse -------------------------------------------------------------------------------------------------- */

struct rows {
    int64_t rows, cols;
    const int32_t *offsets, *columns;
    const double *values;
};
struct vector {
    int64_t n;
    double *at;
};
NOTHING(cusparseCreate, sparse_t *h)
NOTHING(cusparseSetStream, sparse_t h, stream_t s)
STATUS cusparseCreateCsr(void **made, int64_t rows, int64_t cols, int64_t nnz, void *offsets, void *columns, void *values, int of_offsets,
                         int of_columns, int base, int type)
{
    struct rows *a = malloc(sizeof *a);
    if (a)
        *a = (struct rows){rows, cols, offsets, columns, values};
    *made = a;
    return a ? 0 : 2;
}
STATUS cusparseCreateDnVec(void **made, int64_t n, void *at, int type)
{
    struct vector *v = malloc(sizeof *v);
    if (v)
        *v = (struct vector){n, at};
    *made = v;
    return v ? 0 : 2;
}
STATUS cusparseSpMV_bufferSize(sparse_t h, int op, const void *alpha, void *a, void *x, const void *beta, void *y, int type, int algorithm,
                               size_t *bytes)
{
    *bytes = 0;
    return 0;
}
NOTHING(cusparseSpMV_preprocess, sparse_t h, int op, const void *alpha, void *a, void *x, const void *beta, void *y, int type,
        int algorithm, void *buffer)
STATUS cusparseSpMV(sparse_t h, int op, const void *alpha, void *matrix, void *from, const void *beta, void *to, int type, int algorithm,
                    void *buffer)
{
    const struct rows *a = matrix;
    const struct vector *x = from, *y = to;
    double scale = *(const double *)alpha;
    if (x->n != (op ? a->rows : a->cols) || y->n != (op ? a->cols : a->rows))
        return 3;
    for (int64_t i = 0; i < y->n; i++)
        y->at[i] = *(const double *)beta == 0 ? 0 : *(const double *)beta * y->at[i];
    for (int64_t i = 0; i < a->rows; i++)
        for (int32_t j = a->offsets[i]; j < a->offsets[i + 1]; j++)
            y->at[op ? a->columns[j] : i] += scale * a->values[j] * x->at[op ? i : a->columns[j]];
    return 0;
}

#define SIDE (side ? "R" : "L")
#define UPLO (uplo ? "U" : "L")
#define TRANS(t) ((t) == 0 ? "N" : (t) == 1 ? "T" : "C")
#define DIAG (diag ? "U" : "N")
/* For cuBLAS and for cuBLASXt, which differ in the type of sizes. */
#define LEVEL3(prefix, suffix, handle, size)                                                                               \
    STATUS prefix##Dgemm##suffix(handle h, int ta, int tb, size m_, size n_, size k_, const double *alpha, const double *a, \
                                 size lda_, const double *b, size ldb_, const double *beta, double *c, size ldc_)          \
    {                                                                                                                      \
        int m = (int)m_, n = (int)n_, k = (int)k_, lda = (int)lda_, ldb = (int)ldb_, ldc = (int)ldc_;                      \
        dgemm_(TRANS(ta), TRANS(tb), &m, &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc);                                  \
        return 0;                                                                                                          \
    }                                                                                                                      \
    SYMMETRIC(prefix##Dsymm##suffix, dsymm_, handle, size)                                                                 \
    SYMMETRIC(prefix##Zhemm##suffix, zhemm_, handle, size)                                                                 \
    RANK_ONE(prefix##Dsyrk##suffix, dsyrk_, handle, size)                                                                  \
    RANK_ONE(prefix##Zherk##suffix, zherk_, handle, size)                                                                  \
    RANK_TWO(prefix##Dsyr2k##suffix, dsyr2k_, handle, size)                                                                \
    RANK_TWO(prefix##Zher2k##suffix, zher2k_, handle, size)                                                                \
    STATUS prefix##Dtrmm##suffix(handle h, int side, int uplo, int trans, int diag, size m_, size n_, const double *alpha, \
                                 const double *a, size lda_, const double *b, size ldb_, double *c, size ldc_)             \
    {                                                                                                                      \
        int m = (int)m_, n = (int)n_, lda = (int)lda_, ldc = (int)ldc_;                                                    \
        for (size_t j = 0; j < (size_t)n && b != c; j++)                                                                   \
            memcpy(c + j * (size_t)ldc_, b + j * (size_t)ldb_, (size_t)m * sizeof *c);                                     \
        dtrmm_(SIDE, UPLO, TRANS(trans), DIAG, &m, &n, alpha, a, &lda, c, &ldc);                                           \
        return 0;                                                                                                          \
    }                                                                                                                      \
    STATUS prefix##Dtrsm##suffix(handle h, int side, int uplo, int trans, int diag, size m_, size n_, const double *alpha, \
                                 const double *a, size lda_, double *b, size ldb_)                                         \
    {                                                                                                                      \
        int m = (int)m_, n = (int)n_, lda = (int)lda_, ldb = (int)ldb_;                                                    \
        dtrsm_(SIDE, UPLO, TRANS(trans), DIAG, &m, &n, alpha, a, &lda, b, &ldb);                                           \
        return 0;                                                                                                          \
    }
#define SYMMETRIC(name, host, handle, size)                                                                                \
    STATUS name(handle h, int side, int uplo, size m_, size n_, const double *alpha, const double *a, size lda_,           \
                const double *b, size ldb_, const double *beta, double *c, size ldc_)                                      \
    {                                                                                                                      \
        int m = (int)m_, n = (int)n_, lda = (int)lda_, ldb = (int)ldb_, ldc = (int)ldc_;                                   \
        host(SIDE, UPLO, &m, &n, alpha, a, &lda, b, &ldb, beta, c, &ldc);                                                  \
        return 0;                                                                                                          \
    }
#define RANK_ONE(name, host, handle, size)                                                                                 \
    STATUS name(handle h, int uplo, int trans, size n_, size k_, const double *alpha, const double *a, size lda_,          \
                const double *beta, double *c, size ldc_)                                                                  \
    {                                                                                                                      \
        int n = (int)n_, k = (int)k_, lda = (int)lda_, ldc = (int)ldc_;                                                    \
        host(UPLO, TRANS(trans), &n, &k, alpha, a, &lda, beta, c, &ldc);                                                   \
        return 0;                                                                                                          \
    }
#define RANK_TWO(name, host, handle, size)                                                                                 \
    STATUS name(handle h, int uplo, int trans, size n_, size k_, const double *alpha, const double *a, size lda_,          \
                const double *b, size ldb_, const double *beta, double *c, size ldc_)                                      \
    {                                                                                                                      \
        int n = (int)n_, k = (int)k_, lda = (int)lda_, ldb = (int)ldb_, ldc = (int)ldc_;                                   \
        host(UPLO, TRANS(trans), &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc);                                          \
        return 0;                                                                                                          \
    }
LEVEL3(cublas, _v2, blas_t, int)
LEVEL3(cublasXt, , xt_t, size_t)
