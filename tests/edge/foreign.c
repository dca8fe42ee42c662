/* Blocks of this program's that a library frees, grows and hands out by an allocator's names of its own.
 *
 *   foreign LIBRARY     foreign_library.c, opened with RTLD_DEEPBIND: its malloc is the C library's, whatever is preloaded */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>

#include "edge.h"

enum { N = 64, NN = N * N };

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    void (*give_back)(void *) = (void (*)(void *))dlsym(library, "give_back");
    void *(*grow)(void *, size_t) = (void *(*)(void *, size_t))dlsym(library, "grow");
    double *(*make)(size_t) = (double *(*)(size_t))dlsym(library, "make");
    if (!give_back || !grow || !make)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    double *a = doubles(NN), *b = doubles(NN), *kept = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    static const size_t bytes[] = {NN * 8, (size_t)3 << 20, (size_t)70 << 20};
    for (int i = 0; i < 18; i++) {
        size_t size = bytes[i % 3];
        double *p = need(i & 1 ? calloc(size, 1) : malloc(size));
        multiply(N, 1, a, b, 0, p);
        multiply(N, 1, p, b, 0, kept);
        if (i % 6 > 3)
            show("p", p, NN);
        give_back(p); /* with its newest bytes on a device */
        double *q = need(malloc(size));
        fill(q, NN);
        multiply(N, 1, q, b, 0, q + NN / 2 * (size > NN * 8));
        show("in its place", q, NN);
        show("kept", kept, NN);
        multiply(N, 1, a, b, 0, q);
        q = need(grow(q, size * 2 + 5000));
        show("grown", q, NN);
        for (size_t k = NN; k < 2 * NN; k++)
            q[k] = (double)(k % 9);
        multiply(N, 1, q, q + NN, 0, kept);
        show("from it", kept, NN);
        multiply(N, 1, a, b, 0, q);
        q = need(grow(q, NN * 8));
        show("shrunk", q, NN);
        if (i & 2)
            give_back(q);
        else
            free(q);
        double *r = need(make(size));
        multiply(N, 1, b, a, 0, r);
        show("made there", r, NN);
        multiply(N, 1, b, a, 0, r);
        r = need(realloc(r, size + 4096));
        show("and grown here", r, NN);
        free(r);
    }
    malloc_trim(0);
    return 0;
}
