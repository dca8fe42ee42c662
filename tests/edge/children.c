/* Children that are not made by fork alone, and descriptors: results on a device meanwhile.
 *
 *   children WHAT    vfork, shared, clone, underscore, handler, both, early, system_call, daemon, close, close_range, closefrom,
 *                    close_number, taken, taken_exit, exec; and bare, whose output differs without semcache: a child that no
 *                    library can know of */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N };
static double *a, *b, *c, *d;
extern char **environ;

static void ended(const char *what, pid_t child)
{
    int status = -1;
    if (child < 0 || waitpid(child, &status, __WALL) != child)
        printf("%s: no child\n", what);
    else if (WIFEXITED(status))
        printf("%s: exited %d\n", what, WEXITSTATUS(status));
    else
        printf("%s: killed by %d\n", what, WTERMSIG(status));
    fflush(stdout);
}

static void results(int round)
{
    multiply(N, 1, a, b, 0, c);
    multiply(N, 1 + round, c, a, 0, d);
    fflush(stdout);
}

/* The work of a child with its own copy of the memory: reads, computes, writes, frees. */
static int separate(void *unused)
{
    (void)unused;
    show("child's c", c, NN);
    d[5] += 1;
    multiply(N, 1, c, b, 1, d);
    show("child's d", d, NN);
    a[3] = 2;
    double *more = doubles(NN);
    multiply(N, 1, a, d, 0, more);
    show("child's own", more, NN);
    free(more);
    c = need(realloc(c, 3 * NN * sizeof(double)));
    show("child's reallocated", c, NN);
    fflush(stdout);
    _exit(11);
}

static void parent_goes_on(void)
{
    show("parent's d", d, NN);
    multiply(N, 1, c, b, 0, d);
    for (int i = 0; i < NN; i++)
        d[i] = fmod(d[i], 3);
    show("parent's next", d, NN);
}

/* The work of a child that shares the parent's memory, inaccessible pages included. */
static int in_shared_memory(void *unused)
{
    (void)unused;
    double s = 0;
    for (int i = 0; i < NN; i += 7)
        s += c[i] + d[NN - 1 - i];
    a[0] = 1;
    d[9] = fmod(s, 100);
    return s > 0 ? 3 : 4;
}

static void vforks(void)
{
    for (volatile int round = 0; round < 6; round++) {
        results(round);
        pid_t child = vfork();
        if (child == 0)
            _exit(in_shared_memory(NULL));
        ended("vfork", child);
        parent_goes_on();
    }
}

static void shared(void)
{
    char *stack = need(malloc(256 << 10));
    for (int round = 0; round < 6; round++) {
        results(round);
        int flags = CLONE_VM | SIGCHLD | (round & 1 ? CLONE_VFORK : 0) | (round & 2 ? CLONE_FILES | CLONE_FS : 0);
        pid_t child = clone(in_shared_memory, stack + (256 << 10), flags, NULL);
        ended("shared", child);
        parent_goes_on();
    }
    free(stack);
}

static void clones(void)
{
    char *stack = need(malloc(1 << 20));
    for (int round = 0; round < 4; round++) {
        results(round);
        pid_t child = clone(separate, stack + (1 << 20), SIGCHLD, NULL);
        if (child > 0)
            d[7] += 1;
        ended("clone", child);
        parent_goes_on();
    }
    free(stack);
}

static void underscore(void)
{
    for (int round = 0; round < 4; round++) {
        results(round);
        pid_t child = _Fork();
        if (child == 0)
            separate(NULL);
        ended("_Fork", child);
        parent_goes_on();
    }
}

static volatile sig_atomic_t made;

/* One alarm, 3 ms from now. Not a periodic timer: where a fork takes longer than the period, nothing else would ever
 * run. */
static void alarm_soon(void)
{
    struct itimerval once = {{0, 0}, {0, 3000}};
    if (setitimer(ITIMER_REAL, &once, NULL))
        _exit(2);
}

static void on_alarm(int signal)
{
    (void)signal;
    int error = errno;
    pid_t child = _Fork();
    if (child == 0)
        _exit(0);
    made += child > 0 && waitpid(child, NULL, 0) == child;
    if (made < 300)
        alarm_soon();
    errno = error;
}

/* _Fork in a signal handler, which may have interrupted any code. */
static void handlers(void)
{
    results(0);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    if (sigaction(SIGALRM, &action, NULL))
        exit(2);
    alarm_soon();
    for (int i = 0; made < 300; i++)
        free(need(malloc(40000 + i % 7 * 4096)));
    puts("handler: made them");
    parent_goes_on();
}

