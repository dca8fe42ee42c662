/* Makes BLAS calls and prints the seconds that they took, by its own clock.
 *
 *   timed large SECONDS    large products and matrix-vector products, and looks at their results
 *   timed small SECONDS    calls of several sizes that are too small for a device, some one after the other
 *   timed apart SECONDS    small calls, and about as much arithmetic of the program's own without a call between them
 *   timed jump SECONDS     small calls; every other one has an illegal argument, and is left by a jump
 *
 * Then the share of the time in which it had a core, and the sum of the last round's results. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
                   const double *, const int *, const double *, double *, const int *, long, long);
extern void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *, const double *, const int *,
                   const double *, double *, const int *, long);
extern double ddot_(const int *, const double *, const int *, const double *, const int *);
extern void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);

enum { MOST = 600 };

static double a[MOST * MOST], b[MOST * MOST], c[MOST * MOST], x[MOST * MOST], y[MOST * MOST];
static const double one = 1, zero = 0;
static const int unit = 1;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double blas, sum;

static void large(int n) {
    double begun = now();
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);
    dgemv_("N", &n, &n, &one, a, &n, x, &unit, &zero, y, &unit, 1);
    /* Where the results are on a device, looking at them is a part of what the calls take. */
    sum += ((volatile double *)c)[n + 1] + ((volatile double *)y)[n - 1];
    blas += now() - begun;
}

/* Lengths in no order that is a period of anything else. */
static int length(int i) { return 1 + (int)((unsigned)i * 2654435761u >> 20); }

static void small(int calls) {
    static const int order = 24;
    for (int i = 0; i < calls; i++) {
        int n = length(i);
        double begun = now();
        sum += ddot_(&n, a, &unit, b, &unit);
        daxpy_(&n, &zero, a, &unit, y, &unit);
        dgemm_("N", "T", &order, &order, &order, &one, a, &order, b, &order, &zero, c, &order, 1, 1);
        blas += now() - begun;
        sum += c[i % (order * order)];
    }
}

/* About as long as the call before, a microsecond or two: no function is called. */
static void own(void) {
    static double s = 1;
    double t = s;
    for (int i = 400; i > 0; i--) {
        t = t * 0.999999 + 1e-6;
        __asm__ volatile("" : "+x"(t));
    }
    s = t;
}

static void apart(int calls) {
    for (int i = 0; i < calls; i++) {
        int n = 2000 + length(i);
        double begun = now();
        sum += ddot_(&n, a, &unit, b, &unit);
        blas += now() - begun;
        own();
    }
}

static jmp_buf back;

/* The host BLAS reports an illegal argument by this function, which leaves it. */
void xerbla_(const char *name, const int *argument, long length) {
    (void)name, (void)argument, (void)length;
    longjmp(back, 1);
}

static volatile int left;

static void jump(int calls) {
    static const int order = 100, illegal = -1;
    for (volatile int i = 0; i < calls; i++) {
        double begun = now();
        dgemm_("N", "N", &order, &order, &order, &one, a, &order, b, &order, &zero, c, &order, 1, 1);
        if (setjmp(back) == 0)
            dgemm_("N", "N", &order, &illegal, &order, &one, a, &order, b, &order, &zero, c, &order, 1, 1);
        else
            left++;
        blas += now() - begun;
        sum += c[i];
    }
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    double seconds = atof(argv[2]), begun = now();
    for (int i = 0; i < MOST * MOST; i++)
        a[i] = i % 3, b[i] = i % 5, x[i] = i % 2;
    int rounds = 0;
    while (now() - begun < seconds) {
        sum = 0;
        switch (argv[1][0]) {
        case 'l':
            large(MOST);
            large(300);
            break;
        case 's':
            small(200);
            break;
        case 'a':
            apart(200);
            break;
        default:
            jump(20);
        }
        rounds++;
    }
    if (argv[1][0] == 'j' && left != 20 * rounds)
        return 3;
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    printf("blas %.6f\ncore %.3f\nsum %.0f\n", blas, (t.tv_sec + 1e-9 * t.tv_nsec) / (now() - begun), sum);
    return 0;
}
