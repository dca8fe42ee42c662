/* Calls with a bad address, which the program's handler leaves by a jump, and good calls between them, in this thread.
 *
 *   left TIMES N
 *
 * Prints the sum of the good calls' results. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);

static sigjmp_buf out;
static int n;
static double *a, *c;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static void multiply(const double *b)
{
    const double one = 1;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
}

/* The same, from a deeper frame of the stack. */
static __attribute__((noinline)) void deeper(const double *b)
{
    volatile char room[2048];
    room[0] = 0;
    multiply(b);
    room[1] = room[0];
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int times = atoi(argv[1]);
    n = atoi(argv[2]);
    size_t bytes = (size_t)n * n * sizeof(double);
    a = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    c = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    double *bad = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!a || !c || bad == MAP_FAILED)
        abort();
    for (int i = 0; i < n * n; i++) {
        a[i] = i % 3;
        c[i] = 0;
    }
    struct sigaction action = {.sa_handler = leave};
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int i = 0; i < times; i++) {
        if (sigsetjmp(out, 1) == 0) {
            (i % 2 ? deeper : multiply)(bad);
            puts("a bad address was read");
            return 1;
        }
        deeper(a);
        multiply(a);
    }
    double sum = 0;
    for (int i = 0; i < n * n; i++)
        sum += c[i];
    printf("%.0f\n", sum);
    return 0;
}
