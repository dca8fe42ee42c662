/* fork with gigabytes in use: how long the parent waits, and how much memory the child has.
 *
 *   fork MIB REPETITIONS      MIB MiB of matrices, all of them operands before each fork
 *
 * Variants: clean (since the last call, the CPU has read all results), dirty (it has read none: the newest bytes of
 * all results are where they were computed), again (a fork after a fork, with one small product between). Seconds
 * are those of fork() in the parent. Printed with each, the largest that the child had when it began: memory of its
 * own (own_mib: what fork has copied), all that it has mapped (rss_mib) and its page tables (tables_mib); seconds of
 * the first product after the fork (next_s), and the parent's memory in huge pages (huge_mib). The child's sums over
 * all matrices must be the parent's. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blas.h"
#include "common.h"

enum { VARIANTS = 3 };
static const char *const names[VARIANTS] = {"clean", "dirty", "again"};

struct child {
    double own, rss, tables, sum;
};

/* The value of a line of a file of /proc, in MiB. */
static double mib(const char *file, const char *what)
{
    char line[256];
    double kib = -1024;
    FILE *f = fopen(file, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, what, strlen(what)))
            kib = atof(line + strlen(what) + 1);
    if (f)
        fclose(f);
    return kib / 1024;
}

static const char *const rollup = "/proc/self/smaps_rollup";

static double larger(double a, double b)
{
    return a > b ? a : b;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("usage: fork MIB REPETITIONS");
    int repetitions = atoi(argv[2]);
    /* MIB is divided among four matrices. */
    size_t size = (size_t)atoi(argv[1]);
    int n = 1;
    while ((size_t)(n + 1) * (size_t)(n + 1) <= (size << 20) / 4 / sizeof(double))
        n++;
    size_t all = (size_t)n * (size_t)n;
    double *m[4], one = 1, minus = -1;
    struct series forks[VARIANTS] = {0}, next[VARIANTS] = {0};
    struct child had[VARIANTS] = {0};
    wake(1.0);
    struct child *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        die("fork: no memory");
    for (int i = 0; i < 4; i++) {
        m[i] = doubles(all);
        fill(m[i], all, (uint32_t)i + 1);
    }
    int k = n < 64 ? n : 64;
    for (int r = -1; r < repetitions; r++) {
        for (int v = 0; v < VARIANTS; v++) {
            if (v < 2) {
                /* Three of the matrices become results without changing: a slim product is added and subtracted
                   again. */
                for (int i = 0; i < 3; i++)
                    for (double sign = 1; sign >= -1; sign -= 2)
                        dgemm_("N", "N", &n, &n, &k, &sign, m[3], &n, m[3], &n, &one, m[i], &n);
                if (v == 0)
                    for (int i = 0; i < 3; i++)
                        sum(m[i], all, 0);
            }
            double start = now();
            pid_t child = fork();
            if (child < 0)
                die("fork: no child");
            if (child == 0) {
                told->own = mib(rollup, "Private_Dirty") + mib(rollup, "Private_Clean");
                told->rss = mib(rollup, "Rss");
                told->tables = mib("/proc/self/status", "VmPTE");
                told->sum = 0;
                for (int i = 0; i < 3; i++)
                    told->sum += sum(m[i], all, 1);
                _exit(0);
            }
            double end = now();
            int status;
            if (waitpid(child, &status, 0) != child || status)
                die("fork: the child ended with %d", status);
            double total = 0;
            double again = now();
            dgemm_("N", "N", &n, &n, &k, &one, m[3], &n, m[3], &n, &one, m[0], &n);
            dgemm_("N", "N", &n, &n, &k, &minus, m[3], &n, m[3], &n, &one, m[0], &n);
            volatile double got = m[0][all / 2];
            (void)got;
            again = now() - again;
            for (int i = 0; i < 3; i++)
                total += sum(m[i], all, 1);
            same("the child's sum", told->sum, total);
            if (r < 0)
                continue;
            add(&forks[v], end - start);
            add(&next[v], again);
            had[v].own = larger(had[v].own, told->own);
            had[v].rss = larger(had[v].rss, told->rss);
            had[v].tables = larger(had[v].tables, told->tables);
        }
    }
    double huge = mib(rollup, "AnonHugePages");
    for (int v = 0; v < VARIANTS; v++) {
        char more[200];
        snprintf(more, sizeof more,
                 ", \"own_mib\": %.1f, \"rss_mib\": %.1f, \"tables_mib\": %.2f, \"next_s\": %.4f, \"huge_mib\": %.0f",
                 had[v].own, had[v].rss, had[v].tables, median(&next[v]), huge);
        emit("fork", size, names[v], &forks[v], more);
    }
    return 0;
}
