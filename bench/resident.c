/* Many dgemm calls on matrices that the CPU does not access in between; then it reads one element of the result.
 *
 *   resident SIZES CALLS REPETITIONS      SIZES: comma-separated
 *
 * Seconds are per call. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "common.h"

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: resident SIZES CALLS REPETITIONS");
    int calls = atoi(argv[2]), repetitions = atoi(argv[3]);
    double zero = 0;
    wake(1.0);
    for (char *w = strtok(argv[1], ","); w; w = strtok(NULL, ",")) {
        int n = atoi(w);
        size_t all = (size_t)n * (size_t)n;
        double *a = doubles(all), *b = doubles(all), *c = doubles(all);
        struct product p = {(size_t)n, (size_t)n, (size_t)n, 1, 0, 1, 2, 0};
        struct series s = {0};
        double entry = product_entry(&p, 5 % (size_t)n, 3 % (size_t)n);
        fill(a, all, p.a);
        fill(b, all, p.b);
        poison(c, all);
        for (int r = -2; r < repetitions; r++) {
            p.alpha = 3 + r;
            double start = now();
            for (int k = 0; k < calls; k++)
                dgemm_("N", "N", &n, &n, &n, &p.alpha, a, &n, b, &n, &zero, c, &n);
            volatile double got = c[(size_t)(3 % n) * (size_t)n + (size_t)(5 % n)];
            double end = now();
            same("the element read", got, p.alpha * entry);
            if (r >= 0)
                add(&s, (end - start) / calls);
        }
        product_check("resident", &p, c, sum(c, all, 0));
        emit("resident", (size_t)n, "resident", &s, "");
        free(c);
        free(b);
        free(a);
    }
    return 0;
}
