/* The computation that comes through every door, on whole numbers: what it prints is exact. INT is the integer of the
   interface; the program that includes this fills in the functions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef INT
#define INT int
#endif

#define ROUTINES(X) X(dgemm) X(sgemm) X(zgemm) X(dgemv) X(ddot) X(daxpy) X(idamax) X(dscal) X(dtrsv)

static struct blas {
    void (*dgemm)(const char *, const char *, const INT *, const INT *, const INT *, const double *, const double *,
                  const INT *, const double *, const INT *, const double *, double *, const INT *);
    void (*sgemm)(const char *, const char *, const INT *, const INT *, const INT *, const float *, const float *,
                  const INT *, const float *, const INT *, const float *, float *, const INT *);
    void (*zgemm)(const char *, const char *, const INT *, const INT *, const INT *, const void *, const void *,
                  const INT *, const void *, const INT *, const void *, void *, const INT *);
    void (*dgemv)(const char *, const INT *, const INT *, const double *, const double *, const INT *, const double *,
                  const INT *, const double *, double *, const INT *);
    double (*ddot)(const INT *, const double *, const INT *, const double *, const INT *);
    void (*daxpy)(const INT *, const double *, const double *, const INT *, double *, const INT *);
    INT (*idamax)(const INT *, const double *, const INT *);
    void (*dscal)(const INT *, const double *, double *, const INT *);
    void (*dtrsv)(const char *, const char *, const char *, const INT *, const double *, const INT *, double *,
                  const INT *);
} blas;

/* Allocations of their own, large enough to be mapped. */
static void *block(size_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory) exit(3);
    return memset(memory, 0, bytes);
}

static void show(const char *name, const double *x, size_t count)
{
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < count; i++) {
        sum += x[i];
        weighted += x[i] * (double)(i % 17);
    }
    printf("%-8s %.0f %.0f\n", name, sum, weighted);
}

static int work(void)
{
    const INT n = 200, one = 1, three = 3;
    const size_t nn = 200 * 200;
    double *a = block(8 * nn), *b = block(8 * nn), *c = block(8 * nn), *x = block(8 * 200), *y = block(8 * 200);
    float *fa = block(4 * nn), *fb = block(4 * nn), *fc = block(4 * nn);
    double *za = block(16 * nn), *zc = block(16 * nn);
    const double unit = 1, nought = 0, minus = -2, zunit[2] = {1, 0}, znought[2] = {0, 0};
    for (size_t i = 0; i < nn; i++) {
        a[i] = (double)(i * 7 % 11) - 5;
        b[i] = (double)(i * 3 % 13) - 6;
        fa[i] = (float)a[i];
        fb[i] = (float)b[i];
        za[2 * i] = a[i];
        za[2 * i + 1] = b[i];
    }
    for (int i = 0; i < 200; i++) x[i] = i % 5 - 2;

    blas.dgemm("N", "N", &n, &n, &n, &unit, a, &n, b, &n, &nought, c, &n);
    show("c=ab", c, nn);
    /* The host changes an operand and a result; the device copies must follow. */
    a[nn / 2] += 1;
    c[5] = 100;
    blas.dgemm("T", "N", &n, &n, &n, &unit, a, &n, b, &n, &unit, c, &n);
    blas.dgemv("N", &n, &n, &unit, c, &n, x, &one, &nought, y, &one);
    show("y=cx", y, 200);
    show("c+=a'b", c, nn);
    blas.sgemm("N", "T", &n, &n, &n, &(float){1}, fa, &n, fb, &n, &(float){0}, fc, &n);
    for (size_t i = 0; i < nn; i++) b[i] = fc[i];
    show("single", b, nn);
    blas.zgemm("N", "C", &n, &n, &n, zunit, za, &n, za, &n, znought, zc, &n);
    show("complex", zc, 2 * nn);
    blas.daxpy(&n, &minus, x, &one, y, &one);
    printf("dot      %.0f\n", blas.ddot(&n, x, &one, y, &one));
    printf("max      %lld\n", (long long)blas.idamax(&n, y, &one));
    /* A BLAS with 32-bit integers reads three elements, one with 64-bit integers a negative number. */
    int64_t odd = (int64_t)0xffffffff00000003;
    printf("width    %d\n", blas.idamax((const INT *)&odd, y, &one) == 0 ? 64 : 32);
    /* Too small for devices: these calls run on the host BLAS. */
    blas.dgemm("N", "N", &three, &three, &three, &unit, a, &n, a, &n, &nought, c, &n);
    blas.dscal(&three, &minus, c, &one);
    for (int i = 0; i < 200; i++) a[i * 201] = 1;
    blas.dtrsv("U", "N", "U", &three, a, &n, c, &one);
    show("small", c, nn);
    return 0;
}
