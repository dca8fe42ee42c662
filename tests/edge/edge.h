/* What the clients of this directory share: BLAS prototypes, integer data, and lines of output that do not
 * depend on where anything lies. They know nothing of semcache: the same program run without a preload is the oracle. */
#ifndef EDGE_H
#define EDGE_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);
void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const float *alpha,
            const float *a, const int *lda, const float *b, const int *ldb, const float *beta, float *c,
            const int *ldc);
void dgemv_(const char *t, const int *m, const int *n, const double *alpha, const double *a, const int *lda,
            const double *x, const int *incx, const double *beta, double *y, const int *incy);
void dger_(const int *m, const int *n, const double *alpha, const double *x, const int *incx, const double *y,
           const int *incy, double *a, const int *lda);
void daxpy_(const int *n, const double *alpha, const double *x, const int *incx, double *y, const int *incy);
void dcopy_(const int *n, const double *x, const int *incx, double *y, const int *incy);
void dswap_(const int *n, double *x, const int *incx, double *y, const int *incy);
void dscal_(const int *n, const double *alpha, double *x, const int *incx);
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);
double dnrm2_(const int *n, const double *x, const int *incx);
double dasum_(const int *n, const double *x, const int *incx);
int idamax_(const int *n, const double *x, const int *incx);

static uint64_t edge_seed = 88172645463325252ULL;

/* An integer from -4 to 4. */
static inline double edge_draw(void)
{
    edge_seed ^= edge_seed << 13;
    edge_seed ^= edge_seed >> 7;
    edge_seed ^= edge_seed << 17;
    return (double)(int)(edge_seed >> 33 & 7) - 4.0 + (double)(edge_seed >> 60 & 1);
}

static inline void fill(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = edge_draw();
}

/* Reads every number with the CPU; all NaNs count as one, and so do the two zeros. */
static inline uint64_t hash(const double *x, size_t n)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < n; i++) {
        double v = x[i];
        uint64_t bits;
        if (isnan(v))
            v = NAN;
        if (v == 0.0)
            v = 0.0;
        v = isnan(v) ? 1e308 : v;
        memcpy(&bits, &v, sizeof bits);
        h = (h ^ bits) * 0x100000001b3ULL;
        h ^= h >> 29;
    }
    return h;
}

static inline uint64_t hash_bytes(const void *at, size_t n)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)at)[i]) * 0x100000001b3ULL;
    return h;
}

static inline void show(const char *what, const double *x, size_t n)
{
    printf("%s: %016llx\n", what, (unsigned long long)hash(x, n));
}

/* C = alpha A B + beta C, all n x n and packed. */
static inline void multiply(int n, double alpha, const double *a, const double *b, double beta, double *c)
{
    dgemm_("N", "N", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n);
}

/* C = A + A by a level-1 call: makes a result that the CPU has not seen. */
static inline void twice(int n, const double *a, double *c)
{
    const double two = 2.0;
    const int one = 1;
    dcopy_(&n, a, &one, c, &one);
    dscal_(&n, &two, c, &one);
}

static inline void *need(void *at)
{
    if (!at) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return at;
}

/* Memory for n numbers, aligned alike in every run. */
static inline double *doubles(size_t n)
{
    void *at = NULL;
    if (posix_memalign(&at, 4096, n * sizeof(double)))
        at = NULL;
    return (double *)need(at);
}
#endif
