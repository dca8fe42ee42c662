/* Jacobi iteration for a dense system, its rows shared out among MPI ranks: y = R x by dgemv_ for the rows of a rank; the CPU computes
 * its part of the next x and of the residual, and all ranks get all of x.
 *
 *   mpirun -n RANKS mpi_jacobi N STEPS REPS      rank 0 prints a JSON line
 *
 * Seconds are per step, of the slowest rank. Keys: `first` seconds of the first product; `h2d`, `d2h`, `p2p` bytes per step that semcache
 * copies for all ranks; `residual` |b - A x| / |b| before the last step; `check` the sum of x. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "blas.h"
#include "mpi_rows.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4)
        die("usage: mpi_jacobi N STEPS REPS");
    int n = atoi(argv[1]), steps = atoi(argv[2]), reps = atoi(argv[3]), by = 1;
    double one = 1, zero = 0, residual = 0, before[3] = {0};
    struct rows r;
    rows_start(&r, DOMINANT, n);
    double *a = rows_matrix(&r), *b = rows_right_side(&r), d = r.diagonal;
    double *x = doubles((size_t)n), *y = doubles((size_t)r.rows), *next = doubles((size_t)r.rows);
    struct series s = {0};
    struct figures f = {0};
    double norm = 0;
    for (int i = 0; i < r.rows; i++)
        norm += b[i] * b[i];
    norm = sqrt(all_sum(norm));
    wake_briefly(3);

    /* Two exact products; the first sends the matrix to the device where it stays. */
    rows_solution(&r, x);
    for (int k = 0; k < 2; k++) {
        poison(y, (size_t)r.rows);
        double start = now();
        dgemv_("N", &r.rows, &n, &one, a, &r.rows, x, &by, &zero, y, &by);
        rows_check_product(&r, b, y);
        if (k == 0)
            f.first = all_most(now() - start);
    }

    for (int t = -1; t < reps; t++) {
        for (int i = 0; i < n; i++)
            x[i] = 0;
        if (t == 0)
            all_moved(before);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (int k = 0; k < steps; k++) {
            dgemv_("N", &r.rows, &n, &one, a, &r.rows, x, &by, &zero, y, &by);
            double square = 0;
            for (int i = 0; i < r.rows; i++) {
                double left = b[i] - y[i] - d * x[r.from + i];
                square += left * left;
                next[i] = (b[i] - y[i]) / d;
            }
            MPI_Allgatherv(next, r.rows, MPI_DOUBLE, x, r.counts, r.offsets, MPI_DOUBLE, MPI_COMM_WORLD);
            MPI_Allreduce(&square, &residual, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        double took = all_most(now() - start);
        /* Each step reduces the error by more than a factor of 4. */
        rows_check_solution(&r, x, fmax(1e-9, 700 * pow(0.25, steps)));
        if (t >= 0)
            add(&s, took / steps);
    }
    figures_moved(&f, before, steps * reps);
    f.residual = sqrt(residual) / norm;
    f.check = sum(x, (size_t)n, 1);
    rows_emit(&r, "mpi_jacobi", "blas", steps, &s, &f);
    MPI_Finalize();
    return 0;
}
