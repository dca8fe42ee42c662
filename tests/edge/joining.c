/* Forks beside a BLAS with threads of its own: OpenBLAS's fork handler waits for these threads to end, and each begins
 * by mapping memory. */
#include "edge.h"
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 128, ROUNDS = 400 };

int main(void)
{
    void (*threads)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
    if (!threads) {
        fprintf(stderr, "the BLAS is not OpenBLAS\n");
        return 2;
    }
    double *a = doubles(N * N), *c = doubles(N * N);
    fill(a, N * N);
    int failed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        /* A process that waits for ever is ended. */
        alarm(60);
        if (i % 100 == 0) {
            multiply(N, 1, a, a, 0, c);
            show("c", c, N * N);
        }
        /* Makes the threads, which the last fork ended. */
        threads(2 + i % 3);
        pid_t child = fork();
        if (child == 0)
            _exit(hash(c, N) == 0);
        int status = -1;
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    printf("%d children failed\n", failed);
    return failed != 0;
}
