/* Calls the BLAS as Julia does: names with 64_, 64-bit integers, through libblastrampoline. An argument is a library
   for lbt_forward. Julia's compiled code imports nothing: the addresses come from dlsym. */
#define INT int64_t
#include "door.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *trampoline = dlopen("libblastrampoline.so.5", RTLD_NOW | RTLD_GLOBAL);
    if (!trampoline) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*forward)(const char *, int, int, const char *) = NULL;
    *(void **)&forward = dlsym(trampoline, "lbt_forward");
    if (argc > 1 && !forward(argv[1], 0, 1, "64_")) return 1;
#define FIND(name) *(void **)&blas.name = dlsym(trampoline, #name "_64_");
    ROUTINES(FIND)
    return work();
}
