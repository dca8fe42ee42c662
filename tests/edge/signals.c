/* A program's own SIGSEGV handlers, masks, alternate stacks and jumps, around results on a device.
 *
 *   signals WHAT [COUNT]
 *     before, after, simple, onstack      a handler installed before or after the first product, by sigaction or
 *                                         signal(), on an alternate stack; a wild pointer must reach it
 *     chain                               handlers replaced many times, the old one is the one that was set
 *     default, ignore, reset              what a wild pointer does without a handler: the process is killed
 *     masked                              SIGSEGV blocked every way that there is, then a result is touched
 *     inside                              results touched and products made inside a SIGSEGV handler
 *     raise                               SIGSEGV that is no fault
 *     writer                              a timer's handler reads an inaccessible result and writes it to a pipe, while
 *                                         the program makes results, touches them and writes them to files
 *     jump COUNT                          a timer's handler jumps out of reads of results, COUNT times */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N };
static double *a, *b, *c, *d;
static sigjmp_buf back;
static volatile int seen_code, seen_signal, seen_times;
static void *volatile seen_at;
static volatile char *guard; /* pages of the program's own that it may not touch */

static void result(double *to)
{
    multiply(N, 1, a, b, 0, to);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    seen_signal = signal;
    seen_code = info->si_code;
    seen_at = info->si_addr;
    seen_times++;
    siglongjmp(back, 1);
}

static void on_fault_simply(int signal)
{
    seen_signal = signal;
    seen_times++;
    siglongjmp(back, 1);
}

static void install(int flags)
{
    struct sigaction action = {.sa_flags = flags};
    if (flags & SA_SIGINFO)
        action.sa_sigaction = on_fault;
    else
        action.sa_handler = on_fault_simply;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, NULL))
        printf("sigaction failed\n");
}

static void touch(const char *what, volatile char *at, int write)
{
    seen_code = seen_signal = 0;
    seen_at = NULL;
    if (sigsetjmp(back, 1) == 0) {
        if (write)
            *at = 1;
        else
            (void)*at;
        printf("%s: no fault\n", what);
    } else
        printf("%s: signal %d code %d at %+ld\n", what, seen_signal, seen_code,
               seen_at ? (long)((volatile char *)seen_at - at) : -1);
}

/* Wild accesses between results. */
static void wild(void)
{
    for (int i = 0; i < 3; i++) {
        result(c);
        touch("null", (volatile char *)16, 0);
        touch("guard page, read", guard + 4096 + 77, 0);
        result(c);
        touch("guard page, write", guard + 4096 + 78, 1);
        touch("read-only page", guard + 9, 1);
        touch("no mapping", (volatile char *)((uintptr_t)1 << 46) + 4096 * 5 + 1, i & 1);
        touch("code", (volatile char *)(uintptr_t)wild, 1);
        show("a result", c, NN);
        result(c);
        c[i] = 4;
        show("a changed one", c, NN);
    }
    printf("%d faults\n", seen_times);
}

static void on_stack(void)
{
    stack_t stack = {.ss_sp = need(malloc(1 << 16)), .ss_size = 1 << 16}, old;
    if (sigaltstack(&stack, NULL))
        exit(2);
    install(SA_SIGINFO | SA_ONSTACK);
    wild();
    sigaltstack(NULL, &old);
    printf("the stack is %s\n", old.ss_sp == stack.ss_sp ? "ours" : "another");
    /* A stack that overflows into unmapped memory, the use of such handlers. */
}

static void chain(void)
{
    struct sigaction mine = {.sa_flags = SA_SIGINFO | SA_RESTART}, old;
    mine.sa_sigaction = on_fault;
    sigemptyset(&mine.sa_mask);
    sigaddset(&mine.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, NULL, &old);
    printf("at first: default %d\n", old.sa_handler == SIG_DFL);
    for (int i = 0; i < 50; i++) {
        result(c);
        sigaction(SIGSEGV, &mine, &old);
        c[1] = i;
        result(d);
        struct sigaction now;
        sigaction(SIGSEGV, NULL, &now);
        if (now.sa_sigaction != on_fault || !(now.sa_flags & SA_SIGINFO) || !sigismember(&now.sa_mask, SIGUSR1) ||
            sigismember(&now.sa_mask, SIGUSR2))
            printf("not what was set\n");
        if (i % 10 == 0)
            touch("in the chain", guard + 4096, 0);
        if (signal(SIGSEGV, on_fault_simply) != (void (*)(int))(void *)on_fault)
            printf("signal: another one was set\n");
        if (i % 10 == 0)
            touch("simply", guard + 4096, 0);
        if (signal(SIGSEGV, SIG_DFL) != on_fault_simply)
            printf("signal: not what was set\n");
        if (d[7] != 0)
            c[7] = d[7];
    }
    show("c", c, NN);
    show("d", d, NN);
}

