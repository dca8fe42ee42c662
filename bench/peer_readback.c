/* The work of readback.c by a cuBLAS program: inputs on the GPU, one copy of D into registered memory, then the same
 * reading. "settled" is the time of the copy and the reading only, "copy" the time of the copy.
 *
 *   peer_readback N K REPETITIONS [READERS] */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: peer_readback N K REPETITIONS [READERS]");
    int n = atoi(argv[1]), k = atoi(argv[2]), repetitions = atoi(argv[3]), readers = argc > 4 ? atoi(argv[4]) : 1;
    size_t N = (size_t)n, K = (size_t)k;
    blas_t blas;
    double zero = 0;
    struct product p = {N, N, K, 1, 0, 1, 2, 0};
    cuda_start();
    BLAS(Create_v2, &blas);
    double *host = pinned_doubles(N * N), *a = device_doubles(N * K), *b = device_doubles(K * N), *d = device_doubles(N * N);
    fill(host, N * K, p.a);
    copy(a, host, N * K, TO_DEVICE);
    fill(host, K * N, p.b);
    copy(b, host, K * N, TO_DEVICE);
    for (int settled = 0; settled < 2; settled++) {
        struct series whole = {0}, copies = {0}, again = {0};
        char l1[4096], l2[4096], more[9000];
        for (int r = -2; r < repetitions; r++) {
            p.alpha = 1 + (r + 4) % 4;
            double start = now();
            BLAS(Dgemm_v2, blas, OP_N, OP_N, n, n, k, &p.alpha, a, n, b, k, &zero, d, n);
            if (settled) {
                CU(DeviceSynchronize);
                start = now();
            }
            copy(host, d, N * N, TO_HOST);
            double copied = now();
            double total = sum(host, N * N, readers);
            double end = now();
            same("the sum read again", sum(host, N * N, readers), total);
            double last = now();
            product_check("readback", &p, host, total);
            if (r < 0)
                continue;
            add(&whole, end - start);
            add(&copies, copied - start);
            add(&again, last - end);
        }
        snprintf(more, sizeof more, ",\"copy\":%s,\"read\":%s,\"readers\":%d", list(&copies, l1, sizeof l1),
                 list(&again, l2, sizeof l2), readers);
        emit("readback", N, settled ? "cublas-settled" : "cublas-whole", &whole, more);
    }
    return 0;
}
