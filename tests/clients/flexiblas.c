/* A library that stands for libflexiblas.so.3, which Debian does not have: it exports the BLAS, and each of its
   functions calls that of the library that FLEXIBLAS names. As in the real one the backend is opened with
   RTLD_NOW | RTLD_LOCAL when this library is loaded, and the call comes from C code, not as a jump. */
#include "door.h"
#include <dlfcn.h>

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("FLEXIBLAS");
    void *backend = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!backend) {
        fprintf(stderr, "FLEXIBLAS: %s\n", path ? dlerror() : "not set");
        exit(1);
    }
#define FIND(name) *(void **)&blas.name = dlsym(backend, #name "_");
    ROUTINES(FIND)
    (void)work;
}

#define P const void *
void dgemm_(P ta, P tb, P m, P n, P k, P alpha, P a, P lda, P b, P ldb, P beta, void *c, P ldc)
{
    blas.dgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void sgemm_(P ta, P tb, P m, P n, P k, P alpha, P a, P lda, P b, P ldb, P beta, void *c, P ldc)
{
    blas.sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void zgemm_(P ta, P tb, P m, P n, P k, P alpha, P a, P lda, P b, P ldb, P beta, void *c, P ldc)
{
    blas.zgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void dgemv_(P t, P m, P n, P alpha, P a, P lda, P x, P incx, P beta, void *y, P incy)
{
    blas.dgemv(t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
double ddot_(P n, P x, P incx, P y, P incy) { return blas.ddot(n, x, incx, y, incy); }
void daxpy_(P n, P alpha, P x, P incx, void *y, P incy) { blas.daxpy(n, alpha, x, incx, y, incy); }
INT idamax_(P n, P x, P incx) { return blas.idamax(n, x, incx); }
void dscal_(P n, P alpha, void *x, P incx) { blas.dscal(n, alpha, x, incx); }
void dtrsv_(P u, P t, P d, P n, P a, P lda, void *x, P incx) { blas.dtrsv(u, t, d, n, a, lda, x, incx); }
