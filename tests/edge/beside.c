/* The program itself uses CUDA in the process, as PyTorch does: contexts, copies from and into matrices, memory
 * registered, device pointers. Works on the driver and on the stand-in for it.
 *
 *   beside WHAT     copies primary first register early threads switch static query pointer device broken
 *
 * How it finds the driver's functions: by dlsym; by cuGetProcAddress (primary, as the CUDA runtime does); linked, where
 * built with -DLINKED. */
#include "edge.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long long devptr;

#define FUNCTIONS(X)                                                                                                   \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuCtxCreate_v2, (void **context, unsigned flags, int device))                                                    \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                          \
    X(cuCtxSetCurrent, (void *context))                                                                                \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuMemAlloc_v2, (devptr * at, size_t bytes))                                                                      \
    X(cuMemFree_v2, (devptr at))                                                                                       \
    X(cuMemHostAlloc, (void **at, size_t bytes, unsigned flags))                                                       \
    X(cuMemFreeHost, (void *at))                                                                                       \
    X(cuMemHostRegister_v2, (void *at, size_t bytes, unsigned flags))                                                  \
    X(cuMemHostUnregister, (void *at))                                                                                 \
    X(cuStreamCreate, (void **stream, unsigned flags))                                                                 \
    X(cuStreamSynchronize, (void *stream))                                                                             \
    X(cuMemcpyHtoD_v2, (devptr to, const void *from, size_t bytes))                                                    \
    X(cuMemcpyDtoH_v2, (void *to, devptr from, size_t bytes))                                                          \
    X(cuMemcpyHtoDAsync_v2, (devptr to, const void *from, size_t bytes, void *stream))                                 \
    X(cuMemcpyDtoHAsync_v2, (void *to, devptr from, size_t bytes, void *stream))

#define POINTER(name, arguments) int(*name) arguments;
static struct {
    FUNCTIONS(POINTER)
} cu;

#ifdef LINKED
#define DECLARE(name, arguments) int name arguments;
FUNCTIONS(DECLARE)
#endif

static void ok(int status, const char *what)
{
    if (status != 0) {
        printf("%s: status %d\n", what, status);
        exit(3);
    }
}
#define OK(call) ok(call, #call)

static void find_functions(int by_name)
{
#ifdef LINKED
#define TAKE(name, arguments) cu.name = name;
    FUNCTIONS(TAKE)
    (void)by_name;
#else
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        exit(3);
    }
    int (*ask)(const char *, void **, int, uint64_t, void *) = NULL;
    if (by_name)
        *(void **)&ask = need(dlsym(library, "cuGetProcAddress_v2"));
    struct {
        const char *name;
        void **at;
    } all[] = {
#define ROW(name, arguments) {#name, (void **)&cu.name},
        FUNCTIONS(ROW)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!by_name) {
            *all[i].at = need(dlsym(library, all[i].name));
            continue;
        }
        char base[64];
        snprintf(base, sizeof base, "%s", all[i].name);
        char *version = strstr(base, "_v2");
        if (version)
            *version = 0;
        // The forms of CUDA 12, whose cuCtxCreate is the second one, too.
        ok(ask(base, all[i].at, 12000, 0, NULL), base);
    }
#endif
}

static void *start(int by_name)
{
    void *context = NULL;
    find_functions(by_name);
    OK(cu.cuInit(0));
    if (by_name) {
        OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
        OK(cu.cuCtxSetCurrent(context));
    } else {
        OK(cu.cuCtxCreate_v2(&context, 0, 0));
    }
    return context;
}

enum { N = 200 };
static const size_t BYTES = sizeof(double) * N * N;

/* Values stay small: every product is scaled down to zeros and ones by the caller's data. */
static void small(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (double)(int)(i * 2654435761u >> 7 & 3) - 1.0;
}

