/* The rates of this machine's GPUs and their links, measured, for the file that SEMCACHE_RATES names; rates.py makes it of
 * what is printed here: one JSON line per measurement.
 *
 *   peer_rates MIB N REPETITIONS      copies of up to MIB MiB, products of up to order N
 *
 * Times of copies and kernels are the GPU's own, from an event before to an event behind them. A copy that is measured
 * beside other work begins when that work runs; "covered" is 1 if the work still ran when the copy had ended, each time. */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"

enum { MOST_GPUS = 8, NOT_READY = 600 };

static int repetitions, gpus;
static size_t bytes, order;
static double *host[MOST_GPUS], *other, *device[MOST_GPUS];
static stream_t copies[MOST_GPUS], back, compute;
static event_t begun, before, behind, done;
static blas_t blas;
/* Seconds of products before each measured one: a GPU that computes for longer lowers its clock. */
#define LOAD_S 0.02
/* Factors of products on the first GPU, each of `order` squared complex entries, and seconds of one dgemm that keeps it busy. */
static double *a, *b, *c, busy_s;

/* Prints a series and begins it anew. */
static void report(const char *what, size_t size, struct series *s, size_t moved, int covered)
{
    char more[100];
    snprintf(more, sizeof more, ",\"bytes\":%zu,\"covered\":%d", moved, covered);
    emit("rates", size, what, s, more);
    *s = (struct series){0};
}

static void one_copy(int out, size_t n, stream_t stream)
{
    if (out)
        CU(MemcpyAsync, host[0], device[0], n, TO_HOST, stream);
    else
        CU(MemcpyAsync, device[0], host[0], n, TO_DEVICE, stream);
}

