/* The program enters a seccomp sandbox between its products: its filter permits only the system calls that the rest of the
 * program makes without semcache, and any other kills the process.
 *
 *   sandbox prctl | seccomp | early | asks [N]     how it is entered: by either system call, before the first product, not at
 *                                                  all (but asked about)
 *   sandbox threads [N]                            for all threads at once, of which others compute meanwhile
 *   sandbox rounds [N]                             that, in many processes one after the other */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

static int n = 64;
static size_t nn;

#define PERMIT(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void enter(const char *how)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        PERMIT(read),
        PERMIT(write),
        PERMIT(futex),
        PERMIT(brk),
        PERMIT(mbind),
        PERMIT(mmap),
        PERMIT(munmap),
        PERMIT(mremap),
        PERMIT(poll),
        PERMIT(sched_yield),
        PERMIT(rt_sigreturn),
        PERMIT(fstat),
        PERMIT(newfstatat),
        PERMIT(exit),
        PERMIT(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        exit(2);
    /* System calls by which libraries find out about the machine. */
    const unsigned kill = SECCOMP_RET_KILL_PROCESS;
    printf("asked: %d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
    printf(" %d", prctl(PR_GET_SECCOMP) >= 0);
    printf(" %ld", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    printf(" %ld\n", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill));
    long result = 0;
    if (!strcmp(how, "prctl"))
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    else if (strcmp(how, "asks"))
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, strcmp(how, "threads") ? 0 : SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (result) {
        perror("sandbox");
        exit(2);
    }
    /* The first call in the process of a function that is hooked. */
    printf("poll: %d\n", poll(NULL, 0, 0));
}

enum { OTHERS = 3, ROUNDS = 32 };
static volatile int entered, under_way[OTHERS], done[OTHERS];
static volatile uint64_t results[OTHERS];

static double *map(void)
{
    void *at = mmap(NULL, nn * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

/* Products on memory of its own, before, during and after. It does not end: that takes more system calls. */
static void *others(void *number)
{
    const int me = (int)(intptr_t)number;
    double *a = map(), *b = map(), *c = map();
    for (size_t i = 0; i < nn; i++)
        a[i] = (double)(i % 7) + me, b[i] = i % n == (i / n * 5 + 1) % n;
    for (int after = 0; after < 50; after += entered) {
        multiply(n, 1, a, b, 0, c);
        multiply(n, 1, c, b, 0, a);
        double *d = map();
        multiply(n, 1, a, c, 0, d);
        under_way[me] = d[3] >= 0;
        munmap(d, nn * 8);
    }
    multiply(n, 1, b, b, 0, c);
    results[me] = hash(c, nn);
    for (done[me] = 1;;)
        sched_yield();
    return NULL;
}

/* The processes' stderr is discarded. */
static int rounds(char **argv)
{
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child < 0)
            return 2;
        if (!child) {
            argv[1] = (char *)"threads";
            dup2(open("/dev/null", O_WRONLY), 2);
            execv("/proc/self/exe", argv);
            _exit(2);
        }
        int status;
        if (waitpid(child, &status, 0) != child)
            return 2;
        printf("round %d: %s %d\n", round, WIFEXITED(status) ? "exited" : "killed by",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    return 7;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (argc > 2)
        n = atoi(argv[2]);
    nn = (size_t)n * n;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(how, "rounds"))
        return rounds(argv);
    if (!strcmp(how, "early"))
        enter(how);
    double *a = need(malloc(nn * 8)), *b = need(malloc(nn * 8)), *c = need(malloc(nn * 8)), *d = need(calloc(nn, 8));
    double *m = mmap(NULL, nn * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return 2;
    fill(a, nn);
    for (size_t i = 0; i < nn; i++)
        b[i] = i % n == (i / n * 5 + 1) % n;
    multiply(n, 1, a, b, 0, c);
    multiply(n, 1, c, b, 0, d);
    multiply(n, 1, d, b, 0, m);
    multiply(n, 1, m, b, 1, c);
    pthread_t thread[OTHERS];
    const int threads = strcmp(how, "threads") ? 0 : OTHERS;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, others, (void *)(intptr_t)i))
            exit(2);
    for (int i = 0; i < threads; i++)
        do
            multiply(n, 1, a, b, 0, c);
        while (!under_way[i]);
    if (strcmp(how, "early"))
        enter(how);
    entered = 1;
    for (int round = 0; round < 3; round++) {
        show("c", c, nn), show("d", d, nn), show("m", m, nn), show("b", b, nn);
        multiply(n, 1, a, b, round, c);
        multiply(n, 1, c, b, 1, m);
        c[5] += 1;
        double *e = need(malloc(nn * 8 * (round + 1)));
        multiply(n, 1, c, b, 0, e);
        show("e", e, nn);
        free(e);
    }
    for (int i = 0; i < threads; i++) {
        while (!done[i])
            sched_yield();
        printf("another: %016llx\n", (unsigned long long)results[i]);
    }
    free(d);
    show("a", a, nn);
    munmap(m, nn * 8);
    double *again = need(malloc(nn * 8));
    multiply(n, 1, a, b, 0, again);
    show("again", again, nn);
    free(again);
    free(c);
    if (threads)
        fflush(stdout), _exit(7);
    return 7;
}
