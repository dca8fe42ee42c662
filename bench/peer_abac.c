/* The products of abac.c, computed by programs written for GPUs, on registered memory whose inputs the CPU rewrites
 * before each call; then D is read in the same way.
 *
 *   peer_abac N TERMS KINDS REPETITIONS [READERS]
 *
 * KINDS out of
 *   hand     a pipeline: A is streamed in by column chunks, B and C by the same chunks of rows, kernels run chunk by
 *            chunk; during the last chunk D is copied to the host in 8 pieces. Several GPUs: each has columns of B, C
 *            and D; each chunk of A crosses the host link once and is passed on by peer copies
 *   hand4    the same with D computed piece by piece during the last four chunks, so that more of its copy overlaps
 *   serial   copy in, compute, copy out, on one GPU
 *   xt       cuBLASXt, the best of blocks 1024, 2048, 4096, 8192
 *   managed  managed memory with prefetches, on one GPU */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"

enum { MOST_GPUS = 8, MOST_CHUNKS = 16, PIECES = 8 };

static int n, terms, readers = 8, gpus, chunks;
static size_t all;
static double *a, *b, *c, *d;
static double zero = 0, one = 1;

static struct gpu {
    stream_t in, pass, work, out;
    blas_t blas;
    double *a, *b, *c, *d;
    event_t a_loaded[MOST_CHUNKS], inputs[MOST_CHUNKS], a_passed[MOST_CHUNKS], piece[PIECES];
} on[MOST_GPUS];

static void start_gpus(void)
{
    static int started;
    size_t part = all / (size_t)gpus;
    if (started++)
        return;
    for (int g = 0; g < gpus; g++) {
        struct gpu *u = &on[g];
        CU(SetDevice, g);
        for (int h = 0; h < gpus; h++)
            if (h != g)
                CU(DeviceEnablePeerAccess, h, 0);
        u->in = new_stream();
        u->pass = new_stream();
        u->work = new_stream();
        u->out = new_stream();
        BLAS(Create_v2, &u->blas);
        BLAS(SetStream_v2, u->blas, u->work);
        u->a = device_doubles(all);
        u->b = device_doubles(part);
        u->c = terms == 2 ? device_doubles(part) : NULL;
        u->d = device_doubles(part);
        for (int k = 0; k < MOST_CHUNKS; k++) {
            u->a_loaded[k] = new_event();
            u->a_passed[k] = new_event();
            u->inputs[k] = new_event();
        }
        for (int p = 0; p < PIECES; p++)
            u->piece[p] = new_event();
    }
    CU(SetDevice, 0);
}

/* Columns [from, from + width) of this GPU's D += chunk k of A times chunk k of B (and of C). */
static void multiply(struct gpu *u, const double *alpha, int k, int from, int width)
{
    size_t rows = (size_t)(n / chunks), N = (size_t)n;
    const double *chunk = u->a + (size_t)k * rows * N;
    double *out = u->d + (size_t)from * N;
    size_t at = (size_t)from * N + (size_t)k * rows;
    BLAS(Dgemm_v2, u->blas, OP_N, OP_N, n, width, (int)rows, alpha, chunk, n, u->b + at, n, k ? &one : &zero, out, n);
    if (u->c)
        BLAS(Dgemm_v2, u->blas, OP_N, OP_N, n, width, (int)rows, alpha, chunk, n, u->c + at, n, &one, out, n);
}

