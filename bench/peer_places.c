/* The calls of places.c by NVIDIA's libraries, on one GPU.
 *
 *   peer_places FILE REPETITIONS SECONDS     FILE names the calls: problem.h
 *
 * dgemm: cuBLASXt with blocks of PART, on registered memory, and on device memory of its own for operands on the device. daxpy: cuBLAS
 * on managed memory, prefetched to the GPU and back in PART pieces, of which the copies and kernels overlap.
 *
 * A file has calls of one routine. Memory is allocated, touched and registered before the first call. */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"
#include "problem.h"

enum { MOST_PIECES = 64 };

static double *on_device[OPERANDS];

static int at_host(const struct problem *p, int which)
{
    return p->places[which] == 'h';
}

/* -- dgemm -------------------------------------------------------------------------------------------------------- */

static xt_t xt;
static int block;

static void use_block(int wanted)
{
    int device = 0;
    if (xt)
        BLAS(XtDestroy, xt);
    BLAS(XtCreate, &xt);
    BLAS(XtDeviceSelect, xt, 1, &device);
    BLAS(XtSetBlockDim, xt, wanted);
    block = wanted;
}

static double *xt_operand(const struct problem *p, int which)
{
    return at_host(p, which) ? operand[which] : on_device[which];
}

static int xt_place(const struct problem *p)
{
    int fresh = p->part != block;
    if (fresh)
        use_block(p->part);
    for (int o = 0; o < OPERANDS; o++)
        if (!at_host(p, o))
            copy(on_device[o], operand[o], elements(p, o), TO_DEVICE);
    return fresh; /* its first call allocates */
}

static void xt_bring_home(const struct problem *p, int which)
{
    (void)p, (void)which;
}

static void xt_call(const struct problem *p, double alpha)
{
    const double one = 1;
    BLAS(XtDgemm, xt, OP_N, OP_N, p->m, p->n, p->k, &alpha, xt_operand(p, OPERAND_A), p->m, xt_operand(p, OPERAND_B), p->k, &one,
         xt_operand(p, OPERAND_C), p->m);
}

static double xt_result(const struct problem *p, size_t i)
{
    double got = operand[OPERAND_C][i];
    if (!at_host(p, OPERAND_C))
        copy(&got, on_device[OPERAND_C] + i, 1, TO_HOST);
    return got;
}

/* -- daxpy -------------------------------------------------------------------------------------------------------- */

static const struct cuda_location gpu = {1, 0}, host = {2, 0};
static stream_t in, work, out;
static event_t arrived[MOST_PIECES], computed[MOST_PIECES];
static blas_t blas;

static void move(const struct problem *p, int which, struct cuda_location to)
{
    CU(Prefetch, operand[which], elements(p, which) * sizeof(double), to, 0, work);
    CU(StreamSynchronize, work);
}

static int managed_place(const struct problem *p)
{
    if (p->part < 1 || p->part > MOST_PIECES)
        die("peer_places: 1 to %d pieces", MOST_PIECES);
    for (int o = 0; o < OPERANDS; o++)
        if (elements(p, o) && !at_host(p, o))
            move(p, o, gpu);
    return 1;
}

static void managed_bring_home(const struct problem *p, int which)
{
    move(p, which, host);
}

static void managed_call(const struct problem *p, double alpha)
{
    size_t pieces = (size_t)p->part;
    for (size_t i = 0; i < pieces; i++) {
        size_t from = p->m * i / pieces, n = p->m * (i + 1) / pieces - from;
        double *x = operand[OPERAND_A] + from, *y = operand[OPERAND_C] + from;
        if (!n)
            continue;
        if (at_host(p, OPERAND_A))
            CU(Prefetch, x, n * sizeof *x, gpu, 0, in);
        if (at_host(p, OPERAND_C))
            CU(Prefetch, y, n * sizeof *y, gpu, 0, in);
        CU(EventRecord, arrived[i], in);
        CU(StreamWaitEvent, work, arrived[i], 0);
        BLAS(Daxpy_v2, blas, (int)n, &alpha, x, 1, y, 1);
        if (at_host(p, OPERAND_C)) {
            CU(EventRecord, computed[i], work);
            CU(StreamWaitEvent, out, computed[i], 0);
            CU(Prefetch, y, n * sizeof *y, host, 0, out);
        }
    }
    CU(StreamSynchronize, work);
    CU(StreamSynchronize, out);
}

static double managed_result(const struct problem *p, size_t i)
{
    double got;
    (void)p;
    copy(&got, operand[OPERAND_C] + i, 1, TO_HOST);
    return got;
}

/* ----------------------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct side xt_side = {"xt", xt_place, xt_bring_home, xt_call, xt_result};
    static const struct side managed = {"managed", managed_place, managed_bring_home, managed_call, managed_result};
    struct problem *list;
    if (argc != 4)
        die("usage: peer_places FILE REPETITIONS SECONDS");
    double begun = now();
    size_t n = problems_read(argv[1], &list);
    int product = n && list[0].product;
    for (size_t i = 0; i < n; i++)
        if (list[i].product != product)
            die("peer_places: all calls are dgemm, or all daxpy");
    cuda_start();
    for (int o = 0; o < OPERANDS; o++) {
        size_t all = most_elements(list, n, o, 0), there = most_elements(list, n, o, 'd');
        void *p = NULL;
        if (!all)
            continue;
        if (!product)
            CU(MallocManaged, &p, all * sizeof(double), 1);
        operand[o] = product ? pinned_doubles(all) : p;
        operand_fill(o, all);
        if (product && there)
            on_device[o] = device_doubles(there);
    }
    if (!product) {
        in = new_stream();
        work = new_stream();
        out = new_stream();
        for (int i = 0; i < MOST_PIECES; i++) {
            arrived[i] = new_event();
            computed[i] = new_event();
        }
        BLAS(Create_v2, &blas);
        BLAS(SetStream_v2, blas, work);
    }
    problems_measure(list, n, atoi(argv[2]), atof(argv[3]) - (now() - begun), product ? &xt_side : &managed);
    return 0;
}
