/* Messages between two MPI ranks, there and back.
 *
 *   mpirun -n 2 mpi_pingpong [BYTES,...]      rank 0 prints a JSON line for each size and variant
 *
 * `seconds` are of one message: half of there and back; `us` their median in microseconds. Variants: *loop*: many in a row, in memory
 * that no BLAS call uses; *host*: the same, each by itself after a pause; *sent*: each by itself, of a result that dgemm_ has just
 * computed, into memory that no BLAS call uses; *both*: of such a result, into the memory of another. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blas.h"
#include "common.h"

enum { DEPTH = 64, MOST = 40 };
static const char *const variants[] = {"loop", "host", "sent", "both"};
static int rank;

/* There and back: the seconds of one message. */
static double trip(const double *from, double *into, int count)
{
    double start = now();
    if (rank == 0) {
        MPI_Send(from, count, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(into, count, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(into, count, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(from, count, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
    }
    return (now() - start) / 2;
}

static void told(int count, int variant, const struct series *s)
{
    char more[60];
    snprintf(more, sizeof more, ",\"us\":%.3f", 1e6 * median(s));
    if (rank == 0)
        emit("mpi_pingpong", (size_t)count * sizeof(double), variants[variant], s, more);
}

static void in_host_memory(int count)
{
    size_t all = (size_t)count;
    double *from = doubles(all), *into = doubles(all);
    int trips = count < 1 << 12 ? 1000 : count < 1 << 17 ? 100 : 10;
    for (int variant = 0; variant < 2; variant++) {
        struct series s = {0};
        for (int t = -3; t < (variant ? 30 : 10); t++) {
            uint32_t seed = (uint32_t)(100 + t);
            double took = 0;
            fill(from, all, seed);
            poison(into, all);
            if (variant)
                usleep(1000);
            MPI_Barrier(MPI_COMM_WORLD);
            for (int i = 0; i < (variant ? 1 : trips); i++)
                took += trip(from, into, count);
            same("what has come", into[all - 1], value(seed, all - 1));
            if (t >= 0)
                add(&s, variant ? took : took / trips);
        }
        told(count, variant, &s);
    }
    free(into);
    free(from);
}

static void result(const struct product *p, const double *a, const double *b, double *c)
{
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    double zero = 0;
    dgemm_("N", "N", &m, &n, &k, &p->alpha, a, &m, b, &k, &zero, c, &m);
}

static void of_results(int count)
{
    size_t all = (size_t)count, m = 1;
    while (m * m < all)
        m *= 2;
    while (all % m)
        m--;
    struct product p = {m, all / m, DEPTH, 1, 0, 81, 82, 0}, other = p;
    double *a = doubles(p.m * p.k), *b = doubles(p.k * p.n);
    double *from = doubles(all), *into = doubles(all), *result_into = doubles(all);
    fill(a, p.m * p.k, p.a);
    fill(b, p.k * p.n, p.b);
    poison(from, all);
    poison(result_into, all);
    for (int variant = 2; variant < 4; variant++) {
        double *to = variant == 3 ? result_into : into;
        struct series s = {0};
        for (int t = -3; t < 30; t++) {
            p.alpha = 5 + t;
            other.alpha = 50 + t;
            result(&p, a, b, from);
            if (variant == 3)
                result(&other, a, b, result_into);
            else
                poison(into, all);
            usleep(1000); /* The device is done. */
            MPI_Barrier(MPI_COMM_WORLD);
            double took = trip(from, to, count);
            product_check("what has come", &p, to, sum(to, all, 0));
            if (t >= 0)
                add(&s, took);
        }
        told(count, variant, &s);
    }
    free(result_into);
    free(into);
    free(from);
    free(b);
    free(a);
}

int main(int argc, char **argv)
{
    int ranks, counts[MOST], n = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2)
        die("mpi_pingpong: two ranks");
    if (argc > 1)
        for (char *w = strtok(argv[1], ","); w && n < MOST; w = strtok(NULL, ","))
            counts[n++] = (int)(atol(w) / 8);
    else
        for (int count = 1; count <= 1 << 23; count *= count < 1 << 21 ? 8 : 4)
            counts[n++] = count;
    for (int i = 0; i < n; i++)
        if (counts[i] < 1)
            die("mpi_pingpong: messages have 8 bytes at least");
    for (int i = 0; i < n; i++)
        in_host_memory(counts[i]);
    wake_briefly(3);
    for (int i = 0; i < n; i++)
        of_results(counts[i]);
    MPI_Finalize();
    return 0;
}
