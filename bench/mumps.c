/* A sparse direct solver: MUMPS, sequential, analyses, factors and solves a system on a cube of N^3 points.
 *
 *   mumps N
 *
 * The matrix is that of seven neighbours with a drift, so that it is unsymmetric (sym = 0). The order of elimination
 * is nested dissection by planes and is given to MUMPS, whose own libraries choose another order in each run. Prints
 * one JSON line: seconds of the factorisation and the solution, the order of the largest front, and the backward
 * error; if that is too large, the program ends with an error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dmumps_c.h>

#include "common.h"

enum { USE_COMM_WORLD = -987654, GIVEN = 1, SMALLEST = 4 };

/* Numbers the points of a box from *next on: first the two halves on either side of its middle plane, then that
   plane. */
static void dissect(int side, const int from[3], const int to[3], int *number, int *next)
{
    int longest = 0;
    for (int d = 1; d < 3; d++)
        if (to[d] - from[d] > to[longest] - from[longest])
            longest = d;
    if (to[longest] - from[longest] < SMALLEST) {
        for (int z = from[2]; z < to[2]; z++)
            for (int y = from[1]; y < to[1]; y++)
                for (int x = from[0]; x < to[0]; x++)
                    number[(z * side + y) * side + x] = ++*next;
        return;
    }
    int middle = (from[longest] + to[longest]) / 2, low[3], high[3];
    for (int part = 0; part < 3; part++) {
        for (int d = 0; d < 3; d++) {
            low[d] = from[d];
            high[d] = to[d];
        }
        if (part == 0)
            high[longest] = middle;
        else if (part == 1)
            low[longest] = middle + 1;
        else {
            low[longest] = middle;
            high[longest] = middle + 1;
        }
        dissect(side, low, high, number, next);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: mumps N");
    int side = atoi(argv[1]), n = side * side * side;
    size_t most = 7 * (size_t)n, nz = 0;
    int *row = malloc(most * sizeof *row), *column = malloc(most * sizeof *column), *number = malloc((size_t)n * sizeof *number);
    int next = 0, none[3] = {0}, all[3] = {side, side, side};
    double *a = doubles(most), *x = doubles((size_t)n), *r = doubles((size_t)n), *b = doubles((size_t)n);
    if (!row || !column || !number)
        die("out of memory");
    const int step[3] = {1, side, side * side};
    for (int i = 0; i < n; i++) {
        row[nz] = column[nz] = i + 1;
        a[nz++] = 6.5;
        for (int d = 0; d < 3; d++) {
            int at = i / step[d] % side;
            for (int to = -1; to <= 1; to += 2) {
                if (at + to < 0 || at + to >= side)
                    continue;
                row[nz] = i + 1;
                column[nz] = i + 1 + to * step[d];
                a[nz++] = -1.0 - 0.125 * to;
            }
        }
        b[i] = x[i] = i % 11 - 5;
    }

    dissect(side, none, all, number, &next);
    DMUMPS_STRUC_C m;
    memset(&m, 0, sizeof m);
    m.comm_fortran = USE_COMM_WORLD;
    m.par = 1;
    m.sym = 0;
    m.job = -1;
    dmumps_c(&m);
    for (int i = 0; i < 4; i++)
        m.icntl[i] = i < 3 ? -1 : 0; /* no messages */
    m.icntl[6] = GIVEN;
    m.perm_in = number;
    m.icntl[13] = 60;                /* per cent of memory beyond the estimate, for pivots */
    m.n = n;
    m.nnz = (MUMPS_INT8)nz;
    m.irn = row;
    m.jcn = column;
    m.a = a;
    m.rhs = x;
    double took[4] = {0};
    for (int job = 1; job <= 3; job++) {
        m.job = job;
        double began = now();
        dmumps_c(&m);
        took[job] = now() - began;
        if (m.infog[0] < 0)
            die("WRONG: MUMPS's job %d ends with %d, %d", job, m.infog[0], m.infog[1]);
    }
    double norm = 0, residual = 0, largest = 0;
    for (int i = 0; i < n; i++)
        r[i] = b[i];
    for (size_t k = 0; k < nz; k++)
        r[row[k] - 1] -= a[k] * x[column[k] - 1];
    for (int i = 0; i < n; i++) {
        residual = fmax(residual, fabs(r[i]));
        largest = fmax(largest, fabs(x[i]));
        if (!isfinite(x[i]))
            die("WRONG: x[%d] is %g", i, x[i]);
    }
    norm = 12.5;
    double backward = residual / (norm * largest);
    printf("{\"seconds\":%.6f,\"analysis\":%.6f,\"factorisation\":%.6f,\"solution\":%.6f,\"front\":%d,\"gflop\":%.2f,\"check\":%.3g}\n",
           took[2] + took[3], took[1], took[2], took[3], m.infog[10], m.rinfog[2] / 1e9, backward);
    m.job = -2;
    dmumps_c(&m);
    if (!(backward < 1e-12))
        die("WRONG: the backward error is %g", backward);
    free(number);
    free(row);
    free(column);
    free(a);
    free(b);
    free(r);
    free(x);
    return 0;
}
