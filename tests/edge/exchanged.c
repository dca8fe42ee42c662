// LU-like: before each product that updates all of a matrix but its last rows and columns, the CPU exchanges two elements of each of
// these columns. So each call reads and writes what devices did not keep.
//
//   exchanged ORDER DEPTH STEPS      prints a sum of the matrix
#include "edge.h"

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int order = atoi(argv[1]), depth = atoi(argv[2]), steps = atoi(argv[3]);
    size_t all = (size_t)order * (size_t)order, panel = (size_t)order * (size_t)depth;
    double *a = malloc(all * sizeof *a), *l = malloc(panel * sizeof *l), *u = malloc(panel * sizeof *u), one = 1, sum = 0;
    for (size_t i = 0; i < all; i++)
        a[i] = (double)(i % 7) - 3;
    for (int step = 0; step < steps; step++) {
        int rest = order - step;
        for (size_t i = 0; i < panel; i++) {
            l[i] = (double)(i % 3);
            u[i] = (double)((i + (size_t)step) % 2);
        }
        for (int j = 0; j < rest; j++) {
            double *column = a + (size_t)j * (size_t)order, *to = column + (j * 7 + step) % rest, kept = column[j];
            column[j] = *to;
            *to = kept;
        }
        dgemm_("N", "T", &rest, &rest, &depth, &one, l, &order, u, &order, &one, a, &order);
    }
    for (size_t i = 0; i < all; i++)
        sum += a[i] * (double)(i % 5);
    printf("%.17g\n", sum);
    return 0;
}
