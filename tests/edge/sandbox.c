/* The program enters a seccomp sandbox between its products: its filter permits only the system calls that the rest of the
 * program makes without semcache, and any other kills the process.
 *
 *   sandbox prctl | seccomp | early | asks [N]     how it is entered: by either system call, before the first product, not at
 *                                                  all (but asked about) */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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
    /* What libraries ask to find out what there is. */
    const unsigned kill = SECCOMP_RET_KILL_PROCESS;
    printf("asked: %d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
    printf(" %d", prctl(PR_GET_SECCOMP) >= 0);
    printf(" %ld", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    printf(" %ld\n", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill));
    long result = 0;
    if (!strcmp(how, "prctl"))
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    else if (strcmp(how, "asks"))
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    if (result) {
        perror("sandbox");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (argc > 2)
        n = atoi(argv[2]);
    nn = (size_t)n * n;
    setvbuf(stdout, NULL, _IOLBF, 0);
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
    if (strcmp(how, "early"))
        enter(how);
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
    free(d);
    show("a", a, nn);
    munmap(m, nn * 8);
    double *again = need(malloc(nn * 8));
    multiply(n, 1, a, b, 0, again);
    show("again", again, nn);
    free(again);
    free(c);
    return 7;
}