static void hand(const double *alpha, int tail)
{
    size_t N = (size_t)n, rows = N / (size_t)chunks, pitch = N * sizeof(double);
    int columns = n / gpus, width = columns / PIECES;
    size_t part = (size_t)columns * N;
    for (int k = 0; k < chunks; k++) {
        size_t from = (size_t)k * rows * N, length = rows * N * sizeof(double);
        int loader = k % gpus;
        struct gpu *l = &on[loader];
        CU(SetDevice, loader);
        CU(MemcpyAsync, l->a + from, a + from, length, TO_DEVICE, l->in);
        CU(EventRecord, l->a_loaded[k], l->in);
        for (int g = 0; g < gpus; g++)
            if (g != loader) {
                CU(StreamWaitEvent, l->pass, l->a_loaded[k], 0);
                CU(MemcpyPeerAsync, on[g].a + from, g, l->a + from, loader, length, l->pass);
            }
        CU(EventRecord, l->a_passed[k], l->pass);
        for (int g = 0; g < gpus; g++) {
            struct gpu *u = &on[g];
            size_t at = (size_t)k * rows;
            CU(SetDevice, g);
            CU(Memcpy2DAsync, u->b + at, pitch, b + (size_t)g * part + at, pitch, rows * sizeof(double), (size_t)columns,
               TO_DEVICE, u->in);
            if (u->c)
                CU(Memcpy2DAsync, u->c + at, pitch, c + (size_t)g * part + at, pitch, rows * sizeof(double),
                   (size_t)columns, TO_DEVICE, u->in);
            CU(EventRecord, u->inputs[k], u->in);
            CU(StreamWaitEvent, u->work, u->inputs[k], 0);
            CU(StreamWaitEvent, u->work, g == loader ? l->a_loaded[k] : l->a_passed[k], 0);
            if (k < chunks - tail)
                multiply(u, alpha, k, 0, columns);
        }
    }
    for (int p = 0; p < PIECES; p++)
        for (int g = 0; g < gpus; g++) {
            struct gpu *u = &on[g];
            size_t at = (size_t)(p * width) * N;
            CU(SetDevice, g);
            for (int k = chunks - tail; k < chunks; k++)
                multiply(u, alpha, k, p * width, width);
            CU(EventRecord, u->piece[p], u->work);
            CU(StreamWaitEvent, u->out, u->piece[p], 0);
            CU(MemcpyAsync, d + (size_t)g * part + at, u->d + at, (size_t)width * N * sizeof(double), TO_HOST, u->out);
        }
    for (int g = 0; g < gpus; g++) {
        CU(SetDevice, g);
        CU(StreamSynchronize, on[g].out);
    }
    CU(SetDevice, 0);
}

/* Computes D on one GPU, with all matrices in memory that the GPU can address. */
static void compute(const struct gpu *u, const double *alpha, const double *da, const double *db, const double *dc, double *dd)
{
    BLAS(Dgemm_v2, u->blas, OP_N, OP_N, n, n, n, alpha, da, n, db, n, &zero, dd, n);
    if (dc)
        BLAS(Dgemm_v2, u->blas, OP_N, OP_N, n, n, n, alpha, da, n, dc, n, &one, dd, n);
    CU(StreamSynchronize, u->work);
}

static struct gpu alone; /* whole matrices on GPU 0 */

static void start_alone(void)
{
    if (alone.blas)
        return;
    alone.work = new_stream();
    BLAS(Create_v2, &alone.blas);
    BLAS(SetStream_v2, alone.blas, alone.work);
}

static void serial(const double *alpha)
{
    copy(alone.a, a, all, TO_DEVICE);
    copy(alone.b, b, all, TO_DEVICE);
    if (c)
        copy(alone.c, c, all, TO_DEVICE);
    compute(&alone, alpha, alone.a, alone.b, c ? alone.c : NULL, alone.d);
    copy(d, alone.d, all, TO_HOST);
}

static void managed(const double *alpha)
{
    struct cuda_location gpu = {1, 0}, host = {2, 0};
    size_t bytes = all * sizeof(double);
    CU(Prefetch, a, bytes, gpu, 0, alone.work);
    CU(Prefetch, b, bytes, gpu, 0, alone.work);
    if (c)
        CU(Prefetch, c, bytes, gpu, 0, alone.work);
    CU(Prefetch, d, bytes, gpu, 0, alone.work);
    compute(&alone, alpha, a, b, c, d);
    CU(Prefetch, d, bytes, host, 0, alone.work);
    CU(StreamSynchronize, alone.work);
}

static xt_t xt;

static void xt_call(const double *alpha)
{
    size_t N = (size_t)n;
    BLAS(XtDgemm, xt, OP_N, OP_N, N, N, N, alpha, a, N, b, N, &zero, d, N);
    if (c)
        BLAS(XtDgemm, xt, OP_N, OP_N, N, N, N, alpha, a, N, c, N, &one, d, N);
}

static int tail;
static void hand_call(const double *alpha)
{
    hand(alpha, tail);
}

struct times {
    struct series whole, call, read;
};

static void once(const char *kind, void (*call)(const double *), int repetition, struct times *out)
{
    uint32_t seed = 10 + (uint32_t)(repetition + 2);
    struct product p = {(size_t)n, (size_t)n, (size_t)n, 1 + (repetition + 4) % 4, terms == 2, 3 * seed, 3 * seed + 1, 3 * seed + 2};
    fill(a, all, p.a);
    fill(b, all, p.b);
    if (c)
        fill(c, all, p.c);
    double start = now();
    call(&p.alpha);
    double returned = now();
    double total = sum(d, all, readers);
    double end = now();
    same("the sum read again", sum(d, all, readers), total);
    double last = now();
    product_check(kind, &p, d, total);
    if (out) {
        add(&out->whole, end - start);
        add(&out->call, returned - start);
        add(&out->read, last - end);
    }
}

