/* Another program, whose main was renamed work when it was compiled, and how long that took: a JSON line behind what it prints. */
#include <stdio.h>

#include "common.h"

int work(int argc, char **argv);

int main(int argc, char **argv)
{
    double began = now();
    int status = work(argc, argv);
    printf("{\"seconds\":%.6f}\n", now() - began);
    return status;
}
