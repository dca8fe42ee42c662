/* The program's allocator is not called while the CPU reads results and changes inputs: code that serves a fault must
 * not call it, on any thread, since the thread that faulted may hold that allocator's lock. */
#include "edge.h"

int allocator_visits(void);

enum { N = 96, NN = N * N };

int main(void)
{
    double *a = doubles(NN), *b = doubles(NN), *c = doubles(NN), *d = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    /* If the program's allocator is not the one that counts, the count proves nothing. */
    int before = allocator_visits();
    free(malloc(10));
    printf("%s\n", allocator_visits() > before ? "counted" : "nobody came");
    for (int round = 0; round < 8; round++) {
        multiply(N, 1, a, b, 0, c);
        multiply(N, 1, c, b, 0, d);
        before = allocator_visits();
        for (int i = 0; i < NN; i += 64)
            c[i] = fmod(c[i], 7);
        uint64_t seen = hash(d, NN);
        for (int i = 0; i < NN; i += 512)
            a[i] += round, b[NN - 1 - i] = seen % 5;
        printf("%016llx, visits %d\n", (unsigned long long)seen, allocator_visits() - before);
    }
    show("a", a, NN);
    show("c", c, NN);
    return 0;
}
