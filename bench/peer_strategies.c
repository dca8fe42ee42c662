/* How long one call takes by each way of moving its operands between registered host memory and the GPU (van Werkhoven et al.,
 * CCGrid 2014): the result must be on the host when the clock stops.
 *
 *   peer_strategies [CASES [SECONDS [MIB]]]
 *
 * CASES is a list of axpy, dot, gemm and gemv, SECONDS when the program must end (50), MIB how large the operands of one call
 * may be (2050). One line per routine, size, place and strategy:
 *
 *   {"bench":"strategies","routine":"daxpy","n":1024,"place":"host","strategy":"explicit","streams":1,"seconds":[...]}
 *
 * In place "host" the newest data of all operands are on the host; "resident": the matrix, or the vectors of ddot, on the GPU.
 * Strategies: "explicit" copies, computes, copies back, on one stream. "streams" cuts the call, each part with its copies on a
 * stream of its own: dgemv-n by rows, dgemv-t by columns; "streams-columns" is dgemv-n by columns, whose copies are contiguous
 * and whose kernels run one after the other. "mapped" lets the kernel use all operands where they are on the host, "hybrid-x"
 * only those named. ddot has two words: the way of the vectors, and the place of the result for cuBLAS: "device" memory, copied
 * then, "mapped" memory, or "host", which cuBLAS waits for by itself. Resident, it has only the second. */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"

enum { MOST_STREAMS = 64, WARM_UP = 2, LEAST = 5, MOST = 30 };
static const double ENOUGH = 0.03; /* seconds of one series, once it has LEAST measurements */

/* The same layout on the host and on the GPU. */
static struct {
    double *host, *mapped, *device;
    size_t n;
} arena;
static blas_t blas;
static stream_t stream[MOST_STREAMS];
static event_t event[MOST_STREAMS];
static double deadline;
static int skipped;

/* An operand's bit in the masks. */
enum { FIRST = 1, SECOND = 2, THIRD = 4 };

struct call {
    const char *routine, *place;
    int n, trans, operands;
    struct {
        size_t at, n;
    } operand[3]; /* in the arena */
    uint32_t in, out;
    uint32_t resident; /* already on the GPU */
    uint32_t mapped;   /* used by the kernel where they are on the host */
    uint32_t plain;    /* written by cuBLAS itself, at the host's address */
    int pointer_mode, streams;
    double alpha, added; /* the sum of alpha over all calls */
    void (*kernel)(const struct call *, double *const *p);
    void (*check)(const struct call *);
};

static const double zero = 0, one = 1;

static void upload(size_t at, size_t n, stream_t s)
{
    CU(MemcpyAsync, arena.device + at, arena.host + at, n * sizeof(double), TO_DEVICE, s);
}

static void download(size_t at, size_t n, stream_t s)
{
    CU(MemcpyAsync, arena.host + at, arena.device + at, n * sizeof(double), TO_HOST, s);
}

/* One call on one stream. */
static void whole(const struct call *c)
{
    double *p[3];
    for (int o = 0; o < c->operands; o++) {
        uint32_t bit = 1u << o;
        p[o] = (c->plain & bit ? arena.host : c->mapped & bit ? arena.mapped : arena.device) + c->operand[o].at;
        if (c->in & ~c->resident & ~c->mapped & bit)
            upload(c->operand[o].at, c->operand[o].n, stream[0]);
    }
    c->kernel(c, p);
    for (int o = 0; o < c->operands; o++)
        if (c->out & ~c->mapped & ~c->plain & (1u << o))
            download(c->operand[o].at, c->operand[o].n, stream[0]);
    if (!c->plain)
        CU(StreamSynchronize, stream[0]);
}

static void measure(struct call *c, const char *strategy, uint32_t mapped, int streams, void (*once)(const struct call *))
{
    char text[4096];
    struct series s = {0};
    double spent = 0;
    if (now() > deadline) {
        skipped++;
        return;
    }
    c->mapped = mapped;
    c->streams = streams;
    /* NaN wherever something must be copied or computed. */
    for (int o = 0; o < c->operands; o++) {
        if (!(c->resident & (1u << o)))
            CU(Memset, arena.device + c->operand[o].at, 0xff, c->operand[o].n * sizeof(double));
        if (c->out & ~c->in & (1u << o))
            poison(arena.host + c->operand[o].at, c->operand[o].n);
    }
    CU(DeviceSynchronize);
    BLAS(SetStream_v2, blas, stream[0]);
    BLAS(SetPointerMode_v2, blas, c->pointer_mode);
    for (int r = -WARM_UP; r < MOST && (r < LEAST || spent < ENOUGH); r++) {
        c->alpha = 1 + (r + WARM_UP) % 3;
        double start = now();
        once(c);
        double end = now();
        c->added += c->alpha;
        if (r < 0)
            continue;
        add(&s, end - start);
        spent += end - start;
        if (end > deadline)
            break;
    }
    CU(DeviceSynchronize);
    c->check(c);
    printf("{\"bench\":\"strategies\",\"routine\":\"%s\",\"n\":%d,\"place\":\"%s\",\"strategy\":\"%s\",\"streams\":%d,\"seconds\":%s}\n",
           c->routine, c->n, c->place, strategy, streams, list(&s, text, sizeof text));
    fflush(stdout);
}