static void no_core(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

static void nested_reads(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    /* The program's handler works on results, too. */
    double sum = 0;
    for (int i = 0; i < NN; i += 64)
        sum += c[i];
    result(d);
    sum += d[5];
    if (seen_times++ < 3)
        printf("in the handler %.0f\n", sum);
    siglongjmp(back, 1);
}

static void inside(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = nested_reads;
    sigfillset(&action.sa_mask);
    result(c);
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 20; i++) {
        result(c);
        if (sigsetjmp(back, 1) == 0)
            guard[4096] = 1;
        show("d", d, NN);
    }
}

static void read_in_handler(int signal)
{
    double sum = 0;
    for (int i = 0; i < NN; i++)
        sum += c[i];
    c[4] = signal;
    printf("in the handler %.0f\n", sum);
    seen_times++;
}

static void *masked_thread(void *unused)
{
    sigset_t full;
    (void)unused;
    sigfillset(&full);
    pthread_sigmask(SIG_SETMASK, &full, NULL);
    double sum = 0;
    for (int i = 0; i < NN; i++)
        sum += d[i];
    d[0] = sum;
    return NULL;
}

static void masked(void)
{
    sigset_t full, segv, now, old;
    sigfillset(&full);
    sigemptyset(&segv);
    sigaddset(&segv, SIGSEGV);
    sigaddset(&segv, SIGBUS);
    for (int i = 0; i < 4; i++) {
        result(c);
        sigprocmask(SIG_BLOCK, &segv, &old);
        show("blocked by sigprocmask", c, NN);
        result(c);
        sigprocmask(SIG_SETMASK, &full, NULL);
        c[i] = 3;
        sigprocmask(SIG_SETMASK, NULL, &now);
        printf("SIGUSR1 blocked %d\n", sigismember(&now, SIGUSR1));
        sigprocmask(SIG_SETMASK, &old, NULL);
        result(c);
        pthread_sigmask(SIG_BLOCK, &full, &old);
        show("blocked by pthread_sigmask", c, NN);
        pthread_sigmask(SIG_SETMASK, &old, NULL);

        struct sigaction action = {.sa_handler = read_in_handler};
        sigfillset(&action.sa_mask);
        sigaction(SIGUSR1, &action, NULL);
        result(c);
        raise(SIGUSR1);
        printf("after the handler %.0f\n", c[4]);
        /* Handlers of signals that arrive in a wait with a mask of its own. */
        sigset_t usr1;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        sigprocmask(SIG_BLOCK, &usr1, &old);
        result(c);
        raise(SIGUSR1);
        sigset_t most = full;
        sigdelset(&most, SIGUSR1);
        sigsuspend(&most);
        result(c);
        raise(SIGUSR1);
        struct timespec soon = {0, 1000};
        pselect(0, NULL, NULL, NULL, &soon, &most);
        sigprocmask(SIG_SETMASK, &old, NULL);

        pthread_t thread;
        result(d);
        sigprocmask(SIG_BLOCK, &full, &old);
        if (pthread_create(&thread, NULL, masked_thread, NULL))
            exit(2);
        result(c);
        show("meanwhile", c, NN);
        pthread_join(thread, NULL);
        sigprocmask(SIG_SETMASK, &old, NULL);
        printf("the thread's sum %.0f\n", d[0]);
    }
    printf("%d handlers\n", seen_times);
}

static void raised(void)
{
    install(SA_SIGINFO);
    for (int i = 0; i < 3; i++) {
        result(c);
        seen_signal = 0;
        if (sigsetjmp(back, 1) == 0)
            raise(SIGSEGV);
        printf("raised: signal %d code %d\n", seen_signal, seen_code);
        if (sigsetjmp(back, 1) == 0)
            kill(getpid(), SIGSEGV);
        printf("killed: signal %d code %d\n", seen_signal, seen_code);
        show("c", c, NN);
        result(c);
    }
    signal(SIGSEGV, SIG_IGN);
    result(c);
    raise(SIGSEGV);
    show("ignored", c, NN);
    fflush(stdout);
    signal(SIGSEGV, SIG_DFL);
    result(c);
    no_core();
    raise(SIGSEGV);
    printf("still there\n");
}

static volatile sig_atomic_t armed;
static int jumps;

static void on_timer(int signal)
{
    (void)signal;
    if (armed) {
        armed = 0;
        siglongjmp(back, 1);
    }
}

static void *another_reader(void *stop)
{
    /* Waits for the same pages all the time, and never jumps: it inherited a mask. */
    volatile double *at = d;
    double sum = 0;
    while (!*(volatile int *)stop)
        for (int i = 0; i < NN; i += 512)
            sum += at[i];
    return NULL;
}

