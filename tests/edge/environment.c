/* The floating-point environment of the calling thread: what it rounds to, what traps, what is flushed to zero, and the
 * flags that are raised.
 *
 *   environment rounding N          interval products of order N in every rounding mode, between calls that round to nearest
 *   environment before|after N      exceptions trap from before the first call, or after some; a product overflows
 *   environment quiet N             every exception traps, and none happens
 *   environment flush N             subnormal numbers are flushed to zero: nothing else changes */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "edge.h"

static int n, nn;
static const int one = 1;
static double *a, *b, *c, *d, *e;

static void product(double alpha, const double *left, const double *right, double beta, double *to)
{
    dgemm_("N", "N", &n, &n, &n, &alpha, left, &n, right, &n, &beta, to, &n);
}

/* Entries of a times b that are not between those of low and high. */
static int outside(const double *low, const double *high)
{
    int found = 0;
    for (int s = 0; s < nn; s += 1 + nn / 997) {
        __float128 sum = 0;
        for (int k = 0; k < n; k++)
            sum += (__float128)a[s % n + k * n] * b[k + s / n * n];
        found += !(low[s] <= sum && sum <= high[s]);
    }
    return found;
}

static void rounding(void)
{
    const int modes[] = {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    const char *names[] = {"downward", "upward", "towards zero"};
    for (int round = 0; round < 3; round++) {
        fill(a, nn);
        fill(b, nn);
        /* To nearest, again and again: whole numbers. The results, and this call, are known when the mode changes. */
        for (int again = 0; again < 4; again++) {
            product(2, a, b, 0, c);
            product(1, a, b, 0, d);
            product(1, a, b, 0, e);
        }
        for (int mode = 0; mode < 3; mode++) {
            fesetround(modes[mode]);
            product(0.1, a, b, 0, c);
            printf("mode %s kept %d\n", names[mode], fegetround() == modes[mode]);
            fesetround(FE_TONEAREST);
            show(names[mode], c, nn);
        }
        for (int i = 0; i < nn; i++)
            a[i] = (a[i] + 0.3) / 7, b[i] = (b[i] + 0.2) / 3;
        fesetround(FE_DOWNWARD);
        product(1, a, b, 0, d);
        fesetround(FE_UPWARD);
        product(1, a, b, 0, e);
        double sum = ddot_(&nn, a, &one, b, &one);
        dgemv_("N", &n, &n, &(double){1}, a, &n, b, &one, &(double){0}, c, &one);
        fesetround(FE_TONEAREST);
        printf("outside %d\n", outside(d, e));
        show("low", d, nn);
        show("high", e, nn);
        show("upward sum", &sum, 1);
        show("upward dgemv", c, n);
    }
}

static void trapped(int signal, siginfo_t *info, void *context)
{
    (void)context;
    printf("signal %d, code %d\n", signal, info->si_code);
    fflush(stdout);
    _exit(9);
}

static void traps(int after)
{
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGFPE, &action, NULL);
    fill(a, nn);
    fill(b, nn);
    if (after)
        for (int again = 0; again < 4; again++)
            product(1, a, b, 0, c);
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    product(1, a, b, 0, d);
    show("d", d, nn);
    for (int i = 0; i < nn; i++)
        a[i] *= 1e300;
    for (int i = 0; i < nn; i++)
        b[i] = 1e300;
    product(1, a, b, 0, c);
    show("not trapped", c, nn);
}

static void *compute(void *unused)
{
    product(1, b, a, 0, e);
    return unused;
}

static void quiet(void)
{
    fill(a, nn);
    fill(b, nn);
    feenableexcept(FE_ALL_EXCEPT);
    product(1, a, b, 0, d);
    fedisableexcept(FE_ALL_EXCEPT);
    for (int round = 0; round < 6; round++) {
        /* The results are on a device until code below reads them. */
        product(1, a, b, 0, c);
        product(1, b, a, 0, d);
        product(1, a, a, 0, e);
        feenableexcept(FE_ALL_EXCEPT);
        product(1, a, b, 1, d);
        a[round * 5] += 1;
        show("c", c, nn);
        FILE *to = need(tmpfile());
        if (write(fileno(to), e, nn * sizeof(double)) != (ssize_t)(nn * sizeof(double)))
            printf("not written\n");
        fclose(to);
        e = need(realloc(e, (size_t)(nn + 5000 * (round + 1)) * sizeof(double)));
        show("e", e, nn);
        free(c);
        c = doubles(nn);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            show("child's d", d, nn);
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        show("d", d, nn);
        /* A thread begins with the environment of its maker. */
        pthread_t thread;
        pthread_create(&thread, NULL, compute, NULL);
        pthread_join(thread, NULL);
        fedisableexcept(FE_ALL_EXCEPT);
    }
    printf("trapping %d\n", fegetexcept());
    /* Also while the process ends, with results that the CPU has not read. */
    product(1, a, b, 0, c);
    product(1, b, a, 0, d);
    feenableexcept(FE_ALL_EXCEPT);
}

static void flush(void)
{
    _mm_setcsr(_mm_getcsr() | 0x8040);
    fill(a, nn);
    fill(b, nn);
    feclearexcept(FE_ALL_EXCEPT);
    for (int round = 0; round < 6; round++) {
        product(1 + round % 2, a, b, 0, c);
        product(1, b, a, round % 2, d);
        /* Whole numbers: nothing has been rounded. */
        printf("control %x, raised %x\n", _mm_getcsr() & 0xffc0, fetestexcept(FE_ALL_EXCEPT));
        show("c", c, nn);
        a[round] += 1;
        for (int i = 0; i < n; i++)
            d[i] = 0;
        printf("raised %x\n", fetestexcept(FE_ALL_EXCEPT));
    }
    show("d", d, nn);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "rounding";
    n = argc > 2 ? atoi(argv[2]) : 64;
    nn = n * n;
    a = doubles(nn), b = doubles(nn), c = doubles(nn), d = doubles(nn), e = doubles(nn);
    if (!strcmp(what, "rounding"))
        rounding();
    else if (!strcmp(what, "quiet"))
        quiet();
    else if (!strcmp(what, "flush"))
        flush();
    else
        traps(!strcmp(what, "after"));
    return 0;
}
