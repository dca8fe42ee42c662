/* Results on a device while the process forks, starts others, makes threads, and ends.
 *
 *   processes WHAT      fork, tree, spawn, threads, alarms; and ways to end: exit, atexit, destructor, quick, thread,
 *                       abort */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N };
static const int one = 1, all = NN;
static double *a, *b, *c, *d, *late;
extern char **environ;

static void wait_for(pid_t child)
{
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        printf("no child\n");
    if (WIFEXITED(status))
        printf("child exited %d\n", WEXITSTATUS(status));
    else
        printf("child killed by %d\n", WTERMSIG(status));
    fflush(stdout);
}

/* The work of a child on the matrices that it inherited. */
static void child_work(int depth)
{
    printf("child %d reads %.0f\n", depth, c[NN / 2]);
    show("child's c", c, NN);
    for (int i = 0; i < NN; i += 3)
        d[i] += 7;
    multiply(N, 1, a, d, 1, c);
    show("child's product", c, NN);
    multiply(N, 1, c, b, 0, d);
    daxpy_(&all, &(double){1}, a, &one, d, &one);
    show("child's next", d, NN);
    double *more = need(realloc(doubles(NN), 2 * NN * sizeof(double)));
    multiply(N, 1, a, b, 0, more);
    show("child's own", more, NN);
    c = need(realloc(c, 3 * NN * sizeof(double)));
    show("child's reallocated", c, NN);
    free(more);
    free(d);
    fflush(stdout);
}

static void fork_once(void)
{
    for (int round = 0; round < 4; round++) {
        multiply(N, 1, a, b, 0, c);
        multiply(N, 1, b, a, round, d);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            child_work(round);
            if (round & 1)
                _exit(round);
            exit(round);
        }
        /* The parent computes meanwhile, with the replicas on its devices. */
        multiply(N, 1, c, d, 0, a);
        c[17] += 1;
        for (int i = 0; i < NN; i++)
            a[i] = fmod(a[i], 5);
        wait_for(child);
        show("parent's a", a, NN);
        show("parent's c", c, NN);
        multiply(N, 1, c, b, 1, d);
        show("parent's d", d, NN);
    }
    /* Shared memory between the two. */
    double *shared = mmap(NULL, NN * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    multiply(N, 1, a, b, 0, shared);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        multiply(N, 1, shared, b, 0, d);
        dcopy_(&all, d, &one, shared, &one);
        _exit(0);
    }
    wait_for(child);
    show("from the child", shared, NN);
}

static void tree(int depth)
{
    multiply(N, 1, a, b, 1, c);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (depth < 4)
            tree(depth + 1);
        child_work(depth);
        exit(0);
    }
    wait_for(child);
    if (depth == 0) {
        show("the root's", c, NN);
        multiply(N, 1, c, b, 0, d);
        show("and next", d, NN);
    }
}

static void spawn(void)
{
    pid_t child;
    char *echo[] = {"echo", "spawned", NULL}, *false_[] = {"false", NULL};
    for (volatile int i = 0; i < 5; i++) {
        multiply(N, 1, a, b, 1, c);
        fflush(stdout);
        printf("system %d\n", system("echo from a shell; exit 3"));
        fflush(stdout);
        multiply(N, 1, a, b, 1, c);
        printf("read %.0f\n", c[i * 99]);
        fflush(stdout);
        multiply(N, 1, a, b, 1, c);
        if (posix_spawnp(&child, i & 1 ? "false" : "echo", NULL, NULL, i & 1 ? false_ : echo, environ) == 0)
            wait_for(child);
        multiply(N, 1, a, b, 1, c);
        if ((child = vfork()) == 0) {
            execlp("sh", "sh", "-c", "echo vforked; exit 4", (char *)NULL);
            _exit(1);
        }
        wait_for(child);
        multiply(N, 1, a, b, 1, c);
        if ((child = vfork()) == 0)
            _exit(9);
        wait_for(child);
        char line[99] = "";
        multiply(N, 1, a, b, 1, c);
        FILE *f = popen("echo piped", "r");
        if (!fgets(line, sizeof line, f))
            printf("nothing\n");
        printf("%spclose %d\n", line, pclose(f));
        multiply(N, 1, a, b, 1, c);
        fflush(stdout);
        if ((child = fork()) == 0) {
            execlp("echo", "echo", "forked and executed", (char *)NULL);
            _exit(1);
        }
        wait_for(child);
    }
    show("after all", c, NN);
}

static pthread_barrier_t barrier;