static void in_streams(struct call *c, const char *strategy, void (*once)(const struct call *))
{
    for (int k = 2; k <= MOST_STREAMS; k *= 2)
        measure(c, strategy, 0, k, once);
}

/* Gives the operands their places in the arena, one behind the other; whether they fit. */
static int place(struct call *c)
{
    size_t at = 0;
    for (int o = 0; o < c->operands; o++) {
        c->operand[o].at = at;
        at += (c->operand[o].n + 31) & ~(size_t)31;
    }
    return at <= arena.n;
}

/* Part `i` of `parts` of n begins here. */
static size_t part(const struct call *c, int i)
{
    return (size_t)c->n * (size_t)i / (size_t)c->streams;
}

/* -- daxpy: x, y -------------------------------------------------------------------------------------------------- */

static void axpy_kernel(const struct call *c, double *const *p)
{
    BLAS(Daxpy_v2, blas, c->n, &c->alpha, p[0], 1, p[1], 1);
}

static void axpy_parts(const struct call *c)
{
    for (int i = 0; i < c->streams; i++) {
        size_t from = part(c, i), n = part(c, i + 1) - from, x = c->operand[0].at + from, y = c->operand[1].at + from;
        upload(x, n, stream[i]);
        upload(y, n, stream[i]);
        BLAS(SetStream_v2, blas, stream[i]);
        BLAS(Daxpy_v2, blas, (int)n, &c->alpha, arena.device + x, 1, arena.device + y, 1);
        download(y, n, stream[i]);
    }
    CU(DeviceSynchronize);
}

static void axpy_compare(void *arg, size_t from, size_t to, int thread)
{
    const struct call *c = arg;
    const double *y = arena.host + c->operand[1].at;
    (void)thread;
    for (size_t i = from; i < to; i++)
        if (y[i] != value(2, i) + c->added * value(1, i))
            same("an element of daxpy's y", y[i], value(2, i) + c->added * value(1, i));
}

static void axpy_check(const struct call *c)
{
    parallel((size_t)c->n, c->n < 1 << 18 ? 1 : 0, axpy_compare, (void *)c);
}

static void axpy(void)
{
    for (size_t n = 1 << 10; n <= 1 << 26; n *= 4) {
        struct call c = {.routine = "daxpy", .place = "host", .n = (int)n, .operands = 2, .operand = {{0, n}, {0, n}},
                         .in = FIRST | SECOND, .out = SECOND, .kernel = axpy_kernel, .check = axpy_check};
        if (!place(&c))
            return;
        fill(arena.host + c.operand[0].at, n, 1);
        fill(arena.host + c.operand[1].at, n, 2);
        measure(&c, "explicit", 0, 1, whole);
        in_streams(&c, "streams", axpy_parts);
        measure(&c, "mapped", FIRST | SECOND, 1, whole);
        measure(&c, "hybrid-x", FIRST, 1, whole);
        measure(&c, "hybrid-y", SECOND, 1, whole);
    }
}

/* -- ddot: x, y, the result --------------------------------------------------------------------------------------- */

static void dot_kernel(const struct call *c, double *const *p)
{
    BLAS(Ddot_v2, blas, c->n, p[0], 1, p[1], 1, p[2]);
}

static double dot_wanted;

static void dot_check(const struct call *c)
{
    same("ddot", arena.host[c->operand[2].at], dot_wanted);
}

