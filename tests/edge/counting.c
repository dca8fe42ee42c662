/* libc's allocator behind a library's name, which counts its calls. It also has the name that libc's own malloc
 * has besides: a library that compares the two must find one allocator. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *at, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *at);

static atomic_int visits;

int allocator_visits(void)
{
    return visits;
}

void *malloc(size_t n)
{
    static void *(*libc)(size_t);
    if (!libc)
        *(void **)&libc = dlsym(RTLD_NEXT, "__libc_malloc");
    visits++;
    return libc(n);
}

void *__libc_malloc(size_t n) __attribute__((alias("malloc")));

void *calloc(size_t n, size_t each)
{
    visits++;
    return __libc_calloc(n, each);
}

void *realloc(void *at, size_t n)
{
    visits++;
    return __libc_realloc(at, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    visits++;
    return __libc_memalign(alignment, n);
}

void free(void *at)
{
    visits++;
    __libc_free(at);
}
