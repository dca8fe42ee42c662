/* The work of mpi_jacobi.c, mpi_cg.c and mpi_pingpong.c by hand: matrices on the GPU of the local rank, cuBLAS, and what other ranks need
 * copied to page-locked memory for MPI. GPUS in the environment lowers the number of GPUs that ranks share out.
 *
 *   mpirun -n RANKS peer_mpi jacobi N STEPS REPS      a JSON line for each way
 *   mpirun -n RANKS peer_mpi cg N STEPS REPS
 *   mpirun -n 2 peer_mpi pingpong [BYTES,...]
 *
 * jacobi: *copies*: the product is copied home; *mapped*: the GPU writes it there. cg: *vectors on the GPU*: all but what is gathered;
 * *vectors on the host*: the GPU multiplies, the CPU does the rest. pingpong: *sent*: a vector of the GPU is copied home and sent; *both*:
 * copied to the other GPU, too; *d2h*, *h2d*: these copies alone. Keys: as
 * those of mpi_jacobi.c, but `first` is without sending the matrix, and bytes are those that must move. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "mpi_rows.h"

enum { SCALARS_HOST = 0, SCALARS_DEVICE = 1, MOST = 40 };

static const double one = 1, zero = 0;
static blas_t blas;
static stream_t stream;

static void start_gpu(void)
{
    MPI_Comm here;
    int local, gpus = cuda_start();
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &local);
    CU(SetDevice, local % gpus);
    CU(Free, NULL);
    stream = new_stream();
    BLAS(Create_v2, &blas);
    BLAS(SetStream_v2, blas, stream);
}

static void copy_async(double *to, const double *from, int n, int kind)
{
    CU(MemcpyAsync, to, from, (size_t)n * sizeof(double), kind, stream);
}

static void complete(void)
{
    CU(StreamSynchronize, stream);
}

/* The matrix of this rank's rows on its GPU. */
static double *matrix(const struct rows *r)
{
    size_t all = (size_t)r->rows * (size_t)r->n;
    double *host = rows_matrix(r), *a = device_doubles(all);
    copy(a, host, all, TO_DEVICE);
    CU(DeviceSynchronize);
    free(host);
    return a;
}

static void multiply(const struct rows *r, const double *a, const double *x, double *y)
{
    BLAS(Dgemv_v2, blas, OP_N, r->rows, r->n, &one, a, r->rows, x, 1, &zero, y, 1);
}

/* All ranks get all of x. */
static void gather(const struct rows *r, const double *part, double *x)
{
    MPI_Allgatherv(part, r->rows, MPI_DOUBLE, x, r->counts, r->offsets, MPI_DOUBLE, MPI_COMM_WORLD);
}

/* -- Jacobi ------------------------------------------------------------------------------------------------------- */

