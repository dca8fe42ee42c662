/* The work of a multifrontal solver: fronts of ever other sizes and leading dimensions, one after the other in one arena,
 * each assembled by the CPU, factored and multiplied by BLAS, and read in part. Prints a checksum.
 *     fronts FRONTS LARGEST MEGABYTES */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dsyrk_(const char *, const char *, const int *, const int *, const double *, const double *, const int *,
            const double *, double *, const int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *,
            const double *, const int *, double *, const int *);

static unsigned long state = 1;
static size_t below(size_t n)
{
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (state >> 33) % n;
}

int main(int argc, char **argv)
{
    int fronts = argc > 1 ? atoi(argv[1]) : 300, largest = argc > 2 ? atoi(argv[2]) : 1200;
    size_t doubles = (argc > 3 ? (size_t)atol(argv[3]) : 96) << 17;
    double *arena = malloc(doubles * sizeof *arena), sum = 0, zero = 0, one = 1, minus = -1;
    if (!arena)
        return 2;
    memset(arena, 0, doubles * sizeof *arena);
    for (int f = 0; f < fronts; f++) {
        int n = 48 + (int)below(largest - 48), k = 16 + (int)below(n / 2), ld = n + (int)below(64), rest = n - k;
        double *a = arena + below(doubles - (size_t)ld * n);
        /* The pivot rows and columns; the pivot block is the identity below its diagonal, so that all numbers stay whole. */
        for (int j = 0; j < n; j++)
            for (int i = 0; i < (j < k ? n : k); i++)
                a[i + (size_t)j * ld] = i == j ? 1 : i > j && i < k ? 0 : (i * 3 + j * 5 + f) % 3 - 1;
        double *left = a + k, *up = a + (size_t)k * ld, *c = a + k + (size_t)k * ld;
        dtrsm_("L", "L", "N", "U", &k, &rest, &one, a, &ld, up, &ld);
        dgemm_("N", "N", &rest, &rest, &k, &minus, left, &ld, up, &ld, &zero, c, &ld);
        dsyrk_("L", "N", &rest, &k, &one, left, &ld, &one, c, &ld);
        if (f % 3 == 0)
            for (int j = 0; j < rest; j += 7)
                sum += c[j + (size_t)j * ld] * (j % 5 + 1);
        if (f % 5 == 0)
            sum += up[(size_t)(rest - 1) * ld] + left[rest - 1];
    }
    for (size_t i = 0; i < doubles; i += 101)
        sum += arena[i] * (double)(i % 7);
    printf("%.0f\n", sum);
    free(arena);
    return 0;
}
