/* Makes dgemm calls in processes that end in several ways. The words are done one after the other:
 *
 *   N          N calls
 *   fork N HOW a child makes N calls and ends: exit, _exit, kill (SIGKILL), term (SIGTERM), exec (echo done), wait
 *   exec W...  executes this program in its place, with the words that follow
 *   term, kill, _exit, sleep
 *
 * Every result is checked; a wrong one ends the program with status 1. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
                   const double *, const int *, const double *, double *, const int *);

enum { ORDER = 200 };

static void calls(int n)
{
    static double *a, *c;
    const int order = ORDER;
    const double one = 1, zero = 0;
    if (!a) {
        a = malloc(sizeof *a * ORDER * ORDER);
        c = malloc(sizeof *c * ORDER * ORDER);
        for (int i = 0; i < ORDER * ORDER; i++)
            a[i] = i % 3;
    }
    for (int k = 0; k < n; k++) {
        dgemm_("N", "N", &order, &order, &order, &one, a, &order, a, &order, &zero, c, &order);
        double sum = 0;
        for (int i = 0; i < ORDER; i++)
            sum += a[7 + i * ORDER] * a[i + 5 * ORDER];
        if (c[7 + 5 * ORDER] != sum) {
            fprintf(stderr, "wrong: %g, not %g\n", c[7 + 5 * ORDER], sum);
            exit(1);
        }
    }
}

static void end(const char *how)
{
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "term"))
        raise(SIGTERM);
    if (!strcmp(how, "exec"))
        execl("/bin/echo", "echo", "done", (char *)0);
    if (!strcmp(how, "wait"))
        pause();
    exit(0);
}

int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "fork") && i + 2 < count) {
            const pid_t child = fork();
            if (child == 0) {
                calls(atoi(words[i + 1]));
                end(words[i + 2]);
            }
            i += 2;
            if (strcmp(words[i], "wait"))
                waitpid(child, 0, 0);
        } else if (!strcmp(words[i], "exec")) {
            words[i] = words[0];
            execv("/proc/self/exe", words + i);
            return 1;
        } else if (!strcmp(words[i], "sleep")) {
            sleep(60);
        } else if (words[i][0] >= '0' && words[i][0] <= '9') {
            calls(atoi(words[i]));
        } else {
            end(words[i]);
        }
    }
    return 0;
}