static void *reader(void *sum)
{
    for (int i = 0; i < 60; i++) {
        pthread_barrier_wait(&barrier);
        double *from = i & 1 ? d : c, s = 0;
        for (int k = 0; k < NN; k += 1 + i % 5)
            s += from[k];
        *(double *)sum += s;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void *short_lived(void *index)
{
    double x[N], y[N], own[NN];
    int i = (int)(intptr_t)index;
    for (int k = 0; k < N; k++)
        x[k] = k % (i % 7 + 1), y[k] = 1;
    dgemv_("T", &(int){N}, &(int){N}, &(double){1}, a, &(int){N}, x, &one, &(double){1}, y, &one);
    multiply(N, 1, b, a, 0, own);
    double *result = need(malloc(8192));
    result[0] = ddot_(&(int){N}, y, &one, own + N * (i % N), &one);
    dscal_(&(int){1024 - 1}, &(double){2}, memset(result + 1, 0, 8184), &one);
    return result;
}

static void threads(void)
{
    pthread_t thread[4];
    double sums[4] = {0};
    multiply(N, 1, a, b, 0, c);
    pthread_barrier_init(&barrier, NULL, 5);
    for (int t = 0; t < 4; t++)
        if (pthread_create(&thread[t], NULL, reader, &sums[t]))
            exit(2);
    for (int i = 0; i < 60; i++) {
        pthread_barrier_wait(&barrier);
        /* One is read while the other one is computed from it. */
        multiply(N, 1 + i % 3, i & 1 ? d : c, b, 0, i & 1 ? c : d);
        dscal_(&all, &(double){0}, i & 1 ? c : d, &one);
        daxpy_(&all, &(double){i}, a, &one, i & 1 ? c : d, &one);
        pthread_barrier_wait(&barrier);
    }
    for (int t = 0; t < 4; t++) {
        pthread_join(thread[t], NULL);
        printf("reader %d: %.0f\n", t, sums[t]);
    }
    double sum = 0;
    for (int round = 0; round < 20; round++) {
        pthread_t storm[16];
        for (intptr_t t = 0; t < 16; t++)
            if (pthread_create(&storm[t], NULL, short_lived, (void *)(round * 16 + t)))
                exit(2);
        for (int t = 0; t < 16; t++) {
            void *at;
            pthread_join(storm[t], &at);
            sum += *(double *)at;
            free(at);
        }
    }
    printf("storm %.0f\n", sum);
}

/* Writes to an input, which is page-protected, the value that it has, and reads a result. */
static void touch_both(int signal)
{
    volatile double *input = &a[signal], *result = &c[signal];
    *input = *input;
    (void)*result;
}

static _Atomic int forking = 1;

/* Holds a lock of libc's malloc most of the time, and is interrupted by alarms meanwhile. */
static void *allocating(void *unused)
{
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    /* Too large for a thread's own list of free blocks, too small for pages of their own. */
    void *blocks[16] = {0};
    for (unsigned i = 0; forking; i++) {
        free(blocks[i % 16]);
        blocks[i % 16] = need(malloc(2000 + i % 1000));
    }
    for (int i = 0; i < 16; i++)
        free(blocks[i]);
    return unused;
}

/* fork waits for the lock that the interrupted thread holds, whose handler waits for a page fault. */
static void alarms(void)
{
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    signal(SIGALRM, touch_both);
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocating, NULL))
        exit(2);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < 100; round++) {
        multiply(N, 1, a, b, 0, c);
        multiply(N, 1, b, a, 1, d);
        pid_t child = fork();
        if (!child) {
            uint64_t sum = hash(c, NN) ^ hash(a, NN);
            a[5] += 1;
            pid_t grandchild = fork();
            if (!grandchild)
                _exit(0);
            _exit(waitpid(grandchild, NULL, 0) == grandchild ? (int)(sum & 63) : 99);
        }
        wait_for(child);
    }
    forking = 0;
    pthread_join(thread, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    show("after alarms", d, NN);
}

static void last_look(void)
{
    show("at exit", late, NN);
    late[3] += 1;
    multiply(N, 1, late, b, 0, c);
    show("computed at exit", c, NN);
    fflush(stdout);
}

static int looks;

__attribute__((destructor)) static void really_last(void)
{
    if (!looks)
        return;
    show("in a destructor", late, NN);
    multiply(N, 1, late, b, 0, c);
    show("computed in a destructor", c, NN);
    fflush(stdout);
}

static void *ends_it(void *unused)
{
    (void)unused;
    multiply(N, 1, a, b, 0, late);
    printf("read by the thread %.0f\n", late[5]);
    exit(6);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "atexit"))
        atexit(last_look); /* before anything of the library's own */
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN), late = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    fill(d, NN);
    multiply(N, 1, a, b, 0, late);
    if (!strcmp(what, "fork"))
        fork_once();
    else if (!strcmp(what, "tree"))
        tree(0);
    else if (!strcmp(what, "spawn"))
        spawn();
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "alarms"))
        alarms();
    else if (!strcmp(what, "atexit"))
        atexit(last_look);
    else if (!strcmp(what, "destructor"))
        looks = 1;
    else if (!strcmp(what, "quick")) {
        printf("quick\n");
        fflush(stdout);
        _exit(5);
    } else if (!strcmp(what, "thread")) {
        pthread_t t;
        looks = 1;
        if (!pthread_create(&t, NULL, ends_it, NULL))
            pthread_join(t, NULL);
    } else if (!strcmp(what, "abort")) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        printf("abort\n");
        fflush(stdout);
        abort();
    } else if (strcmp(what, "exit"))
        return 2;
    return 7;
}
