/* The Fortran BLAS as C programs declare it: 32-bit integers. */
#ifndef BENCH_BLAS_H
#define BENCH_BLAS_H

void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
/* Complex entries as pairs. */
void zgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
void dgemv_(const char *trans, const int *m, const int *n, const double *alpha, const double *a, const int *lda,
            const double *x, const int *incx, const double *beta, double *y, const int *incy);
void daxpy_(const int *n, const double *alpha, const double *x, const int *incx, double *y, const int *incy);
void dscal_(const int *n, const double *alpha, double *x, const int *incx);
void dcopy_(const int *n, const double *x, const int *incx, double *y, const int *incy);
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);

#define RANK_K(name)                                                                                                   \
    void name(const char *uplo, const char *trans, const int *n, const int *k, const double *alpha, const double *a,  \
              const int *lda, const double *beta, double *c, const int *ldc);
#define RANK_2K(name)                                                                                                  \
    void name(const char *uplo, const char *trans, const int *n, const int *k, const double *alpha, const double *a,  \
              const int *lda, const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
#define ONE_HALF(name)                                                                                                 \
    void name(const char *side, const char *uplo, const int *m, const int *n, const double *alpha, const double *a,   \
              const int *lda, const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
#define TRIANGLE(name)                                                                                                 \
    void name(const char *side, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,    \
              const double *alpha, const double *a, const int *lda, double *b, const int *ldb);
ONE_HALF(dsymm_)
RANK_K(dsyrk_)
RANK_2K(dsyr2k_)
TRIANGLE(dtrmm_)
TRIANGLE(dtrsm_)
/* Complex entries as pairs of doubles. */
ONE_HALF(zhemm_)
RANK_K(zherk_)
RANK_2K(zher2k_)
#undef RANK_K
#undef RANK_2K
#undef ONE_HALF
#undef TRIANGLE

#endif
