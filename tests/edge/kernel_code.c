/* Calls whose kernels' code is loaded while they stay on the host.
 *
 *   kernel_code WHAT CALLS     calls: products and vectors, until CALLS of each are made
 *                              threads: the same by four threads
 *                              exit: ends the process as soon as a thread loads code
 *                              fork: forks as soon as a thread loads code; parent and child go on
 *
 * Data are integers, so every result is exact. Prints the sum of the last results. */
#include <cblas.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 200, LENGTH = 300000, THREADS = 4 };

static int calls;
/* 0: goes on when code is loaded. */
static char then;

static void die(const char *why)
{
    fprintf(stderr, "kernel_code: %s\n", why);
    exit(1);
}

static int loads(void)
{
    char path[300], name[32] = "";
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *d; tasks && !found && (d = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
        FILE *f = fopen(path, "r");
        if (!f)
            continue;
        found = fgets(name, sizeof name, f) && !strcmp(name, "semcache-load\n");
        fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static void *work(void *total)
{
    double *a = malloc(N * N * sizeof *a), *b = malloc(N * N * sizeof *b), *c = malloc(N * N * sizeof *c);
    double *x = malloc(LENGTH * sizeof *x), *y = malloc(LENGTH * sizeof *y);
    for (int i = 0; i < N * N; i++) {
        a[i] = i % 7 - 3;
        b[i] = i % 5 - 2;
    }
    for (int i = 0; i < LENGTH; i++) {
        x[i] = i % 3 - 1;
        y[i] = i % 4;
    }
    for (int k = 1; k <= calls; k++) {
        a[k % N] = k % 11 - 5;
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, b, N, 0, c, N);
        for (int j = 0; j < N; j += 67)
            for (int i = 0; i < N; i += 41) {
                double sum = 0;
                for (int l = 0; l < N; l++)
                    sum += a[i + l * N] * b[j + l * N];
                if (c[i + j * N] != sum)
                    die("an entry of the product is wrong");
            }
        cblas_daxpy(LENGTH, 2, x, 1, y, 1);
        for (int i = k % 1000; i < LENGTH; i += 1000)
            if (y[i] != i % 4 + 2.0 * k * (i % 3 - 1))
                die("an entry of the vector is wrong");
        if (then == 'e' && loads())
            exit(0);
        if (then == 'f' && loads()) {
            then = 0;
            int status = 0;
            pid_t child = fork();
            if (child && (waitpid(child, &status, 0) != child || status))
                die("the child failed");
        }
        usleep(1000);
    }
    double sum = 0;
    for (int i = 0; i < N * N; i++)
        sum += c[i] * (i % 9 + 1);
    *(double *)total = sum + cblas_ddot(LENGTH, x, 1, y, 1);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage: kernel_code calls|threads|exit|fork CALLS");
    calls = atoi(argv[2]);
    then = *argv[1] == 'e' || *argv[1] == 'f' ? *argv[1] : 0;
    int threads = *argv[1] == 't' ? THREADS : 1;
    double totals[THREADS];
    if (threads == 1) {
        work(&totals[0]);
    } else {
        pthread_t all[THREADS];
        for (int i = 0; i < threads; i++)
            pthread_create(&all[i], NULL, work, &totals[i]);
        for (int i = 0; i < threads; i++)
            pthread_join(all[i], NULL);
    }
    for (int i = 0; i < threads; i++)
        printf("%.0f\n", totals[i]);
    return 0;
}
