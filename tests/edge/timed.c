/* An allocator behind a library's name whose free makes a system call now and then, as allocators do that give memory
 * back after a while. The first such calls come when the dynamic linker frees the text of an error, which it does when
 * it is next asked for a function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/resource.h>
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
    static int frees;
    struct timespec now;
    struct rusage usage;
    if (frees++ == 0)
        clock_gettime(CLOCK_MONOTONIC, &now);
    else
        getrusage(RUSAGE_SELF, &usage);
    __libc_free(at);
}

__attribute__((constructor)) static void begin(void)
{
    static void *volatile found;
    dlsym(RTLD_NEXT, "there is no such function");
    free(malloc(1));
    dlsym(RTLD_NEXT, "nor this one");
    found = dlsym(RTLD_DEFAULT, "puts");
    (void)found;
}
