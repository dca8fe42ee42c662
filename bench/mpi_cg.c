/* Conjugate gradients for a dense symmetric positive definite system, its rows and all vectors shared out among MPI ranks; all ranks get
 * all of P before a product.
 *
 *   mpirun -n RANKS mpi_cg N STEPS REPS      rank 0 prints a JSON line
 *
 * Keys: as those of mpi_jacobi.c; `residual` what is left of |b| after the steps, `check` the product of b and x. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "blas.h"
#include "mpi_rows.h"

static const double one = 1, zero = 0;
static const int by = 1;

/* y = A v for this rank's rows; `whole` gets all of v. */
static void product(const struct rows *r, const double *a, const double *v, double *whole, double *y)
{
    MPI_Allgatherv(v, r->rows, MPI_DOUBLE, whole, r->counts, r->offsets, MPI_DOUBLE, MPI_COMM_WORLD);
    dgemv_("N", &r->rows, &r->n, &one, a, &r->rows, whole, &by, &zero, y, &by);
}

static double dot(const struct rows *r, const double *x, const double *y)
{
    double part = ddot_(&r->rows, x, &by, y, &by), total;
    MPI_Allreduce(&part, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4)
        die("usage: mpi_cg N STEPS REPS");
    int n = atoi(argv[1]), steps = atoi(argv[2]), reps = atoi(argv[3]);
    struct rows rows, *r = &rows;
    rows_start(r, DEFINITE, n);
    int m = r->rows;
    size_t part = (size_t)m;
    double *a = rows_matrix(r), *b = rows_right_side(r), *whole = doubles((size_t)n);
    double *x = doubles(part), *res = doubles(part), *p = doubles(part), *q = doubles(part), *nothing = doubles(part);
    struct series s = {0};
    struct figures f = {0};
    double before[3] = {0}, begun = 0, rho = 0;
    for (int i = 0; i < m; i++)
        nothing[i] = 0;
    wake_briefly(3);

    /* Two exact products; the first sends the matrix to the device where it stays. */
    rows_solution(r, whole);
    for (int k = 0; k < 2; k++) {
        poison(q, part);
        double start = now();
        dgemv_("N", &m, &n, &one, a, &m, whole, &by, &zero, q, &by);
        rows_check_product(r, b, q);
        if (k == 0)
            f.first = all_most(now() - start);
    }

    for (int t = -1; t < reps; t++) {
        dcopy_(&m, nothing, &by, x, &by);
        dcopy_(&m, b, &by, res, &by);
        dcopy_(&m, b, &by, p, &by);
        begun = rho = dot(r, res, res);
        if (t == 0)
            all_moved(before);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (int k = 0; k < steps; k++) {
            product(r, a, p, whole, q);
            double alpha = rho / dot(r, p, q), minus = -alpha;
            daxpy_(&m, &alpha, p, &by, x, &by);
            daxpy_(&m, &minus, q, &by, res, &by);
            double next = dot(r, res, res), beta = next / rho;
            dscal_(&m, &beta, p, &by);
            daxpy_(&m, &one, res, &by, p, &by);
            rho = next;
        }
        double took = all_most(now() - start);
        if (t >= 0)
            add(&s, took / steps);
    }
    figures_moved(&f, before, steps * reps);
    f.residual = sqrt(rho / begun);
    f.check = dot(r, b, x);
    /* What is left of b by a product, which must be what the steps have made of it. */
    double minus = -1;
    product(r, a, x, whole, q);
    daxpy_(&m, &minus, b, &by, q, &by);
    double left = sqrt(dot(r, q, q) / begun);
    if (!(fabs(left - f.residual) <= 1e-11))
        die("WRONG: the residual is %.6e, by a product %.6e", f.residual, left);
    rows_emit(r, "mpi_cg", "blas", steps, &s, &f);
    MPI_Finalize();
    return 0;
}
