/* The system of the Jacobi benchmark and its checks, for everyone the same. */
#ifndef BENCH_JACOBI_H
#define BENCH_JACOBI_H

double jacobi_diagonal(int n);
double *jacobi_matrix(int n);
void jacobi_right_side(int n, double *b);
/* y = R x for the integer vector with that seed: 64 entries and the sum of all. */
void jacobi_check_product(int n, const double *y, unsigned seed);
/* The solution after so many iterations from zero. */
void jacobi_check_solution(int n, int iterations, const double *x);

#endif