static volatile sig_atomic_t in_child;

static void on_alarm_both(int signal)
{
    (void)signal;
    int error = errno;
    pid_t child = _Fork();
    if (child == 0)
        in_child = 1;
    made += child > 0;
    errno = error;
}

/* Forks in a signal handler that has interrupted any code, mostly a call: parent and child both go on with it, at the same time. A call's
 * matrices are on the stack, and alpha is another each time. */
static void both_go_on(void)
{
    enum { CHILDREN = 200, MORE = 5 };
    double left[NN], right[NN], product[NN], once[NN];
    memcpy(left, a, sizeof left);
    memcpy(right, b, sizeof right);
    multiply(N, 1, left, right, 0, once);
    results(0);
    struct sigaction action = {.sa_handler = on_alarm_both, .sa_flags = SA_RESTART};
    if (sigaction(SIGALRM, &action, NULL))
        exit(2);
    int wrong = 0, seen = 0, left_to_do = MORE;
    alarm_soon();
    for (int i = 0; seen < CHILDREN; i++) {
        double alpha = in_child ? 1000 + i % 7 : i % 500 + 1;
        multiply(N, alpha, left, right, 0, product);
        for (int k = 0; k < NN; k++)
            wrong += product[k] != alpha * once[k];
        if (in_child && left_to_do-- == 0)
            _exit(wrong != 0);
        int status;
        if (!in_child && made > seen && waitpid(-1, &status, WNOHANG) > 0) {
            wrong += status != 0;
            seen++;
            if (seen < CHILDREN)
                alarm_soon();
        }
    }
    printf("both: %d elements or children are wrong\n", wrong);
    parent_goes_on();
}

static void system_calls(void)
{
    for (int round = 0; round < 6; round++) {
        results(round);
        struct clone_args how = {.exit_signal = SIGCHLD};
        long child = round % 3 == 0   ? syscall(SYS_fork)
                     : round % 3 == 1 ? syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)
                                      : syscall(SYS_clone3, &how, sizeof how);
        if (child == 0)
            separate(NULL);
        ended("system call", (pid_t)child);
        parent_goes_on();
    }
}

/* A daemon: its parents end at once, it closes all descriptors, and results that were on a device of a parent only are
 * in its own memory. This process has computed nothing before: each first child uses devices, and leaves by _exit or
 * exit. */
static void daemonise(void)
{
    for (int round = 0; round < 4; round++) {
        int ends[2];
        char text[4096];
        ssize_t got;
        size_t all = 0;
        if (pipe(ends))
            exit(2);
        fflush(stdout);
        pid_t first = fork();
        if (first == 0) {
            results(round);
            if (round == 3) { /* the daemon begins when its parent is gone */
                int gone[2];
                char byte;
                if (pipe(gone))
                    exit(2);
                if (fork())
                    exit(0);
                close(gone[1]);
                while (read(gone[0], &byte, 1) > 0)
                    continue;
            } else {
                if (fork())
                    _exit(0);
                setsid();
                if (round == 2)
                    multiply(N, 1, a, b, 0, c);
                if (fork())
                    _exit(0);
            }
            dup2(ends[1], 1);
            if (round & 1)
                closefrom(3);
            else
                for (int fd = 3; fd < 2000; fd++)
                    close(fd);
            if (chdir("/"))
                exit(2);
            separate(NULL);
        }
        close(ends[1]);
        ended("first", first);
        while (all < sizeof text && (got = read(ends[0], text + all, sizeof text - all)) > 0)
            all += (size_t)got;
        printf("%.*s", (int)all, text);
        close(ends[0]);
    }
}