static void jacobi(int n, int steps, int reps)
{
    struct rows r;
    rows_start(&r, DOMINANT, n);
    size_t part = (size_t)r.rows;
    double *a = matrix(&r), *b = rows_right_side(&r), *next = doubles(part), *mapped, d = r.diagonal, norm = 0;
    double *x = pinned_doubles((size_t)n), *y = mapped_doubles(part, &mapped);
    double *dx = device_doubles((size_t)n), *dy = device_doubles(part);
    for (int i = 0; i < r.rows; i++)
        norm += b[i] * b[i];
    norm = sqrt(all_sum(norm));
    for (int way = 0; way < 2; way++) {
        struct series s = {0};
        struct figures f = {.h2d = 8.0 * n * r.ranks, .d2h = 8.0 * n};
        double residual = 0;
        /* t = -2: an exact product. */
        for (int t = -2; t < reps; t++) {
            for (int i = 0; i < n; i++)
                x[i] = 0;
            if (t == -2)
                rows_solution(&r, x);
            MPI_Barrier(MPI_COMM_WORLD);
            double start = now();
            for (int k = 0; k < (t == -2 ? 1 : steps); k++) {
                copy_async(dx, x, n, TO_DEVICE);
                multiply(&r, a, dx, way ? mapped : dy);
                if (!way)
                    copy_async(y, dy, r.rows, TO_HOST);
                complete();
                if (t == -2) {
                    rows_check_product(&r, b, y);
                    break;
                }
                double square = 0;
                for (int i = 0; i < r.rows; i++) {
                    double left = b[i] - y[i] - d * x[r.from + i];
                    square += left * left;
                    next[i] = (b[i] - y[i]) / d;
                }
                gather(&r, next, x);
                MPI_Allreduce(&square, &residual, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            }
            double took = all_most(now() - start);
            if (t == -2)
                f.first = took;
            else
                rows_check_solution(&r, x, fmax(1e-9, 700 * pow(0.25, steps)));
            if (t >= 0)
                add(&s, took / steps);
        }
        f.residual = sqrt(residual) / norm;
        f.check = sum(x, (size_t)n, 1);
        rows_emit(&r, "mpi_jacobi", way ? "mapped" : "copies", steps, &s, &f);
    }
}

/* -- conjugate gradients ------------------------------------------------------------------------------------------ */

static struct {
    struct rows r;
    double *a;                       /* the matrix */
    double *whole, *x, *res, *p, *q; /* on the GPU */
    double *host_whole, *host_x, *host_res, *host_p, *host_q;
    double *part, *part_address;     /* a sum, in page-locked memory */
} c;

/* The part of a dot product that this rank has, of vectors on the GPU; the stream is done then. */
static double device_part(const double *x, const double *y)
{
    BLAS(SetPointerMode_v2, blas, SCALARS_DEVICE);
    BLAS(Ddot_v2, blas, c.r.rows, x, 1, y, 1, c.part_address);
    BLAS(SetPointerMode_v2, blas, SCALARS_HOST);
    complete();
    return *(volatile double *)c.part;
}

static void axpy_on_device(double alpha, const double *x, double *y)
{
    BLAS(Daxpy_v2, blas, c.r.rows, &alpha, x, 1, y, 1);
}

/* `rho`: before and after the steps. */
static double steps_on_device(double rho, int steps)
{
    for (int i = 0; i < steps; i++) {
        if (c.r.ranks > 1) {
            copy_async(c.host_p, c.p, c.r.rows, TO_HOST);
            complete();
            gather(&c.r, c.host_p, c.host_whole);
            copy_async(c.whole, c.host_whole, c.r.n, TO_DEVICE);
        }
        multiply(&c.r, c.a, c.r.ranks > 1 ? c.whole : c.p, c.q);
        double alpha = rho / all_sum(device_part(c.p, c.q));
        axpy_on_device(-alpha, c.q, c.res);
        double part = device_part(c.res, c.res);
        axpy_on_device(alpha, c.p, c.x); /* while MPI adds up */
        double next = all_sum(part), beta = next / rho;
        BLAS(Dscal_v2, blas, c.r.rows, &beta, c.p, 1);
        axpy_on_device(1, c.res, c.p);
        rho = next;
    }
    complete();
    return rho;
}

__attribute__((optimize("O3", "fast-math"))) static double host_part(const double *restrict x, const double *restrict y, int n)
{
    double total = 0;
    for (int i = 0; i < n; i++)
        total += x[i] * y[i];
    return total;
}

/* X and the residual by alpha; the residual's square. */
__attribute__((optimize("O3", "fast-math"))) static double host_step(double alpha, int n, const double *restrict p,
                                                                     const double *restrict q, double *restrict x, double *restrict res)
{
    double total = 0;
    for (int i = 0; i < n; i++) {
        x[i] += alpha * p[i];
        res[i] -= alpha * q[i];
        total += res[i] * res[i];
    }
    return total;
}

static double steps_on_host(double rho, int steps)
{
    int m = c.r.rows;
    for (int i = 0; i < steps; i++) {
        gather(&c.r, c.host_p, c.host_whole);
        copy_async(c.whole, c.host_whole, c.r.n, TO_DEVICE);
        multiply(&c.r, c.a, c.whole, c.q);
        copy_async(c.host_q, c.q, m, TO_HOST);
        complete();
        double alpha = rho / all_sum(host_part(c.host_p, c.host_q, m));
        double next = all_sum(host_step(alpha, m, c.host_p, c.host_q, c.host_x, c.host_res)), beta = next / rho;
        for (int k = 0; k < m; k++)
            c.host_p[k] = c.host_res[k] + beta * c.host_p[k];
        rho = next;
    }
    return rho;
}

/* X = 0, and the residual and P are b, on the GPU or the host. */
static double restart(const double *b, int on_host)
{
    size_t m = (size_t)c.r.rows, bytes = m * sizeof *b;
    for (size_t i = 0; on_host && i < m; i++) {
        c.host_x[i] = 0;
        c.host_res[i] = c.host_p[i] = b[i];
    }
    if (!on_host) {
        CU(Memset, c.x, 0, bytes);
        copy(c.res, b, m, TO_DEVICE);
        copy(c.p, b, m, TO_DEVICE);
        CU(DeviceSynchronize);
    }
    return all_sum(host_part(b, b, c.r.rows));
}

static void cg(int n, int steps, int reps)
{
    rows_start(&c.r, DEFINITE, n);
    size_t m = (size_t)c.r.rows;
    double **on_gpu[] = {&c.x, &c.res, &c.p, &c.q}, **on_host[] = {&c.host_x, &c.host_res, &c.host_p, &c.host_q};
    double *b = rows_right_side(&c.r), *left = doubles(m), begun = 0, rho = 0;
    c.a = matrix(&c.r);
    for (int i = 0; i < 4; i++) {
        *on_gpu[i] = device_doubles(m);
        *on_host[i] = pinned_doubles(m);
    }
    c.whole = device_doubles((size_t)n);
    c.host_whole = pinned_doubles((size_t)n);
    c.part = mapped_doubles(1, &c.part_address);
    for (int way = 0; way < 2; way++) {
        struct series s = {0};
        struct figures f = {.h2d = 8.0 * n * c.r.ranks, .d2h = 8.0 * n};
        if (!way && c.r.ranks == 1)
            f.h2d = f.d2h = 0;
        /* An exact product. */
        rows_solution(&c.r, c.host_whole);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        copy_async(c.whole, c.host_whole, n, TO_DEVICE);
        multiply(&c.r, c.a, c.whole, c.q);
        copy_async(c.host_q, c.q, c.r.rows, TO_HOST);
        complete();
        f.first = all_most(now() - start);
        rows_check_product(&c.r, b, c.host_q);
        for (int t = -1; t < reps; t++) {
            begun = restart(b, way);
            MPI_Barrier(MPI_COMM_WORLD);
            start = now();
            rho = way ? steps_on_host(begun, steps) : steps_on_device(begun, steps);
            double took = all_most(now() - start);
            if (t >= 0)
                add(&s, took / steps);
        }
        f.residual = sqrt(rho / begun);
        if (!way)
            copy(c.host_x, c.x, m, TO_HOST);
        f.check = all_sum(host_part(b, c.host_x, c.r.rows));
        /* What is left of b by a product. */
        gather(&c.r, c.host_x, c.host_whole);
        copy(c.whole, c.host_whole, (size_t)n, TO_DEVICE);
        CU(DeviceSynchronize);
        multiply(&c.r, c.a, c.whole, c.q);
        complete();
        copy(left, c.q, m, TO_HOST);
        for (size_t i = 0; i < m; i++)
            left[i] -= b[i];
        double by_product = sqrt(all_sum(host_part(left, left, c.r.rows)) / begun);
        if (!(fabs(by_product - f.residual) <= 1e-11))
            die("WRONG: the residual is %.6e, by a product %.6e", f.residual, by_product);
        rows_emit(&c.r, "mpi_cg", way ? "vectors on the host" : "vectors on the GPU", steps, &s, &f);
    }
}

/* -- messages ----------------------------------------------------------------------------------------------------- */

enum { SENT, BOTH, D2H, H2D };
static const char *const variants[] = {"sent", "both", "d2h", "h2d"};

static void send(const double *device, double *host, int count, int tag, int to)
{
    copy_async(host, device, count, TO_HOST);
    complete();
    MPI_Send(host, count, MPI_DOUBLE, to, tag, MPI_COMM_WORLD);
}

static void receive(int variant, double *device, double *host, int count, int tag, int from)
{
    MPI_Recv(host, count, MPI_DOUBLE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (variant == BOTH) {
        copy_async(device, host, count, TO_DEVICE);
        complete();
    }
}

/* There and back: the seconds of one message. */
static double trip(int rank, int variant, const double *from, double *host_from, double *into, double *host_into, int count)
{
    double start = now();
    if (rank == 0) {
        send(from, host_from, count, 1, 1);
        receive(variant, into, host_into, count, 2, 1);
    } else {
        receive(variant, into, host_into, count, 1, 0);
        send(from, host_from, count, 2, 0);
    }
    return (now() - start) / 2;
}

static double copied(int variant, double *to, const double *from, int count)
{
    double start = now();
    copy_async(to, from, count, variant == D2H ? TO_HOST : TO_DEVICE);
    complete();
    return now() - start;
}

static void messages(int rank, int count)
{
    size_t all = (size_t)count;
    double *from = device_doubles(all), *into = device_doubles(all), *host_from = pinned_doubles(all), *host_into = pinned_doubles(all);
    char more[60];
    for (int variant = SENT; variant <= H2D; variant++) {
        struct series s = {0};
        for (int t = -3; t < 30; t++) {
            uint32_t seed = (uint32_t)(100 + t);
            fill(host_from, all, seed);
            copy(from, host_from, all, TO_DEVICE);
            poison(host_into, all);
            copy(into, host_into, all, TO_DEVICE);
            if (variant != H2D)
                poison(host_from, all);
            CU(DeviceSynchronize);
            MPI_Barrier(MPI_COMM_WORLD);
            double took = 0;
            if (variant == D2H || variant == H2D)
                /* By one rank at a time: the other waits in the barrier. */
                for (int turn = 0; turn < 2; turn++) {
                    if (turn == rank)
                        took = copied(variant, variant == D2H ? host_into : into, variant == D2H ? from : host_from, count);
                    MPI_Barrier(MPI_COMM_WORLD);
                }
            else
                took = trip(rank, variant, from, host_from, into, host_into, count);
            if (variant == BOTH || variant == H2D)
                copy(host_into, into, all, TO_HOST);
            same("what has come", host_into[all - 1], value(seed, all - 1));
            same("what has come", host_into[all / 2], value(seed, all / 2));
            if (t >= 0)
                add(&s, took);
        }
        snprintf(more, sizeof more, ",\"us\":%.3f", 1e6 * median(&s));
        if (rank == 0)
            emit("mpi_pingpong", all * sizeof(double), variants[variant], &s, more);
    }
    CU(HostUnregister, host_from);
    CU(HostUnregister, host_into);
    free(host_from);
    free(host_into);
    CU(Free, from);
    CU(Free, into);
}

static void pingpong(char *sizes)
{
    int rank, ranks, counts[MOST], n = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2)
        die("peer_mpi pingpong: two ranks");
    for (char *w = sizes ? strtok(sizes, ",") : NULL; w && n < MOST; w = strtok(NULL, ","))
        counts[n++] = (int)(atol(w) / 8);
    for (int count = 1; !sizes && count <= 1 << 23; count *= count < 1 << 21 ? 8 : 4)
        counts[n++] = count;
    for (int i = 0; i < n; i++)
        messages(rank, counts[i]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int messages_wanted = argc > 1 && !strcmp(argv[1], "pingpong");
    if (!messages_wanted && argc != 5)
        die("usage: peer_mpi jacobi|cg N STEPS REPS | pingpong [BYTES,...]");
    start_gpu();
    if (messages_wanted)
        pingpong(argc > 2 ? argv[2] : NULL);
    else if (!strcmp(argv[1], "jacobi"))
        jacobi(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    else
        cg(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    MPI_Finalize();
    return 0;
}
