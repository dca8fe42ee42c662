#include <stdlib.h>

#include "blas.h"
#include "common.h"

void wake(double seconds)
{
    const char *set = getenv("BENCH_WAKE");
    wake_by(set && atof(set) < 0.5 ? 256 : 2048, seconds);
}

void wake_by(int n, double seconds)
{
    const char *set = getenv("BENCH_WAKE");
    double start = now(), until = start + (set ? atof(set) : seconds), one = 1, zero = 0, total = 0;
    size_t all = (size_t)n * (size_t)n;
    double *a = doubles(all), *b = doubles(all), *c = doubles(all);
    struct product p = {(size_t)n, (size_t)n, (size_t)n, 1, 0, 91, 92, 0};
    fill(a, all, p.a);
    fill(b, all, p.b);
    poison(c, all);
    double begun, slow = 0;
    do {
        begun = now();
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        total = sum(c, all, 1);
        double took = now() - begun;
        if (slow == 0)
            slow = took;
        else if (took < slow / 3) {
            /* A device computes now that did not before: it is kept busy for as long as its start took. */
            until += begun - start;
            slow = -1;
        }
    } while (now() < until);
    product_check("wake", &p, c, total);
    free(c);
    free(b);
    free(a);
}
