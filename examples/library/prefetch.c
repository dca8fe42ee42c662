/* The host prepares something while the matrices of the first product are on their way: first without hints, then with them.
 *
 *   prefetch [N]        gcc -O2 -o prefetch prefetch.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * The results go to stdout, the same with and without semcache; seconds and bytes go to stderr. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "semcache.h"

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double *filled(int n, int seed)
{
    double *a = malloc(sizeof(double) * (size_t)n * (size_t)n);
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        a[i] = (double)((i * 7 + (size_t)seed) % 13) - 6;
    return a;
}

/* What the host has to do before the product, about as much as sending two matrices. */
static double prepare(int n)
{
    double total = 0;
    for (long i = 0; i < 8L * n * n; i++)
        total += sqrt((double)(i & 1023));
    return total;
}

static void run(const char *name, int n, int hinted, int seed)
{
    const double one = 1, zero = 0;
    double *a = filled(n, seed), *b = filled(n, seed + 1), *c = filled(n, 0);
    semcache_statistics before = {.size = sizeof before}, after = before;
    semcache_count(&before);
    double begun = now();
    if (hinted) {
        semcache_matrix A = semcache_view(a, n, n, n, sizeof *a), B = semcache_view(b, n, n, n, sizeof *b);
        semcache_event sent[2];
        semcache_prefetch(&A, SEMCACHE_ALL_DEVICES, &sent[0]);
        semcache_prefetch(&B, SEMCACHE_ALL_DEVICES, &sent[1]);
    }
    double prepared = prepare(n), host = now();
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    double trace = 0;
    for (int i = 0; i < n; i++)
        trace += c[(size_t)i * (size_t)n + (size_t)i];
    double end = now();
    semcache_count(&after);
    printf("%s: trace %.0f, prepared %.6e\n", name, trace, prepared);
    fprintf(stderr, "%s: host work %.3f s, then the product %.3f s; %.1f MB to devices\n", name, host - begun, end - host,
            (double)(after.h2d - before.h2d) / 1e6);
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2048;
    /* The first product brings devices up, if there are any. */
    run("first", n, 0, 1);
    run("plain", n, 0, 3);
    run("hinted", n, 1, 5);
    return 0;
}
