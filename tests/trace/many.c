/* Many products of small matrices, in threads and in children; then an end of a chosen kind.
 *
 *   many THREADS CALLS N [CHILDREN [exit|_exit|SIGNAL]]
 *
 * Each thread, and each child, multiplies N x N matrices CALLS times. Prints the sum of all results of the parent. With
 * `_exit` the children and the parent end by it; SIGNAL is a number, which the parent sends to itself at the end. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);

static int calls, n;

static void *multiply(void *sum)
{
    const double one = 1;
    size_t all = (size_t)n * n, bytes = (all * sizeof(double) + 4095) / 4096 * 4096;
    double *a = aligned_alloc(4096, bytes), *b = aligned_alloc(4096, bytes), *c = aligned_alloc(4096, bytes);
    if (!a || !b || !c)
        abort();
    for (size_t i = 0; i < all; i++) {
        a[i] = (double)(i % 3);
        b[i] = (double)(i % 5);
        c[i] = 0;
    }
    for (int i = 0; i < calls; i++)
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
    for (size_t i = 0; i < all; i++)
        *(double *)sum += c[i];
    free(a);
    free(b);
    free(c);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MOST = 256 };
    static double sums[MOST];
    static pthread_t threads[MOST];
    if (argc < 4)
        return 2;
    int count = atoi(argv[1]), children = argc > 4 ? atoi(argv[4]) : 0;
    const char *end = argc > 5 ? argv[5] : "exit";
    calls = atoi(argv[2]);
    n = atoi(argv[3]);
    if (count > MOST)
        return 2;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, multiply, &sums[i]))
            abort();
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (child < 0)
            abort();
        if (child == 0) {
            double own = 0;
            multiply(&own);
            if (!strcmp(end, "_exit"))
                _exit(own > 0 ? 0 : 1);
            exit(own > 0 ? 0 : 1);
        }
    }
    double sum = 0;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += sums[i];
    }
    int status, bad = 0;
    while (wait(&status) > 0)
        bad |= status != 0;
    printf("%.0f\n", sum);
    fflush(stdout);
    if (!strcmp(end, "_exit"))
        _exit(bad);
    if (strcmp(end, "exit"))
        raise(atoi(end));
    return bad;
}
