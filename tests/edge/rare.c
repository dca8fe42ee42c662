/* Routines that no other suite calls: rotations of complex vectors, and routines that always run on the host BLAS: crotg,
 * zrotg, dsdot, cabs1, complex calls by rows that conjugate an operand, with operands whose newest values are elsewhere. Linked with the reference BLAS, which has them
 * all. Everything is printed. */
#include "edge.h"

typedef struct { float re, im; } C;
typedef struct { double re, im; } Z;

void caxpy_(const int *n, const C *alpha, const C *x, const int *incx, C *y, const int *incy);
void zaxpy_(const int *n, const Z *alpha, const Z *x, const int *incx, Z *y, const int *incy);
void saxpy_(const int *n, const float *alpha, const float *x, const int *incx, float *y, const int *incy);
void csrot_(const int *n, C *x, const int *incx, C *y, const int *incy, const float *c, const float *s);
void zdrot_(const int *n, Z *x, const int *incx, Z *y, const int *incy, const double *c, const double *s);
void cblas_csrot(int n, void *x, int incx, void *y, int incy, float c, float s);
void cblas_zdrot(int n, void *x, int incx, void *y, int incy, double c, double s);
void crotg_(C *a, const C *b, float *c, C *s);
void zrotg_(Z *a, const Z *b, double *c, Z *s);
void cblas_crotg(void *a, void *b, float *c, void *s);
void cblas_zrotg(void *a, void *b, double *c, void *s);
double cblas_dsdot(int n, const float *x, int incx, const float *y, int incy);
double dsdot_(const int *n, const float *x, const int *incx, const float *y, const int *incy);
float cblas_sdsdot(int n, float alpha, const float *x, int incx, const float *y, int incy);
void cblas_zgemv(int order, int trans, int m, int n, const void *alpha, const void *a, int lda, const void *x, int incx,
                 const void *beta, void *y, int incy);
void cblas_zgerc(int order, int m, int n, const void *alpha, const void *x, int incx, const void *y, int incy, void *a,
                 int lda);
void cblas_zhemv(int order, int uplo, int n, const void *alpha, const void *a, int lda, const void *x, int incx,
                 const void *beta, void *y, int incy);
float cblas_scabs1(const void *z);
double cblas_dcabs1(const void *z);

enum { N = 3000 };
static const int n = N, one = 1;

/* Blocks of their own pages, of small integers. */
static C *singles(void)
{
    C *x = (C *)doubles(N);
    for (int i = 0; i < N; i++)
        x[i] = (C){(float)edge_draw(), (float)edge_draw()};
    return x;
}

static Z *pairs(void)
{
    Z *x = (Z *)doubles(2 * N);
    fill((double *)x, 2 * N);
    return x;
}

/* Results that the CPU has not seen. */
static void renew(const C *from, C *x, C *y)
{
    const C two = {2, 1}, minus = {-1, 0};
    caxpy_(&n, &two, from, &one, x, &one);
    caxpy_(&n, &minus, from, &one, y, &one);
}

static void renew_pairs(const Z *from, Z *x, Z *y)
{
    const Z two = {2, 1}, minus = {-1, 0};
    zaxpy_(&n, &two, from, &one, x, &one);
    zaxpy_(&n, &minus, from, &one, y, &one);
}

static void rotations(void)
{
    static const int inc[][2] = {{1, 1}, {2, -1}, {-3, 2}};
    const float c = 2, s = -1;
    const double cd = 0.5, sd = 3;
    C *from = singles(), *x = singles(), *y = singles();
    Z *zfrom = pairs(), *zx = pairs(), *zy = pairs();
    for (int i = 0; i < 3; i++) {
        const int few = N / 3, *ix = &inc[i][0], *iy = &inc[i][1];
        renew(from, x, y);
        csrot_(&few, x, ix, y, iy, &c, &s);
        show("csrot x", (double *)x, N);
        csrot_(&few, x, ix, y, iy, &c, &s);
        cblas_csrot(few, y, *iy, x, *ix, 0.5f, 1);
        show("csrot x", (double *)x, N);
        show("csrot y", (double *)y, N);
        renew_pairs(zfrom, zx, zy);
        zdrot_(&few, zx, ix, zy, iy, &cd, &sd);
        show("zdrot y", (double *)zy, 2 * N);
        zdrot_(&few, zx, ix, zy, iy, &cd, &sd);
        cblas_zdrot(few, zy, *iy, zx, *ix, 2, 1);
        show("zdrot x", (double *)zx, 2 * N);
        show("zdrot y", (double *)zy, 2 * N);
    }
    free(from), free(x), free(y), free(zfrom), free(zx), free(zy);
}