/* Results of BLAS go to the device, and inputs of BLAS come from there. */
static void copies(void (*begin)(void))
{
    double *a = doubles(N * N), *b = doubles(N * N), *c = doubles(N * N), *back = doubles(N * N);
    small(a, N * N);
    fill(b, N * N);
    multiply(N, 1.0, a, b, 0.0, c);
    show("before", c, N * N);
    multiply(N, 1.0, b, a, 0.0, c);
    begin();
    devptr d, e;
    OK(cu.cuMemAlloc_v2(&d, BYTES));
    OK(cu.cuMemAlloc_v2(&e, BYTES));
    for (int round = 0; round < 6; round++) {
        /* From a result that is on a device. */
        OK(cu.cuMemcpyHtoD_v2(d, c, BYTES));
        OK(cu.cuMemcpyDtoH_v2(back, d, BYTES));
        show("result through a device", back, N * N);
        /* A few bytes, which drivers copy by the CPU. */
        multiply(N, 1.0, a, b, 0.0, c);
        OK(cu.cuMemcpyHtoD_v2(e, c + 7, 4096));
        OK(cu.cuMemcpyDtoH_v2(back, e, 4096));
        show("a part", back, 512);
        /* Into an input that a device has a copy of. */
        fill(back, N * N);
        OK(cu.cuMemcpyHtoD_v2(d, back, BYTES));
        OK(cu.cuMemcpyDtoH_v2(b, d, BYTES));
        multiply(N, 1.0, a, b, 0.0, c);
        show("with the new input", c, N * N);
        /* Into a result that is on a device. */
        multiply(N, 2.0, a, b, 1.0, c);
        OK(cu.cuMemcpyDtoH_v2(c + 100, d, BYTES / 2));
        multiply(N, 1.0, a, b, 1.0, c);
    }
    show("at last", c, N * N);
    OK(cu.cuMemFree_v2(d));
    OK(cu.cuMemFree_v2(e));
}

static void by_symbol(void)
{
    start(0);
}
static void by_name(void)
{
    start(1);
}
static void nothing(void)
{
}

/* Asynchronous copies, from memory that the program registered after BLAS had used it, or before. */
static void registered(int early)
{
    double *a = doubles(N * N), *b = doubles(N * N), *c = doubles(N * N);
    void *stream, *pinned;
    fill(a, N * N);
    fill(b, N * N);
    if (early) {
        start(0);
        OK(cu.cuMemHostRegister_v2(c, BYTES, 0));
        OK(cu.cuMemHostRegister_v2(b, BYTES, 0));
    }
    multiply(N, 1.0, a, b, 0.0, c);
    multiply(N, 1.0, a, b, 0.0, c);
    if (!early) {
        start(0);
        OK(cu.cuMemHostRegister_v2(c, BYTES, 0));
        OK(cu.cuMemHostRegister_v2(b, BYTES, 0));
    }
    OK(cu.cuStreamCreate(&stream, 1));
    OK(cu.cuMemHostAlloc(&pinned, BYTES, 0));
    double *back = pinned;
    devptr d;
    OK(cu.cuMemAlloc_v2(&d, BYTES));
    for (int round = 0; round < 5; round++) {
        multiply(N, 1.0, a, b, 0.0, c);
        OK(cu.cuMemcpyHtoDAsync_v2(d, c, BYTES, stream));
        OK(cu.cuMemcpyDtoHAsync_v2(back, d, BYTES, stream));
        OK(cu.cuStreamSynchronize(stream));
        show("registered result", back, N * N);
        /* The pinned memory as an operand. */
        small(back, N * N);
        multiply(N, 1.0, a, back, 0.0, c);
        show("pinned input", c, N * N);
        multiply(N, 1.0, a, a, 0.0, back);
        OK(cu.cuMemcpyHtoDAsync_v2(d, back, BYTES, stream));
        OK(cu.cuStreamSynchronize(stream));
        OK(cu.cuMemcpyDtoHAsync_v2(b, d, BYTES, stream));
        OK(cu.cuStreamSynchronize(stream));
        for (int i = 0; i < N * N; i++)
            b[i] = (double)((int)b[i] % 5);
        multiply(N, 1.0, a, b, 0.0, c);
        show("registered input", c, N * N);
        if (round == 2) {
            printf("unregister: %d, again: %d\n", cu.cuMemHostUnregister(c), cu.cuMemHostUnregister(c));
            free(c);
            c = doubles(N * N);
            fill(c, N * N);
            multiply(N, 1.0, a, b, 1.0, c);
            printf("register: %d\n", cu.cuMemHostRegister_v2(c, BYTES, 0));
        }
    }
    OK(cu.cuMemHostUnregister(b));
    OK(cu.cuMemHostUnregister(c));
    multiply(N, 1.0, a, b, 0.0, c);
    show("unregistered", c, N * N);
    OK(cu.cuMemFreeHost(pinned));
    free(b);
    free(c);
}

