/* The work of cg.c by cuSPARSE and cuBLAS on the memory of one GPU or of several (GPUS in the environment).
 *
 *   peer_cg ROWS STEPS REPS      a JSON line for each way of treating scalars
 *
 * Each GPU has rows with as many entries, and these rows of all vectors. Before a product it copies from the others what its columns need
 * of P; a thread of the host drives it. `scalars on the host`: kernels write sums into page-locked memory, and each thread waits for its
 * own and adds up all. `scalars on the device`, with one GPU: nothing is awaited until the last step; DTRSM of order 1 divides. Keys: as
 * those of cg.c.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "csr.h"
#include "cusparse.h"

enum { MOST_GPUS = 16, SCALARS_HOST = 0, SCALARS_DEVICE = 1, LEFT = 0, LOWER = 0, NOT_UNIT = 0 };

static const double one = 1, zero = 0;

/* What one GPU has. */
struct share {
    int64_t from, to;  /* rows */
    int64_t low, high; /* its columns */
    stream_t stream;
    event_t updated; /* its part of P */
    blas_t blas;
    sparse_t sparse;
    void *a, *whole, *product; /* the matrix, P and Q for cuSPARSE */
    void *buffer;
    double *all; /* of P, from the first row on */
    double *b, *x, *r, *p, *q;
    volatile double *part; /* a sum, in page-locked memory of the host */
    double times, begun, left;
};

static struct {
    const struct csr *a;
    int gpus, steps, reps, arrived;
    unsigned turn;
    double parts[2][MOST_GPUS];
    struct share of[MOST_GPUS];
    struct series s;
} all;

/* Returns when every thread is here. Threads wait for microseconds at most. */
static void meet(void)
{
    unsigned turn = __atomic_load_n(&all.turn, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&all.arrived, 1, __ATOMIC_ACQ_REL) == all.gpus) {
        __atomic_store_n(&all.arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&all.turn, turn + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&all.turn, __ATOMIC_ACQUIRE) == turn)
        __builtin_ia32_pause();
}

/* The dot product of two vectors: the sum of all shares' parts. `slot` is another than the one before. */
static double dot(int d, int slot, const double *x, const double *y)
{
    struct share *s = &all.of[d];
    double total = 0;
    BLAS(SetPointerMode_v2, s->blas, SCALARS_DEVICE);
    BLAS(Ddot_v2, s->blas, (int)(s->to - s->from), x, 1, y, 1, (double *)s->part);
    BLAS(SetPointerMode_v2, s->blas, SCALARS_HOST);
    CU(StreamSynchronize, s->stream);
    all.parts[slot][d] = *s->part;
    meet();
    for (int e = 0; e < all.gpus; e++)
        total += all.parts[slot][e];
    return total;
}

/* The bytes that share `d` needs of the part of P that share `e` has. */
static size_t halo(int d, int e, int64_t *from)
{
    const struct share *s = &all.of[d], *t = &all.of[e];
    int64_t low = s->low > t->from ? s->low : t->from, high = s->high < t->to ? s->high : t->to;
    *from = low;
    return d == e || low >= high ? 0 : (size_t)(high - low) * sizeof(double);
}

static void multiply(int d)
{
    struct share *s = &all.of[d];
    SPARSE(SpMV, s->sparse, OP_N, &one, s->a, s->whole, &zero, s->product, REAL_64, DEFAULT, s->buffer);
}

/* Q = A P. The others wait for their sums of P and Q before they change P: no copy reads what is being changed. */
static void product(int d)
{
    struct share *s = &all.of[d];
    if (all.gpus > 1) {
        CU(EventRecord, s->updated, s->stream);
        meet();
    }
    for (int e = 0; e < all.gpus; e++) {
        int64_t from;
        size_t bytes = halo(d, e, &from);
        if (!bytes)
            continue;
        CU(StreamWaitEvent, s->stream, all.of[e].updated, 0);
        CU(MemcpyPeerAsync, s->all + from, d, all.of[e].all + from, e, bytes, s->stream);
    }
    multiply(d);
}

/* X = 0, and R = P = B. */
static void restart(int d)
{
    struct share *s = &all.of[d];
    size_t bytes = (size_t)(s->to - s->from) * sizeof(double);
    CU(DeviceSynchronize);
    CU(Memset, s->x, 0, bytes);
    CU(Memcpy, s->r, s->b, bytes, ON_DEVICE);
    CU(Memcpy, s->p, s->b, bytes, ON_DEVICE);
    CU(DeviceSynchronize);
    s->begun = dot(d, 1, s->r, s->r);
}