static void jump(int count)
{
    static volatile int stop;
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    double *right = doubles(NN);
    volatile int wrong = 0, tries = 0;
    result(right);
    uint64_t expected = hash(right, NN);
    pthread_t thread;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    dscal_(&(int){NN}, &(double){1}, d, &(int){1});
    if (pthread_create(&thread, NULL, another_reader, (void *)&stop))
        exit(2);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    /* A run without semcache never waits: it makes as many tries as a run that does would need. */
    while (jumps < count && tries < count * 3) {
        tries++;
        /* Not the same number of times in each round, or c would be written back before it is touched. */
        for (int i = 0; i <= tries % 3; i++)
            result(c);
        result(d);
        if (sigsetjmp(back, 1) == 0) {
            struct itimerval soon = {.it_value = {0, 1 + tries * 37 % 900}}, off = {0};
            armed = 1;
            setitimer(ITIMER_REAL, &soon, NULL);
            for (int i = 0; i < NN; i += 512)
                if (((volatile double *)c)[i] != right[i])
                    wrong++;
            if (tries & 1)
                ((volatile double *)c)[3] = 1;
            armed = 0;
            setitimer(ITIMER_REAL, &off, NULL);
        } else
            jumps++;
        if (tries % 50 == 0) {
            result(c);
            wrong += hash(c, NN) != expected;
            wrong += hash(d, NN) != expected;
        }
    }
    stop = 1;
    pthread_join(thread, NULL);
    fprintf(stderr, "jumps %d\n", jumps);
    printf("wrong %d\n", wrong);
    for (int i = 0; i < 20; i++) {
        result(c);
        multiply(N, 1, c, b, 0, d);
        c[i] += 1;
        multiply(N, 1, c, b, -1, d);
        show("afterwards", d, NN);
    }
    free(c);
    c = doubles(NN);
    result(c);
    show("and reallocated", c, NN);
}

static int ends[2];
static double *told;
static volatile long ticks;
static volatile sig_atomic_t ticking = 1;

/* The next tick, 60 us from now. Not a periodic timer: where a handler takes longer than the period, nothing else would
 * ever run. */
static void tick_soon(void)
{
    struct itimerval once = {{0, 0}, {0, 60}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static void on_tick(int signal)
{
    (void)signal;
    int before = errno;
    static volatile double sum;
    if (ticks & 1)
        sum += ((volatile double *)told)[(ticks * 67) % NN];
    if (write(ends[1], told + ticks % NN, 8) == 8)
        ticks++;
    if (ticking)
        tick_soon();
    errno = before;
}

static void writer(void)
{
    int null = open("/dev/null", O_WRONLY);
    char drain[4096];
    if (null < 0 || pipe2(ends, O_NONBLOCK | O_CLOEXEC))
        exit(2);
    told = d;
    result(d);
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    tick_soon();
    long wrong = 0;
    for (int i = 0; i < 1500; i++) {
        result(i % 2 ? c : d);
        if (i % 7 == 0)
            wrong += ((volatile double *)c)[i] != ((volatile double *)c)[i];
        for (int part = 0; part < 4; part++)
            wrong += write(null, (char *)(i % 2 ? c : d) + part * NN * 2, NN * 2) != NN * 2;
        while (read(ends[0], drain, sizeof drain) > 0)
            ;
    }
    ticking = 0;
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    printf("wrong %ld, ticks %d\n", wrong, ticks > 0);
    show("written", c, NN);
    show("told", d, NN);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    void *pages = mmap(NULL, 4 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect((char *)pages + 4096, 3 * 4096, PROT_NONE))
        return 2;
    guard = pages;
    setvbuf(stdout, NULL, _IOLBF, 0);
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    fill(d, NN);
    if (!strcmp(what, "before")) {
        install(SA_SIGINFO);
        wild();
    } else if (!strcmp(what, "after")) {
        result(c);
        c[3] = 1;
        install(SA_SIGINFO);
        wild();
        install(SA_SIGINFO | SA_NODEFER | SA_RESTART);
        wild();
        install(0);
        wild();
        install(SA_RESETHAND | SA_SIGINFO);
        touch("once", guard + 4096, 0);
        struct sigaction now;
        sigaction(SIGSEGV, NULL, &now);
        printf("reset %d\n", now.sa_handler == SIG_DFL);
        result(c);
        show("after the reset", c, NN);
    } else if (!strcmp(what, "simple")) {
        signal(SIGSEGV, on_fault_simply);
        wild();
        result(c);
        signal(SIGSEGV, on_fault_simply);
        wild();
    } else if (!strcmp(what, "onstack"))
        on_stack();
    else if (!strcmp(what, "chain"))
        chain();
    else if (!strcmp(what, "default") || !strcmp(what, "ignore") || !strcmp(what, "reset")) {
        no_core();
        if (*what == 'i')
            signal(SIGSEGV, SIG_IGN);
        if (*what == 'r')
            install(SA_RESETHAND | SA_SIGINFO);
        result(c);
        show("c", c, NN);
        if (*what == 'r')
            touch("once", guard + 4096, 0);
        result(c);
        show("c", c, NN);
        result(c);
        guard[5000] = 1;
        printf("still there\n");
    } else if (!strcmp(what, "masked"))
        masked();
    else if (!strcmp(what, "inside"))
        inside();
    else if (!strcmp(what, "raise"))
        raised();
    else if (!strcmp(what, "writer"))
        writer();
    else if (!strcmp(what, "jump"))
        jump(argc > 2 ? atoi(argv[2]) : 1000);
    else
        return 2;
    return 0;
}
