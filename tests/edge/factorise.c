/* A matrix factorised in place as Linpack does it: the CPU factorises a block of columns and exchanges rows of the whole matrix,
 * products update what is left, the next block of columns first. The matrix is a product of triangular matrices of small whole numbers, so that every
 * number on the way is whole and the factors come out exactly.
 *
 *   factorise N LD      prints a line for the factors and the number of wrong elements */
#include <stdio.h>
#include <stdlib.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *, const double *,
            const int *, double *, const int *);

enum { NB = 192 };
static int n, ld;
static double *a;

static double *at(int i, int j)
{
    return a + (size_t)j * (size_t)ld + i;
}

/* Elements of the factors: ones on the diagonals, few others. */
static int lower(int i, int j)
{
    return i == j ? 1 : i > j && (i * 7 + j * 13) % 61 == 0 ? 1 - 2 * ((i + j) % 2) : 0;
}

static int upper(int i, int j)
{
    return i == j ? 1 : i < j && (i * 11 + j * 5) % 53 == 0 ? 2 * ((i + j) % 2) - 1 : 0;
}

/* Row i of the matrix is row order(i) of the product: rows of a block change places in pairs. */
static int order(int i)
{
    int first = i / NB * NB, last = (first + NB < n ? first + NB : n) - 1;
    return first + last - i;
}

static void make(void)
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i < ld; i++)
            *at(i, j) = i < n ? 0 : -j;
    for (int k = 0; k < n; k++)
        for (int j = k; j < n; j++)
            if (upper(k, j))
                for (int i = k; i < n; i++)
                    *at(order(i), j) += lower(i, k) * upper(k, j);
}

static void exchange(int from, int to)
{
    for (int i = from; i < to && i < order(i); i++)
        for (int j = 0; j < n; j++) {
            double x = *at(i, j);
            *at(i, j) = *at(order(i), j);
            *at(order(i), j) = x;
        }
}

/* Updates columns [from, to) by those of [first, last): the rows of these, and all below. */
static void update(int first, int last, int from, int to)
{
    const double one = 1, minus = -1;
    int width = last - first, rest = n - last, columns = to - from;
    dtrsm_("L", "L", "N", "U", &width, &columns, &one, at(first, first), &ld, at(first, from), &ld);
    dgemm_("N", "N", &rest, &columns, &width, &minus, at(last, first), &ld, at(first, from), &ld, &one, at(last, from), &ld);
}

/* Factorises columns [from, to) by halves, the smallest on the CPU. */
static void panel(int from, int to)
{
    if (to - from > 12) {
        int half = (from + to) / 2;
        panel(from, half);
        update(from, half, half, to);
        panel(half, to);
        return;
    }
    for (int k = from; k < to; k++)
        for (int j = k + 1; j < to; j++)
            for (int i = k + 1; i < n; i++)
                *at(i, j) -= *at(i, k) * *at(k, j);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    n = atoi(argv[1]);
    ld = atoi(argv[2]);
    a = malloc((size_t)n * (size_t)ld * sizeof *a);
    if (!a)
        return 2;
    make();
    for (int from = 0; from < n; from += NB) {
        int to = from + NB < n ? from + NB : n;
        exchange(from, to);
        panel(from, to);
        int next = to + NB < n ? to + NB : n;
        if (to < n)
            update(from, to, to, next);
        if (next < n)
            update(from, to, next, n);
    }
    long wrong = 0;
    double sum = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < ld; i++) {
            double want = i >= n ? -j : i > j ? lower(i, j) : upper(i, j);
            wrong += *at(i, j) != want;
            sum += *at(i, j) * ((i + 3 * j) % 17);
        }
    printf("%d in %d: %ld wrong, %.17g\n", n, ld, wrong, sum);
    return wrong != 0;
}
