/* A program that takes its BLAS as MATLAB does: it opens the library that BLAS_VERSION names, looks the names up in it
   that Fortran gives them, and passes 64-bit integers. */
#define INT int64_t
#include "door.h"
#include <dlfcn.h>

int main(void)
{
    const char *path = getenv("BLAS_VERSION");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "BLAS_VERSION: %s\n", path ? dlerror() : "not set");
        return 1;
    }
#define FIND(name)                                            \
    if (!(*(void **)&blas.name = dlsym(library, #name "_"))) { \
        fprintf(stderr, "no %s_ in %s\n", #name, path);         \
        return 1;                                             \
    }
    ROUTINES(FIND)
    return work();
}
