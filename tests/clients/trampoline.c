/* A library that stands for libblastrampoline, through which Julia calls its BLAS and which Debian does not have: it
   exports the BLAS with and without 64_, each name a jump through a table, and lbt_forward fills the table. As in the
   real one: the library is opened with RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND; the hint, if there is one, is the first
   suffix tried; what isamax makes of an odd length tells 32-bit from 64-bit integers; names that the library does not
   have keep what they had. LBT_DEFAULT_LIBS is forwarded to first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUTINES(X) X(dgemm) X(sgemm) X(zgemm) X(dgemv) X(ddot) X(daxpy) X(idamax) X(dscal) X(dtrsv) X(isamax)

#define TRAMPOLINE(name)                                                                     \
    void *slot32_##name __attribute__((visibility("hidden")));                               \
    void *slot64_##name __attribute__((visibility("hidden")));                               \
    __asm__(".globl " #name "_\n.type " #name "_, @function\n" #name "_:\n"                  \
            "movq slot32_" #name "(%rip), %r11\njmp *%r11\n"                                 \
            ".globl " #name "_64_\n.type " #name "_64_, @function\n" #name "_64_:\n"         \
            "movq slot64_" #name "(%rip), %r11\njmp *%r11\n");
ROUTINES(TRAMPOLINE)

static int width(void *isamax)
{
    int64_t n = (int64_t)0xffffffff00000003, one = 1;
    float x[3] = {1, 2, 1};
    int64_t at = ((int64_t(*)(int64_t *, float *, int64_t *))isamax)(&n, x, &one);
    return at == 0 ? 64 : at == 2 ? 32 : 0;
}

int lbt_forward(const char *path, int clear, int verbose, const char *hint)
{
    const char *suffixes[] = {hint, "", "64_"}, *suffix = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), *isamax = NULL;
    char name[64];
    int count = 0;
    if (!library) {
        fprintf(stderr, "lbt_forward: %s\n", dlerror());
        return 0;
    }
    for (int i = 0; i < 3 && !isamax; i++) {
        if (!(suffix = suffixes[i])) continue;
        snprintf(name, sizeof name, "isamax_%s", suffix);
        isamax = dlsym(library, name);
    }
    int bits = isamax ? width(isamax) : 0;
    if (bits == 0) {
        fprintf(stderr, "lbt_forward: %s: what interface is this?\n", path);
        return 0;
    }
#define FORWARD(routine)                                                   \
    {                                                                      \
        void **slot = bits == 32 ? &slot32_##routine : &slot64_##routine;  \
        snprintf(name, sizeof name, #routine "_%s", suffix);               \
        void *address = dlsym(library, name);                              \
        if (clear) slot32_##routine = slot64_##routine = NULL;             \
        if (address) *slot = address, count++;                             \
    }
    ROUTINES(FORWARD)
    if (verbose) fprintf(stderr, "lbt_forward: %s: %d bits, suffix '%s', %d names\n", path, bits, suffix, count);
    return count;
}

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("LBT_DEFAULT_LIBS");
    if (path && !lbt_forward(path, 1, 0, NULL)) exit(1);
}
