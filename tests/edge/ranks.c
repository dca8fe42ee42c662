/* An MPI program that computes and sends results straight from where the BLAS left them, and computes with what it receives
 * where it receives it: large messages (which Open MPI copies out of the other process), small ones, requests, collectives,
 * one-sided access, a datatype with gaps.
 *
 *   ranks [early]     early: computes before MPI begins, so that results are inaccessible then */
#include <mpi.h>

#include "edge.h"

enum { N = 96, NN = N * N };
static double *a, *b, *c, *d;
static int rank, ranks;

static void result(double *to)
{
    multiply(N, 1, a, b, 0, to);
}

static void shown(const char *what, const double *x)
{
    multiply(N, 1, x, b, 0, d);
    uint64_t h[2] = {hash(d, NN), hash(x, NN)}, all[2 * 64];
    MPI_Gather(h, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank)
        return;
    printf("%s:", what);
    for (int i = 0; i < 2 * ranks; i++)
        printf(" %016llx", (unsigned long long)all[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    a = doubles(NN), b = doubles(NN), c = doubles(4 * NN), d = doubles(NN);
    double *kept = doubles(NN), *e = doubles(4 * NN);
    fill(b, NN);
    fill(a, NN);
    fill(e, 4 * NN);
    if (argc > 1) {
        (void)argv;
        result(kept);
        result(c);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    if (argc > 1) {
        MPI_Sendrecv(kept, NN, MPI_DOUBLE, next, 1, e, NN, MPI_DOUBLE, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        shown("from before", e);
        shown("kept", kept);
    }
    for (int i = 0; i < NN; i++)
        a[i] += rank;
    for (int round = 0; round < 2; round++) {
        for (int n = 1; n <= NN; n = n * 13 + 5) {
            result(c);
            multiply(N, 1, e, b, 0, d); /* Devices hold what is about to be written. */
            MPI_Sendrecv(c + 1, n < NN ? n : NN - 1, MPI_DOUBLE, next, 1, e, NN, MPI_DOUBLE, last, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            shown("sendrecv", e);
        }
        result(c);
        result(e);
        MPI_Request request[2];
        MPI_Irecv(e, NN, MPI_DOUBLE, last, 2, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(c, NN, MPI_DOUBLE, next, 2, MPI_COMM_WORLD, &request[1]);
        multiply(N, 1, c, b, 0, d); /* Reading what is being sent is permitted. */
        multiply(N, 1, a, b, 0, e + NN);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        shown("isend", e);
        shown("beside", e + NN);
        MPI_Datatype gaps;
        MPI_Type_vector(N / 2, N - 3, 2 * N, MPI_DOUBLE, &gaps);
        MPI_Type_commit(&gaps);
        result(c);
        result(e);
        MPI_Sendrecv(c, 1, gaps, next, 3, e, 1, gaps, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&gaps);
        shown("with gaps", e);
        result(c);
        result(e);
        MPI_Allreduce(c, e, NN, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        shown("allreduce", e);
        result(e);
        MPI_Allreduce(MPI_IN_PLACE, e, NN, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        shown("allreduce in place", e);
        result(c);
        MPI_Bcast(c, NN, MPI_DOUBLE, round % ranks, MPI_COMM_WORLD);
        shown("bcast", c);
        result(c);
        MPI_Allgather(c, NN / 2, MPI_DOUBLE, e, NN / 2, MPI_DOUBLE, MPI_COMM_WORLD);
        shown("allgather", e);
        result(c);
        result(e);
        MPI_Alltoall(c, NN / ranks, MPI_DOUBLE, e, NN / ranks, MPI_DOUBLE, MPI_COMM_WORLD);
        shown("alltoall", e);
        if (ranks == 1)
            continue; /* Open MPI has no window of one process here. */
        MPI_Win window;
        result(c);
        MPI_Win_create(c, NN * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_fence(0, window);
        result(e);
        MPI_Get(e, NN / 2, MPI_DOUBLE, next, 3, NN / 2, MPI_DOUBLE, window);
        MPI_Win_fence(0, window);
        shown("get", e);
        MPI_Put(e, 1000, MPI_DOUBLE, last, 1000, 1000, MPI_DOUBLE, window);
        MPI_Win_fence(0, window);
        shown("put", c);
        MPI_Win_free(&window);
    }
    MPI_Finalize();
    return 0;
}
