/* One fault at a time, by name, whose line the report must name:
 *   input   an element of an input is written between calls
 *   page    another number lies on a page with a result
 *   small   many calls with too little work
 *   solver  LAPACK, which hides its BLAS calls */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
                   const double *, const int *, const double *, double *, const int *);
extern void dpotri_(const char *, const int *, double *, const int *, int *, size_t);
extern double ddot_(const int *, const double *, const int *, const double *, const int *);

enum { ORDER = 512, ROUNDS = 30, SMALL = 10000000, UNKNOWNS = 1200 };

/* The inverse of A = L L^T by its factor, 2 I; the settings keep it from devices. */
static double solve(void)
{
    const int n = UNKNOWNS;
    double *a = malloc(sizeof(double) * n * n), sum = 0;
    int info = -1;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            a[i + (size_t)n * j] = i == j ? 2 : 0;
    dpotri_("L", &n, a, &n, &info, 1); /* solver */
    for (int i = 0; i < n; i++)
        sum += a[i + (size_t)n * i];
    if (info || sum != n / 4)
        exit(1);
    free(a);
    return sum;
}

int main(int count, char **words)
{
    const char *fault = count > 1 ? words[1] : "";
    const int n = ORDER, few = 16, step = 1;
    const double one = 1, zero = 0;
    const size_t bytes = sizeof(double) * ORDER * ORDER;
    double *a = aligned_alloc(4096, 2 * bytes), *b = aligned_alloc(4096, 2 * bytes), *c = aligned_alloc(4096, 2 * bytes);
    double sum = 0;
    for (int i = 0; i < ORDER * ORDER; i++) {
        a[i] = i % 3;
        b[i] = i % 5;
        c[i] = 0;
    }
    /* Results that begin and end in the middle of pages of which the CPU uses the rest. */
    double *result = c + 300, *beside = result + ORDER * ORDER;
    beside[0] = 0;
    const int solver = !strcmp(fault, "solver");
    for (int k = 0; k < (solver ? 1 : ROUNDS); k++) {
        if (!strcmp(fault, "page")) {
            dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, result, &n); /* page */
            beside[0] += 1;
        } else {
            dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        }
        if (!strcmp(fault, "input"))
            a[(k * 4096 + 7) % (ORDER * ORDER)] += 1; /* input */
    }
    if (!strcmp(fault, "small"))
        for (int k = 0; k < SMALL; k++)
            sum += ddot_(&few, a, &step, b, &step); /* small */
    for (int k = 0; solver && k < ROUNDS; k++)
        sum += solve();
    printf("%g\n", sum);
    /* Reading the result is a fault of its own, which would be a second one beside that of the input. */
    if (strcmp(fault, "input"))
        printf("%g %g %g\n", c[5], c[ORDER * ORDER / 2], beside[0]);
    return 0;
}
