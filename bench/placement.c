/* The cost of where the data of an iterative solver lie in host memory: conjugate gradients, Jacobi and products on
 * operands in malloc's blocks, in static arrays next to each other, in a Fortran COMMON block, in members of one
 * structure, in an arena, and in parts of a larger matrix.
 *
 *   placement WHERE N ROUNDS      WHERE: malloc, static, common, member, arena, part
 *
 * Prints microseconds per iteration of CG (dgemv, two ddot, three daxpy or dscal) and of Jacobi (dgemv, and a loop
 * on the CPU that reads its result and writes its input), and milliseconds per pair of products (abac), the median
 * of the rounds, and a checksum. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *, const double *, const int *,
            const double *, double *, const int *);
void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
void dscal_(const int *, const double *, double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);

enum { MOST = 8192, MATRICES = 4, VECTORS = 4 };
static char name_before[200];
static double static_v[VECTORS][MOST + 3];
static double static_m[(size_t)MATRICES * MOST * MOST / 4 + 5];
/* gfortran's COMMON /ALL/ V(MOST,VECTORS), M(...): one symbol without initial values, which other objects may
   define, too. */
struct all {
    double v[VECTORS][MOST], m[(size_t)MATRICES * MOST * MOST / 4];
};
struct all all_ __attribute__((common));

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const char *where = argv[1];
    int n = atoi(argv[2]), rounds = atoi(argv[3]), ld = n;
    if (n < 1 || n > MOST / 2 || rounds < 1)
        return 2;
    double *m[MATRICES], *v[VECTORS];
    size_t square = (size_t)n * (size_t)n;
    if (!strcmp(where, "static")) {
        for (int i = 0; i < MATRICES; i++)
            m[i] = static_m + (size_t)i * (square + 1);
        for (int i = 0; i < VECTORS; i++)
            v[i] = static_v[i];
    } else if (!strcmp(where, "common")) {
        for (int i = 0; i < MATRICES; i++)
            m[i] = all_.m + (size_t)i * square;
        for (int i = 0; i < VECTORS; i++)
            v[i] = all_.v[i];
    } else if (!strcmp(where, "malloc")) {
        for (int i = 0; i < MATRICES; i++)
            m[i] = malloc(square * sizeof(double));
        for (int i = 0; i < VECTORS; i++)
            v[i] = malloc((size_t)n * sizeof(double));
    } else {
        int part = !strcmp(where, "part");
        ld = part ? 2 * n : n;
        size_t whole = (size_t)ld * (size_t)n, header = strcmp(where, "arena") ? 6 : 0;
        double *at = malloc((header + MATRICES * (whole + 3) + VECTORS * ((size_t)n + 3)) * sizeof(double));
        at += header;
        for (int i = 0; i < MATRICES; i++, at += whole + 3)
            m[i] = at + (part ? n / 2 : 0);
        for (int i = 0; i < VECTORS; i++, at += n + 3)
            v[i] = at;
    }
    strcpy(name_before, "nobody's");
    for (int i = 0; i < MATRICES; i++)
        for (int c = 0; c < n; c++)
            for (int r = 0; r < n; r++)
                m[i][r + (size_t)c * (size_t)ld] = (r + c * 3 + i) % 5 - 2;
    double *a = m[0], *x = v[0], *r = v[1], *p = v[2], *q = v[3];
    for (int i = 0; i < n; i++)
        a[i + (size_t)i * (size_t)ld] = 8.0 * n, x[i] = 0, r[i] = p[i] = i % 7 - 3, q[i] = 0;
    const int one = 1;
    const double plus = 1, zero = 0;
    double *cg = malloc(sizeof(double) * (size_t)rounds), *abac = malloc(sizeof(double) * (size_t)rounds),
           *jacobi = malloc(sizeof(double) * (size_t)rounds), last = 0;
    for (int round = -3; round < rounds; round++) {
        double began = now();
        for (int i = 0; i < 10; i++) {
            dgemv_("N", &n, &n, &plus, a, &ld, p, &one, &zero, q, &one);
            double alpha = 1e-3 * ddot_(&n, p, &one, q, &one) / (1.0 + ddot_(&n, q, &one, q, &one)), minus = -alpha;
            daxpy_(&n, &alpha, p, &one, x, &one);
            daxpy_(&n, &minus, q, &one, r, &one);
            double half = 0.5;
            dscal_(&n, &half, p, &one);
            daxpy_(&n, &plus, r, &one, p, &one);
            last = alpha;
        }
        if (round >= 0)
            cg[round] = (now() - began) / 10;
    }
    /* The diagonal is 8 n and the matrix's other entries are at most 2: each iteration brings x closer to the
       solution. */
    for (int i = 0; i < n; i++)
        x[i] = 0, p[i] = i % 7 - 3;
    for (int round = -3; round < rounds; round++) {
        double began = now();
        for (int i = 0; i < 10; i++) {
            dgemv_("N", &n, &n, &plus, a, &ld, x, &one, &zero, q, &one);
            for (int j = 0; j < n; j++)
                x[j] += (p[j] - q[j]) / (8.0 * n);
        }
        if (round >= 0)
            jacobi[round] = (now() - began) / 10;
    }
    for (int i = 0; i < n; i++)
        last += x[i];
    for (int round = -2; round < rounds; round++) {
        double began = now();
        dgemm_("N", "N", &n, &n, &n, &plus, m[0], &ld, m[1], &ld, &zero, m[3], &ld);
        dgemm_("N", "N", &n, &n, &n, &plus, m[0], &ld, m[2], &ld, &plus, m[3], &ld);
        /* The sum of the result: the call waits for the product, which stays on the device. */
        last += ddot_(&n, m[3], &one, m[3], &one);
        if (round >= 0)
            abac[round] = now() - began;
    }
    printf("%-7s n %d: CG %.1f us, Jacobi %.1f us, abac %.3f ms, sum %.6g\n", where, n, 1e6 * median(cg, rounds),
           1e6 * median(jacobi, rounds), 1e3 * median(abac, rounds), last);
    return 0;
}