static void product(void)
{
    int n = (int)order / 2;
    double one = 1, zero = 0;
    BLAS(Dgemm_v2, blas, OP_N, OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
}

/* Queues products that take at least this long together; `begun` and `done` are behind the first and the last. */
static void products(double seconds)
{
    product();
    CU(EventRecord, begun, compute);
    for (int i = 0; i < 400 && i * busy_s <= seconds; i++)
        product();
    CU(EventRecord, done, compute);
}

/* Waits for the work of a stream; whether the work before `done` still runs then. */
static int still_busy(stream_t stream)
{
    CU(StreamSynchronize, stream);
    return cuda.EventQuery(done) == NOT_READY;
}

static void alone(void)
{
    struct series s = {0};
    for (int out = 0; out < 2; out++)
        for (size_t n = 64 << 10; n <= bytes; n *= 4) {
            for (int r = -1; r < repetitions; r++) {
                CU(EventRecord, before, copies[0]);
                one_copy(out, n, copies[0]);
                CU(EventRecord, behind, copies[0]);
                CU(StreamSynchronize, copies[0]);
                if (r >= 0)
                    add(&s, between(before, behind));
            }
            report(out ? "d2h" : "h2d", n, &s, n, 1);
        }
}

/* A copy while the other direction copies all the time. */
static void both_ways(void)
{
    struct series s = {0};
    for (int out = 0; out < 2; out++) {
        int covered = 1;
        for (int r = -1; r < repetitions; r++) {
            for (int i = 0; i < 8; i++) {
                if (out)
                    CU(MemcpyAsync, c, other, bytes, TO_DEVICE, back);
                else
                    CU(MemcpyAsync, other, c, bytes, TO_HOST, back);
                if (i == 0)
                    CU(EventRecord, begun, back);
            }
            CU(EventRecord, done, back);
            CU(StreamWaitEvent, copies[0], begun, 0);
            CU(EventRecord, before, copies[0]);
            one_copy(out, bytes, copies[0]);
            CU(EventRecord, behind, copies[0]);
            covered &= still_busy(copies[0]);
            CU(DeviceSynchronize);
            if (r >= 0)
                add(&s, between(before, behind));
        }
        report(out ? "d2h beside h2d" : "h2d beside d2h", bytes, &s, bytes, covered);
    }
}

/* Tiles of a matrix whose columns are 128 KiB apart, while kernels run. */
static void tiles(void)
{
    struct series s = {0};
    size_t pitch = 128 << 10, columns = bytes / pitch;
    for (size_t run = 4 << 10; run <= 64 << 10; run *= 2)
        for (int out = 0; out < 2; out++) {
            int covered = 1;
            for (int r = -1; r < repetitions; r++) {
                products((double)(run * columns) / 10e9);
                CU(StreamWaitEvent, copies[0], begun, 0);
                CU(EventRecord, before, copies[0]);
                if (out)
                    CU(Memcpy2DAsync, host[0], pitch, device[0], run, run, columns, TO_HOST, copies[0]);
                else
                    CU(Memcpy2DAsync, device[0], run, host[0], pitch, run, columns, TO_DEVICE, copies[0]);
                CU(EventRecord, behind, copies[0]);
                covered &= still_busy(copies[0]);
                CU(DeviceSynchronize);
                if (r >= 0)
                    add(&s, between(before, behind));
            }
            report(out ? "runs d2h" : "runs h2d", run, &s, run * columns, covered);
        }
}

/* From the second GPU to the first, alone and beside copies the other way. */
static void peers(void)
{
    struct series s = {0};
    if (gpus < 2)
        return;
    CU(SetDevice, 1);
    CU(DeviceEnablePeerAccess, 0, 0);
    double *there = device_doubles(bytes / sizeof(double));
    CU(SetDevice, 0);
    CU(DeviceEnablePeerAccess, 1, 0);
    for (size_t n = 64 << 10; n <= bytes; n *= 4) {
        for (int r = -1; r < repetitions; r++) {
            CU(EventRecord, before, copies[0]);
            CU(MemcpyPeerAsync, device[0], 0, device[1], 1, n, copies[0]);
            CU(EventRecord, behind, copies[0]);
            CU(StreamSynchronize, copies[0]);
            if (r >= 0)
                add(&s, between(before, behind));
        }
        report("p2p", n, &s, n, 1);
    }
    int covered = 1;
    for (int r = -1; r < repetitions; r++) {
        for (int i = 0; i < 8; i++) {
            CU(MemcpyPeerAsync, there, 1, c, 0, bytes, back);
            if (i == 0)
                CU(EventRecord, begun, back);
        }
        CU(EventRecord, done, back);
        CU(StreamWaitEvent, copies[0], begun, 0);
        CU(EventRecord, before, copies[0]);
        CU(MemcpyPeerAsync, device[0], 0, device[1], 1, bytes, copies[0]);
        CU(EventRecord, behind, copies[0]);
        covered &= still_busy(copies[0]);
        CU(DeviceSynchronize);
        if (r >= 0)
            add(&s, between(before, behind));
    }
    report("p2p beside p2p", bytes, &s, bytes, covered);
}

/* The first 1, 2, 4 and 8 GPUs at once, by the host's clock. */
static void together(void)
{
    struct series s = {0};
    for (int out = 0; out < 2; out++)
        for (int count = 1; count <= gpus; count *= 2) {
            for (int r = -1; r < repetitions; r++) {
                double start = now();
                for (int i = 0; i < 4; i++)
                    for (int g = 0; g < count; g++) {
                        CU(SetDevice, g);
                        if (out)
                            CU(MemcpyAsync, host[g], device[g], bytes, TO_HOST, copies[g]);
                        else
                            CU(MemcpyAsync, device[g], host[g], bytes, TO_DEVICE, copies[g]);
                    }
                for (int g = 0; g < count; g++)
                    CU(StreamSynchronize, copies[g]);
                if (r >= 0)
                    add(&s, now() - start);
            }
            report(out ? "d2h all" : "h2d all", (size_t)count, &s, 4 * (size_t)count * bytes, 1);
        }
    CU(SetDevice, 0);
}

/* Page-locking of memory that has been used, in huge pages if the system gives them, while this many GPUs are in use. */
static void page_lock(int contexts)
{
    struct series s = {0};
    for (int r = -1; r < repetitions; r++) {
        CU(HostUnregister, other);
        double start = now();
        CU(HostRegister, other, bytes, 1);
        if (r >= 0)
            add(&s, now() - start);
    }
    report("pin", (size_t)contexts, &s, bytes, 1);
}

/* Fills the factors with integers as numbers of a type; the rate of products depends on the bits that change. */
static void factors(int singles)
{
    size_t words = bytes / sizeof(double), all = 2 * order * order;
    float *numbers = (float *)host[0];
    fill(host[0], words, 7);
    if (singles)
        for (size_t i = 0; i < 2 * words; i++)
            numbers[i] = (float)value(7, i);
    for (size_t i = 0; i < all; i += words) {
        size_t n = all - i < words ? all - i : words;
        copy(a + i, host[0], n, TO_DEVICE);
        copy(b + i, host[0], n, TO_DEVICE);
    }
}

static void gemm_of(char type, int n)
{
    double one[2] = {1, 0}, zero[2] = {0, 0};
    float one_s[2] = {1, 0}, zero_s[2] = {0, 0};
    const float *as = (const float *)a, *bs = (const float *)b;
    if (type == 's')
        BLAS(Sgemm_v2, blas, OP_N, OP_N, n, n, n, one_s, as, n, bs, n, zero_s, (float *)c, n);
    else if (type == 'c')
        BLAS(Cgemm_v2, blas, OP_N, OP_N, n, n, n, one_s, as, n, bs, n, zero_s, (float *)c, n);
    else if (type == 'd')
        BLAS(Dgemm_v2, blas, OP_N, OP_N, n, n, n, one, a, n, b, n, zero, c, n);
    else
        BLAS(Zgemm_v2, blas, OP_N, OP_N, n, n, n, one, a, n, b, n, zero, c, n);
}

/* Copies in both directions, for as long as the products take which they run beside. */
static void copies_beside(void)
{
    for (int i = 0; i < 12; i++) {
        CU(MemcpyAsync, device[0], host[0], bytes, TO_DEVICE, copies[0]);
        CU(MemcpyAsync, other, c, bytes, TO_HOST, back);
    }
}

/* Seconds of each of `count` kernels that are queued behind products of at least `lead` seconds, so that the host is not what
 * they wait for. With a lead, copies run beside them, and the GPU has the clock that it keeps under load: as in a call whose
 * tiles arrive and leave while others are computed. */
#define QUEUED(what, size, moved, lead, count, kernel)                   \
    do {                                                                 \
        struct series s_ = {0};                                          \
        for (int r = -2; r < repetitions; r++) {                         \
            if ((lead) > 0)                                              \
                copies_beside();                                         \
            products(lead);                                              \
            CU(EventRecord, before, compute);                            \
            for (int i = 0; i < (count); i++)                            \
                kernel;                                                  \
            CU(EventRecord, behind, compute);                            \
            CU(DeviceSynchronize);                                       \
            if (r >= 0)                                                  \
                add(&s_, between(before, behind) / (count));             \
        }                                                                \
        report(what, size, &s_, moved, 1);                               \
    } while (0)

static void kernels(void)
{
    const char types[] = "sdcz";
    double one = 1, zero = 0;
    struct series s = {0};
    for (int single = 1; single >= 0; single--) {
        factors(single);
        for (int t = 0; t < 4; t++) {
            char type = types[t], what[] = "gemm x";
            if ((type == 's' || type == 'c') != single)
                continue;
            what[5] = type;
            for (size_t n = order < 256 ? 32 : 256; n <= order; n *= 2) {
                int count = n < 1024 ? 50 : n < 4096 ? 8 : 1;
                QUEUED(what, n, 0, LOAD_S, count, gemm_of(type, (int)n));
            }
        }
    }
    int rows = 2 * (int)order, columns = (int)order;
    QUEUED("memory", order, (size_t)rows * (size_t)columns * sizeof(double), 0, 5,
           BLAS(Dgemv_v2, blas, OP_N, rows, columns, &one, a, rows, b, 1, &zero, c, 1));
    QUEUED("launch", 32, 0, 0, 50, gemm_of('d', 32));
    QUEUED("exec", 1000, 0, 0, 50, BLAS(Daxpy_v2, blas, 1000, &one, a, 1, c, 1));
    for (int r = -1; r < repetitions; r++) {
        double start = now();
        for (int k = 0; k < 1000; k++)
            BLAS(Daxpy_v2, blas, 1000, &one, a, 1, c, 1);
        CU(DeviceSynchronize);
        if (r >= 0)
            add(&s, (now() - start) / 1000);
    }
    report("stream", 1000, &s, 0, 1);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: peer_rates MIB N REPETITIONS");
    bytes = (size_t)atoi(argv[1]) << 20;
    order = (size_t)atoi(argv[2]);
    repetitions = atoi(argv[3]);
    size_t count = bytes / sizeof(double), entries = 2 * order * order;
    gpus = cuda_start();
    if (gpus > MOST_GPUS)
        gpus = MOST_GPUS;
    printf("{\"bench\":\"rates\",\"size\":%d,\"variant\":\"gpus\",\"seconds\":[]}\n", gpus);
    other = pinned_doubles(count);
    page_lock(1);
    for (int g = 1; g < gpus; g++) {
        CU(SetDevice, g);
        CU(Free, NULL);
        if (g == 1 || g == 3 || g == 7)
            page_lock(g + 1);
    }
    for (int g = 0; g < gpus; g++) {
        CU(SetDevice, g);
        host[g] = pinned_doubles(count);
        fill(host[g], count, 1);
        device[g] = device_doubles(count);
        copies[g] = new_stream();
    }
    CU(SetDevice, 0);
    /* The result also serves as the GPU's side of copies in the other direction. */
    a = device_doubles(entries);
    b = device_doubles(entries);
    c = device_doubles(entries > count ? entries : count);
    back = new_stream();
    compute = new_stream();
    begun = new_timed_event();
    before = new_timed_event();
    behind = new_timed_event();
    done = new_timed_event();
    BLAS(Create_v2, &blas);
    BLAS(SetStream_v2, blas, compute);
    factors(0);
    for (int r = 0; r < 2; r++) {
        CU(EventRecord, before, compute);
        product();
        CU(EventRecord, behind, compute);
        CU(StreamSynchronize, compute);
        busy_s = between(before, behind);
    }

    alone();
    both_ways();
    tiles();
    kernels();
    together();
    /* Last, since it ends the program where GPUs cannot copy from each other. */
    peers();
    return 0;
}