static void steps_on_host(int d)
{
    struct share *s = &all.of[d];
    int n = (int)(s->to - s->from);
    double rho = s->begun;
    for (int i = 0; i < all.steps; i++) {
        product(d);
        double alpha = rho / dot(d, 0, s->p, s->q), minus = -alpha;
        BLAS(Daxpy_v2, s->blas, n, &alpha, s->p, 1, s->x, 1);
        BLAS(Daxpy_v2, s->blas, n, &minus, s->q, 1, s->r, 1);
        double next = dot(d, 1, s->r, s->r), beta = next / rho;
        BLAS(Dscal_v2, s->blas, n, &beta, s->p, 1);
        BLAS(Daxpy_v2, s->blas, n, &one, s->r, 1, s->p, 1);
        rho = next;
    }
    s->left = rho;
}

/* The scalars of one GPU, each in its memory. X is its negative. */
static void steps_on_device(double *of)
{
    struct share *s = &all.of[0];
    int n = (int)s->to;
    double *unit = of, *minus_unit = of + 1, *rho = of + 2, *next = of + 3, *square = of + 4, *minus = of + 5, *beta = of + 6;
    CU(Memcpy, rho, &s->begun, sizeof *rho, TO_DEVICE);
    BLAS(SetPointerMode_v2, s->blas, SCALARS_DEVICE);
    for (int i = 0; i < all.steps; i++) {
        multiply(0);
        BLAS(Ddot_v2, s->blas, n, s->p, 1, s->q, 1, square);
        CU(MemcpyAsync, minus, rho, sizeof *rho, ON_DEVICE, s->stream);
        BLAS(Dtrsm_v2, s->blas, LEFT, LOWER, OP_N, NOT_UNIT, 1, 1, minus_unit, square, 1, minus, 1);
        BLAS(Daxpy_v2, s->blas, n, minus, s->p, 1, s->x, 1);
        BLAS(Daxpy_v2, s->blas, n, minus, s->q, 1, s->r, 1);
        BLAS(Ddot_v2, s->blas, n, s->r, 1, s->r, 1, next);
        CU(MemcpyAsync, beta, next, sizeof *next, ON_DEVICE, s->stream);
        BLAS(Dtrsm_v2, s->blas, LEFT, LOWER, OP_N, NOT_UNIT, 1, 1, unit, rho, 1, beta, 1);
        BLAS(Dscal_v2, s->blas, n, beta, s->p, 1);
        BLAS(Daxpy_v2, s->blas, n, unit, s->r, 1, s->p, 1);
        double *swap = rho;
        rho = next;
        next = swap;
    }
    BLAS(SetPointerMode_v2, s->blas, SCALARS_HOST);
    CU(MemcpyAsync, &s->left, rho, sizeof *rho, TO_HOST, s->stream);
    CU(StreamSynchronize, s->stream);
}

/* Repetitions by the thread of one GPU. `scalars`: in its memory, or null. */
static void run(int d, double *scalars)
{
    struct share *s = &all.of[d];
    CU(SetDevice, d);
    for (int t = -2; t < all.reps; t++) {
        restart(d);
        meet();
        double start = now();
        if (scalars)
            steps_on_device(scalars);
        else
            steps_on_host(d);
        CU(StreamSynchronize, s->stream);
        meet();
        double each = (now() - start) / all.steps;
        if (t == -2)
            s->times = each;
        if (t >= 0 && d == 0)
            add(&all.s, each);
    }
}

static void run_on_host(void *arg, size_t from, size_t to, int thread)
{
    (void)arg, (void)from, (void)to;
    run(thread, NULL);
}

