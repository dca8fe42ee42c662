#include "cusolver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

struct cusolver_api cusolver;

void cusolver_start(void)
{
    static const char *const places[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/"};
    void *library = NULL, *found;
    char path[300];
    /* Of CUDA 13 and 12. */
    for (int version = 12; version >= 11 && !library; version--)
        for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++) {
            snprintf(path, sizeof path, "%slibcusolver.so.%d", places[i], version);
            library = dlopen(path, RTLD_NOW);
        }
    if (!library)
        die("no cuSOLVER here: %s", dlerror());
#define LOAD(name, arguments)                                     \
    found = dlsym(library, "cusolverDn" #name);                   \
    if (!found)                                                   \
        die("no cuSOLVER here: the library has no %s", #name);    \
    memcpy(&cusolver.name, &found, sizeof found);
    CUSOLVER(LOAD)
#undef LOAD
}
