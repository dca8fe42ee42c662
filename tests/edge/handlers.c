/* The usual handlers of forks: a mutex around a library's work is taken before a fork, while another thread has it and is in
 * a call; and a count beside a matrix is written in the handler. */
#include "edge.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 128, NN = N * N, FORKS = 200 };
static struct {
    double a[NN], c[NN];
    int forks;
} of_library __attribute__((aligned(4096)));
static double *b, *d;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;

static void before(void)
{
    pthread_mutex_lock(&mutex);
    of_library.forks++;
}

static void after(void)
{
    pthread_mutex_unlock(&mutex);
}

static void *work(void *unused)
{
    while (!stop) {
        pthread_mutex_lock(&mutex);
        multiply(N, 1, of_library.a, b, 0, of_library.c);
        multiply(N, 1, of_library.c, b, 0, d);
        pthread_mutex_unlock(&mutex);
        usleep(50);
    }
    return unused;
}

int main(void)
{
    b = doubles(NN), d = doubles(NN);
    fill(of_library.a, NN);
    fill(b, NN);
    if (pthread_atfork(before, after, after))
        return 2;
    multiply(N, 1, of_library.a, b, 0, of_library.c);
    uint64_t right = hash(of_library.c, NN);
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL))
        return 2;
    int failed = 0;
    for (int i = 0; i < FORKS; i++) {
        /* A process that waits for ever is ended. */
        alarm(60);
        pid_t child = fork();
        if (child == 0)
            _exit(hash(of_library.c, NN) != right);
        int status = -1;
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d forks, %d children failed\n", of_library.forks, failed);
    show("c", of_library.c, NN);
    show("d", d, NN);
    return failed != 0;
}
