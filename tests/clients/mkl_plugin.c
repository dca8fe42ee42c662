/* Opens a library privately, as Python does its extension modules, and runs what it exports. Without an argument: calls a product of MKL's
   that no library but a preloaded one has. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct descr { int type, mode, diag; };

int main(int argc, char **argv)
{
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        int (*run)(int) = library ? (int (*)(int))dlsym(library, "run") : NULL;
        if (!run) return fprintf(stderr, "%s\n", dlerror()), 3;
        return run(argc > 2 ? atoi(argv[2]) : 1500);
    }
    int (*mv)(int, double, const void *, struct descr, const double *, double, double *) =
        (int (*)(int, double, const void *, struct descr, const double *, double, double *))dlsym(RTLD_DEFAULT, "mkl_sparse_d_mv");
    double x = 1, y = 2;
    if (!mv)
        printf("absent\n");
    else
        printf("status %d, y %.0f\n", mv(10, 1, NULL, (struct descr){20, 0, 0}, &x, 0, &y), y);
    return 0;
}
