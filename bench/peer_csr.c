/* Products of a sparse matrix and a vector by cuSPARSE on device memory, and by a plain loop of the host's threads.
 *
 *   peer_csr PATTERN ROWS REPS             a JSON line; seconds are those of one product (csr.h names the patterns)
 *   peer_csr PATTERN ROWS REPS copies      instead, how fast the matrix is copied to a device: what a product takes at least whose matrix
 *                                          is larger than the device's memory
 *
 * Each repetition queues products for at least 5 ms, each on the result of the one before, and waits for the last one. Keys: `spmv` cuSPARSE's default algorithm after
 * cusparseSpMV_preprocess, `plain` without that, `alg2`, `transposed`; `preprocess`, seconds, once; `host`; `check`, the result's sum.
 * `copies`, of page-locked memory in pieces of 32 MiB to two buffers in turn: `copied` bytes, `spmv` seconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "csr.h"
#include "cusparse.h"

struct problem {
    sparse_t handle;
    void *a, *x, *y;
};

/* A product of X, in Y. */
static void product(const struct problem *p)
{
    static const double one = 1, zero = 0;
    void *buffer = NULL;
    size_t bytes = 0;
    SPARSE(SpMV_bufferSize, p->handle, OP_N, &one, p->a, p->x, &zero, p->y, REAL_64, DEFAULT, &bytes);
    CU(Malloc, &buffer, bytes ? bytes : 1);
    SPARSE(SpMV, p->handle, OP_N, &one, p->a, p->x, &zero, p->y, REAL_64, DEFAULT, buffer);
    CU(DeviceSynchronize);
    CU(Free, buffer);
}

/* Median seconds of a product. */
static double timed(const struct problem *p, int op, int algorithm, int preprocess, int reps, double *preprocessing)
{
    static const double one = 1, zero = 0;
    void *buffer = NULL, *x = p->x, *y = p->y, *t;
    size_t bytes = 0;
    SPARSE(SpMV_bufferSize, p->handle, op, &one, p->a, x, &zero, y, REAL_64, algorithm, &bytes);
    CU(Malloc, &buffer, bytes ? bytes : 1);
    CU(DeviceSynchronize);
    double start = now();
    if (preprocess)
        SPARSE(SpMV_preprocess, p->handle, op, &one, p->a, x, &zero, y, REAL_64, algorithm, buffer);
    CU(DeviceSynchronize);
    if (preprocessing)
        *preprocessing = now() - start;
    struct series s = {0};
    int many = 1;
    for (int r = -2; r < reps; r++) {
        start = now();
        for (int i = 0; i < many; i++) {
            SPARSE(SpMV, p->handle, op, &one, p->a, x, &zero, y, REAL_64, algorithm, buffer);
            t = x, x = y, y = t;
        }
        CU(DeviceSynchronize);
        double each = (now() - start) / many;
        if (r < 0)
            many = each < 0.005 ? (int)(0.005 / each) + 1 : 1;
        else
            add(&s, each);
    }
    CU(Free, buffer);
    return median(&s);
}

static void copies(const char *pattern, const struct csr *a, int reps)
{
    const size_t piece = (size_t)32 << 20;
    struct {
        void *at;
        size_t bytes;
    } arrays[] = {{a->offsets, ((size_t)a->rows + 1) * sizeof *a->offsets},
                  {a->columns, (size_t)a->nnz * sizeof *a->columns},
                  {a->values, (size_t)a->nnz * sizeof *a->values}};
    void *buffers[2];
    stream_t stream = new_stream();
    size_t all = 0;
    for (int i = 0; i < 2; i++)
        CU(Malloc, &buffers[i], piece);
    for (int i = 0; i < 3; i++) {
        CU(HostRegister, arrays[i].at, arrays[i].bytes, 1);
        all += arrays[i].bytes;
    }
    struct series s = {0};
    for (int r = -1; r < reps; r++) {
        int turn = 0;
        double start = now();
        for (int i = 0; i < 3; i++)
            for (size_t from = 0; from < arrays[i].bytes; from += piece, turn ^= 1) {
                size_t bytes = arrays[i].bytes - from < piece ? arrays[i].bytes - from : piece;
                CU(MemcpyAsync, buffers[turn], (char *)arrays[i].at + from, bytes, TO_DEVICE, stream);
            }
        CU(StreamSynchronize, stream);
        if (r >= 0)
            add(&s, now() - start);
    }
    printf("{\"bench\":\"csr\",\"variant\":\"copies\",\"pattern\":\"%s\",\"rows\":%lld,\"nnz\":%lld,\"copied\":%zu,\"spmv\":%.7f,"
           "\"GB_s\":%.1f}\n",
           pattern, (long long)a->rows, (long long)a->nnz, all, median(&s), (double)all / median(&s) / 1e9);
}

int main(int argc, char **argv)
{
    if (argc != 4 && (argc != 5 || strcmp(argv[4], "copies")))
        die("usage: peer_csr PATTERN ROWS REPS [copies]");
    int reps = atoi(argv[3]);
    cuda_start();
    cusparse_start();
    struct csr a = csr_matrix(argv[1], atoll(argv[2]));
    if (argc == 5) {
        copies(argv[1], &a, reps);
        return 0;
    }
    size_t n = (size_t)a.rows;
    double *x = doubles(n), *y = doubles(n);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)(int)(i % 5) - 2;
    struct problem p;
    SPARSE(Create, &p.handle);
    void *offsets = on_device(a.offsets, (n + 1) * sizeof *a.offsets), *columns = on_device(a.columns, (size_t)a.nnz * sizeof *a.columns);
    void *values = on_device(a.values, (size_t)a.nnz * sizeof *a.values);
    void *dx = on_device(x, n * sizeof *x), *dy = on_device(x, n * sizeof *x);
    SPARSE(CreateCsr, &p.a, a.rows, a.rows, a.nnz, offsets, columns, values, INDEX_32, INDEX_32, BASE_0, REAL_64);
    SPARSE(CreateDnVec, &p.x, a.rows, dx, REAL_64);
    SPARSE(CreateDnVec, &p.y, a.rows, dy, REAL_64);
    product(&p);
    CU(Memcpy, y, dy, n * sizeof *y, TO_HOST);
    double device = sum(y, n, 0);
    double preprocess, plain = timed(&p, OP_N, DEFAULT, 0, reps, NULL), spmv = timed(&p, OP_N, DEFAULT, 1, reps, &preprocess);
    double alg2 = timed(&p, OP_N, ALG2, 1, reps, NULL);
    poison(y, n);
    struct series host = {0};
    for (int r = 0; r < 5; r++) {
        double start = now();
        csr_times(&a, x, y);
        add(&host, now() - start);
    }
    same("sum of the product", device, sum(y, n, 0));
    double transposed = timed(&p, OP_T, DEFAULT, 1, reps, NULL);
    double bytes = (double)a.nnz * 12 + (double)n * (4 + 8 + 8);
    printf("{\"bench\":\"csr\",\"variant\":\"cuSPARSE\",\"pattern\":\"%s\",\"rows\":%lld,\"nnz\":%lld,\"spmv\":%.7f,\"plain\":%.7f,"
           "\"alg2\":%.7f,\"transposed\":%.7f,\"preprocess\":%.7f,\"host\":%.7f,\"GB_s\":%.1f,\"check\":%.0f}\n",
           argv[1], (long long)a.rows, (long long)a.nnz, spmv, plain, alg2, transposed, preprocess, median(&host),
           bytes / spmv / 1e9, device);
    return 0;
}
