/* Limits that the program runs into, beside results on a device: each has the same effect as without semcache, or
 * semcache says so in one line.
 *
 *   limits mappings COUNT     COUNT mappings are made first
 *   limits WHAT [MIB]         as, data, memlock: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK of MIB MiB
 *   limits locked [MIB]       locks all present and future mappings (mlockall), and prints whether less than MIB of memory is
 *                             resident at the end
 *   limits refused            absurd sizes */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N, BLOCKS = 40 };
static double *a, *b;
/* A permutation: products of products stay integers that a sum in any order keeps. */
static double *turned;

/* Matrices made, read and changed, many of them at once. */
static void work(void)
{
    double *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = need(malloc((NN + i * 600) * sizeof(double)));
        multiply(N, 1, a, b, 0, block[i]);
        if (i > 2)
            multiply(N, 1, block[i - 2], turned, 0, block[i - 1]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        double *x = block[i * 7 % BLOCKS];
        for (int k = i; k < NN; k += 1111)
            x[k] = k % 5;
        multiply(N, 1, x, turned, 0, block[(i * 7 + 1) % BLOCKS]);
        printf("%d: %016llx\n", i, (unsigned long long)hash(x, NN));
    }
    /* A large one of which single pages are read and written. */
    double *large = need(calloc(NN, 64 * sizeof(double)));
    const int ld = NN, n = 64;
    for (int round = 0; round < 3; round++) {
        double sum = 0;
        dgemm_("N", "N", &n, &n, &n, &(double){1}, a, &n, b, &n, &(double){round}, large, &ld);
        for (int k = 0; k < 64; k += 2 + round)
            sum += large[(size_t)k * NN + 5];
        for (int k = 1; k < 64; k += 3)
            large[(size_t)k * NN + 9] = k;
        printf("large %.0f %016llx\n", sum, (unsigned long long)hash(large, (size_t)NN * 64));
    }
    free(large);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
}

static void mappings(int count)
{
    /* Neighbours with different protections are mappings of their own. */
    char *at = mmap(NULL, (size_t)count * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    for (int i = 0; i + 1 < count; i += 2)
        if (mprotect(at + (size_t)i * 4096, 4096, PROT_NONE)) {
            fprintf(stderr, "%d mappings: %s\n", i, strerror(errno));
            exit(2);
        }
}

static void limit(int which, const char *mib)
{
    rlim_t bytes = (rlim_t)strtoul(mib, NULL, 10) << 20;
    struct rlimit to = {bytes, bytes};
    if (setrlimit(which, &to))
        exit(2);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *much = argc > 2 ? argv[2] : "1000";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "as"))
        limit(RLIMIT_AS, much);
    else if (!strcmp(what, "data"))
        limit(RLIMIT_DATA, much);
    else if (!strcmp(what, "memlock"))
        limit(RLIMIT_MEMLOCK, much);
    else if (!strcmp(what, "locked")) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
            perror("mlockall");
            return 77;
        }
    } else if (!strcmp(what, "mappings"))
        mappings(atoi(much));
    a = doubles(NN), b = doubles(NN), turned = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    for (int k = 0; k < NN; k++)
        turned[k] = k % N == (k / N * 5 + 1) % N;
    work();
    if (!strcmp(what, "refused") || !strcmp(what, "as")) {
        static volatile size_t absurd = (size_t)1 << 46;
        for (int i = 0; i < 3; i++) {
            multiply(N, 1, b, a, 0, a);
            printf("refused %d %d %d\n", malloc(absurd) == NULL, calloc(absurd / 8, 8) == NULL,
                   mmap(NULL, absurd * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
            multiply(N, 1, a, b, 0, b);
            for (int k = 0; k < NN; k++)
                a[k] = (int)a[k] % 5, b[k] = (int)b[k] % 5;
            show("a", a, NN);
            show("b", b, NN);
        }
    }
    work();
    struct rusage usage;
    if (!strcmp(what, "locked") && !getrusage(RUSAGE_SELF, &usage))
        printf("little enough is resident: %d\n", usage.ru_maxrss < strtol(much, NULL, 10) << 10);
    return 0;
}
