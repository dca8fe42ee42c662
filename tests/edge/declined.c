/* Calls of a size at which the host is about as fast as a device, with all flags and in both orders: by the default decision the
 * library takes the time of the first ones of each kind, for which it calls the host BLAS itself.
 *
 *   declined N ROUNDS
 *
 * Prints a checksum of all results after each call. Data are integers, so devices and the host have the same results, but for the sign
 * of zeros, which does not count. */
#include <cblas.h>
#include <complex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef double complex number;
enum { LD = 330, ALL = LD * LD };

static double a[ALL], b[ALL], c[ALL];
static number za[ALL], zb[ALL], zc[ALL];
static const number TWO_I = 2 - I, ONE = 1;

static void fill(unsigned seed)
{
    unsigned s = seed * 7919 + 1;
    for (int i = 0; i < ALL; i++) {
        s = s * 1103515245 + 12345;
        a[i] = (int)(s >> 20) % 5 - 2;
        b[i] = (int)(s >> 24) % 3 - 1;
        c[i] = (int)(s >> 16) % 4;
        za[i] = a[i] + I * ((int)(s >> 22) % 3 - 1);
        zb[i] = b[i] + I * ((int)(s >> 18) % 3 - 1);
        zc[i] = c[i] - I * a[i];
    }
}

/* Both triangles of A have an inverse of integers. */
static void fill_triangles(unsigned seed)
{
    fill(seed);
    for (int j = 0; j < LD; j++)
        for (int i = 0; i < LD; i++)
            za[i + j * LD] = a[i + j * LD] = i == j || (abs(i - j) == 7 && i % 14 < 7);
}

static uint64_t mixed(uint64_t h, const void *from, size_t doubles)
{
    for (size_t i = 0; i < doubles; i++) {
        double x = ((const double *)from)[i] + 0.0;
        uint64_t word;
        memcpy(&word, &x, sizeof word);
        h = (h ^ word) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

static void show(const char *name)
{
    uint64_t h = mixed(mixed(0, b, ALL), c, ALL);
    printf("%s %016llx\n", name, (unsigned long long)mixed(mixed(h, zb, 2 * ALL), zc, 2 * ALL));
}

#define CALL(name, ...)                      \
    do {                                     \
        fill(seed);                          \
        cblas_##name(order, __VA_ARGS__);    \
        show(#name);                         \
    } while (0)
#define SOLVE(name, ...)                     \
    do {                                     \
        fill_triangles(seed);                \
        cblas_##name(order, __VA_ARGS__);    \
        show(#name);                         \
    } while (0)

static const CBLAS_TRANSPOSE OPS[] = {CblasNoTrans, CblasTrans, CblasConjTrans};
static const CBLAS_UPLO HALVES[] = {CblasUpper, CblasLower};
static const CBLAS_SIDE SIDES[] = {CblasLeft, CblasRight};
static const CBLAS_DIAG DIAGONALS[] = {CblasNonUnit, CblasUnit};

static void level3(CBLAS_ORDER order, int n, unsigned seed)
{
    int m = n + 5, k = n - 3;
    for (int x = 0; x < 3; x++)
        for (int y = 0; y < 3; y++) {
            CALL(dgemm, OPS[x], OPS[y], m, n, k, 2, a, LD, b, LD, y % 2, c, LD);
            CALL(zgemm, OPS[x], OPS[y], m, n, k, &TWO_I, za, LD, zb, LD, &ONE, zc, LD);
        }
    for (int u = 0; u < 2; u++)
        for (int s = 0; s < 2; s++) {
            CALL(dsymm, SIDES[s], HALVES[u], m, n, 2, a, LD, b, LD, 1, c, LD);
            CALL(zhemm, SIDES[s], HALVES[u], m, n, &TWO_I, za, LD, zb, LD, &ONE, zc, LD);
            CALL(dsyrk, HALVES[u], OPS[s], n, k, 2, a, LD, 1, c, LD);
            CALL(zherk, HALVES[u], OPS[2 * s], n, k, 2, za, LD, 1, zc, LD);
            CALL(dsyr2k, HALVES[u], OPS[s], n, k, 2, a, LD, b, LD, 1, c, LD);
            CALL(zher2k, HALVES[u], OPS[2 * s], n, k, &TWO_I, za, LD, zb, LD, 1, zc, LD);
            for (int x = 0; x < 3; x++)
                for (int d = 0; d < 2; d++) {
                    SOLVE(dtrmm, SIDES[s], HALVES[u], OPS[x], DIAGONALS[d], m, n, 2, a, LD, b, LD);
                    SOLVE(dtrsm, SIDES[s], HALVES[u], OPS[x], DIAGONALS[d], m, n, 2, a, LD, b, LD);
                    SOLVE(ztrsm, SIDES[s], HALVES[u], OPS[x], DIAGONALS[d], m, n, &TWO_I, za, LD, zb, LD);
                }
        }
}

static void level2(CBLAS_ORDER order, int n, unsigned seed)
{
    int m = n + 5;
    for (int x = 0; x < 2; x++) {
        int step = x ? -1 : 2;
        CALL(dgemv, OPS[x], m, n, 2, a, LD, b, 1, 1, c, step);
        CALL(dgemv, OPS[x], m, n, 2, a, LD, b, step, 0, c, 1);
        CALL(zgemv, OPS[x], m, n, &TWO_I, za, LD, zb, step, &ONE, zc, 1);
        CALL(dger, m, n, 2, a, step, b, 1, c, LD);
        CALL(zgeru, m, n, &TWO_I, za, 1, zb, step, zc, LD);
        CALL(dsymv, HALVES[x], n, 2, a, LD, b, step, 1, c, 1);
        CALL(zhemv, HALVES[x], n, &TWO_I, za, LD, zb, 1, &ONE, zc, step);
        CALL(dsyr, HALVES[x], n, 2, a, step, c, LD);
        CALL(dsyr2, HALVES[x], n, 2, a, 1, b, step, c, LD);
        for (int y = 0; y < 2; y++) {
            SOLVE(dtrmv, HALVES[x], OPS[y], CblasNonUnit, n, a, LD, b, step);
            SOLVE(dtrsv, HALVES[x], OPS[y], CblasUnit, n, a, LD, b, step);
        }
    }
}

static void level1(int n, unsigned seed)
{
    fill(seed);
    cblas_daxpy(n, 2, a, 1, b, 1);
    cblas_dcopy(n, a, 1, c, 1);
    cblas_dswap(n, b, 1, c, 1);
    cblas_dscal(n, 2, b, 1);
    cblas_zaxpy(n, &TWO_I, za, 1, zb, 1);
    cblas_zdscal(n, 2, zc, 1);
    show("level 1");
}

/* Devices come up in the background. */
static void wake(void)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 2;
    fill(0);
    do {
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, 256, 256, 256, 1, a, LD, b, LD, 0, c, LD);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int n = atoi(argv[1]), rounds = atoi(argv[2]);
    if (n < 4 || n > LD - 5)
        return 2;
    wake();
    for (int r = 0; r < rounds; r++) {
        CBLAS_ORDER order = r % 2 ? CblasRowMajor : CblasColMajor;
        level3(order, n, (unsigned)r);
        level2(order, n, (unsigned)r);
        level1(n * n, (unsigned)r);
    }
    return 0;
}
