/* An allocator behind a library's name whose free asks for the time, as allocators do that give memory back after a while.
 * The first such question comes when the dynamic linker has an error to tell: it frees the text of that when it is next asked
 * for a function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *at, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *at);

void *malloc(size_t n)
{
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    return __libc_calloc(n, each);
}

void *realloc(void *at, size_t n)
{
    return __libc_realloc(at, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return __libc_memalign(alignment, n);
}

void free(void *at)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    __libc_free(at);
}

__attribute__((constructor)) static void begin(void)
{
    dlsym(RTLD_NEXT, "there is no such function");
    free(malloc(1));
}
