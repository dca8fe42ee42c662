/* Matrices of the benchmarks of dense solvers. */
#ifndef BENCH_SOLVE_H
#define BENCH_SOLVE_H

#include <stddef.h>

/* The problems: a factorization, or a solution with right sides. */
enum problem { GETRF, POTRF, GEQRF, GESV, POSV, INV, QR, GEQP3, PROBLEMS };
extern const char *const problem_names[PROBLEMS];

/* The problem of this name; ends the program if there is none. */
enum problem problem_of(const char *name);

/* The matrix of a problem, n by n: integers; symmetric, with a large diagonal, for potrf and posv. */
void solve_matrix(enum problem problem, size_t n, double *a);

/* Flops of a problem of order n with these right sides. */
double solve_flops(enum problem problem, double n, double sides);

#endif
