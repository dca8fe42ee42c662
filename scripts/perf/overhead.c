/* The costs of the library in a process, each measured by itself. overhead.sh runs this program plainly and
 * preloaded.
 *
 *   overhead gemm                 ns per 4 x 4 dgemm: through the symbol, in libopenblas directly, difference
 *   overhead beside               the same while a device, if there is one, has a result of 600 x 600
 *   overhead spawn LIBRARY        median ms of /bin/true: plain, with LIBRARY preloaded, difference
 *   overhead realloc              s for growing a block to 1 GiB by 1 MiB, touching the new part each time
 *   overhead sparse               resident KiB after touching one page of 64 of a 1 GiB calloc
 *   overhead malloc [handler]     median ns of malloc and free of 1, 2 and 16 MiB; with a handler of the program's installed
 *   overhead read                 s for reading a 1 GiB result front to back, for copying 1 GiB through
 *                                 /proc/self/mem, and for reading it once more */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void gemm(const char *, const char *, const int *, const int *, const int *, const double *,
                  const double *, const int *, const double *, const int *, const double *, double *,
                  const int *);
gemm dgemm_;
void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *, const double *, const int *,
            const double *, double *, const int *);
extern char **environ;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "overhead: %s\n", what);
    exit(1);
}

static double batch(gemm *f)
{
    enum { CALLS = 200000 };
    static double a[16], b[16], c[16];
    const int n = 4;
    const double one = 1, zero = 0;
    double start = now();
    for (int i = 0; i < CALLS; i++)
        f("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    return (now() - start) / CALLS * 1e9;
}

static int measure_gemm(int beside)
{
    void *openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    gemm *direct = openblas ? (gemm *)dlsym(openblas, "dgemm_") : NULL;
    double through = 1e30, straight = 1e30;
    if (!direct)
        die("no libopenblas.so.0");
    if (beside) {
        const int n = 600;
        const double one = 1;
        double *matrices = calloc(3 * (size_t)n * n, sizeof(double));
        if (!matrices)
            die("no memory");
        dgemm_("N", "N", &n, &n, &n, &one, matrices, &n, matrices + n * n, &n, &one, matrices + 2 * n * n, &n);
    }
    for (int i = 0; i < 30; i++) {
        double t = batch(dgemm_);
        if (t < through)
            through = t;
        t = batch(direct);
        if (t < straight)
            straight = t;
    }
    printf("%.2f %.2f %.2f\n", through, straight, through - straight);
    return 0;
}

static double spawn_one(char **environment)
{
    char *arguments[] = { "true", NULL };
    pid_t child;
    int status;
    double start = now();
    if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environment))
        die("cannot start /bin/true");
    if (waitpid(child, &status, 0) != child || status)
        die("/bin/true failed");
    return (now() - start) * 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure_spawn(const char *library)
{
    enum { PAIRS = 200 };
    static double plain[PAIRS], preloaded[PAIRS], difference[PAIRS];
    char preload[4096], *none[] = { "PATH=/bin", NULL }, *with[] = { "PATH=/bin", preload, NULL };
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    for (int i = 0; i < PAIRS; i++) {
        plain[i] = spawn_one(none);
        preloaded[i] = spawn_one(with);
        difference[i] = preloaded[i] - plain[i];
    }
    qsort(plain, PAIRS, sizeof *plain, ascending);
    qsort(preloaded, PAIRS, sizeof *preloaded, ascending);
    qsort(difference, PAIRS, sizeof *difference, ascending);
    printf("%.3f %.3f %.3f\n", plain[PAIRS / 2], preloaded[PAIRS / 2], difference[PAIRS / 2]);
    return 0;
}

static int measure_realloc(void)
{
    const size_t step = 1 << 20, end = 1 << 30;
    char *block = NULL;
    double start = now();
    for (size_t size = step; size <= end; size += step) {
        block = realloc(block, size);
        if (!block)
            die("out of memory");
        for (size_t i = size - step; i < size; i += 4096)
            block[i] = 1;
    }
    printf("%.4f\n", now() - start);
    free(block);
    return 0;
}

static long resident(void)
{
    long total, pages;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &total, &pages) != 2)
        die("/proc/self/statm");
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int measure_sparse(void)
{
    const size_t size = 1 << 30, page = sysconf(_SC_PAGESIZE);
    // Zeroed: a plain malloc of this size gets huge pages.
    volatile char *block = calloc(size, 1);
    if (!block)
        die("out of memory");
    for (size_t i = 0; i < size; i += 64 * page)
        block[i] = 1;
    printf("%ld\n", resident());
    free((void *)block);
    return 0;
}