static void dot(void)
{
    for (size_t n = 1 << 10; n <= 1 << 26; n *= 4) {
        struct call c = {.routine = "ddot", .place = "host", .n = (int)n, .operands = 3, .operand = {{0, n}, {0, n}, {0, 1}},
                         .in = FIRST | SECOND, .out = THIRD, .kernel = dot_kernel, .check = dot_check};
        if (!place(&c))
            return;
        double *x = arena.host + c.operand[0].at, *y = arena.host + c.operand[1].at;
        fill(x, n, 1);
        fill(y, n, 2);
        dot_wanted = 0;
        for (size_t i = 0; i < n; i++)
            dot_wanted += x[i] * y[i];
        c.pointer_mode = 1; /* the result at an address of the GPU */
        measure(&c, "explicit-device", 0, 1, whole);
        measure(&c, "explicit-mapped", THIRD, 1, whole);
        measure(&c, "mapped-device", FIRST | SECOND, 1, whole);
        measure(&c, "mapped-mapped", FIRST | SECOND | THIRD, 1, whole);
        c.pointer_mode = 0;
        c.plain = THIRD;
        measure(&c, "explicit-host", 0, 1, whole);
        measure(&c, "mapped-host", FIRST | SECOND, 1, whole);
        c.place = "resident";
        c.resident = FIRST | SECOND;
        upload(c.operand[0].at, n, NULL);
        upload(c.operand[1].at, n, NULL);
        measure(&c, "host", 0, 1, whole);
        c.pointer_mode = 1;
        c.plain = 0;
        measure(&c, "device", 0, 1, whole);
        measure(&c, "mapped", THIRD, 1, whole);
    }
}

/* -- dgemv: A, x, y ----------------------------------------------------------------------------------------------- */

static void gemv_kernel(const struct call *c, double *const *p)
{
    BLAS(Dgemv_v2, blas, c->trans, c->n, c->n, &c->alpha, p[0], c->n, p[1], 1, &zero, p[2], 1);
}

/* Every part is some elements of y: the rows of A, or the columns of A transposed. */
static void gemv_parts(const struct call *c)
{
    size_t n = (size_t)c->n, a = c->operand[0].at, x = c->operand[1].at, y = c->operand[2].at;
    upload(x, n, stream[0]);
    CU(EventRecord, event[0], stream[0]);
    for (int i = 0; i < c->streams; i++) {
        size_t from = part(c, i), count = part(c, i + 1) - from, width = count * sizeof(double);
        double *piece = arena.device + a + from * n;
        if (c->trans)
            upload(a + from * n, count * n, stream[i]);
        else
            CU(Memcpy2DAsync, piece, width, arena.host + a + from, n * sizeof(double), width, n, TO_DEVICE, stream[i]);
        if (i > 0)
            CU(StreamWaitEvent, stream[i], event[0], 0);
        BLAS(SetStream_v2, blas, stream[i]);
        BLAS(Dgemv_v2, blas, c->trans, c->trans ? (int)n : (int)count, c->trans ? (int)count : (int)n, &c->alpha, piece,
             c->trans ? (int)n : (int)count, arena.device + x, 1, &zero, arena.device + y + from, 1);
        download(y + from, count, stream[i]);
    }
    CU(DeviceSynchronize);
}

/* Every part is some columns of A and adds to all of y, so the kernels run on one stream. */
static void gemv_columns(const struct call *c)
{
    size_t n = (size_t)c->n, a = c->operand[0].at, x = c->operand[1].at, y = c->operand[2].at;
    upload(x, n, stream[0]);
    for (int i = 0; i < c->streams; i++) {
        size_t from = part(c, i), count = part(c, i + 1) - from;
        upload(a + from * n, count * n, stream[i]);
        if (i > 0) {
            CU(EventRecord, event[i], stream[i]);
            CU(StreamWaitEvent, stream[0], event[i], 0);
        }
        BLAS(Dgemv_v2, blas, OP_N, c->n, (int)count, &c->alpha, arena.device + a + from * n, c->n, arena.device + x + from, 1,
             i ? &one : &zero, arena.device + y, 1);
    }
    download(y, n, stream[0]);
    CU(StreamSynchronize, stream[0]);
}

/* All elements, or 64 of them. A x is a product with one column, A transposed times x is x transposed times A. */
static void gemv_check(const struct call *c)
{
    size_t n = (size_t)c->n, step = n <= 1024 ? 1 : n / 64;
    struct product rows = {n, 1, n, c->alpha, 0, 1, 2, 0}, columns = {1, n, n, c->alpha, 0, 2, 1, 0};
    const double *y = arena.host + c->operand[2].at;
    for (size_t s = 0; s < n; s += step) {
        size_t i = s + (step - 1) * (s / step) / 63; /* the first and the last among them */
        same(c->routine, y[i], c->trans ? product_entry(&columns, 0, i) : product_entry(&rows, i, 0));
    }
}

