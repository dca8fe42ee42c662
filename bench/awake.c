/* Preloaded behind semcache: before main of any program, multiplies matrices of its own until a product is three
 * times as fast as the first ones, which is when the GPU computes it, or for AWAKE seconds. So the times that the
 * program then measures contain no part of the initialisation of CUDA. Says on stderr how long that took, and how long the program
 * itself ran from then until it returned from main or called exit. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "common.h"

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_function *main_of_program;
static double begun;

static void wait_for_devices(double most)
{
    const int n = 1024;
    const size_t all = (size_t)n * (size_t)n;
    const double one = 1, zero = 0;
    double *m[3], began = now(), slow = 0, total = 0;
    int fast = 0;
    if (most <= 0)
        return; /* Not even memory is used: glibc would serve later requests in another way. */
    for (int i = 0; i < 3; i++) {
        m[i] = doubles(all);
        fill(m[i], all, 91 + (uint32_t)i);
    }
    for (int round = 0; fast < 10 && now() - began < most; round++) {
        double start = now();
        dgemm_("N", "N", &n, &n, &n, &one, m[0], &n, m[1], &n, &zero, m[2], &n);
        dgemm_("N", "N", &n, &n, &n, &one, m[1], &n, m[0], &n, &one, m[2], &n);
        total += sum(m[2], all, 1);
        double took = now() - start;
        if (round == 2)
            slow = took;
        fast += round > 2 && took < slow / 3;
    }
    for (int i = 0; i < 3; i++)
        free(m[i]);
    fprintf(stderr, "awake after %.3f s%s (%.0f)\n", now() - began, fast < 10 ? ", not faster" : "", total);
}

static void ended(void)
{
    fprintf(stderr, "ran %.6f s\n", now() - begun);
}

static int awake(int argc, char **argv, char **environment)
{
    const char *most = getenv("AWAKE");
    wait_for_devices(most ? atof(most) : 5);
    setenv("AWAKE", "0", 1); /* Programs that this one starts do not wait. */
    atexit(ended);
    begun = now();
    return main_of_program(argc, argv, environment);
}

int __libc_start_main(main_function *f, int argc, char **argv, void (*init)(void), void (*fini)(void), void (*last)(void), void *stack)
{
    start_function *next;
    *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
    main_of_program = f;
    return next(awake, argc, argv, init, fini, last, stack);
}
