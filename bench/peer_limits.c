/* The limits of this machine, measured: copies, products, launches, registration.
 *
 *   peer_limits MIB N REPETITIONS */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"

static size_t bytes;

static void report(const char *what, struct series *s, double work, const char *unit)
{
    char more[200];
    snprintf(more, sizeof more, ",\"rate\":%.6g,\"unit\":\"%s\"", work / median(s), unit);
    emit("limits", bytes, what, s, more);
    *s = (struct series){0};
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: peer_limits MIB N REPETITIONS");
    bytes = (size_t)atoi(argv[1]) << 20;
    int n = atoi(argv[2]), repetitions = atoi(argv[3]);
    size_t count = bytes / sizeof(double), all = (size_t)n * (size_t)n;
    struct series s = {0};
    double one = 1, zero = 0, gb = (double)bytes / 1e9;
    blas_t blas;

    double start = now();
    int gpus = cuda_start();
    add(&s, now() - start);
    report("first context", &s, 1, "1/s");
    printf("{\"bench\":\"limits\",\"size\":%d,\"variant\":\"gpus\",\"seconds\":[]}\n", gpus);
    BLAS(Create_v2, &blas);

    double *host = pinned_doubles(count), *device = device_doubles(count);
    for (int r = -1; r < repetitions; r++) {
        fill(host, count, (uint32_t)(r + 2));
        start = now();
        copy(device, host, count, TO_DEVICE);
        if (r >= 0)
            add(&s, now() - start);
    }
    report("H2D, registered", &s, gb, "GB/s");
    double expected = sum(host, count, 0);
    for (int r = -1; r < repetitions; r++) {
        poison(host, count);
        start = now();
        copy(host, device, count, TO_HOST);
        if (r >= 0)
            add(&s, now() - start);
    }
    report("D2H, registered", &s, gb, "GB/s");
    same("what came home", sum(host, count, 0), expected);
    /* Tiles of a matrix whose columns are 128 KiB apart. */
    for (size_t run = 2 << 10; run <= 128 << 10; run *= 2) {
        size_t pitch = 128 << 10, columns = bytes / pitch;
        for (int out = 0; out < 2; out++) {
            char what[40];
            for (int r = -1; r < repetitions; r++) {
                start = now();
                if (out)
                    CU(Memcpy2DAsync, host, pitch, device, run, run, columns, TO_HOST, NULL);
                else
                    CU(Memcpy2DAsync, device, run, host, pitch, run, columns, TO_DEVICE, NULL);
                CU(DeviceSynchronize);
                if (r >= 0)
                    add(&s, now() - start);
            }
            snprintf(what, sizeof what, "%s, runs of %zu KiB", out ? "D2H" : "H2D", run >> 10);
            report(what, &s, (double)(columns * run) / 1e9, "GB/s");
        }
    }
    for (int r = 0; r < repetitions; r++) {
        CU(HostUnregister, host);
        start = now();
        CU(HostRegister, host, bytes, 1);
        add(&s, now() - start);
    }
    report("cudaHostRegister, huge pages asked for", &s, gb, "GB/s");
    for (int readers = 1; readers <= 8; readers *= 8) {
        for (int r = 0; r < repetitions; r++) {
            start = now();
            same("the sum", sum(host, count, readers), expected);
            add(&s, now() - start);
        }
        report(readers == 1 ? "the CPU reads, 1 thread" : "the CPU reads, 8 threads", &s, gb, "GB/s");
    }

    struct product p = {(size_t)n, (size_t)n, (size_t)n, 1, 0, 1, 2, 0};
    double *h = doubles(all), *a = device_doubles(all), *b = device_doubles(all), *c = device_doubles(all);
    fill(h, all, p.a);
    copy(a, h, all, TO_DEVICE);
    fill(h, all, p.b);
    copy(b, h, all, TO_DEVICE);
    for (int r = -2; r < repetitions; r++) {
        start = now();
        BLAS(Dgemm_v2, blas, OP_N, OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
        CU(DeviceSynchronize);
        if (r >= 0)
            add(&s, now() - start);
    }
    report("cuBLAS dgemm", &s, 2e-12 * (double)all * n, "TFLOP/s");
    copy(h, c, all, TO_HOST);
    product_check("cuBLAS", &p, h, sum(h, all, 0));

    for (int r = -1; r < repetitions; r++) {
        start = now();
        for (int k = 0; k < 1000; k++)
            BLAS(Daxpy_v2, blas, 1000, &one, a, 1, b, 1);
        CU(DeviceSynchronize);
        if (r >= 0)
            add(&s, (now() - start) / 1000);
    }
    report("cuBLAS daxpy of 1000, launch to launch", &s, 1e-6, "M/s");
    return 0;
}
