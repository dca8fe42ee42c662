#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

struct cuda_api cuda;
struct cublas_api cublas;

void cuda_failed(const char *what, int status, int blas)
{
    if (blas)
        die("%s: status %d", what, status);
    die("%s: %s", what, cuda.GetErrorString ? cuda.GetErrorString(status) : "?");
}

/* Opens the library in version 13 or else 12, from the loader's path or the folder of a toolkit. */
static void *open_library(const char *name, int *version)
{
    static const char *const places[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/"};
    char path[300];
    for (*version = 13; *version >= 12; --*version)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "%s%s.so.%d", places[i], name, *version);
            void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
            if (library)
                return library;
        }
    die("no CUDA here: neither %s.so.13 nor .12 can be loaded", name);
}

static void *symbol(void *library, const char *name)
{
    void *s = dlsym(library, name);
    if (!s)
        die("no CUDA here: the library has no %s", name);
    return s;
}

int cuda_start(void)
{
    int version, gpus = 0;
    void *runtime = open_library("libcudart", &version), *found;
    const char *prefetch = version >= 13 ? "cudaMemPrefetchAsync" : "cudaMemPrefetchAsync_v2";
    /* By memcpy: ISO C has no conversion from void * to a function. */
#define LOAD(name, arguments)                  \
    found = symbol(runtime, "cuda" #name);     \
    memcpy(&cuda.name, &found, sizeof found);
    CUDART(LOAD)
#undef LOAD
    found = symbol(runtime, "cudaGetErrorString");
    memcpy(&cuda.GetErrorString, &found, sizeof found);
    found = symbol(runtime, prefetch);
    memcpy(&cuda.Prefetch, &found, sizeof found);
    void *library = open_library("libcublas", &version);
#define LOAD(name, arguments)                  \
    found = symbol(library, "cublas" #name);   \
    memcpy(&cublas.name, &found, sizeof found);
    CUBLAS(LOAD)
#undef LOAD
    int status = cuda.GetDeviceCount(&gpus);
    if (status || gpus < 1)
        die("no CUDA here: %s", status ? cuda.GetErrorString(status) : "no GPU");
    const char *set = getenv("GPUS");
    if (set && atoi(set) >= 1 && atoi(set) < gpus)
        gpus = atoi(set);
    CU(SetDevice, 0);
    CU(Free, NULL);
    return gpus;
}

double *device_doubles(size_t n)
{
    void *p = NULL;
    CU(Malloc, &p, n * sizeof(double));
    return p;
}

static double *registered_doubles(size_t n, unsigned flags)
{
    size_t bytes = n * sizeof(double), huge = (size_t)2 << 20;
    double *p = aligned_alloc(huge, (bytes + huge - 1) & ~(huge - 1));
    if (!p)
        die("out of memory: %zu doubles", n);
    madvise(p, bytes, MADV_HUGEPAGE);
    poison(p, n);
    CU(HostRegister, p, bytes, flags);
    return p;
}

/* Flags: 1 for all contexts, 2 with an address for kernels. */
double *pinned_doubles(size_t n)
{
    return registered_doubles(n, 1);
}

double *mapped_doubles(size_t n, double **on_device)
{
    double *p = registered_doubles(n, 1 | 2);
    void *address = NULL;
    CU(HostGetDevicePointer, &address, p, 0);
    *on_device = address;
    return p;
}

stream_t new_stream(void)
{
    stream_t s;
    CU(StreamCreateWithFlags, &s, 1); /* does not wait for the default stream */
    return s;
}

event_t new_event(void)
{
    event_t e;
    CU(EventCreateWithFlags, &e, 2); /* without a time */
    return e;
}

void copy(double *to, const double *from, size_t n, int kind)
{
    CU(Memcpy, to, from, n * sizeof(double), kind);
}
