/* What the examples share: BLAS, a clock, memory, and counts of what was moved. None of it is needed to use semcache.h. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "semcache.h"

#ifdef __cplusplus
extern "C" {
#endif
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *, const double *, const int *,
            double *, const int *);
void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *, const double *, const int *,
            const double *, double *, const int *);
void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
void dscal_(const int *, const double *, double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);
#ifdef __cplusplus
}
#endif

/* The order of the matrices: the program's argument. Squares fit into the integers of the BLAS. */
static inline int order_of(int argc, char **argv, int otherwise)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : otherwise;
    if (argc > 2 || n < 1 || n > 46340) {
        fprintf(stderr, "usage: %s [N]\n", argv[0]);
        exit(2);
    }
    return (int)n;
}

/* Memory in whole pages: what a page shares with other data may not stay on devices. */
static inline double *doubles(size_t count)
{
    double *found = (double *)aligned_alloc(4096, (count * sizeof(double) + 4095) / 4096 * 4096);
    if (!found) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return found;
}

static inline double *copy_of(const double *from, size_t count)
{
    return (double *)memcpy(doubles(count), from, count * sizeof(double));
}

/* Whether all numbers are the same. */
static inline int same(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

/* What a program has to do on the host besides: about as much as sending two matrices to a GPU. */
static inline double host_work(int n)
{
    double total = 0;
    for (long i = 0; i < 8L * n * n; i++)
        total += sqrt((double)(i & 1023));
    return total;
}

/* Seconds and bytes of a part of the program. */
typedef struct meter {
    double begun;
    semcache_statistics before;
} meter;

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline semcache_statistics counted(void)
{
    semcache_statistics so_far;
    memset(&so_far, 0, sizeof so_far);
    so_far.size = sizeof so_far;
    semcache_count(&so_far);
    return so_far;
}

static inline meter metered(void)
{
    meter m;
    m.before = counted();
    m.begun = now();
    return m;
}

static inline void report(const char *what, const meter *m)
{
    double seconds = now() - m->begun;
    semcache_statistics after = counted();
    fprintf(stderr, "%s: %.3f s; %.1f MB to devices, %.1f MB to the host, %.1f MB between devices; %llu calls on devices, %llu faults\n",
            what, seconds, (double)(after.h2d - m->before.h2d) / 1e6, (double)(after.d2h - m->before.d2h) / 1e6,
            (double)(after.p2p - m->before.p2p) / 1e6, (unsigned long long)(after.offloaded - m->before.offloaded),
            (unsigned long long)(after.faults - m->before.faults));
}

/* Brings devices and their BLAS up, so that the first variant does not pay for it. Without the library it does nothing. */
static inline void bring_up(void)
{
    int n = 512;
    double one = 1, zero = 0, *a = doubles((size_t)n * (size_t)n), *c = doubles((size_t)n * (size_t)n);
    semcache_matrix A = semcache_view(a, n, n, n, sizeof *a);
    for (int i = 0; i < n * n; i++)
        a[i] = i % 7;
    if (semcache_prefetch(&A, SEMCACHE_ALL_DEVICES, NULL) == SEMCACHE_OK)
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
    free(a);
    free(c);
}

#endif
