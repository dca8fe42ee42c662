/* The library that ends.cpp closes: its static data are operands, also in its destructor. */
#include "edge.h"

enum { N = 64, NN = N * N };
double matrix[NN + 1024] = {1, 2, 3}, nothing[2 * NN + 1024];
static double own[NN + 1024];

void compute(int round)
{
    for (int i = 0; i < NN; i++)
        nothing[i] = (i + round) % 5;
    multiply(N, 1, matrix, nothing, 0, own);
    multiply(N, 1, own, nothing, 0, nothing + NN);
}

__attribute__((destructor)) static void last(void)
{
    multiply(N, 1, matrix, nothing, 0, own);
    multiply(N, 1, own, matrix, 1, nothing);
    show("the library's last", own, NN);
    multiply(N, 1, own, matrix, 0, nothing);
    multiply(N, 2, matrix, nothing, 0, own);
}
