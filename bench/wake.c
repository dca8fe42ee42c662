#include <stdlib.h>

#include "blas.h"
#include "common.h"

/* Products of order n for `seconds`, and for as long again as a device needed to start; with `briefly`, until a device computes, and
 * 0.1 s more. */
static void products(int n, double seconds, int briefly)
{
    const char *set = getenv("BENCH_WAKE");
    if (set)
        seconds = atof(set);
    if (set && seconds < 0.5 && n > 256)
        n = 256;
    double start = now(), until = start + seconds, one = 1, zero = 0, total = 0;
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
            until = briefly ? now() + 0.1 : until + (begun - start);
            slow = -1;
        }
    } while (now() < until);
    product_check("wake", &p, c, total);
    free(c);
    free(b);
    free(a);
}

void wake(double seconds)
{
    products(2048, seconds, 0);
}

void wake_briefly(double most)
{
    products(2048, most, 1);
}

void wake_by(int n, double seconds)
{
    products(n, seconds, 0);
}