static double sum(const double *x, size_t n)
{
    double s[8] = { 0 };
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] += x[i + k];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static double copy_through_mem(size_t bytes)
{
    const size_t piece = 64 << 20;
    char *from = malloc(bytes), *to = malloc(bytes);
    int mem = open("/proc/self/mem", O_RDWR);
    if (!from || !to || mem < 0)
        die("out of memory, or no /proc/self/mem");
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    double start = now();
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < piece ? bytes - done : piece;
        ssize_t written = pwrite(mem, from + done, n, (off_t)(size_t)(to + done));
        if (written <= 0)
            die("cannot write /proc/self/mem");
        done += written;
    }
    double time = now() - start;
    close(mem);
    free(from);
    free(to);
    return time;
}

static int measure_read(void)
{
    const int n = 11585, one_column = 1;
    const size_t entries = (size_t)n * n, bytes = entries * sizeof(double);
    const double one = 1, zero = 0;
    double copy = copy_through_mem(bytes);
    double *c = malloc(bytes), *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    if (!a || !b || !c)
        die("out of memory");
    memset(c, 3, bytes);
    for (int i = 0; i < n; i++) {
        a[i] = 1;
        b[i] = 2;
    }
    dgemm_("N", "N", &n, &n, &one_column, &one, a, &n, b, &one_column, &zero, c, &n);
    /* The call may return before the product is complete: reading the last element waits for all of it. */
    if (c[entries - 1] != 2)
        die("wrong number");
    double start = now();
    double first = sum(c, entries);
    double time = now() - start;
    start = now();
    double second = sum(c, entries);
    double again = now() - start;
    if (first != second || first != 2.0 * (double)(entries & ~(size_t)7))
        die("wrong numbers");
    printf("%.4f %.4f %.4f\n", time, copy, again);
    return 0;
}

/* The CPU rewrites 1 GiB that a call has just used. */
static int measure_refill(void)
{
    const int n = 11585, one_step = 1, rounds = 6;
    const size_t entries = (size_t)n * n;
    const double one = 1, zero = 0;
    double *a = malloc(entries * sizeof *a), *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    double least = 1e9;
    if (!a || !x || !y)
        die("out of memory");
    for (int i = 0; i < n; i++)
        x[i] = 1;
    for (int r = 0; r < rounds; r++) {
        double start = now();
        for (size_t i = 0; i < entries; i++)
            a[i] = r + 1;
        double time = now() - start;
        /* In the first round the CPU writes new pages. */
        if (r > 0 && time < least)
            least = time;
        dgemv_("N", &n, &n, &one, a, &n, x, &one_step, &zero, y, &one_step);
        if (y[0] != (r + 1.0) * n || y[n - 1] != y[0])
            die("wrong numbers");
    }
    printf("%.4f\n", least);
    return 0;
}

static void nothing(int signal)
{
    (void)signal;
}

static int measure_malloc(int handler)
{
    enum { TURNS = 2000, TIMES = 21 };
    if (handler && signal(SIGINT, nothing) == SIG_ERR)
        die("signal");
    for (int mib = 1; mib <= 16; mib *= mib == 1 ? 2 : 8) {
        double took[TIMES];
        for (int i = 0; i < TIMES; i++) {
            double start = now();
            for (int turn = 0; turn < TURNS; turn++) {
                char *volatile block = malloc((size_t)mib << 20);
                if (!block)
                    die("malloc");
                block[0] = 1;
                free(block);
            }
            took[i] = (now() - start) / TURNS * 1e9;
        }
        qsort(took, TIMES, sizeof *took, ascending);
        printf("%.0f%c", took[TIMES / 2], mib == 16 ? '\n' : ' ');
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "gemm"))
        return measure_gemm(0);
    if (!strcmp(what, "beside"))
        return measure_gemm(1);
    if (!strcmp(what, "spawn") && argc > 2)
        return measure_spawn(argv[2]);
    if (!strcmp(what, "realloc"))
        return measure_realloc();
    if (!strcmp(what, "malloc"))
        return measure_malloc(argc > 2);
    if (!strcmp(what, "sparse"))
        return measure_sparse();
    if (!strcmp(what, "read"))
        return measure_read();
    if (!strcmp(what, "refill"))
        return measure_refill();
    die("usage: overhead gemm | beside | spawn LIBRARY | realloc | malloc [handler] | sparse | read | refill");
}
