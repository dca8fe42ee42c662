/* A timer's handler computes on matrices that were allocated before, reads results and writes them to a file, whatever it
 * interrupts: malloc and free of blocks of all sizes, mmap and munmap, or a BLAS call. It allocates nothing itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "edge.h"

enum { N = 24, NN = N * N, BLOCKS = 16 };
static double *a, *b, *c, *right;
static volatile sig_atomic_t ticks, wrong;
static int sink;

static void on_tick(int signal)
{
    (void)signal;
    multiply(N, 1, a, b, 0, c);
    if (ticks % 3 == 0)
        wrong += memcmp(c, right, NN * sizeof *c) != 0;
    if (ticks % 3 == 1)
        wrong += write(sink, c, NN * sizeof *c) != (ssize_t)(NN * sizeof *c);
    if (ticks % 4 == 3) {
        multiply(N, 1, c, b, 0, c + NN);
        c[NN] = ticks;
    }
    ticks++;
}

/* Ends a process that is stuck. */
static void *watch(void *unused)
{
    sleep(300);
    abort();
    return unused;
}

int main(int argc, char **argv)
{
    int many = argc > 1 ? atoi(argv[1]) : 1000;
    const size_t sizes[] = {4096, 6000, 8192, 20000, 65536, 1 << 18, 1 << 20, 3 << 20};
    void *blocks[BLOCKS] = {NULL};
    sigset_t tick, before;
    pthread_t watcher;
    sink = open("/dev/null", O_WRONLY);
    a = doubles(NN), b = doubles(NN), c = doubles(2 * NN), right = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    multiply(N, 1, a, b, 0, c);
    memcpy(right, c, NN * sizeof *c);
    sigemptyset(&tick);
    sigaddset(&tick, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &tick, &before);
    if (sink < 0 || pthread_create(&watcher, NULL, watch, NULL))
        return 2;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGALRM, on_tick);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 300}, {0, 300}}, NULL);
    for (unsigned i = 0; ticks < many; i++) {
        unsigned at = i * 7 % BLOCKS;
        size_t size = sizes[i * 5 % (sizeof sizes / sizeof *sizes)];
        if (i % 64 == 0) {
            void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            *(char *)mapped = 1;
            munmap(mapped, size);
        } else if (i % 4 == 0) {
            blocks[at] = need(realloc(blocks[at], size));
        } else {
            free(blocks[at]);
            blocks[at] = need(i % 3 ? malloc(size) : calloc(1, size));
        }
        if (blocks[at])
            *(char *)blocks[at] = 1;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    printf("%d ticks or more, %d wrong\n", many, wrong);
    multiply(N, 1, a, b, 0, c);
    show("c", c, NN);
    return wrong != 0;
}
