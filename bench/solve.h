/* Matrices of the benchmarks of dense solvers. */
#ifndef BENCH_SOLVE_H
#define BENCH_SOLVE_H

#include <stddef.h>

/* The problems: a factorization, or a solution with right sides. */
enum problem { GETRF, POTRF, GEQRF, GESV, POSV, INV, QR, GEQP3, SYTRF, SYSV, PROBLEMS };
extern const char *const problem_names[PROBLEMS];

/* Whether a problem has right sides, in place of which it has the solutions then. */
int problem_solves(enum problem problem);

/* The problem of this name; ends the program if there is none. */
enum problem problem_of(const char *name);

/* The matrix of a problem, n by n: integers; symmetric for sytrf and sysv, and for potrf and posv, which also get a large diagonal. */
void solve_matrix(enum problem problem, size_t n, double *a);

/* Flops of a problem of order n with these right sides. */
double solve_flops(enum problem problem, double n, double sides);

#endif
