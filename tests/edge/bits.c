/* The same calls on the same numbers, which are no integers: each time the same bits, whether operands were sent just now
 * or lie where they are used. */
#include "edge.h"

void dtrsm_(const char *side, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,
            const double *alpha, const double *a, const int *lda, double *b, const int *ldb);
void dsyrk_(const char *uplo, const char *trans, const int *n, const int *k, const double *alpha, const double *a,
            const int *lda, const double *beta, double *c, const int *ldc);

enum { N = 150, NN = N * N, ROUNDS = 5 };

static void numbers(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (edge_draw() + 0.5) / 3 * exp(edge_draw());
}

/* All results of a round, one after the other. */
static size_t results(const double *a, const double *b, const double *triangle, double *c, double *to)
{
    const int n = N, one = 1, all = NN;
    size_t at = 0;
    multiply(N, 0.1, a, b, 0, c);
    memcpy(to + at, c, NN * sizeof(double)), at += NN;
    multiply(N, 1 / 3.0, c, b, 0.7, c + NN);
    memcpy(to + at, c + NN, NN * sizeof(double)), at += NN;
    dsyrk_("L", "N", &n, &n, &(double){0.3}, a, &n, &(double){0}, c, &n);
    for (int j = 0; j < N; j++)
        memcpy(to + at, c + j * N + j, (N - j) * sizeof(double)), at += N - j;
    memcpy(c, b, NN * sizeof(double));
    dtrsm_("L", "L", "N", "N", &n, &n, &(double){0.9}, triangle, &n, c, &n);
    memcpy(to + at, c, NN * sizeof(double)), at += NN;
    dgemv_("T", &n, &n, &(double){0.6}, a, &n, b, &one, &(double){0}, c, &one);
    memcpy(to + at, c, N * sizeof(double)), at += N;
    to[at++] = ddot_(&all, a, &one, b, &one);
    to[at++] = dnrm2_(&all, b, &one);
    to[at++] = dasum_(&all, a, &one);
    return at;
}

int main(void)
{
    double *a = doubles(NN), *b = doubles(NN), *triangle = doubles(NN), *c = doubles(2 * NN);
    double *first = malloc(5 * NN * sizeof(double)), *again = malloc(5 * NN * sizeof(double));
    double *spare = malloc(NN * sizeof(double));
    numbers(a, NN);
    numbers(b, NN);
    numbers(triangle, NN);
    for (int i = 0; i < N; i++)
        triangle[i * N + i] = 40 + i;
    memcpy(spare, a, NN * sizeof(double));
    size_t count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memset(c + NN, 0, NN * sizeof(double));
        if (round & 1)
            memcpy(a, spare, NN * sizeof(double));
        count = results(a, b, triangle, c, round ? again : first);
        if (round)
            printf("round %d: %s\n", round, memcmp(first, again, count * sizeof(double)) ? "other bits" : "the same bits");
    }
    /* As it should be: they are no integers, so that the order of sums shows. */
    double sum = 0, back = 0;
    for (size_t i = 0; i < count; i++)
        sum += first[i], back += first[count - 1 - i];
    printf("%zu results, sums %s\n", count, sum == back ? "alike" : "differ");
    return 0;
}
