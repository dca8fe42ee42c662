/* Runs another program, whose main was renamed work when it was compiled, and prints how long that took, as a JSON
   line after the program's output. */
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
