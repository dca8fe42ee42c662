/* The work of resident.c and jacobi.c by plain cuBLAS on device memory.
 *
 *   peer_resident gemm SIZES CALLS REPETITIONS
 *   peer_resident jacobi N ITERATIONS REPETITIONS */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "cuda.h"
#include "jacobi.h"

static blas_t blas;
static stream_t stream;

static void gemm(char *sizes, int calls, int repetitions)
{
    double zero = 0;
    for (char *w = strtok(sizes, ","); w; w = strtok(NULL, ",")) {
        int n = atoi(w);
        size_t all = (size_t)n * (size_t)n;
        struct product p = {(size_t)n, (size_t)n, (size_t)n, 1, 0, 1, 2, 0};
        struct series s = {0};
        double *host = pinned_doubles(all), *a = device_doubles(all), *b = device_doubles(all), *c = device_doubles(all);
        double entry = product_entry(&p, 5 % (size_t)n, 3 % (size_t)n), got;
        fill(host, all, p.a);
        copy(a, host, all, TO_DEVICE);
        fill(host, all, p.b);
        copy(b, host, all, TO_DEVICE);
        for (int r = -2; r < repetitions; r++) {
            p.alpha = 3 + r;
            double start = now();
            for (int k = 0; k < calls; k++)
                BLAS(Dgemm_v2, blas, OP_N, OP_N, n, n, n, &p.alpha, a, n, b, n, &zero, c, n);
            CU(MemcpyAsync, &got, c + (size_t)(3 % n) * (size_t)n + 5 % n, sizeof got, TO_HOST, stream);
            CU(StreamSynchronize, stream);
            double end = now();
            same("the element read", got, p.alpha * entry);
            if (r >= 0)
                add(&s, (end - start) / calls);
        }
        copy(host, c, all, TO_HOST);
        product_check("resident", &p, host, sum(host, all, 0));
        emit("resident", (size_t)n, "cublas", &s, "");
        CU(HostUnregister, host);
        free(host);
        CU(Free, a);
        CU(Free, b);
        CU(Free, c);
    }
}

/* R stays on the GPU; x is uploaded and y downloaded in each iteration. */
static void jacobi(int n, int iterations, int repetitions)
{
    size_t N = (size_t)n, bytes = N * sizeof(double);
    double one = 1, zero = 0, *r = device_doubles(N * N), *dx = device_doubles(N), *dy = device_doubles(N);
    double *x = pinned_doubles(N), *y = pinned_doubles(N), *b = doubles(N), *host = jacobi_matrix(n);
    struct series s = {0};
    copy(r, host, N * N, TO_DEVICE);
    free(host);
    jacobi_right_side(n, b);
    for (int t = -2; t < repetitions; t++) {
        if (t == -2)
            fill(x, N, 7);
        else
            for (int i = 0; i < n; i++)
                x[i] = 0;
        double start = now();
        for (int k = 0; k < (t == -2 ? 1 : iterations); k++) {
            CU(MemcpyAsync, dx, x, bytes, TO_DEVICE, stream);
            BLAS(Dgemv_v2, blas, OP_N, n, n, &one, r, n, dx, 1, &zero, dy, 1);
            CU(MemcpyAsync, y, dy, bytes, TO_HOST, stream);
            CU(StreamSynchronize, stream);
            if (t != -2)
                jacobi_update(n, jacobi_diagonal(n), b, y, x);
        }
        double end = now();
        if (t == -2)
            jacobi_check_product(n, y, 7);
        else
            jacobi_check_solution(n, iterations, x);
        if (t >= 0)
            add(&s, (end - start) / iterations);
    }
    emit("jacobi", N, "cublas", &s, "");
}

int main(int argc, char **argv)
{
    if (argc < 5)
        die("usage: peer_resident gemm SIZES CALLS REPETITIONS | jacobi N ITERATIONS REPETITIONS");
    cuda_start();
    stream = new_stream();
    BLAS(Create_v2, &blas);
    BLAS(SetStream_v2, blas, stream);
    if (!strcmp(argv[1], "gemm"))
        gemm(argv[2], atoi(argv[3]), atoi(argv[4]));
    else
        jacobi(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    return 0;
}
