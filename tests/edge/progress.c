/* No thread starves: the CPU and calls take turns at the same pages for as long as they like. Calls compute the upper
 * halves of matrices, and the CPU reads and writes numbers in the lower halves: each page has parts of columns of both.
 *
 *   progress reader ROUNDS    a thread reads one number in a loop while another computes into the same panel
 *   progress writer ROUNDS    it writes one
 *   progress turns ROUNDS     one thread does both in turn, at different numbers of a panel
 *   progress many ROUNDS      four threads with their own matrices in one panel, each reads and computes */
#include <pthread.h>
#include <time.h>

#include "edge.h"

/* Matrices of HEIGHT rows and N columns, whose upper halves have N rows, or twice as many of N rows. */
enum { N = 32, NN = N * N, HEIGHT = 2 * N, HALVED = 4, MATRICES = 2 * HALVED };
static double *a, *b, *block;
static int rounds;
static volatile int stop;
static volatile long accesses;

static double *matrix(int i)
{
    return block + i * NN;
}

/* Number i, modulo all, of the upper or lower half of a matrix, counted column by column. */
static double *upper(int which, int i)
{
    return block + which * HEIGHT * N + i % NN / N * HEIGHT + i % N;
}

static double *lower(int which, int i)
{
    return upper(which, i) + N;
}

/* The upper half of a matrix = A B, plus BETA times what it was. */
static void multiply_upper(const double *left, int ld, double beta, int which)
{
    dgemm_("N", "N", &(int){N}, &(int){N}, &(int){N}, &(double){1}, left, &ld, b, &(int){N}, &beta, upper(which, 0),
           &(int){HEIGHT});
}

/* Reads the upper half of a matrix only. */
static uint64_t hash_upper(int which)
{
    uint64_t h = 0;
    for (int column = 0; column < N; column++)
        h = h * 31 + hash(upper(which, column * N), N);
    return h;
}

/* The number that the other thread uses: of a lower half, beside results on all sides, and never a part of one. */
static double *beside_results(void)
{
    return lower(1, NN / 2 + 5);
}

static void *reader(void *unused)
{
    volatile double *at = beside_results();
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
    volatile double *at = beside_results();
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
    *beside_results() = 42;
    if (pthread_create(&thread, NULL, what, NULL))
        exit(2);
    uint64_t h = 0;
    for (int i = 0; i < rounds; i++) {
        multiply_upper(a, N, i % 3 ? 0 : 1, i % HALVED);
        if (i % 50 == 0) {
            h = h * 31 + hash_upper(i % HALVED);
            multiply_upper(a, N, 0, i % HALVED);
        }
    }
    /* The second thread made progress, too. */
    long before = accesses;
    struct timespec soon = {0, 1000000};
    while (accesses < before + 10)
        nanosleep(&soon, NULL);
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d rounds, %016llx\n", rounds, (unsigned long long)h);
    for (int i = 0; i < HALVED; i++) {
        multiply_upper(a, N, 0, i);
        show("c", upper(i, 0), HEIGHT * N);
    }
    printf("and %.0f\n", *beside_results());
}

static void turns(void)
{
    double sum = 0;
    for (int i = 0; i < rounds; i++) {
        int which = i % (HALVED - 1);
        multiply_upper(a, N, 0, which);
        *lower(which, i) = i;
        multiply_upper(upper(which, 0), HEIGHT, 0, HALVED - 1);
        sum += *lower(HALVED - 1, i * 7) + *lower((which + 1) % (HALVED - 1), i);
    }
    printf("sum %.0f\n", sum);
    show("all", block, HALVED * HEIGHT * N);
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