/* Takes every descriptor up to the limit for one file of the program: no byte of that file may change. */
static void closes(const char *how)
{
    struct rlimit limit = {4096, 4096};
    struct stat st;
    setrlimit(RLIMIT_NOFILE, &limit);
    results(1);
    char path[] = "/tmp/semcache-edge-XXXXXX", text[64]; /* mkstemp's template */
    for (int round = 0; round < 3; round++) {
        multiply(N, 1, c, d, 0, a);
        for (int k = 0; k < NN; k++)
            b[k] = k % 5;
        if (!strcmp(how, "close"))
            for (int fd = 3; fd < 4096; fd++)
                close(fd);
        else if (!strcmp(how, "close_range"))
            close_range(3, ~0U, 0);
        else if (!strcmp(how, "close_number")) {
            if (syscall(SYS_close_range, 3, ~0U, 0))
                for (int fd = 3; fd < 4096; fd++)
                    syscall(SYS_close, fd);
        }
        else
            closefrom(3);
        show("after closing", a, NN);
        multiply(N, 1, a, b, 0, c);
        strcpy(path + sizeof path - 7, "XXXXXX"); /* the template anew */
        int file = mkostemp(path, 0);
        if (file < 0 || unlink(path))
            exit(2);
        for (int fd = 3; fd < 4096; fd++)
            if (fd != file && dup2(file, fd) != fd)
                printf("descriptor %d: %s\n", fd, strerror(errno));
        for (int i = 0; i < 4; i++) {
            multiply(N, 1, c, b, 0, d);
            multiply(N, 1, d, a, 0, c);
            for (int k = 0; k < NN; k++)
                c[k] = fmod(c[k], 5), d[k] = fmod(d[k], 7);
        }
        show("with every number taken", c, NN);
        show("and", d, NN);
        double *more = doubles(100 * NN);
        fill(more, 100 * NN);
        d = need(realloc(d, 100 * NN * sizeof(double)));
        multiply(10 * N, 1, more, more, 0, d);
        for (int k = 0; k < 100 * NN; k++)
            d[k] = fmod(d[k], 7);
        show("larger", d, 100 * NN);
        free(more);
        if (fstat(file, &st) || st.st_size != 0)
            printf("the file has %ld bytes\n", (long)st.st_size);
        for (int fd = 3; fd < 4096; fd++)
            if (fstat(fd, &st) || st.st_size != 0)
                printf("descriptor %d is not ours\n", fd);
        snprintf(text, sizeof text, "%d", round);
        if (pwrite(4000, text, strlen(text), 0) != (ssize_t)strlen(text))
            printf("no write\n");
        for (int fd = 3; fd < 4096; fd++)
            close(fd);
        for (int k = 0; k < NN; k++)
            a[k] = fmod(a[k], 3);
    }
}

static int taken_file;

static void *take(void *first)
{
    /* A few are left for a report. */
    for (int fd = 3 + *(int *)first; fd < 4050; fd += 2)
        if (fd != taken_file && dup2(taken_file, fd) != fd)
            printf("descriptor %d: %s\n", fd, strerror(errno));
    return NULL;
}

static void at_the_end(void)
{
    show("at the end", c, NN);
    show("and", d, NN);
    fflush(stdout);
}

/* Two threads take nearly every number at once, with results on a device; or one does while main returns. */
static void taken(int ends)
{
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &limit);
    char path[] = "/tmp/semcache-edge-XXXXXX"; /* mkstemp's template */
    taken_file = mkostemp(path, 0);
    if (taken_file < 0 || unlink(path))
        exit(2);
    /* More results than are written back in a moment. */
    enum { MANY = 60, M = 300 };
    static double *many[MANY];
    double *x = doubles(M * M), *y = doubles(M * M);
    fill(x, M * M);
    fill(y, M * M);
    for (int i = 0; i < MANY; i++) {
        many[i] = doubles(M * M);
        multiply(M, 1 + i % 3, x, y, 0, many[i]);
    }
    results(1);
    pthread_t t[2];
    int first[2] = {0, 1};
    for (int i = 0; i < 2 - ends; i++)
        if (pthread_create(&t[i], NULL, take, &first[i]))
            exit(2);
    if (ends) {
        atexit(at_the_end);
        usleep(1000);
        exit(7);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < MANY; i += 7)
        show("taken", many[i], M * M);
    parent_goes_on();
}

/* Prints what a program inherits: descriptors, signals. */
static void inherited(void)
{
    char line[512], target[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6) ||
            !strncmp(line, "SigPnd", 6) || !strncmp(line, "Threads", 7) || !strncmp(line, "CoreDumping", 11))
            fputs(line, stdout);
    fclose(f);
    DIR *dir = opendir("/proc/self/fd");
    for (int fd = 0; fd < 4096; fd++) {
        snprintf(line, sizeof line, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(line, target, sizeof target - 1);
        if (n > 0 && fd != dirfd(dir))
            printf("descriptor %d: %s\n", fd, fd > 2 ? (target[n] = 0, target) : "");
    }
    closedir(dir);
    struct rlimit limit;
    for (int r = 0; r < 16; r++)
        if (!getrlimit((__rlimit_resource_t)r, &limit) && r != RLIMIT_CORE)
            printf("limit %d: %lx %lx\n", r, (long)limit.rlim_cur, (long)limit.rlim_max);
    printf("%s\n", getenv("SEMCACHE_NOTHING") ? "?" : "no variable");
    fflush(stdout);
}

