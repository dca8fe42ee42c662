/* Operands on stacks: of threads whose stack another thread used before, in memory that the program gave to its threads,
 * and of coroutines. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "edge.h"

enum { N = 48, NN = N * N, STACK = 1 << 20 };
static double *a, *b, *c;

/* Products of matrices on this stack, and of one with a matrix on the heap; always at the same depth, so that the next
 * thread has others at the same addresses. */
static uint64_t __attribute__((noinline)) compute(int seed)
{
    _Alignas(4096) double x[NN], y[NN], z[NN];
    uint64_t h = 0;
    for (int i = 0; i < NN; i++) {
        x[i] = (i * 7 + seed) % 9 - 4;
        y[i] = (i * 5 + seed) % 7 - 3;
    }
    for (int round = 0; round < 3; round++) {
        multiply(N, 1, x, y, 0, z);
        multiply(N, 1, z, b, 0, x);
        h = h * 31 + hash(x, NN);
        multiply(N, 1, y, a, 0, c);
        multiply(N, 1, c, z, 0, y);
        h = h * 31 + hash(y, NN);
        for (int i = 0; i < NN; i++)
            x[i] = (i + round + seed) % 5 - 2, y[i] = (i * 3 + round) % 5 - 2;
    }
    return h;
}

static void *one(void *seed)
{
    uint64_t *h = need(malloc(sizeof *h));
    *h = compute((int)(intptr_t)seed);
    return h;
}

static void run(const char *what, intptr_t seed, pthread_attr_t *attr)
{
    pthread_t thread;
    void *h;
    if (pthread_create(&thread, attr, one, (void *)seed))
        exit(2);
    pthread_join(thread, &h);
    printf("%s %ld: %016llx\n", what, (long)seed, *(unsigned long long *)h);
    free(h);
}

/* glibc hands the stack of a thread that has ended to the next one. */
static void cached(void)
{
    for (intptr_t i = 0; i < 12; i++)
        run("cached", i, NULL);
}

/* The program's memory as a stack, then as a matrix, then as a stack. */
static void given(const char *what, void *memory)
{
    for (intptr_t i = 0; i < 4; i++) {
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        if (pthread_attr_setstack(&attr, memory, STACK))
            exit(2);
        run(what, i, &attr);
        pthread_attr_destroy(&attr);
        multiply(N, 1, a, b, 0, memory);
        multiply(N, 1, memory, b, 0, (double *)memory + NN);
        if (i & 1)
            show("as a matrix", memory, 2 * NN);
    }
}

static ucontext_t main_context, others[2];
static uint64_t found[2];
static int turn;

static void coroutine(void)
{
    int me = turn;
    _Alignas(4096) double x[NN];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < NN; i++)
            x[i] = (i * (me + 2) + round) % 7 - 3;
        multiply(N, 1, x, b, 0, c);
        multiply(N, 1, a, x, 1, c);
        multiply(N, 1, c, b, 0, x);
        found[me] = found[me] * 31 + compute(me + round);
        swapcontext(&others[me], &main_context);
        found[me] = found[me] * 31 + hash(x, NN);
    }
}

static void coroutines(void)
{
    char *memory = need(malloc(2 * STACK));
    for (int i = 0; i < 2; i++) {
        getcontext(&others[i]);
        others[i].uc_stack.ss_sp = memory + i * STACK;
        others[i].uc_stack.ss_size = STACK;
        others[i].uc_link = &main_context;
        makecontext(&others[i], coroutine, 0);
    }
    for (int round = 0; round < 5; round++)
        for (turn = 0; turn < 2; turn++)
            swapcontext(&main_context, &others[turn]);
    printf("coroutines: %016llx %016llx\n", (unsigned long long)found[0], (unsigned long long)found[1]);
    free(memory);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    a = doubles(NN), b = doubles(NN), c = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    cached();
    void *mapped = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return 2;
    given("mapped", mapped);
    void *allocated = doubles(STACK / sizeof(double));
    given("allocated", allocated);
    coroutines();
    munmap(mapped, STACK);
    free(allocated);
    cached();
    multiply(N, 1, a, b, 0, c);
    show("c", c, NN);
    return 0;
}
