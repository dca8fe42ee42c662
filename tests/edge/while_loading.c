/* Calls while the dynamic linker loads a library for another thread (slow_library.c is loaded with the driver's libraries): routines that were
 * not called before, and the registration of an exit handler, must not wait for that. OpenBLAS leaves the loading thread a core, not in a child.
 *
 * Data are integers, so every result is exact. */
#define _GNU_SOURCE
#include <cblas.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256 };

extern void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *, const double *, const int *,
                   const double *, double *, const int *);
extern void dscal_(const int *, const double *, double *, const int *);

static double a[N * N], b[N * N], c[N * N], x[N], y[N];

static void die(const char *why)
{
    fprintf(stderr, "while_loading: %s\n", why);
    exit(1);
}

static void nothing(void) {}

int main(void)
{
    int (*threads)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
    void (*set_threads)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
    cpu_set_t set;
    if (!threads || !set_threads || sched_getaffinity(0, sizeof set, &set))
        die("this is not OpenBLAS");
    /* Four at least: fewer are left alone. */
    set_threads(CPU_COUNT(&set) > 4 ? CPU_COUNT(&set) : 4);
    int all = threads();
    for (int i = 0; i < N * N; i++) {
        a[i] = i % N == i / N ? 2 : 0;
        b[i] = i % 7;
    }
    for (int i = 0; i < N; i++)
        x[i] = i % 5;
    for (int i = 0; access("loading", F_OK); i++) {
        if (i == 1000)
            die("no library is loaded");
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);
        usleep(5000);
    }
    const int n = N, one = 1;
    const double half = 0.5, unit = 1, zero = 0;
    dgemv_("N", &n, &n, &unit, a, &n, x, &one, &zero, y, &one);
    dscal_(&n, &half, y, &one);
    cblas_daxpy(N, 1, x, 1, y, 1);
    double sum = cblas_ddot(N, x, 1, y, 1), length = cblas_dnrm2(N, x, 1);
    atexit(nothing);
    if (threads() >= all)
        die("OpenBLAS leaves no core");
    fclose(fopen("called", "w"));
    int status, child = fork();
    if (child == 0)
        _exit(threads() != all);
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        die("a child computes with fewer threads");
    char said[32] = "";
    for (int i = 0; !*said; i++) {
        FILE *f = fopen("loaded", "r");
        if (f && !fgets(said, sizeof said, f))
            *said = 0;
        if (f)
            fclose(f);
        if (i == 2000)
            die("the library is never loaded");
        usleep(10000);
    }
    if (strcmp(said, "called\n"))
        die("calls waited until the library was loaded");
    for (int i = 0; threads() != all; i++) {
        if (i == 1000)
            die("OpenBLAS does not get its core back");
        usleep(10000);
    }
    double squares = 0;
    for (int i = 0; i < N; i++)
        squares += x[i] * x[i];
    if (sum != 2 * squares || length * length < squares * 0.999999)
        die("a result is wrong");
    for (int i = 0; i < N * N; i++)
        if (c[i] != 2 * b[i])
            die("an entry of the product is wrong");
    puts("right");
    return 0;
}
