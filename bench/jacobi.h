/* The system of the Jacobi benchmark and its checks, which are the same for all implementations. */
#ifndef BENCH_JACOBI_H
#define BENCH_JACOBI_H

double jacobi_diagonal(int n);
double *jacobi_matrix(int n);
void jacobi_right_side(int n, double *b);
/* Checks y = R x for the integer vector with that seed: 64 entries and the sum of all. */
void jacobi_check_product(int n, const double *y, unsigned seed);
/* Checks the solution after `iterations` iterations from zero. */
void jacobi_check_solution(int n, int iterations, const double *x);

#endif
