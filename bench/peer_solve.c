/* Dense solvers by cuSOLVER: on device memory, and from and to registered host memory.
 *
 *   peer_solve PROBLEMS SIZES REPS [SIDES]     JSON lines for each problem (of getrf, potrf, geqrf, gesv, posv; inv:
 *                                              getrf, and getrs of an identity; qr: geqrf and orgqr; sytrf; sysv:
 *                                              sytrf, and sytrs by its pivots, which the host makes 64 bits wide) and order
 *
 * Variants: `resident`, of a matrix in device memory, which a copy within the device writes anew before (not timed); `copies`, with a copy
 * of the matrix (and right sides) to the device before, and back after. Keys: `returns`, seconds until cuSOLVER's calls return
 * (median); `first`, seconds of the first repetition, which loads kernels; `device`, `host`: bytes of work space; `kept`: 1 if
 * the other triangle kept its elements, in potrf, posv, sytrf and sysv.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "cusolver.h"
#include "solve.h"

struct run {
    enum problem problem;
    int64_t n, sides;
    solver_t handle;
    void *params, *work, *host_work;
    size_t bytes, host_bytes;
    double *a, *b, *tau, *identity;
    int64_t *pivots;
    int *narrow, *info;
    stream_t stream;
};

static void *device_bytes(size_t bytes)
{
    void *to = NULL;
    CU(Malloc, &to, bytes ? bytes : 1);
    return to;
}

static void sizes(struct run *r)
{
    switch (r->problem) {
    case GETRF:
    case INV:
    case GESV: SOLVE(Xgetrf_bufferSize, r->handle, r->params, r->n, r->n, DOUBLE_, r->a, r->n, DOUBLE_, &r->bytes, &r->host_bytes); break;
    case GEQRF:
    case QR: {
        int n = (int)r->n, elements = 0;
        SOLVE(Xgeqrf_bufferSize, r->handle, r->params, r->n, r->n, DOUBLE_, r->a, r->n, DOUBLE_, r->tau, DOUBLE_, &r->bytes, &r->host_bytes);
        SOLVE(Dorgqr_bufferSize, r->handle, n, n, n, r->a, n, r->tau, &elements);
        if (r->bytes < (size_t)elements * sizeof(double))
            r->bytes = (size_t)elements * sizeof(double);
        break;
    }
    case SYTRF:
    case SYSV: {
        int elements = 0;
        size_t bytes = 0;
        SOLVE(Dsytrf_bufferSize, r->handle, (int)r->n, r->a, (int)r->n, &elements);
        SOLVE(Xsytrs_bufferSize, r->handle, LOWER_, r->n, r->sides, DOUBLE_, r->a, r->n, r->pivots, DOUBLE_, r->b, r->n, &bytes,
              &r->host_bytes);
        r->bytes = (size_t)elements * sizeof(double) > bytes ? (size_t)elements * sizeof(double) : bytes;
        break;
    }
    default: SOLVE(Xpotrf_bufferSize, r->handle, r->params, LOWER_, r->n, DOUBLE_, r->a, r->n, DOUBLE_, &r->bytes, &r->host_bytes);
    }
    r->work = device_bytes(r->bytes);
    r->host_work = malloc(r->host_bytes ? r->host_bytes : 1);
}

/* LAPACK's pivots, of which those of blocks of order two are negative. */
static void widen(const struct run *r)
{
    size_t n = (size_t)r->n;
    int *narrow = malloc(n * sizeof *narrow);
    int64_t *wide = malloc(n * sizeof *wide);
    CU(MemcpyAsync, narrow, r->narrow, n * sizeof *narrow, TO_HOST, r->stream);
    CU(StreamSynchronize, r->stream);
    for (size_t i = 0; i < n; i++)
        wide[i] = narrow[i];
    CU(MemcpyAsync, r->pivots, wide, n * sizeof *wide, TO_DEVICE, r->stream);
    free(narrow), free(wide);
}

