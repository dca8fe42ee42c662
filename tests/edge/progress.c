/* Nobody starves: the CPU and calls take turns at the same pages for as long as they like.
 *
 *   progress reader ROUNDS    a thread reads one number in a loop while another computes into the same panel
 *   progress writer ROUNDS    it writes one
 *   progress turns ROUNDS     one thread does both in turn, at different numbers of a panel
 *   progress many ROUNDS      four threads with their own matrices in one panel, each reads and computes */
#include <pthread.h>
#include <time.h>

#include "edge.h"

enum { N = 32, NN = N * N, MATRICES = 8 };
static double *a, *b, *block;
static int rounds;
static volatile int stop;
static volatile long accesses;

static double *matrix(int i)
{
    return block + i * NN;
}

static void *reader(void *unused)
{
    /* Between the results, never a part of one. */
    volatile double *at = matrix(MATRICES - 1) + 5;
    double wrong = 0;
    (void)unused;
    while (!stop) {
        wrong += *at != 42;
        accesses++;
    }
    if (wrong)
        printf("wrong %.0f\n", wrong);
    return NULL;
}

static void *writer(void *unused)
{
    volatile double *at = matrix(MATRICES - 1) + 5;
    double wrong = 0;
    (void)unused;
    for (long i = 0; !stop; i++) {
        *at = (double)i;
        wrong += *at != (double)i;
        accesses++;
    }
    *at = 42;
    if (wrong)
        printf("wrong %.0f\n", wrong);
    return NULL;
}

static void beside(void *(*what)(void *))
{
    pthread_t thread;
    matrix(MATRICES - 1)[5] = 42;
    if (pthread_create(&thread, NULL, what, NULL))
        exit(2);
    uint64_t h = 0;
    for (int i = 0; i < rounds; i++) {
        double *c = matrix(i % (MATRICES - 1));
        multiply(N, 1, a, b, i % 3 ? 0 : 1, c);
        if (i % 50 == 0) {
            h = h * 31 + hash(c, NN);
            multiply(N, 1, a, b, 0, c);
        }
    }
    /* The other thread got on, too. */
    long before = accesses;
    struct timespec soon = {0, 1000000};
    while (accesses < before + 10)
        nanosleep(&soon, NULL);
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d rounds, %016llx\n", rounds, (unsigned long long)h);
    for (int i = 0; i < MATRICES - 1; i++) {
        multiply(N, 1, a, b, 0, matrix(i));
        show("c", matrix(i), NN);
    }
    printf("and %.0f\n", matrix(MATRICES - 1)[5]);
}

static void turns(void)
{
    double sum = 0;
    for (int i = 0; i < rounds; i++) {
        multiply(N, 1, a, b, 0, matrix(i % 4));
        matrix(6)[i % NN] = i;
        multiply(N, 1, matrix(i % 4), b, 0, matrix(4));
        sum += matrix(6)[(i * 7) % NN] + matrix(5)[i % NN];
    }
    printf("sum %.0f\n", sum);
    show("all", block, MATRICES * NN);
}

static void *own(void *which)
{
    double *c = matrix((int)(intptr_t)which);
    uint64_t *h = need(calloc(1, sizeof *h));
    for (int i = 0; i < rounds; i++) {
        multiply(N, 1, a, b, 0, c);
        c[i % NN] += 1;
        dscal_(&(int){NN}, &(double){2}, c, &(int){1});
        *h = *h * 31 + (uint64_t)(int64_t)c[(i * 13) % NN];
    }
    return h;
}

static void many(void)
{
    pthread_t thread[4];
    void *h;
    for (intptr_t i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, own, (void *)i))
            exit(2);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &h);
        printf("thread %d: %016llx\n", i, *(unsigned long long *)h);
        show("c", matrix(i), NN);
        free(h);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    void *at;
    rounds = argc > 2 ? atoi(argv[2]) : 2000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    a = doubles(NN), b = doubles(NN);
    /* All of it in one panel of 2 MiB, and pages of 4 KiB hold parts of two matrices. */
    if (posix_memalign(&at, 1 << 21, 1 << 21))
        return 2;
    block = (double *)at + 100;
    fill(a, NN);
    fill(b, NN);
    fill(block, MATRICES * NN);
    if (!strcmp(what, "reader"))
        beside(reader);
    else if (!strcmp(what, "writer"))
        beside(writer);
    else if (!strcmp(what, "turns"))
        turns();
    else if (!strcmp(what, "many"))
        many();
    else
        return 2;
    return 0;
}
