/* posix_spawn whose arguments, and the process id that it stores, lie between two results in one block. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { N = 61, NN = N * N };

/* The results end and begin in the middle of pages that hold the rest. */
struct pool {
    double before[NN];
    pid_t pid;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    char *argv[4], *environment[3];
    char path[32], words[3][64], variables[2][64];
    double after[NN];
};

static struct pool *pool;
static double *a, *b;

static void results(int round)
{
    multiply(N, 1, a, b, round, pool->before);
    multiply(N, 1, b, a, round, pool->after);
}

static void ended(const char *what, int error)
{
    int status = -1;
    if (error) {
        printf("%s: error %d\n", what, error);
        return;
    }
    if (pool->pid <= 0 || waitpid(pool->pid, &status, 0) != pool->pid)
        printf("%s: no child\n", what);
    if (WIFEXITED(status))
        printf("%s: exited %d\n", what, WEXITSTATUS(status));
    else
        printf("%s: killed by %d\n", what, WTERMSIG(status));
    fflush(stdout);
}

int main(void)
{
    a = doubles(NN), b = doubles(NN), pool = (struct pool *)doubles(sizeof(struct pool) / sizeof(double) + 1);
    memset(pool, 0, sizeof *pool);
    fill(a, NN);
    fill(b, NN);
    sigset_t none;
    sigemptyset(&none);
    for (int round = 0; round < 4; round++) {
        posix_spawnattr_init(&pool->attributes);
        posix_spawnattr_setflags(&pool->attributes, POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setsigmask(&pool->attributes, &none);
        posix_spawn_file_actions_init(&pool->actions);
        posix_spawn_file_actions_adddup2(&pool->actions, 1, 7);
        strcpy(pool->words[0], "sh");
        strcpy(pool->words[1], "-c");
        strcpy(pool->words[2], "echo spawned $WHAT >&7; exit 3");
        sprintf(pool->variables[0], "WHAT=%d", round);
        strcpy(pool->variables[1], "PATH=/usr/bin:/bin");
        for (int i = 0; i < 3; i++)
            pool->argv[i] = pool->words[i];
        for (int i = 0; i < 2; i++)
            pool->environment[i] = pool->variables[i];
        char *argv[] = {"sh", "-c", "exit 5", NULL};
        fflush(stdout);

        /* Only the process id lies between the results. */
        results(round);
        ended("the number", posix_spawn(&pool->pid, "/bin/sh", NULL, NULL, argv, environ));
        results(round);
        ended("the number, by the path", posix_spawnp(&pool->pid, "sh", NULL, NULL, argv, environ));
        results(round);
        ended("not there", posix_spawn(&pool->pid, "/nonexistent", NULL, NULL, argv, environ));
        /* Everything does. */
        strcpy(pool->path, "/bin/sh");
        results(round);
        ended("everything", posix_spawn(&pool->pid, pool->path, &pool->actions, &pool->attributes, pool->argv, pool->environment));
        strcpy(pool->path, "sh");
        results(round);
        ended("everything, by the path",
              posix_spawnp(&pool->pid, pool->path, &pool->actions, &pool->attributes, pool->argv, pool->environment));
        /* No place for the process id; and arguments that cannot be read. */
        results(round);
        char *wrong[] = {"sh", (char *)8, NULL}, **volatile nowhere = (char **)24;
        ended("a wild word", posix_spawn(&pool->pid, "/bin/sh", NULL, NULL, wrong, environ));
        ended("a wild environment", posix_spawn(&pool->pid, "/bin/sh", NULL, NULL, argv, nowhere));
        results(round);
        errno = 0;
        printf("without: %d, errno %d\n", posix_spawn(NULL, "/bin/true", NULL, NULL, argv, environ), errno);
        printf("waited %d\n", wait(NULL) > 0);
        show("before", pool->before, NN);
        show("after", pool->after, NN);
        posix_spawn_file_actions_destroy(&pool->actions);
        posix_spawnattr_destroy(&pool->attributes);
    }
    return 0;
}
