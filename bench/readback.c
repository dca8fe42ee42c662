/* The CPU reads a large result of a device call front to back: D = A B with few columns of A.
 *
 *   readback N K REPETITIONS [READERS]
 *
 * D is N x N. Variants: "whole", from the call to the end of reading; "settled", only the reading, which begins long
 * after the product is complete. "read" is the time of reading D once more, after it has been written back. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "blas.h"
#include "common.h"

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: readback N K REPETITIONS [READERS]");
    int n = atoi(argv[1]), k = atoi(argv[2]), repetitions = atoi(argv[3]), readers = argc > 4 ? atoi(argv[4]) : 1;
    size_t N = (size_t)n, K = (size_t)k;
    double *a = doubles(N * K), *b = doubles(K * N), *d = doubles(N * N), zero = 0;
    struct product p = {N, N, K, 1, 0, 1, 2, 0};
    fill(a, N * K, p.a);
    fill(b, K * N, p.b);
    poison(d, N * N);
    wake(1.0);
    for (int settled = 0; settled < 2; settled++) {
        struct series whole = {0}, again = {0};
        char text[4096], more[5000];
        for (int r = -2; r < repetitions; r++) {
            p.alpha = 1 + (r + 4) % 4;
            double start = now();
            dgemm_("N", "N", &n, &n, &k, &p.alpha, a, &n, b, &k, &zero, d, &n);
            if (settled) {
                nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
                start = now();
            }
            double total = sum(d, N * N, readers);
            double end = now();
            same("the sum read again", sum(d, N * N, readers), total);
            double last = now();
            product_check("readback", &p, d, total);
            if (r < 0)
                continue;
            add(&whole, end - start);
            add(&again, last - end);
        }
        snprintf(more, sizeof more, ",\"read\":%s,\"readers\":%d", list(&again, text, sizeof text), readers);
        emit("readback", N, settled ? "settled" : "whole", &whole, more);
    }
    free(d);
    free(b);
    free(a);
    return 0;
}
