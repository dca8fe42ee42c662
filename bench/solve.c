/* Dense solvers of LAPACK, whose library may be the host's or another in front of it.
 *
 *   solve PROBLEMS SIZES REPS [SIDES]     a JSON line for each problem (of getrf, potrf, geqrf, gesv, posv; inv: getrf and
 *                                         getri; qr: geqrf and orgqr; geqp3, sytrf, sysv) and order
 *
 * Before each repetition the program writes the matrix anew. `seconds`: the call. Keys: `read`, seconds in which one thread adds up
 * the factor afterwards (the median); `check`, its sum of absolute values; `info`.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "common.h"
#include "solve.h"

void dgetrf_(const int *, const int *, double *, const int *, int *, int *);
void dpotrf_(const char *, const int *, double *, const int *, int *, size_t);
void dgeqrf_(const int *, const int *, double *, const int *, double *, double *, const int *, int *);
void dgeqp3_(const int *, const int *, double *, const int *, int *, double *, double *, const int *, int *);
void dgetri_(const int *, double *, const int *, const int *, double *, const int *, int *);
void dorgqr_(const int *, const int *, const int *, double *, const int *, const double *, double *, const int *, int *);
void dgesv_(const int *, const int *, double *, const int *, int *, double *, const int *, int *);
void dsytrf_(const char *, const int *, double *, const int *, int *, double *, const int *, int *, size_t);
void dsysv_(const char *, const int *, const int *, double *, const int *, int *, double *, const int *, double *, const int *, int *, size_t);
void dposv_(const char *, const int *, const int *, double *, const int *, double *, const int *, int *, size_t);

static void measure(enum problem problem, int n, int reps, int sides)
{
    size_t all = (size_t)n * (size_t)n, of_b = (size_t)n * (size_t)sides;
    double *matrix = doubles(all), *a = doubles(all), *b = doubles(of_b), *tau = doubles((size_t)n), *work, best, total = 0;
    int *pivots = malloc((size_t)n * sizeof *pivots), info = 0, length = -1;
    solve_matrix(problem, (size_t)n, matrix);
    dgeqrf_(&n, &n, a, &n, tau, &best, &length, &info);
    /* geqp3 asks for more. */
    length = (int)best + 64 * (n + 1);
    work = doubles((size_t)length);
    struct series calls = {0}, reads = {0};
    for (int r = -1; r < reps; r++) {
        memcpy(a, matrix, all * sizeof *a);
        fill(b, of_b, 72);
        memset(pivots, 0, (size_t)n * sizeof *pivots);
        double start = now();
        switch (problem) {
        case GETRF: dgetrf_(&n, &n, a, &n, pivots, &info); break;
        case POTRF: dpotrf_("L", &n, a, &n, &info, 1); break;
        case GEQRF: dgeqrf_(&n, &n, a, &n, tau, work, &length, &info); break;
        case GEQP3: dgeqp3_(&n, &n, a, &n, pivots, tau, work, &length, &info); break;
        case INV: dgetrf_(&n, &n, a, &n, pivots, &info), dgetri_(&n, a, &n, pivots, work, &length, &info); break;
        case QR: dgeqrf_(&n, &n, a, &n, tau, work, &length, &info), dorgqr_(&n, &n, &n, a, &n, tau, work, &length, &info); break;
        case SYTRF: dsytrf_("L", &n, a, &n, pivots, work, &length, &info, 1); break;
        case SYSV: dsysv_("L", &n, &sides, a, &n, pivots, b, &n, work, &length, &info, 1); break;
        case GESV: dgesv_(&n, &sides, a, &n, pivots, b, &n, &info); break;
        default: dposv_("L", &n, &sides, a, &n, b, &n, &info, 1);
        }
        double called = now();
        if (info)
            die("%s: info %d", problem_names[problem], info);
        total = problem_solves(problem) ? sum(b, of_b, 1) : sum(a, all, 1);
        double ended = now();
        if (r >= 0)
            add(&calls, called - start), add(&reads, ended - called);
    }
    char more[200], what[40];
    snprintf(more, sizeof more, ",\"read\":%.6f,\"check\":%.15g,\"info\":%d", median(&reads), total, info);
    snprintf(what, sizeof what, "%s", problem_names[problem]);
    emit("solve", (size_t)n, what, &calls, more);
    free(matrix), free(a), free(b), free(tau), free(work), free(pivots);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        die("usage: solve PROBLEMS SIZES REPS [SIDES]");
    wake(1);
    char *rest = NULL, *sizes = strdup(argv[2]), *problems, *problem;
    for (char *size = strtok(sizes, ","); size; size = strtok(NULL, ",")) {
        problems = strdup(argv[1]);
        for (problem = strtok_r(problems, ",", &rest); problem; problem = strtok_r(NULL, ",", &rest))
            measure(problem_of(problem), atoi(size), atoi(argv[3]), argc == 5 ? atoi(argv[4]) : 100);
        free(problems);
    }
    free(sizes);
    return 0;
}
