/* Takes the memory of every GPU except MIB MiB, says "ready", and keeps the memory until its standard input ends.
 *
 *   hog MIB */
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"

int main(int argc, char **argv)
{
    size_t leave = (argc > 1 ? (size_t)atol(argv[1]) : 16) << 20, taken = 0;
    int gpus = cuda_start();
    for (int g = 0; g < gpus; g++) {
        void *last = NULL, *p;
        CU(SetDevice, g);
        /* Allocates all memory, in ever smaller pieces; then frees one piece of the size that is to stay free. */
        if (leave && cuda.Malloc(&last, leave))
            die("hog: not even %zu bytes are free", leave);
        for (size_t piece = (size_t)8 << 30; piece >= (size_t)2 << 20; piece /= 2)
            while (!cuda.Malloc(&p, piece))
                taken += piece;
        if (last)
            CU(Free, last);
    }
    printf("ready: %zu MiB taken\n", taken >> 20);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