static void measure(const char *kind, void (*call)(const double *), int repetitions, const char *more)
{
    struct times t = {0};
    char text[9500], l1[4096], l2[4096];
    double begun = now();
    once(kind, call, -1, NULL);
    for (int r = 0; r < repetitions && (r < 3 || now() - begun < 20); r++)
        once(kind, call, r, &t);
    snprintf(text, sizeof text, ",\"call\":%s,\"read\":%s,\"readers\":%d,\"gpus\":%d%s", list(&t.call, l1, sizeof l1),
             list(&t.read, l2, sizeof l2), readers, gpus, more);
    emit(terms == 2 ? "abac" : "dgemm", (size_t)n, kind, &t.whole, text);
}

static void measure_xt(int repetitions)
{
    static const int blocks[] = {1024, 2048, 4096, 8192};
    int devices[MOST_GPUS], best = 0, tried = 0;
    double least = 1e30;
    char more[400];
    int at = snprintf(more, sizeof more, ",\"blocks\":{");
    for (int g = 0; g < gpus; g++)
        devices[g] = g;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            int block = blocks[i];
            struct times t = {0};
            if ((block > n && (i || n > blocks[0])) || (pass && block != best))
                continue;
            BLAS(XtCreate, &xt);
            BLAS(XtDeviceSelect, xt, gpus, devices);
            BLAS(XtSetBlockDim, xt, block);
            if (pass) {
                at += snprintf(more + at, sizeof more - (size_t)at, "},\"block\":%d", best);
                measure("xt", xt_call, repetitions, more);
            } else {
                /* cuBLASXt's first call on these GPUs allocates memory. */
                if (!tried || n <= 8192)
                    once("xt", xt_call, -2, NULL);
                once("xt", xt_call, -1, &t);
                at += snprintf(more + at, sizeof more - (size_t)at, "%s\"%d\":%.6g", tried ? "," : "", block, median(&t.whole));
                if (median(&t.whole) < least) {
                    least = median(&t.whole);
                    best = block;
                }
                tried++;
            }
            BLAS(XtDestroy, xt);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 5)
        die("usage: peer_abac N TERMS KINDS REPETITIONS [READERS]");
    n = atoi(argv[1]);
    terms = atoi(argv[2]);
    int repetitions = atoi(argv[4]), kind_managed = listed(argv[3], "managed");
    if (argc > 5)
        readers = atoi(argv[5]);
    all = (size_t)n * (size_t)n;
    gpus = cuda_start();
    if (gpus > MOST_GPUS)
        gpus = MOST_GPUS;
    chunks = n >= 8192 ? 16 : 8;
    while (gpus > 1 && n % (gpus * PIECES))
        gpus--;
    if (n % chunks || n % PIECES)
        die("N must be a multiple of %d", chunks);
    if (kind_managed) {
        void *p;
        double **matrix[] = {&a, &b, &c, &d};
        for (int i = 0; i < 4; i++)
            if (i != 2 || terms == 2) {
                CU(MallocManaged, &p, all * sizeof(double), 1);
                *matrix[i] = p;
            }
        poison(d, all);
        start_alone();
        measure("managed", managed, repetitions, "");
        return 0;
    }
    a = pinned_doubles(all);
    b = pinned_doubles(all);
    c = terms == 2 ? pinned_doubles(all) : NULL;
    d = pinned_doubles(all);
    if (listed(argv[3], "hand") || listed(argv[3], "hand4"))
        start_gpus();
    if (listed(argv[3], "hand")) {
        tail = 1;
        measure("hand", hand_call, repetitions, "");
    }
    if (listed(argv[3], "hand4")) {
        tail = 4;
        measure("hand4", hand_call, repetitions, "");
    }
    if (listed(argv[3], "serial")) {
        start_alone();
        alone.a = device_doubles(all);
        alone.b = device_doubles(all);
        alone.c = c ? device_doubles(all) : NULL;
        alone.d = device_doubles(all);
        measure("serial", serial, repetitions, "");
    }
    if (listed(argv[3], "xt"))
        measure_xt(repetitions);
    return 0;
}