static void queue(const struct run *r)
{
    int64_t n = r->n;
    switch (r->problem) {
    case GETRF:
    case INV:
    case GESV:
        SOLVE(Xgetrf, r->handle, r->params, n, n, DOUBLE_, r->a, n, r->pivots, DOUBLE_, r->work, r->bytes, r->host_work, r->host_bytes, r->info);
        break;
    case GEQRF:
    case QR:
        SOLVE(Xgeqrf, r->handle, r->params, n, n, DOUBLE_, r->a, n, DOUBLE_, r->tau, DOUBLE_, r->work, r->bytes, r->host_work, r->host_bytes,
              r->info);
        break;
    case SYTRF:
    case SYSV:
        SOLVE(Dsytrf, r->handle, LOWER_, (int)n, r->a, (int)n, r->narrow, r->work, (int)(r->bytes / sizeof(double)), r->info);
        break;
    default:
        SOLVE(Xpotrf, r->handle, r->params, LOWER_, n, DOUBLE_, r->a, n, DOUBLE_, r->work, r->bytes, r->host_work, r->host_bytes, r->info);
    }
    if (r->problem == GESV)
        SOLVE(Xgetrs, r->handle, r->params, OP_N, n, r->sides, DOUBLE_, r->a, n, r->pivots, DOUBLE_, r->b, n, r->info);
    if (r->problem == SYSV) {
        widen(r);
        SOLVE(Xsytrs, r->handle, LOWER_, n, r->sides, DOUBLE_, r->a, n, r->pivots, DOUBLE_, r->b, n, r->work, r->bytes, r->host_work,
              r->host_bytes, r->info);
    }
    if (r->problem == QR)
        SOLVE(Dorgqr, r->handle, (int)n, (int)n, (int)n, r->a, (int)n, r->tau, r->work, (int)(r->bytes / sizeof(double)), r->info);
    if (r->problem == INV) {
        size_t all = (size_t)n * (size_t)n * sizeof(double);
        CU(MemcpyAsync, r->b, r->identity, all, ON_DEVICE, r->stream);
        SOLVE(Xgetrs, r->handle, r->params, OP_N, n, n, DOUBLE_, r->a, n, r->pivots, DOUBLE_, r->b, n, r->info);
        CU(MemcpyAsync, r->a, r->b, all, ON_DEVICE, r->stream);
    }
    if (r->problem == POSV)
        SOLVE(Xpotrs, r->handle, r->params, LOWER_, n, r->sides, DOUBLE_, r->a, n, DOUBLE_, r->b, n, r->info);
}

