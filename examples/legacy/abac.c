/* D = A B + A C, then the CPU reads D: A is used twice, and D is updated once before the CPU reads it.
 *
 *   abac N
 *
 * Small integers throughout, so that every sum is exact and the result can be checked exactly. */
#include <stdio.h>
#include <stdlib.h>

void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc);

static double *matrix(int n, int p, int q, int modulus)
{
    double *a = malloc((size_t)n * n * sizeof *a);
    if (!a) {
        fprintf(stderr, "abac: out of memory\n");
        exit(1);
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            a[(size_t)j * n + i] = (double)(((long)p * i + (long)q * j) % modulus - modulus / 2);
    return a;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    double one = 1, zero = 0;

    if (n < 1) {
        fprintf(stderr, "usage: abac N\n");
        return 2;
    }
    double *a = matrix(n, 3, 5, 7), *b = matrix(n, 2, 7, 5), *c = matrix(n, 5, 1, 9);
    double *d = malloc((size_t)n * n * sizeof *d), *s = calloc(n, sizeof *s), *w = calloc(n, sizeof *w);
    if (!d || !s || !w) {
        fprintf(stderr, "abac: out of memory\n");
        return 1;
    }

    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, d, &n);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, c, &n, &one, d, &n);

    /* D v must be A (B + C) v, and with v = 1, 2, 3, 1, ... every entry of D matters. */
    double checksum = 0;
    int wrong = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            s[i] += (b[(size_t)j * n + i] + c[(size_t)j * n + i]) * (j % 3 + 1);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            w[i] += a[(size_t)j * n + i] * s[j];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            w[i] -= d[(size_t)j * n + i] * (j % 3 + 1);
            checksum += d[(size_t)j * n + i] * (i % 11 - 5);
        }
    for (int i = 0; i < n; i++)
        wrong += w[i] != 0;
    printf("abac n=%d checksum %.0f wrong rows %d\n", n, checksum, wrong);
    free(w);
    free(s);
    free(d);
    free(c);
    free(b);
    free(a);
    return wrong != 0;
}
