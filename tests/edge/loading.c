/* Children of forks while devices come up in another thread: each loads a library, as an interpreter does that imports a
 * module, and computes. */
#include "edge.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256, NN = N * N };
static double *a, *b, *c, *d;
static atomic_int up;

static void *first(void *unused)
{
    multiply(N, 1, a, b, 0, c);
    up = 1;
    return unused;
}

int main(void)
{
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    pthread_t thread;
    if (pthread_create(&thread, NULL, first, NULL))
        return 2;
    int failed = 0, n = 1;
    do {
        pid_t child = fork();
        if (child < 0)
            return 2;
        if (child == 0) {
            /* A hang is a failure, too. */
            alarm(30);
            int wrong = !dlopen("libanl.so.1", RTLD_NOW);
            /* A child of the time before brings devices up for itself, which takes as long as the parent's. */
            if (n % 8 == 0 && n < NN)
                wrong += ddot_(&(int){1}, &a[n], &(int){1}, &(double){1}, &(int){1}) != a[n];
            _exit(wrong);
        }
        int status = -1;
        waitpid(child, &status, 0);
        failed += status != 0;
        n++;
    } while (!up);
    pthread_join(thread, NULL);
    printf("%s\n", failed ? "a child failed" : "all children were well");
    multiply(N, 1, c, b, 0, d);
    show("c", c, NN);
    show("d", d, NN);
    return failed != 0;
}
