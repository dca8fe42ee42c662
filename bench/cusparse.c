#include "cusparse.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

struct cusparse_api cusparse;

void cusparse_start(void)
{
    /* Version 12 belongs to CUDA 12 and 13. */
    static const char *const places[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/"};
    void *library = NULL, *found;
    char path[300];
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++) {
        snprintf(path, sizeof path, "%slibcusparse.so.12", places[i]);
        library = dlopen(path, RTLD_NOW);
    }
    if (!library)
        die("no cuSPARSE here: %s", dlerror());
#define LOAD(name, arguments)                                     \
    found = dlsym(library, "cusparse" #name);                     \
    if (!found)                                                   \
        die("no cuSPARSE here: the library has no %s", #name);    \
    memcpy(&cusparse.name, &found, sizeof found);
    CUSPARSE(LOAD)
#undef LOAD
}

void *on_device(const void *from, size_t bytes)
{
    void *to = NULL;
    CU(Malloc, &to, bytes ? bytes : 1);
    CU(Memcpy, to, from, bytes, TO_DEVICE);
    return to;
}