/* Routines of the host BLAS on inaccessible memory, inputs and outputs. */
static void generators(void)
{
    C *from = singles(), *x = singles(), *y = singles();
    Z *zfrom = pairs(), *zx = pairs(), *zy = pairs();
    for (int i = 0; i < 4; i++) {
        const int at = i * 700;
        renew(from, x, y);
        crotg_(&x[at], &y[at + 1], &x[at + 2].re, &y[at + 3]);
        printf("crotg %.9g %.9g %.9g %.9g %.9g\n", x[at].re, x[at].im, x[at + 2].re, y[at + 3].re, y[at + 3].im);
        renew(from, x, y);
        cblas_crotg(&y[at], &x[at + 1], &y[at + 2].re, &x[at + 3]);
        printf("crotg %.9g %.9g %.9g %.9g %.9g\n", y[at].re, y[at].im, y[at + 2].re, x[at + 3].re, x[at + 3].im);
        renew_pairs(zfrom, zx, zy);
        zrotg_(&zx[at], &zy[at + 1], &zx[at + 2].re, &zy[at + 3]);
        printf("zrotg %.17g %.17g %.17g %.17g %.17g\n", zx[at].re, zx[at].im, zx[at + 2].re, zy[at + 3].re, zy[at + 3].im);
        renew_pairs(zfrom, zx, zy);
        cblas_zrotg(&zy[at], &zx[at + 1], &zy[at + 2].re, &zx[at + 3]);
        printf("zrotg %.17g %.17g %.17g %.17g %.17g\n", zy[at].re, zy[at].im, zy[at + 2].re, zx[at + 3].re, zx[at + 3].im);
        renew(from, x, y);
        renew_pairs(zfrom, zx, zy);
        printf("cabs1 %.9g %.17g\n", cblas_scabs1(&x[at + 5]), cblas_dcabs1(&zy[at + 7]));
    }
    free(from), free(x), free(y), free(zfrom), free(zx), free(zy);
}

static void wide_sums(void)
{
    C *cx = singles(), *cy = singles(), *cfrom = singles();
    const float *from = &cfrom->re, three = 3;
    float *x = &cx->re, *y = &cy->re;
    const int both = 2 * N;
    for (int i = 0; i < 3; i++) {
        const int few = N / 2, two = 2;
        saxpy_(&both, &three, from, &one, x, &one);
        saxpy_(&both, &three, from, &one, y, &one);
        printf("dsdot %.17g %.17g\n", cblas_dsdot(both, x, 1, y, 1), dsdot_(&few, x, &two, y, &two));
        saxpy_(&both, &three, from, &one, x, &one);
        printf("dsdot %.17g sdsdot %.9g\n", cblas_dsdot(few, x, -3, y, 2), cblas_sdsdot(few, 0.5f, x, 1, y, 1));
    }
    free(cx), free(cy), free(cfrom);
}

/* By rows and conjugated: devices have no form for these. */
static void rows(void)
{
    enum { ORDER = 300, ROWS = 101, CONJUGATE = 113, UPPER = 121, SIZE = 2 * ORDER * ORDER };
    const Z two = {2, 1}, minus = {-1, 0};
    const int all = ORDER * ORDER;
    double *a = doubles(SIZE), *from = doubles(SIZE);
    Z *x = pairs(), *y = pairs();
    fill(a, SIZE), fill(from, SIZE);
    for (int i = 0; i < 2; i++) {
        zaxpy_(&all, &two, (Z *)from, &one, (Z *)a, &one);
        cblas_zgemv(ROWS, CONJUGATE, ORDER, ORDER, &two, a, ORDER, x, 1, &minus, y, 1);
        show("zgemv", (double *)y, 2 * ORDER);
        zaxpy_(&all, &minus, (Z *)from, &one, (Z *)a, &one);
        cblas_zhemv(ROWS, UPPER, ORDER, &two, a, ORDER, x, 1, &minus, y, 1);
        show("zhemv", (double *)y, 2 * ORDER);
        zaxpy_(&all, &two, (Z *)from, &one, (Z *)a, &one);
        cblas_zgerc(ROWS, ORDER, ORDER, &two, x, 1, y, 1, a, ORDER);
        show("zgerc", a, SIZE);
    }
    free(a), free(from), free(x), free(y);
}

int main(void)
{
    rotations();
    generators();
    wide_sums();
    rows();
    return 0;
}