/* Threads that compute, and threads that copy the results. Each checks its data against values that it knows. */
static void *context;
static pthread_barrier_t together;
static int copying;

static void *compute(void *number)
{
    const int n = 96, me = (int)(intptr_t)number, copies = me < copying;
    const size_t bytes = sizeof(double) * n * n;
    double *a = doubles(n * n), *c = doubles(n * n), *back = doubles(n * n);
    devptr d = 0;
    long wrong = 0;
    pthread_barrier_wait(&together);
    for (int round = 0; round < 60; round++) {
        /* A has r on its diagonal: the product of A with itself has r * r. */
        for (int i = 0; i < n * n; i++)
            a[i] = i % (n + 1) == 0 ? round + me : 0.0;
        multiply(n, 1.0, a, a, 0.0, c);
        if (round == 20 && copies) {
            if (!context) /* the thread that switches does not come here */
                start(0);
            else
                OK(cu.cuCtxSetCurrent(context));
            OK(cu.cuMemAlloc_v2(&d, bytes));
        }
        if (d) {
            OK(cu.cuMemcpyHtoD_v2(d, c, bytes));
            multiply(n, 2.0, a, a, 0.0, c);
            OK(cu.cuMemcpyDtoH_v2(c, d, bytes));
            OK(cu.cuMemcpyDtoH_v2(back, d, bytes));
            multiply(n, 1.0, a, c, 0.0, back);
            for (int i = 0; i < n * n; i++)
                back[i] = (round + me) != 0 ? back[i] / (round + me) : c[i];
        } else {
            memcpy(back, c, bytes);
        }
        const double want = (double)(round + me) * (round + me);
        for (int i = 0; i < n * n; i++) {
            wrong += back[i] != (i % (n + 1) == 0 ? want : 0.0);
            wrong += c[i] != (i % (n + 1) == 0 ? want : 0.0);
        }
    }
    return (void *)wrong;
}

static void threads(int first)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    copying = 2;
    /* One context for both, or one of each thread's own, made while the others compute. */
    if (first)
        context = start(0);
    pthread_barrier_init(&together, NULL, THREADS);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, compute, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        printf("thread %d: %ld wrong\n", i, (long)wrong);
    }
}

/* The words that the driver stores into lie beside a matrix. */
static struct {
    double c[N * N];
    devptr d;
    void *context;
    double more[N * N];
} beside;

static void in_static_memory(void)
{
    double *a = doubles(N * N);
    small(a, N * N);
    fill(beside.more, N * N);
    multiply(N, 1.0, a, beside.more, 0.0, beside.c);
    multiply(N, 1.0, a, beside.c, 0.0, beside.more);
    find_functions(0);
    OK(cu.cuInit(0));
    OK(cu.cuCtxCreate_v2(&beside.context, 0, 0));
    for (int round = 0; round < 3; round++) {
        multiply(N, 1.0, a, a, 0.0, beside.c);
        multiply(N, 1.0, a, beside.c, 0.0, beside.more);
        OK(cu.cuMemAlloc_v2(&beside.d, BYTES));
        multiply(N, 1.0, a, a, 0.0, beside.c);
        OK(cu.cuMemcpyHtoD_v2(beside.d, beside.c, BYTES));
        OK(cu.cuMemcpyDtoH_v2(beside.more, beside.d, BYTES));
        show("static", beside.more, N * N);
        OK(cu.cuMemFree_v2(beside.d));
    }
}