static void gemv(void)
{
    for (size_t n = 256; n <= 16384; n *= 2) {
        struct call c = {.n = (int)n, .operands = 3, .operand = {{0, n * n}, {0, n}, {0, n}}, .in = FIRST | SECOND,
                         .out = THIRD, .kernel = gemv_kernel, .check = gemv_check};
        if (!place(&c))
            return;
        fill(arena.host + c.operand[0].at, n * n, 1);
        fill(arena.host + c.operand[1].at, n, 2);
        for (c.trans = OP_N; c.trans <= OP_T; c.trans++) {
            c.routine = c.trans ? "dgemv-t" : "dgemv-n";
            c.place = "host";
            c.resident = 0;
            measure(&c, "explicit", 0, 1, whole);
            measure(&c, "mapped", FIRST | SECOND | THIRD, 1, whole);
            measure(&c, "hybrid-a", FIRST, 1, whole);
            measure(&c, "hybrid-xy", SECOND | THIRD, 1, whole);
            in_streams(&c, "streams", gemv_parts);
            if (!c.trans)
                in_streams(&c, "streams-columns", gemv_columns);
            c.place = "resident";
            c.resident = FIRST;
            upload(c.operand[0].at, n * n, NULL);
            measure(&c, "explicit", 0, 1, whole);
            measure(&c, "mapped", SECOND | THIRD, 1, whole);
            measure(&c, "hybrid-x", SECOND, 1, whole);
            measure(&c, "hybrid-y", THIRD, 1, whole);
        }
    }
}

/* -- dgemm: A, B, C ----------------------------------------------------------------------------------------------- */

static void gemm_kernel(const struct call *c, double *const *p)
{
    int n = c->n;
    BLAS(Dgemm_v2, blas, OP_N, OP_N, n, n, n, &c->alpha, p[0], n, p[1], n, &zero, p[2], n);
}

static void gemm_check(const struct call *c)
{
    size_t n = (size_t)c->n;
    struct product p = {n, n, n, c->alpha, 0, 1, 2, 0};
    const double *d = arena.host + c->operand[2].at;
    product_check(c->routine, &p, d, sum(d, n * n, 1));
    for (size_t i = 0; n <= 128 && i < n * n; i++)
        same(c->routine, d[i], product_entry(&p, i % n, i / n));
}

static void gemm(void)
{
    static const size_t sizes[] = {64, 96, 128, 192, 256, 384, 512};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        struct call c = {.routine = "dgemm", .place = "host", .n = (int)n, .operands = 3, .in = FIRST | SECOND, .out = THIRD,
                         .operand = {{0, n * n}, {0, n * n}, {0, n * n}}, .kernel = gemm_kernel, .check = gemm_check};
        if (!place(&c))
            return;
        fill(arena.host + c.operand[0].at, n * n, 1);
        fill(arena.host + c.operand[1].at, n * n, 2);
        measure(&c, "explicit", 0, 1, whole);
        measure(&c, "hybrid-ab", FIRST | SECOND, 1, whole);
        measure(&c, "hybrid-c", THIRD, 1, whole);
        measure(&c, "mapped", FIRST | SECOND | THIRD, 1, whole);
    }
}

int main(int argc, char **argv)
{
    /* The largest is the last, and has what the others leave of the time. */
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"axpy", axpy}, {"dot", dot}, {"gemm", gemm}, {"gemv", gemv}};
    enum { CASES = sizeof cases / sizeof *cases };
    const char *words = argc > 1 ? argv[1] : "axpy,dot,gemm,gemv";
    double start = now(), end = start + (argc > 2 ? atof(argv[2]) : 50);
    int left = 0;
    for (int i = 0; i < CASES; i++)
        left += listed(words, cases[i].name);
    if (!left || argc > 4)
        die("usage: peer_strategies [axpy,dot,gemm,gemv [SECONDS [MIB]]]");
    arena.n = (size_t)(argc > 3 ? atoi(argv[3]) : 2050) << 17;
    cuda_start();
    BLAS(Create_v2, &blas);
    for (int i = 0; i < MOST_STREAMS; i++) {
        stream[i] = new_stream();
        event[i] = new_event();
    }
    arena.host = mapped_doubles(arena.n, &arena.mapped);
    arena.device = device_doubles(arena.n);
    void *allocated = NULL, *address = NULL;
    CU(HostAlloc, &allocated, 1 << 20, 1 | 2);
    CU(HostGetDevicePointer, &address, allocated, 0);
    printf("{\"bench\":\"strategies\",\"same_address_registered\":%s,\"same_address_allocated\":%s,\"start\":%.3f}\n",
           arena.mapped == arena.host ? "true" : "false", address == allocated ? "true" : "false", now() - start);
    for (int i = 0; i < CASES; i++)
        if (listed(words, cases[i].name)) {
            deadline = now() + (end - now()) / left--;
            cases[i].run();
        }
    printf("{\"bench\":\"strategies\",\"skipped\":%d,\"wall\":%.3f}\n", skipped, now() - start);
    return 0;
}
