/* High-Performance Linpack from HPC Challenge's sources: its driver is called as that program calls it, without the
 * other benchmarks. It reads hpccinf.txt and appends its table to hpccoutf.txt. */
#include <stdio.h>

#include "hpl.h"

/* The driver calls this function if hpccinf.txt cannot be used; here that ends the program. */
int HPCC_Defaults(HPL_T_test *test, ...)
{
    (void)test;
    fputs("no usable hpccinf.txt\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 1;
}

int main(int argc, char **argv)
{
    HPL_RuntimeData data;
    int failed = 0;
    MPI_Init(&argc, &argv);
    HPL_main(argc, argv, &data, &failed);
    MPI_Finalize();
    return failed;
}