static void measure(enum problem problem, int n, int reps, int sides_)
{
    if (problem == GEQP3)
        die("cuSOLVER has no geqp3");
    struct run r = {.problem = problem, .n = n, .sides = problem == INV ? n : sides_};
    sides_ = (int)r.sides;
    size_t all = (size_t)n * (size_t)n, of_b = (size_t)n * (size_t)sides_;
    int solves = problem_solves(problem), info = 0, kept = 1;
    double *host = pinned_doubles(all), *sides = pinned_doubles(of_b), *original = device_doubles(all);
    r.a = device_doubles(all), r.b = device_doubles(of_b), r.tau = device_doubles((size_t)n);
    r.pivots = device_bytes((size_t)n * sizeof *r.pivots), r.narrow = device_bytes((size_t)n * sizeof *r.narrow);
    r.info = device_bytes(sizeof *r.info);
    r.stream = new_stream();
    SOLVE(Create, &r.handle);
    SOLVE(SetStream, r.handle, r.stream);
    SOLVE(CreateParams, &r.params);
    sizes(&r);
    solve_matrix(problem, (size_t)n, host);
    fill(sides, of_b, 72);
    copy(original, host, all, TO_DEVICE);
    if (problem == INV) {
        r.identity = device_doubles(all);
        double *ones = calloc(all, sizeof *ones);
        for (size_t i = 0; i < (size_t)n; i++)
            ones[i * (size_t)n + i] = 1;
        copy(r.identity, ones, all, TO_DEVICE);
        free(ones);
    }
    struct series resident = {0}, copied = {0}, returns = {0};
    double first = 0;
    for (int i = -1; i < reps; i++) {
        CU(MemcpyAsync, r.a, original, all * sizeof *host, ON_DEVICE, r.stream);
        CU(MemcpyAsync, r.b, sides, of_b * sizeof *host, TO_DEVICE, r.stream);
        CU(StreamSynchronize, r.stream);
        double start = now();
        queue(&r);
        double queued = now();
        CU(StreamSynchronize, r.stream);
        if (i < 0)
            first = now() - start;
        else
            add(&resident, now() - start), add(&returns, queued - start);
        CU(Memcpy, &info, r.info, sizeof info, TO_HOST);
        if (info)
            die("%s: info %d", problem_names[problem], info);
    }
    if (problem == POTRF || problem == POSV || problem == SYTRF || problem == SYSV) {
        copy(host, r.a, all, TO_HOST);
        double *other = doubles(all);
        solve_matrix(problem, (size_t)n, other);
        for (size_t j = 1; j < (size_t)n; j++)
            kept &= !memcmp(host + j * (size_t)n, other + j * (size_t)n, j * sizeof *host);
        free(other);
    }
    for (int i = -1; i < reps; i++) {
        solve_matrix(problem, (size_t)n, host);
        fill(sides, of_b, 72);
        double start = now();
        CU(MemcpyAsync, r.a, host, all * sizeof *host, TO_DEVICE, r.stream);
        if (solves)
            CU(MemcpyAsync, r.b, sides, of_b * sizeof *host, TO_DEVICE, r.stream);
        queue(&r);
        CU(MemcpyAsync, host, r.a, all * sizeof *host, TO_HOST, r.stream);
        if (solves)
            CU(MemcpyAsync, sides, r.b, of_b * sizeof *host, TO_HOST, r.stream);
        CU(StreamSynchronize, r.stream);
        if (i >= 0)
            add(&copied, now() - start);
    }
    char more[400];
    double total = solves ? sum(sides, of_b, 1) : sum(host, all, 1);
    snprintf(more, sizeof more,
             ",\"problem\":\"%s\",\"returns\":%.6f,\"first\":%.6f,\"device\":%zu,\"host\":%zu,\"kept\":%d,\"TFLOP_s\":%.2f,\"check\":%.15g",
             problem_names[problem], median(&returns), first, r.bytes, r.host_bytes, kept,
             solve_flops(problem, n, sides_) / median(&resident) / 1e12, total);
    emit("solve", (size_t)n, "resident", &resident, more);
    snprintf(more, sizeof more, ",\"problem\":\"%s\"", problem_names[problem]);
    emit("solve", (size_t)n, "copies", &copied, more);
    fflush(stdout);
    void *memory[] = {r.a, r.b, r.tau, r.pivots, r.narrow, r.info, r.work, original, r.identity};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        CU(Free, memory[i]);
    CU(HostUnregister, host);
    CU(HostUnregister, sides);
    free(host), free(sides), free(r.host_work);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        die("usage: peer_solve PROBLEMS SIZES REPS [SIDES]");
    cuda_start();
    cusolver_start();
    char *rest = NULL, *orders = strdup(argv[2]), *problems, *problem;
    for (char *size = strtok(orders, ","); size; size = strtok(NULL, ",")) {
        problems = strdup(argv[1]);
        for (problem = strtok_r(problems, ",", &rest); problem; problem = strtok_r(NULL, ",", &rest))
            measure(problem_of(problem), atoi(size), atoi(argv[3]), argc == 5 ? atoi(argv[4]) : 100);
        free(problems);
    }
    free(orders);
    return 0;
}
