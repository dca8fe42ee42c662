/* Products whose inputs are never used again: the CPU fills them, multiplies once and reads the result. They lie in blocks of
 * their own each time (blocks), or in changing parts of one arena (arena). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);

enum { LARGEST = 280, PARTS = 41, COUNT = 60 };

int main(int argc, char **argv)
{
    int in_arena = argc > 1 && !strcmp(argv[1], "arena"), at = 0;
    const size_t most = (size_t)LARGEST * LARGEST;
    double one = 1, zero = 0, *arena = in_arena ? malloc(PARTS * most * sizeof *arena) : NULL;
    size_t sum = 0;
    for (int n = 120; n <= LARGEST; n += 40)
        for (int i = 0; i < COUNT; i++) {
            const size_t all = (size_t)n * n;
            double *m[3];
            for (int j = 0; j < 3; j++)
                m[j] = in_arena ? arena + most * (at++ % PARTS) : malloc(all * sizeof *m[j]);
            for (size_t j = 0; j < all; j++) {
                m[0][j] = (double)((i + j) % 5);
                m[1][j] = (double)((i + 2 * j) % 3);
            }
            dgemm_("N", "N", &n, &n, &n, &one, m[0], &n, m[1], &n, &zero, m[2], &n);
            for (size_t j = 0; j < all; j += 37)
                sum += (size_t)m[2][j];
            for (int j = 0; j < 3 && !in_arena; j++)
                free(m[j]);
        }
    printf("%zu\n", sum);
    free(arena);
    return 0;
}
