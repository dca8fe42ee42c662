/* Wild pointers and handlers in all their forms, beside results on a device.
 *
 *   crashes WHAT
 *     flags      every combination of SA_SIGINFO, SA_ONSTACK, SA_RESETHAND, SA_NODEFER and a full mask, installed before
 *                and after results exist: each handler is called as the kernel would have called it
 *     freed      accesses to a large block that was freed, beyond one, and to pages of one that the program protected:
 *                signal, code and address
 *     statics    an alternate stack among static matrices, whose pages around it are inaccessible
 *     blocks     the same in one large block */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N, STACK = 1 << 16 };
static double *a, *b, *c;
static sigjmp_buf back;
static volatile int code, signalled, on_stack, usr1_blocked, usr2_blocked;
static char *volatile at;
static stack_t stack;
static char *guard;

static void note(int signal, siginfo_t *info)
{
    sigset_t now;
    char here;
    signalled = signal;
    code = info ? info->si_code : 0;
    at = info ? info->si_addr : NULL;
    on_stack = &here >= (char *)stack.ss_sp && &here < (char *)stack.ss_sp + stack.ss_size;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    usr1_blocked = sigismember(&now, SIGUSR1);
    usr2_blocked = sigismember(&now, SIGUSR2);
    /* A handler of the program's may look at results, too. */
    usr1_blocked += c[NN / 2] != c[NN / 2];
    siglongjmp(back, 1);
}

static void with_info(int signal, siginfo_t *info, void *context)
{
    (void)context;
    note(signal, info);
}

static void simple(int signal)
{
    note(signal, NULL);
}

static void touch(const char *what, volatile char *where, int write)
{
    signalled = code = on_stack = 0;
    at = NULL;
    if (sigsetjmp(back, 1) == 0) {
        if (write)
            *where = 1;
        else
            (void)*where;
        printf("%s: no fault\n", what);
    } else
        printf("%s: signal %d code %d at %+ld, mask %d%d\n", what, signalled, code, at ? (long)(at - where) : -1, usr1_blocked,
               usr2_blocked);
}

static void result(double *to)
{
    multiply(N, 1, a, b, 0, to);
}

static void set(int which, int flags)
{
    struct sigaction action = {.sa_flags = flags};
    if (flags & SA_SIGINFO)
        action.sa_sigaction = with_info;
    else
        action.sa_handler = simple;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    if (which & 1)
        sigfillset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static void flags(void)
{
    static const int each[] = {SA_SIGINFO, SA_ONSTACK, (int)SA_RESETHAND, SA_NODEFER};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 32; i++) {
            int flags = 0;
            struct sigaction now;
            for (int k = 0; k < 4; k++)
                flags |= i >> k & 1 ? each[k] : 0;
            if (round)
                result(c);
            set(i >> 4, flags);
            result(c);
            printf("%d: ", i);
            touch(i & 8 ? "read" : "write", guard + 4096 * (i % 3) + i, !(i & 8));
            if (flags & SA_ONSTACK)
                printf("on the stack %d\n", on_stack);
            sigaction(SIGSEGV, NULL, &now);
            printf("now %d, flags %x, mask %d%d\n", now.sa_handler == SIG_DFL, (unsigned)now.sa_flags & ~0x04000000u,
                   sigismember(&now.sa_mask, SIGUSR1), sigismember(&now.sa_mask, SIGUSR2));
            show("c", c, NN);
        }
    }
}

static void freed(void)
{
    const size_t large = (size_t)96 << 20;
    for (int i = 0; i < 4; i++) {
        set(0, SA_SIGINFO);
        double *p = need(malloc(large));
        result(p);
        if (i & 1)
            show("p", p, NN);
        char *page = (char *)(((uintptr_t)p + 4095) / 4096 * 4096);
        /* Pages of the block that the program guards itself. */
        if (mprotect(page + 40960, 8192, i & 2 ? PROT_READ : PROT_NONE))
            exit(2);
        touch("guarded, written", page + 45000, 1);
        touch("guarded, read", page + 41000, 0);
        result(p);
        show("p", p, 1000);
        if (mprotect(page + 40960, 8192, PROT_READ | PROT_WRITE))
            exit(2);
        touch("no longer guarded", page + 45000, 1);
        result(c);
        free(p);
        malloc_trim(0);
        touch("freed, read", page + 5, 0);
        result(c);
        touch("freed, written", page + (large / 2), 1);
        show("c", c, NN);
        /* A new block at the same address is ordinary memory again. */
        p = need(malloc(large));
        ((char *)p)[large - 1] = 1;
        result(p);
        show("p", p, NN);
        free(p);
        malloc_trim(0);
    }
}

static struct {
    double before[NN];
    char stack[STACK];
    double after[NN];
} statics;

/* Results on both sides of the stack, then a fault whose handler runs on it, then results that are read. */
static void around(double *before, char *middle, double *after)
{
    stack = (stack_t){.ss_sp = middle, .ss_size = STACK};
    for (int i = 0; i < 6; i++) {
        result(before);
        result(after);
        if (i < 3 && sigaltstack(&stack, NULL))
            exit(2);
        set(0, SA_SIGINFO | SA_ONSTACK);
        result(before);
        result(after);
        touch("around", guard + 4096, i & 1);
        printf("on the stack %d\n", on_stack);
        result(before);
        show("before", before, NN);
        result(after);
        show("after", after, NN);
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    char *pages = mmap(NULL, 4 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + 4096, 3 * 4096, PROT_NONE))
        return 2;
    guard = pages;
    setvbuf(stdout, NULL, _IOLBF, 0);
    a = doubles(NN), b = doubles(NN), c = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    fill(c, NN);
    if (!strcmp(what, "flags")) {
        stack = (stack_t){.ss_sp = need(malloc(STACK)), .ss_size = STACK};
        if (sigaltstack(&stack, NULL))
            return 2;
        flags();
    } else if (!strcmp(what, "freed"))
        freed();
    else if (!strcmp(what, "statics"))
        around(statics.before, statics.stack, statics.after);
    else if (!strcmp(what, "blocks")) {
        /* The matrices and the stack share pages. */
        double *block = doubles(2 * NN + STACK / sizeof(double) + 8) + 3;
        around(block, (char *)(block + NN), block + NN + STACK / sizeof(double));
        free(block - 3);
    } else
        return 2;
    return 0;
}
