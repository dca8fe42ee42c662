/* The chain of chain.h by plain cuBLAS on device memory; the result of ddot is returned to the host.
 *
 *   peer_chain N CALLS REPETITIONS */
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "common.h"
#include "cuda.h"

static int n;
static double *x, *y, *z, *w, *a, *landing;
static blas_t blas;
static stream_t stream;

static void axpy(double alpha)
{
    BLAS(Daxpy_v2, blas, n, &alpha, x, 1, y, 1);
}

static double dot(void)
{
    double r;
    BLAS(Ddot_v2, blas, n, x, 1, y, 1, &r);
    return r;
}

static void gemv(void)
{
    double one = 1, zero = 0;
    BLAS(Dgemv_v2, blas, OP_N, n, CHAIN_COLUMNS, &one, a, n, w, 1, &zero, z, 1);
}

/* The elements are equally spaced, so one 2-D copy reads them all. */
static void spots(int of_z, const struct chain *c, double *out)
{
    size_t pitch = c->spot[1] * sizeof(double);
    CU(Memcpy2DAsync, landing, sizeof(double), of_z ? z : y, pitch, sizeof(double), CHAIN_SPOTS, TO_HOST, stream);
    CU(StreamSynchronize, stream);
    memcpy(out, landing, CHAIN_SPOTS * sizeof(double));
}

static void finish(void)
{
    CU(MemcpyAsync, landing, y + n - 1, sizeof(double), TO_HOST, stream);
    CU(StreamSynchronize, stream);
}

static double *device_data(size_t count, uint32_t seed)
{
    double *host = doubles(count), *device = device_doubles(count);
    fill(host, count, seed);
    copy(device, host, count, TO_DEVICE);
    free(host);
    return device;
}

int main(int argc, char **argv)
{
    static const struct chain_calls calls = {axpy, dot, gemv, spots, finish};
    struct chain c;
    if (argc < 4)
        die("usage: peer_chain N CALLS REPETITIONS");
    n = atoi(argv[1]);
    size_t N = (size_t)n;
    cuda_start();
    stream = new_stream();
    BLAS(Create_v2, &blas);
    BLAS(SetStream_v2, blas, stream);
    landing = pinned_doubles(1024);
    x = device_data(N, SEED_X);
    y = device_data(N, SEED_Y);
    w = device_data(N, SEED_W);
    z = device_doubles(N);
    a = device_data(N * CHAIN_COLUMNS, SEED_A);
    gemv();
    chain_prepare(&c, n);
    for (int v = 0; CHAIN_VARIANTS[v]; v++) {
        int reads = !strcmp(CHAIN_VARIANTS[v], "read");
        chain_run(&c, &calls, CHAIN_VARIANTS[v], "cublas", reads ? atoi(argv[2]) / 10 : atoi(argv[2]), atoi(argv[3]));
    }
    double *host_y = doubles(N), *host_z = doubles(N);
    copy(host_y, y, N, TO_HOST);
    copy(host_z, z, N, TO_HOST);
    chain_check(&c, host_y, host_z);
    return 0;
}
