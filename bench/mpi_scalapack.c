/* ScaLAPACK's products and factorizations on a square grid of MPI ranks.
 *
 *   mpirun -n RANKS mpi_scalapack ROUTINE N BLOCK REPS      rank 0 prints a JSON line
 *
 * ROUTINE: pdgemm, pdpotrf or pdgetrf, of order N, distributed in square blocks of order BLOCK. The matrix of pdpotrf is symmetric with a
 * dominant diagonal; LU exchanges rows, as its matrix has random entries. Keys: `seconds` of each repetition, the
 * slowest rank's; `step` their median; `tflops`; `error` the greatest error: of entries of a product, which are exact, or of the solution of
 * a system whose solution is all ones. Matrices are written anew before each repetition, outside of its time.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_rows.h"

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
int numroc_(const int *n, const int *block, const int *at, const int *first, const int *count);
void descinit_(int *desc, const int *m, const int *n, const int *mb, const int *nb, const int *row, const int *column, const int *context,
               const int *ld, int *info);
void pdgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const int *,
             const int *, const double *, const int *, const int *, const int *, const double *, double *, const int *, const int *,
             const int *);
void pdpotrf_(const char *, const int *, double *, const int *, const int *, const int *, int *);
void pdpotrs_(const char *, const int *, const int *, const double *, const int *, const int *, const int *, double *, const int *,
              const int *, const int *, int *);
void pdgetrf_(const int *, const int *, double *, const int *, const int *, const int *, int *, int *);
void pdgetrs_(const char *, const int *, const int *, const double *, const int *, const int *, const int *, const int *, double *,
              const int *, const int *, const int *, int *);

static const int zero = 0, first = 1;
static const double one = 1, none = 0;

/* The grid, and this rank's part of a matrix. */
static struct {
    int n, block, side, row, column, rows, columns, definite;
} g;

/* The index in the whole matrix of a local one. */
static size_t whole(int local, int at)
{
    return ((size_t)(local / g.block) * (size_t)g.side + (size_t)at) * (size_t)g.block + (size_t)(local % g.block);
}

static double entry(uint32_t seed, size_t i, size_t j)
{
    size_t n = (size_t)g.n, low = i < j ? i : j, high = i < j ? j : i;
    double v = g.definite ? value(seed, low + high * n) : value(seed, i + j * n);
    return i == j && g.definite ? 2048.0 * (double)n : v;
}

struct written {
    double *a;
    uint32_t seed;
};

static void write_columns(void *arg, size_t from, size_t to, int thread)
{
    struct written *w = arg;
    (void)thread;
    for (size_t j = from; j < to; j++)
        for (int i = 0; i < g.rows; i++)
            w->a[(size_t)i + j * (size_t)g.rows] = entry(w->seed, whole(i, g.row), whole((int)j, g.column));
}

static void write_matrix(double *a, uint32_t seed)
{
    struct written w = {a, seed};
    parallel((size_t)g.columns, 0, write_columns, &w);
}

static void sum_rows(void *arg, size_t from, size_t to, int thread)
{
    struct written *w = arg;
    (void)thread;
    for (size_t i = from; i < to; i++) {
        double s = 0;
        for (size_t j = 0; j < (size_t)g.n; j++)
            s += entry(w->seed, whole((int)i, g.row), j);
        w->a[i] = s;
    }
}

/* The greatest error of 32 entries of this rank's part of a product. */
static double product_error(const double *c)
{
    double worst = 0;
    for (int s = 0; s < 32; s++) {
        int i = (int)((size_t)s * 7919 % (size_t)g.rows), j = (int)((size_t)s * 104729 % (size_t)g.columns);
        double sum = 0;
        for (size_t k = 0; k < (size_t)g.n; k++)
            sum += entry(1, whole(i, g.row), k) * entry(2, k, whole(j, g.column));
        worst = fmax(worst, fabs(sum - c[(size_t)i + (size_t)j * (size_t)g.rows]));
    }
    return worst;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 5)
        die("usage: mpi_scalapack ROUTINE N BLOCK REPS");
    const char *routine = argv[1];
    int product = !strcmp(routine, "pdgemm"), lu = !strcmp(routine, "pdgetrf"), reps = atoi(argv[4]), rank, ranks, context, info, desc[9], right[9];
    if (!product && !lu && strcmp(routine, "pdpotrf"))
        die("no routine %s", routine);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    g.n = atoi(argv[2]), g.block = atoi(argv[3]), g.definite = !product && !lu;
    g.side = (int)lround(sqrt(ranks));
    if (g.side * g.side != ranks || g.n < 1 || g.block < 1)
        die("a square number of ranks, an order and a block are needed");
    Cblacs_get(-1, 0, &context);
    Cblacs_gridinit(&context, "Row", g.side, g.side);
    Cblacs_gridinfo(context, &g.side, &g.side, &g.row, &g.column);
    g.rows = numroc_(&g.n, &g.block, &g.row, &zero, &g.side);
    g.columns = numroc_(&g.n, &g.block, &g.column, &zero, &g.side);
    int ld = g.rows > 1 ? g.rows : 1;
    descinit_(desc, &g.n, &g.n, &g.block, &g.block, &zero, &zero, &context, &ld, &info);
    descinit_(right, &g.n, &first, &g.block, &g.block, &zero, &zero, &context, &ld, &info);
    size_t part = (size_t)g.rows * (size_t)g.columns;
    double *a = doubles(part + 1), *b = doubles(part + 1), *c = product ? doubles(part + 1) : NULL, error = 0;
    int *pivots = malloc(sizeof(int) * (size_t)(g.rows + g.block));
    struct series s = {0};
    wake_briefly(3);
    if (product)
        write_matrix(b, 2);
    for (int k = 0; k < reps; k++) {
        write_matrix(a, 1);
        if (product)
            poison(c, part);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        if (product)
            pdgemm_("N", "N", &g.n, &g.n, &g.n, &one, a, &first, &first, desc, b, &first, &first, desc, &none, c, &first, &first, desc);
        else if (lu)
            pdgetrf_(&g.n, &g.n, a, &first, &first, desc, pivots, &info);
        else
            pdpotrf_("L", &g.n, a, &first, &first, desc, &info);
        add(&s, all_most(now() - start));
        if (!product && info)
            die("%s: info %d", routine, info);
        if (product) {
            error = fmax(error, product_error(c));
        } else {
            if (g.column == 0) {
                struct written w = {b, 1};
                parallel((size_t)g.rows, 0, sum_rows, &w);
            }
            if (lu)
                pdgetrs_("N", &g.n, &first, a, &first, &first, desc, pivots, b, &first, &first, right, &info);
            else
                pdpotrs_("L", &g.n, &first, a, &first, &first, desc, b, &first, &first, right, &info);
            for (int i = 0; g.column == 0 && i < g.rows; i++)
                error = fmax(error, fabs(b[i] - 1));
        }
    }
    error = all_most(error);
    if (!(error <= (product ? 0 : lu ? 1e-6 : 1e-9)))
        die("%s: wrong by %g", routine, error);
    double n = g.n, flops = product ? 2 * n * n * n : lu ? 2 * n * n * n / 3 : n * n * n / 3;
    char more[256];
    snprintf(more, sizeof more, ", \"block\":%d, \"step\":%.6f, \"tflops\":%.3f, \"error\":%.3g", g.block, median(&s), flops / median(&s) * 1e-12, error);
    if (rank == 0)
        emit("mpi_scalapack", (size_t)g.n, routine, &s, more);
    MPI_Finalize();
    return 0;
}