/* The rows of GPU `d` and its columns, and all that it needs. */
static void send(int d, const double *b)
{
    const struct csr *a = all.a;
    struct share *s = &all.of[d];
    int64_t row = d ? all.of[d - 1].to : 0, wanted = a->nnz * (d + 1) / all.gpus;
    s->from = row;
    while (row < a->rows && (d == all.gpus - 1 || a->offsets[row] < wanted))
        row++;
    s->to = row;
    int64_t rows = s->to - s->from, first = a->offsets[s->from], entries = a->offsets[s->to] - first;
    if (rows == 0)
        die("fewer rows than GPUs");
    s->low = a->rows;
    for (int64_t i = first; i < first + entries; i++) {
        s->low = a->columns[i] < s->low ? a->columns[i] : s->low;
        s->high = a->columns[i] >= s->high ? a->columns[i] + 1 : s->high;
    }
    int32_t *offsets = malloc(((size_t)rows + 1) * sizeof *offsets);
    if (!offsets)
        die("no memory");
    for (int64_t i = 0; i <= rows; i++)
        offsets[i] = (int32_t)(a->offsets[s->from + i] - first);
    CU(SetDevice, d);
    for (int e = 0; e < all.gpus; e++)
        if (e != d)
            cuda.DeviceEnablePeerAccess(e, 0); /* without it, copies pass through the host */
    s->stream = new_stream();
    s->updated = new_event();
    BLAS(Create_v2, &s->blas);
    BLAS(SetStream_v2, s->blas, s->stream);
    SPARSE(Create, &s->sparse);
    SPARSE(SetStream, s->sparse, s->stream);
    size_t count = (size_t)rows, bytes = 0;
    s->b = on_device(b + s->from, count * sizeof *b);
    s->x = device_doubles(count);
    s->r = device_doubles(count);
    s->q = device_doubles(count);
    s->all = device_doubles((size_t)a->rows);
    s->p = s->all + s->from;
    CU(Memset, s->all, 0, (size_t)a->rows * sizeof *s->all);
    void *part = NULL;
    CU(HostAlloc, &part, sizeof(double), 1 | 2);
    s->part = part;
    SPARSE(CreateCsr, &s->a, rows, a->rows, entries, on_device(offsets, (count + 1) * sizeof *offsets),
           on_device(a->columns + first, (size_t)entries * sizeof *a->columns),
           on_device(a->values + first, (size_t)entries * sizeof *a->values), INDEX_32, INDEX_32, BASE_0, REAL_64);
    SPARSE(CreateDnVec, &s->whole, a->rows, s->all, REAL_64);
    SPARSE(CreateDnVec, &s->product, rows, s->q, REAL_64);
    SPARSE(SpMV_bufferSize, s->sparse, OP_N, &one, s->a, s->whole, &zero, s->product, REAL_64, DEFAULT, &bytes);
    CU(Malloc, &s->buffer, bytes ? bytes : 1);
    SPARSE(SpMV_preprocess, s->sparse, OP_N, &one, s->a, s->whole, &zero, s->product, REAL_64, DEFAULT, s->buffer);
    CU(DeviceSynchronize);
    free(offsets);
}

/* Checks the last repetition, and prints what was measured. */
static void report(const char *variant, const double *b, double sign)
{
    const struct csr *a = all.a;
    double residual = sqrt(all.of[0].left / all.of[0].begun), p2p = 0, *x = doubles((size_t)a->rows);
    for (int d = 0; d < all.gpus; d++) {
        const struct share *s = &all.of[d];
        int64_t from;
        CU(SetDevice, d);
        copy(x + s->from, s->x, (size_t)(s->to - s->from), TO_HOST);
        for (int e = 0; e < all.gpus; e++)
            p2p += (double)halo(d, e, &from);
    }
    for (int64_t i = 0; i < a->rows; i++)
        x[i] *= sign;
    csr_check_solution(a, b, x, residual);
    free(x);
    printf("{\"bench\":\"cg\",\"variant\":\"%s\",\"rows\":%lld,\"nnz\":%lld,\"steps\":%d,\"devices\":%d,\"step\":%.7f,\"first\":%.6f,"
           "\"GB_s\":%.1f,\"h2d\":0,\"d2h\":%d,\"p2p\":%.0f,\"residual\":%.6e}\n",
           variant, (long long)a->rows, (long long)a->nnz, all.steps, all.gpus, median(&all.s), all.of[0].times,
           csr_step_bytes(a) / median(&all.s) / 1e9, sign > 0 ? 16 * all.gpus : 0, p2p, residual);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: peer_cg ROWS STEPS REPS");
    all.steps = atoi(argv[2]);
    all.reps = atoi(argv[3]);
    all.gpus = cuda_start();
    if (all.gpus > MOST_GPUS)
        all.gpus = MOST_GPUS;
    cusparse_start();
    struct csr a = csr_matrix("laplace", atoll(argv[1]));
    all.a = &a;
    double *b = csr_right_side(&a);
    for (int d = 0; d < all.gpus; d++)
        send(d, b);
    parallel((size_t)all.gpus, all.gpus, run_on_host, NULL);
    report("scalars on the host", b, 1);
    if (all.gpus == 1) {
        const double units[8] = {1, -1};
        CU(SetDevice, 0);
        double *scalars = on_device(units, sizeof units);
        all.s = (struct series){0};
        run(0, scalars);
        report("scalars on the device", b, -1);
    }
    return 0;
}
