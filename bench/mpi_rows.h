/* Dense systems whose matrix is cut into blocks of rows, one for each MPI rank: their data, checks and output, the same for all
 * implementations. The solution is a vector of small integers, and products with it are exact. */
#ifndef BENCH_MPI_ROWS_H
#define BENCH_MPI_ROWS_H

#include "common.h"

enum kind {
    DOMINANT, /* a large diagonal D, which the matrix leaves out: A = D + R */
    DEFINITE  /* symmetric, of condition 9 or so: conjugate gradients halve the residual in each step */
};

struct rows {
    enum kind kind;
    int n, rank, ranks;
    int from, rows;        /* of this rank */
    int *counts, *offsets; /* of all ranks, for MPI_Allgatherv */
    double diagonal;
};

/* What a run says of itself besides its times. */
struct figures {
    double first;         /* seconds of the first product, which sends the matrix */
    double h2d, d2h, p2p; /* bytes per step, all ranks */
    double residual, check;
};

void rows_start(struct rows *r, enum kind kind, int n);
/* This rank's rows x n matrix, column by column. */
double *rows_matrix(const struct rows *r);
/* This rank's part of the right side. */
double *rows_right_side(const struct rows *r);
/* The solution, all n. */
void rows_solution(const struct rows *r, double *x);
/* Compares this rank's product of its matrix with the solution. */
void rows_check_product(const struct rows *r, const double *b, const double *y);
/* Ends the program unless all of x is the solution but for `error`. */
void rows_check_solution(const struct rows *r, const double *x, double error);

/* The sum over all ranks, and the greatest. */
double all_sum(double x);
double all_most(double x);
/* Bytes that semcache has copied for all ranks: to devices, to the host, between devices. Zeros without it. */
void all_moved(double bytes[3]);
/* Fills in the bytes per step since `before`, which is what all_moved said before these steps. */
void figures_moved(struct figures *f, const double before[3], int steps);

/* Rank 0 prints the line of a run. */
void rows_emit(const struct rows *r, const char *bench, const char *variant, int steps, const struct series *s, const struct figures *f);

#endif
