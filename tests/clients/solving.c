/* What happens in the middle of a factorization: handlers jump out of it or fork, threads that compute it are cancelled, and other threads
 * read its matrix, or free theirs. What a call leaves undone that was left by a jump is undefined; all else must be as plainly.
 *
 *   solving jumps|forks|cancels|threads COUNT */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern void dgetrf_(const int *, const int *, double *, const int *, int *, int *);
extern void dpotrf_(const char *, const int *, double *, const int *, int *, size_t);
extern void dpotrs_(const char *, const int *, const int *, const double *, const int *, double *, const int *, int *, size_t);

enum { N = 320, NN = N * N };

static void failed(const char *what, long at)
{
    printf("wrong: %s, %ld\n", what, at);
    exit(1);
}

/* Of L, which has the diagonal 2 and ones below it, the element of L or of L L^T. */
static double factor(int i, int j)
{
    return i == j ? 2 : i == j + 1;
}

static double definite(int i, int j)
{
    if (i == j)
        return i ? 5 : 4;
    return i == j + 1 || j == i + 1 ? 2 : 0;
}

/* The element of L U, whose rows are reversed: L has quarters below a diagonal of ones, U the diagonal 8 and ones above it. */
static double general(int i, int j)
{
    int k = N - 1 - i;
    double left = k == j ? 8 : k + 1 == j; /* U's row k */
    if (k > 0)
        left += 0.25 * (k - 1 == j ? 8 : k == j);
    return left;
}

static void fill(double *a, double (*element)(int, int))
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            a[i + (size_t)N * j] = element(i, j);
}

/* The factor in the lower triangle, and the matrix as it was above it. */
static void check_definite(const double *a, const char *what)
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            if (a[i + (size_t)N * j] != (i < j ? definite(i, j) : factor(i, j)))
                failed(what, i + (long)N * j);
}

static void check_general(const double *a, const int *pivots, const char *what)
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++) {
            double wanted = i == j ? 8 : i + 1 == j ? 1 : i == j + 1 ? 0.25 : 0;
            if (a[i + (size_t)N * j] != wanted)
                failed(what, i + (long)N * j);
        }
    for (int i = 0; i < N; i++)
        if (pivots[i] != (i < N / 2 ? N - i : i + 1))
            failed("pivots", i);
}

static void potrf(double *a)
{
    const int n = N;
    int info = 7;
    dpotrf_("L", &n, a, &n, &info, 1);
    if (info)
        failed("INFO of potrf", info);
}

static void getrf(double *a, int *pivots)
{
    const int n = N;
    int info = 7;
    dgetrf_(&n, &n, a, &n, pivots, &info);
    if (info)
        failed("INFO of getrf", info);
}

static double *a, *b, *kept;
static int pivots[N];
static sigjmp_buf out;
static volatile sig_atomic_t armed, came;

static void every(long microseconds)
{
    struct itimerval interval = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &interval, NULL);
}