/* A program that only asks for the number of devices keeps page protection. */
static void query(void)
{
    double *a = doubles(N * N), *c = doubles(N * N);
    int count = 0;
    find_functions(0);
    OK(cu.cuInit(0));
    OK(cu.cuDeviceGetCount(&count));
    printf("some: %d\n", count > 0);
    fill(a, N * N);
    for (int round = 0; round < 3; round++)
        multiply(N, 1.0, a, a, 0.0, c);
    show("asked", c, N * N);
}

/* An address in device memory, as cuBLAS takes them. Without semcache the host BLAS crashes on it. */
static void pointer(int real)
{
    double *a = doubles(N * N), *c = doubles(N * N);
    devptr d = 0;
    fill(a, N * N);
    multiply(N, 1.0, a, a, 0.0, c);
    show("before", c, N * N);
    start(0);
    OK(cu.cuMemAlloc_v2(&d, BYTES));
    /* With real devices the driver reserves the addresses of device memory like this. */
    void *reserved = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fflush(stdout);
    multiply(N, 1.0, a, real ? (double *)(uintptr_t)d : reserved, 0.0, c);
    printf("not dead\n");
}

/* A kernel of the program stores to an unmapped address: its context and all others of the process on that GPU are
 * broken. On GPUs only. */
static void broken(void)
{
    static const char KERNEL[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                                 ".visible .entry astray() {\n.reg .b64 %at;\n.reg .b32 %value;\nmov.u64 %at, 64;\n"
                                 "mov.u32 %value, 1;\nst.global.u32 [%at], %value;\nret;\n}\n";
    double *a = doubles(N * N), *b = doubles(N * N), *c = doubles(N * N);
    void *module = NULL, *function = NULL;
    fill(a, N * N);
    multiply(N, 1.0, a, a, 0.0, b);
    show("before", b, N * N);
    start(0);
    void *library = need(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    int (*load)(void **, const void *), (*get)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    *(void **)&load = need(dlsym(library, "cuModuleLoadData"));
    *(void **)&get = need(dlsym(library, "cuModuleGetFunction"));
    *(void **)&launch = need(dlsym(library, "cuLaunchKernel"));
    OK(load(&module, KERNEL));
    OK(get(&function, module, "astray"));
    multiply(N, 1.0, a, a, 0.0, c);
    OK(launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    printf("the kernel: status %d\n", cu.cuCtxSynchronize());
    devptr d = 0;
    printf("the next call: %s\n", cu.cuMemAlloc_v2(&d, BYTES) ? "fails" : "works");
    show("under way", c, N * N);
    for (int round = 0; round < 3; round++) {
        multiply(N, 1.0, a, a, 0.0, c);
        multiply(N, 1.0, a, b, 1.0, c);
        show("after", c, N * N);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "copies"))
        copies(by_symbol);
    else if (!strcmp(what, "primary"))
        copies(by_name);
    else if (!strcmp(what, "first")) {
        start(0);
        copies(nothing);
    } else if (!strcmp(what, "register"))
        registered(0);
    else if (!strcmp(what, "early"))
        registered(1);
    else if (!strcmp(what, "threads"))
        threads(1);
    else if (!strcmp(what, "switch"))
        threads(0);
    else if (!strcmp(what, "static"))
        in_static_memory();
    else if (!strcmp(what, "query"))
        query();
    else if (!strcmp(what, "pointer"))
        pointer(0);
    else if (!strcmp(what, "device"))
        pointer(1);
    else if (!strcmp(what, "broken"))
        broken();
    else
        return 2;
    return 0;
}
