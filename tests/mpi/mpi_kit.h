/* What the MPI clients share: matrices, operations that find out or wait until requests are complete, and a log of hashes that
 * rank 0 prints in rank order. The same program run without a preload is the oracle. */
#ifndef MPI_KIT_H
#define MPI_KIT_H
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include "../edge/edge.h"

/* The compiler takes MPI_STATUSES_IGNORE and MPI_UNWEIGHTED of MPICH for arrays. */
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

/* The functions and large counts that MPI 4 brings. */
#if MPI_VERSION >= 4
#define MPI4(...) __VA_ARGS__
#else
#define MPI4(...)
#endif

enum { N = 96, NN = N * N, RANKS = 4 };
static int rank, ranks;

/* C = alpha A B: thin operands, a result of two blocks. */
static inline void product(double alpha, const double *a, const double *b, double *c)
{
    const int n = N, columns = 2 * N, k = 16;
    const double zero = 0;
    dgemm_("N", "N", &n, &columns, &k, &alpha, a, &n, b, &k, &zero, c, &n);
}

/* A barrier that leaves the core to other ranks, which MPICH does not. */
static inline void meet(MPI_Comm comm)
{
    MPI_Request q;
    int flag = 0;
    MPI_Ibarrier(comm, &q);
    while (MPI_Test(&q, &flag, MPI_STATUS_IGNORE), !flag)
        sched_yield();
}

enum { WAYS = 9 };

/* Completes all requests in one of nine ways. Calls done(i) when request i is complete and others need not be. */
static inline void complete(int n, MPI_Request *q, int way, void (*done)(int))
{
    int flag = 0, index, some, indices[64];
    switch (way % WAYS) {
    case 0:
        for (int i = 0; i < n; i++) {
            MPI_Wait(&q[i], MPI_STATUS_IGNORE);
            if (done)
                done(i);
        }
        return;
    case 1:
        for (int i = n - 1; i >= 0; i--) {
            MPI_Status status;
            for (flag = 0; MPI_Test(&q[i], &flag, &status), !flag;)
                sched_yield();
            if (done)
                done(i);
        }
        return;
    case 2:
        MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
        break;
    case 3: {
        MPI_Status statuses[64];
        while (MPI_Testall(n, q, &flag, statuses), !flag)
            sched_yield();
        break;
    }
    case 4:
        while (MPI_Waitany(n, q, &index, MPI_STATUS_IGNORE), index != MPI_UNDEFINED)
            if (done)
                done(index);
        return;
    case 5:
        for (;;) {
            MPI_Testany(n, q, &index, &flag, MPI_STATUS_IGNORE);
            if (!flag)
                sched_yield();
            else if (index == MPI_UNDEFINED)
                return;
            else if (done)
                done(index);
        }
    case 6:
    case 7:
        for (;;) {
            if (way % WAYS == 6)
                MPI_Waitsome(n, q, &some, indices, MPI_STATUSES_IGNORE);
            else
                MPI_Testsome(n, q, &some, indices, MPI_STATUSES_IGNORE);
            if (some == MPI_UNDEFINED)
                return;
            if (!some)
                sched_yield();
            for (int i = 0; done && i < some; i++)
                done(indices[i]);
        }
    default:
        for (int i = 0; i < n; i++) {
            /* The operation is complete, but the request stays. */
            while (MPI_Request_get_status(q[i], &flag, MPI_STATUS_IGNORE), !flag)
                sched_yield();
            if (done)
                done(i);
        }
        MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
        return;
    }
    for (int i = 0; done && i < n; i++)
        done(i);
}

enum { HASHES = 2, LINES = 4096, NAME = 56 };
static struct {
    char name[NAME];
    uint64_t h[HASHES];
} lines[LINES];
static int logged;

static inline void record(const char *scene, const char *name, uint64_t h0, uint64_t h1)
{
    if (logged == LINES) {
        fprintf(stderr, "too many lines\n");
        exit(2);
    }
    snprintf(lines[logged].name, NAME, "%.20s: %.32s", scene, name);
    lines[logged].h[0] = h0, lines[logged].h[1] = h1;
    logged++;
}

/* Prints the lines of all ranks at rank 0, whose names they have. A rank may have fewer or more lines. */
static inline void print_lines(MPI_Comm comm)
{
    int most = 0, size;
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&logged, &most, 1, MPI_INT, MPI_MAX, comm);
    if (most != logged)
        fprintf(stderr, "rank %d has %d lines of %d\n", rank, logged, most);
    uint64_t *all = (uint64_t *)need(calloc((size_t)most * (size_t)size * HASHES + 1, 8));
    uint64_t *mine = (uint64_t *)need(calloc((size_t)most * HASHES + 1, 8));
    for (int i = 0; i < logged; i++)
        memcpy(mine + i * HASHES, lines[i].h, sizeof lines[i].h);
    MPI_Gather(mine, most * HASHES, MPI_UINT64_T, all, most * HASHES, MPI_UINT64_T, 0, comm);
    for (int i = 0; i < most && !rank; i++) {
        printf("%s:", lines[i].name);
        for (int r = 0; r < size; r++) {
            const uint64_t *h = all + ((size_t)r * (size_t)most + (size_t)i) * HASHES;
            printf(" %016llx %016llx", (unsigned long long)h[0], (unsigned long long)h[1]);
        }
        printf("\n");
    }
    fflush(stdout);
    free(all);
    free(mine);
    logged = 0;
}
#endif