static void handle(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
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

static void jumps(int count)
{
    handle(leap);
    every(700);
    for (volatile int left = 0; left < count; left++) {
        if (!sigsetjmp(out, 1)) {
            armed = 1;
            for (;;) {
                fill(a, definite);
                potrf(a);
                fill(b, general);
                getrf(b, pivots);
            }
        }
        if (left % 5 == 0) {
            free(a);
            a = malloc(sizeof(double) * NN);
        }
        if (left % 3 == 0) {
            fill(a, definite);
            potrf(a);
            check_definite(a, "a factor after a jump");
            fill(b, general);
            getrf(b, pivots);
            check_general(b, pivots, "factors after a jump");
        }
    }
    every(0);
    check_definite(kept, "a factor from before all jumps");
}

static pid_t children[64];
static volatile sig_atomic_t forked;

/* In the child the handler returns, and the call goes on. */
static void forks_one(int signal)
{
    (void)signal;
    came++;
    if (!armed)
        return;
    armed = 0;
    pid_t child = fork();
    if (child)
        children[forked++ % 64] = child;
    else
        forked = -1;
}

static void forks(int count)
{
    handle(forks_one);
    every(900);
    for (int turn = 0; turn < count; turn++) {
        sig_atomic_t before = forked;
        armed = 1;
        do {
            fill(a, definite);
            potrf(a);
            check_definite(a, "a factor of parent or child");
            fill(b, general);
            getrf(b, pivots);
            check_general(b, pivots, "factors of parent or child");
        } while (forked == before);
        check_definite(kept, "a factor from before");
        if (forked == -1)
            _exit(0);
        int status = -1;
        if (waitpid(children[(forked - 1) % 64], &status, 0) < 0 || status)
            failed("a child", status);
    }
    every(0);
}

struct work {
    double *a;
    volatile int calls, stop;
};

static void *factors(void *given)
{
    struct work *work = given;
    while (!work->stop) {
        fill(work->a, definite);
        potrf(work->a);
        work->calls++;
    }
    for (;;)
        pthread_testcancel();
    return NULL;
}

static void cancels(int count)
{
    for (int turn = 0; turn < count; turn++) {
        struct work work = {malloc(sizeof(double) * NN), 0, 0};
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, factors, &work);
        while (work.calls < turn % 3)
            sched_yield();
        usleep(200 * (turn % 7));
        pthread_cancel(thread);
        work.stop = 1;
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            failed("a thread that was cancelled", turn);
        if (work.calls)
            check_definite(work.a, "a cancelled thread's factor");
        free(work.a);
    }
    check_definite(kept, "a factor from before");
}

static volatile int ended;
static volatile double sum;

/* Elements of whatever is there: which of a factorization's steps are done is not said. */
static void *reads(void *given)
{
    const volatile double *at = given;
    for (unsigned k = 0; !ended; k += 7919)
        sum += at[k % NN];
    return NULL;
}

static void *renews(void *given)
{
    (void)given;
    while (!ended) {
        double *own = malloc(sizeof(double) * NN);
        fill(own, definite);
        potrf(own);
        if (own[1] != 1 || own[NN - 1] != 2)
            failed("a factor that is freed", 0);
        free(own);
    }
    return NULL;
}

static void threads(int count)
{
    const int n = N, one = 1;
    double x[N];
    pthread_t others[3];
    /* Plainly a data race of the program, whose reader may see anything, but changes nothing. */
    pthread_create(&others[0], NULL, reads, a);
    pthread_create(&others[1], NULL, reads, b);
    pthread_create(&others[2], NULL, renews, NULL);
    for (int turn = 0; turn < count; turn++) {
        int info = 7;
        fill(a, definite);
        potrf(a);
        fill(b, general);
        getrf(b, pivots);
        for (int i = 0; i < N; i++)
            x[i] = definite(i, i) + 2 * (i > 0) + 2 * (i + 1 < N);
        dpotrs_("L", &n, &one, a, &n, x, &n, &info, 1);
        for (int i = 0; i < N; i++)
            if (info || x[i] != 1)
                failed("a solution", i);
        check_definite(a, "a factor that others read");
        check_general(b, pivots, "factors that others read");
    }
    ended = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    check_definite(kept, "a factor from before");
}

int main(int given, char **words)
{
    if (given < 3)
        return 2;
    int count = atoi(words[2]);
    a = malloc(sizeof(double) * NN);
    b = malloc(sizeof(double) * NN);
    kept = malloc(sizeof(double) * NN);
    fill(kept, definite);
    potrf(kept);
    if (!strcmp(words[1], "jumps"))
        jumps(count);
    else if (!strcmp(words[1], "forks"))
        forks(count);
    else if (!strcmp(words[1], "cancels"))
        cancels(count);
    else
        threads(count);
    printf("%s: right\n", words[1]);
    return 0;
}
