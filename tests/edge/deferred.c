/* What a program sees of its own handlers, each of which may come while its thread is inside malloc or free of a large
 * block: every signal once, with the siginfo that it was sent with and the mask that was asked for; and sigaction
 * returns the handler that the program installed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "edge.h"

enum { N = 24, NN = N * N, SIGNALS = 1000 };
static double *a, *b, *c, *right;
static volatile sig_atomic_t arrived, wrong;

static void on_value(int signal, siginfo_t *info, void *context)
{
    sigset_t now;
    (void)context;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    wrong += signal != SIGUSR1 || info->si_code != SI_QUEUE || info->si_value.sival_int != arrived;
    wrong += info->si_pid != getpid() || !sigismember(&now, SIGUSR2) || !sigismember(&now, SIGUSR1);
    if (arrived % 4 == 0) {
        multiply(N, 1, a, b, 0, c);
        wrong += memcmp(c, right, NN * sizeof *c) != 0;
    }
    arrived++;
}

static void simple(int signal)
{
    wrong += signal != SIGURG;
    arrived++;
}

static void on_reset(int signal)
{
    (void)signal;
    arrived++;
}

static void *send(void *unused)
{
    for (int i = 0; i < SIGNALS; i++) {
        if (sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = i}))
            exit(3);
        while (arrived == i)
            sched_yield();
    }
    return unused;
}

/* Ends a process that waits for ever. */
static void *watch(void *unused)
{
    sleep(300);
    abort();
    return unused;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */
static void queries(void)
{
    struct sigaction old, new = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaddset(&new.sa_mask, SIGUSR2);
    printf("%d", sigaction(SIGUSR1, &new, &old) == 0 && old.sa_handler == SIG_DFL);
    printf("%d", sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_sigaction == on_value && (old.sa_flags & SA_SIGINFO));
    printf("%d", sigismember(&old.sa_mask, SIGUSR2) == 1 && sigismember(&old.sa_mask, SIGALRM) == 0);
    printf("%d", sigaction(SIGUSR1, &old, &new) == 0 && new.sa_sigaction == on_value);
    printf("%d", signal(SIGURG, SIG_IGN) == SIG_DFL && signal(SIGURG, simple) == SIG_IGN);
    printf("%d", signal(SIGURG, simple) == simple && sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == simple);
    printf("%d", siginterrupt(SIGURG, 1) == 0 && sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == simple);
    printf("%d", !(old.sa_flags & (SA_SIGINFO | SA_RESTART)));
    /* The handler runs once, then the default action follows (SA_RESETHAND). */
    new = (struct sigaction){.sa_handler = on_reset, .sa_flags = SA_RESETHAND};
    sigaction(SIGWINCH, &new, NULL);
    raise(SIGWINCH);
    raise(SIGWINCH);
    printf("%d", arrived == 1 && sigaction(SIGWINCH, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    raise(SIGURG);
    printf("%d", arrived == 2 && signal(SIGURG, SIG_DFL) == simple);
    printf("%d\n", sigaction(SIGKILL, &new, NULL) == -1 && signal(0, simple) == SIG_ERR);
    arrived = 0;
}

int main(void)
{
    pthread_t sender, watcher;
    sigset_t values, before;
    a = doubles(NN), b = doubles(NN), c = doubles(NN), right = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    multiply(N, 1, a, b, 0, c);
    memcpy(right, c, NN * sizeof *c);
    queries();
    sigemptyset(&values);
    sigaddset(&values, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &values, &before);
    if (pthread_create(&watcher, NULL, watch, NULL) || pthread_create(&sender, NULL, send, NULL))
        return 2;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (arrived < SIGNALS) {
        char *block = need(malloc(1 << 20));
        block[0] = 1;
        free(block);
    }
    pthread_join(sender, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &values);
    printf("%d arrived, %d wrong, mask as before: %d\n", arrived, wrong, !sigismember(&values, SIGUSR1));
    show("c", c, NN);
    return wrong != 0;
}
