/* What happens between two tasks of a call: handlers that jump out of it, compute, fork, or end the process, and other threads.
 *
 *   window WHAT [COUNT]   jumps, computes, forks, frees, through; and ways to end: exit, quits, thread */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { N = 160, NN = N * N, SMALL = 24 };
static double *a, *b, *c, *d, *other;
static sigjmp_buf out;
static volatile sig_atomic_t armed, came;

static void every(long microseconds)
{
    struct itimerval interval = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &interval, NULL);
}

static void handle(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
}

/* One product until the next alarm at least. */
static void until_alarm(void)
{
    sig_atomic_t before = came;
    do
        multiply(N, 1, a, b, 1, c);
    while (came == before);
}

static void leap(int signal)
{
    (void)signal;
    came++;
    if (armed) {
        armed = 0;
        siglongjmp(out, 1);
    }
}

/* Handlers leave calls by a jump. What these had computed is lost; all else goes on. */
static void jumps(int count)
{
    volatile int left = 0;
    handle(leap);
    every(1500);
    while (left < count) {
        if (!sigsetjmp(out, 1)) {
            armed = 1;
            for (;;)
                multiply(N, 1, a, b, 1, c);
        }
        left++;
        switch (left % 8) {
        case 0:
            /* The CPU replaces the result, and it is an input. */
            fill(c, NN);
            multiply(N, 1, c, b, 0, d);
            show("of what the CPU wrote", d, NN);
            break;
        case 1:
            multiply(N, 1, a, b, 0, c);
            show("from the beginning", c, NN);
            break;
        case 2:
            /* The operands end, with tasks in flight over them. */
            free(c);
            c = doubles(NN);
            fill(c, NN);
            break;
        case 3:
            a[left % NN] += 1;
            a[left % NN] -= 1;
            break;
        case 4: {
            double *mapped = mmap(NULL, NN * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            fill(mapped, NN);
            if (!sigsetjmp(out, 1)) {
                armed = 1;
                for (;;)
                    multiply(N, 1, a, b, 1, mapped);
            }
            munmap(mapped, NN * sizeof(double));
            break;
        }
        default:
            fill(c, NN);
        }
    }
    every(0);
    show("inputs", a, NN);
    show("inputs", b, NN);
    fill(c, NN);
    multiply(N, 2, a, b, 1, c);
    show("after all jumps", c, NN);
}

static volatile double sum;

static void reads(int signal)
{
    (void)signal;
    came++;
    /* The input of the interrupted call, a result of an earlier one, and a call of its own. */
    sum = a[came * 37 % NN] + d[came * 41 % NN];
    multiply(SMALL, 1, a, d, 0, other);
    sum += other[came % (SMALL * SMALL)];
    d[came * 43 % NN] = came % 5;
}

static void computes(int count)
{
    multiply(N, 1, b, a, 0, d);
    handle(reads);
    every(2000);
    fill(c, NN);
    while (came < count) {
        fill(c, NN);
        multiply(N, 1, a, b, 1, c);
        multiply(N, 1, a, b, -1, c);
        for (int i = 0; i < NN; i += 977)
            sum += c[i];
    }
    every(0);
    edge_seed = 5;
    fill(c, NN);
    multiply(N, 1, a, b, 1, c);
    show("beside handlers", c, NN);
}

static void child(int signal)
{
    (void)signal;
    if (came++ % 4)
        return;
    pid_t made = fork();
    if (made < 0)
        _exit(3);
    if (made > 0) {
        int status = -1;
        if (waitpid(made, &status, 0) != made || status)
            _exit(4);
    } else {
        every(0);
        /* Returns into the interrupted call, which the child finishes. */
        armed = 2;
    }
}

static void forks(int count)
{
    handle(child);
    fill(c, NN);
    memcpy(other, c, NN * sizeof(double));
    multiply(N, 1, a, b, 1, other);
    uint64_t expected = hash(other, NN);
    double *start = doubles(NN);
    memcpy(start, c, NN * sizeof(double));
    every(3000);
    while (came < count) {
        memcpy(c, start, NN * sizeof(double));
        multiply(N, 1, a, b, 1, c);
        int right = hash(c, NN) == expected;
        if (armed == 2)
            _exit(right ? 0 : 5);
        if (!right)
            printf("wrong\n");
    }
    every(0);
    free(start);
    show("after forks", c, NN);
}

static volatile int going = 1;

/* Blocks that have nothing to do with the calls: of devices, and not. */
static void *frees(void *unused)
{
    for (int i = 0; going; i++) {
        double *x = doubles(NN), *y = doubles(NN);
        memset(x, 0, NN * sizeof(double));
        memset(y, 0, NN * sizeof(double));
        if (i % 3 == 0)
            multiply(SMALL, 1, x, x, 0, y);
        x = need(realloc(x, (i % 2 ? 2 : 3) * NN * sizeof(double)));
        free(x);
        free(y);
    }
    return unused;
}

static void beside(int count)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, frees, NULL))
        exit(2);
    for (int i = 0; i < count; i++) {
        fill(c, NN);
        multiply(N, 1, a, b, 1, c);
        if (i % 5 == 0)
            show("beside frees", c, NN);
    }
    going = 0;
    pthread_join(thread, NULL);
}

static void asks(int signal)
{
    (void)signal;
    if (came++)
        return;
    /* From the first use of io_uring on all results are written back at once. */
    syscall(SYS_io_uring_setup, 0, NULL);
}

static void through(void)
{
    multiply(N, 1, b, a, 0, d);
    handle(asks);
    every(2000);
    until_alarm();
    show("an earlier result", d, NN);
    every(0);
    fill(c, NN);
    multiply(N, 1, a, b, 1, c);
    show("written through", c, NN);
}

static void last_look(void)
{
    show("at exit", d, NN);
    multiply(N, 1, d, b, 0, other);
    show("computed at exit", other, NN);
    fflush(stdout);
}

static void ends(int signal)
{
    (void)signal;
    exit(7);
}

static void quits(int signal)
{
    (void)signal;
    _exit(8);
}

static void *ends_it(void *unused)
{
    usleep(20000);
    exit(9);
    return unused;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 40;
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN), other = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    fill(c, NN);
    if (!strcmp(what, "jumps")) {
        jumps(count);
    } else if (!strcmp(what, "computes")) {
        computes(count);
    } else if (!strcmp(what, "forks")) {
        forks(count);
    } else if (!strcmp(what, "frees")) {
        beside(count);
    } else if (!strcmp(what, "through")) {
        through();
    } else {
        multiply(N, 1, a, b, 0, d);
        atexit(last_look);
        pthread_t thread;
        if (!strcmp(what, "thread") && pthread_create(&thread, NULL, ends_it, NULL))
            return 2;
        handle(!strcmp(what, "exit") ? ends : quits);
        if (strcmp(what, "thread"))
            every(20000);
        for (;;)
            multiply(N, 1, a, b, 1, c);
    }
    return 0;
}