static void *execute(void *self)
{
    char *arguments[] = {self, "inherited", NULL};
    results(2);
    execv(self, arguments);
    return NULL;
}

static void executes(char *self)
{
    for (volatile int round = 0; round < 3; round++) {
        results(round);
        pid_t child;
        char *arguments[] = {self, "inherited", NULL};
        if (round == 0 ? posix_spawn(&child, self, NULL, NULL, arguments, environ) != 0
                       : (child = round == 1 ? fork() : vfork()) == 0) {
            execv(self, arguments);
            _exit(1);
        }
        ended("executed", child);
        parent_goes_on();
    }
    fflush(stdout);
    execute(self);
}

#ifdef __x86_64__
static long bare_fork(void)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"((long)SYS_fork) : "rcx", "r11", "memory");
    return result;
}
#endif

/* A child that no library heard of: bytes that the host has are copied to it; a read of bytes that only a device has
 * ends it. */
static void bare(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int round = 0; round < 3; round++) {
        multiply(N, 1, a, b, 0, c);
        show("read before", c, NN); /* written back, and still on the device */
        multiply(N, 1, c, a, 0, d);
        fflush(stdout);
        long child = bare_fork();
        if (child == 0) {
            show("child's a", a, NN);
            show("child's c", c, NN);
            a[1] += 1;
            for (int i = 0; i < NN; i++)
                c[i] = i % 7;
            double *more = doubles(3 * NN);
            fill(more, 3 * NN);
            multiply(N, 1, more, more + NN, 0, more + 2 * NN);
            show("child's own", more + 2 * NN, NN);
            multiply(N, 1, a, c, 0, more);
            show("child's next", more, NN);
            free(more);
            fflush(stdout);
            if (round == 1)
                printf("%f\n", d[5]); /* ends it */
            if (round == 2)
                exit(14);
            _exit(13);
        }
        ended("bare", (pid_t)child);
        show("parent's d", d, NN);
    }
}

static volatile int calls, stop;

/* Allocates and frees; later its first call of each routine is looked up while another thread forks. */
static void *busy(void *unused)
{
    (void)unused;
    double x[4] = {1, 2, 3, 4};
    const int n = 4, one = 1;
    for (int i = 0; !stop; i++) {
        double *block = malloc(100000);
        block[7] = i;
        if (calls && i % 100 == 0)
            block[7] += ddot_(&n, x, &one, x, &one) + dasum_(&n, x, &one) + dnrm2_(&n, x, &one);
        free(block);
    }
    return NULL;
}

/* Forks before anything has been computed, while other threads are in the allocator and in their first calls. */
static void early(void)
{
    pthread_t t[3];
    int good = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(t + i, NULL, busy, NULL);
    for (int i = 0; i < 200; i++) {
        calls = i >= 100;
        pid_t child = fork();
        if (!child) {
            double x[4] = {1, 2, 3, 4};
            const int n = 4, one = 1;
            alarm(300);
            double *block = malloc(200000);
            block[9] = 34;
            if (calls)
                block[9] = ddot_(&n, x, &one, x, &one) + idamax_(&n, x, &one);
            _exit(block[9] == 34 ? 3 : 4);
        }
        int status;
        good += waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3;
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    printf("early: %d children\n", good);
    results(1);
    show("then", d, NN);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "inherited")) {
        inherited();
        return 8;
    }
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    fill(d, NN);
    if (!strcmp(what, "vfork"))
        vforks();
    else if (!strcmp(what, "shared"))
        shared();
    else if (!strcmp(what, "clone"))
        clones();
    else if (!strcmp(what, "underscore"))
        underscore();
    else if (!strcmp(what, "handler"))
        handlers();
    else if (!strcmp(what, "both"))
        both_go_on();
    else if (!strcmp(what, "early"))
        early();
    else if (!strcmp(what, "system_call"))
        system_calls();
    else if (!strcmp(what, "daemon"))
        daemonise();
    else if (!strncmp(what, "close", 5))
        closes(what);
    else if (!strncmp(what, "taken", 5))
        taken(!strcmp(what, "taken_exit"));
    else if (!strcmp(what, "exec"))
        executes("/proc/self/exe");
    else if (!strcmp(what, "bare"))
        bare();
    else
        return 2;
    return 7;
}
