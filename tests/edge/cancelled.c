/* Threads that are cancelled while they compute. dgemm is no cancellation point: a thread with deferred cancellation, the
 * default, goes on until it comes to one; a thread with asynchronous cancellation ends wherever it is. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "edge.h"

enum { N = 40, NN = N * N };
static double *a, *b, *c;
static atomic_int calls, stop, cleaned;
static int pipes[2];

static void clean(void *unused)
{
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}

/* Computes, and looks at some of the results with the CPU. */
static void compute(int rounds)
{
    multiply(N, 1, a, b, 0, c);
    if (rounds % 3 == 0)
        c[rounds % NN] += 1;
    multiply(N, 1, b, c, 0, c + NN);
    if (rounds % 5 == 0)
        c[NN + rounds % NN] -= 1;
    atomic_fetch_add(&calls, 1);
}

static void *deferred(void *how)
{
    pthread_cleanup_push(clean, NULL);
    for (int i = 0; !stop; i++)
        compute(i);
    if (how)
        while (write(pipes[1], c, sizeof *c) > 0)
            ;
    for (;;)
        pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *asynchronous(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (int i = 0;; i++)
        compute(i);
    pthread_cleanup_pop(0);
    return unused;
}

static void await(int many)
{
    while (calls < many)
        sched_yield();
}

/* Starts a thread, cancels it after `before` calls, and lets it make `after` more. */
static void run(void *(*body)(void *), void *how, int before, int after)
{
    pthread_t thread;
    void *result = NULL;
    alarm(60);
    calls = stop = 0;
    if (pthread_create(&thread, NULL, body, how))
        exit(2);
    await(before);
    pthread_cancel(thread);
    if (after)
        await(calls + after);
    stop = 1;
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED)
        exit(3);
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || pipe(pipes))
        return 2;
    a = doubles(NN), b = doubles(NN), c = doubles(2 * NN);
    fill(a, NN);
    fill(b, NN);
    for (int i = 0; i < rounds; i++) {
        if (!strcmp(argv[1], "deferred")) {
            /* The very first call of the process, then others; at testcancel, and inside of write. */
            run(deferred, NULL, i ? i % 4 : 0, 5);
            run(deferred, &a, 1, 3);
        } else {
            run(asynchronous, NULL, i % 4, 0);
        }
        memset(c, 0, 2 * NN * sizeof *c);
        compute(i);
        show("c", c, 2 * NN);
    }
    printf("%d cleaned\n", cleaned);
    return 0;
}
