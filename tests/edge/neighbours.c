/* Data beside a result: names, structures that the kernel fills, and words on which threads sleep, in one static
 * structure or one block of malloc's with the matrix. The kernel must have access to all of it while the matrix
 * is on a device: some of the system calls are made by an instruction of the program's own, past every hook.
 *
 *   neighbours static|heap        system calls on names and structures
 *   neighbours sleepers          a thread sleeps on a condition while signals come, and while the process is stopped
 *   neighbours columns           what lies in whole pages between the columns of a matrix
 *   neighbours many              the program's own words there, in gaps that are made inaccessible with the columns */
#define _GNU_SOURCE
#include "edge.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

/* A result ends in the middle of a page. */
enum { MOST = 400 };

struct block {
    char before[256];
    struct rusage usage;
    double c[MOST * MOST];
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int woken;
    char name[256];
    char other[256];
    struct stat status;
    struct rlimit limit;
    struct sysinfo system;
    sigset_t mask;
    cpu_set_t cpus;
    int waited;
    char *arguments[4];
};

static struct block kept;
static struct block *b;
static double *a;
static const int n = MOST;
static double last;

/* A system call by an instruction of the program's own, which no hook sees. */
static long bare(long number, long x, long y, long z, long w)
{
    long result;
    register long r10 __asm__("r10") = w;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(x), "S"(y), "d"(z), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

/* The result is on a device again. */
static void product(void) { multiply(n, 1.0, a, a, 0.0, b->c); }

/* The values that the CPU reads in the result. */
static void look(void)
{
    double sum = 0;
    for (int i = 0; i < n * n; i++)
        sum += b->c[i] * (i % 13 - 6);
    if (last != 0 && sum != last)
        printf("another result\n");
    last = sum;
}

#define SHOW(what, expression) \
    do { \
        product(); \
        errno = 0; \
        long shown = (long)(expression); \
        printf("%s: %ld %s\n", what, shown, errno ? strerror(errno) : ""); \
    } while (0)

static void calls(void)
{
    strcpy(b->name, "scratch.neighbour");
    strcpy(b->other, "scratch.renamed");
    strcpy(b->before, "scratch.neighbour");
    /* System calls past every hook first: they succeed only if the pages are accessible. */
    SHOW("bare openat", bare(SYS_openat, AT_FDCWD, (long)b->name, O_CREAT | O_RDWR, 0600) > 2);
    SHOW("bare stat", bare(SYS_stat, (long)b->name, (long)&b->status, 0, 0));
    SHOW("bare access before", bare(SYS_access, (long)b->before, R_OK, 0, 0));
    SHOW("bare getrusage", bare(SYS_getrusage, RUSAGE_SELF, (long)&b->usage, 0, 0));
    SHOW("bare sigprocmask", bare(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&b->mask, 8));
    SHOW("bare getaffinity", bare(SYS_sched_getaffinity, 0, sizeof b->cpus, (long)&b->cpus, 0) > 0);
    SHOW("bare sysinfo", bare(SYS_sysinfo, (long)&b->system, 0, 0, 0));
    /* As programs do it. */
    FILE *file;
    SHOW("fopen", (file = fopen(b->name, "w")) != NULL);
    fclose(file);
    SHOW("access", access(b->name, R_OK));
    SHOW("stat", stat(b->name, &b->status));
    SHOW("rename", rename(b->name, b->other));
    SHOW("unlink", unlink(b->other));
    SHOW("mkdir", mkdir(b->name, 0700));
    SHOW("chdir", chdir(b->name));
    if (chdir(".."))
        printf("no way back\n");
    SHOW("rmdir", rmdir(b->name));
    SHOW("getrusage", getrusage(RUSAGE_SELF, &b->usage));
    SHOW("getrlimit", getrlimit(RLIMIT_NOFILE, &b->limit));
    SHOW("affinity", sched_getaffinity(0, sizeof b->cpus, &b->cpus));
    SHOW("mask", sigprocmask(SIG_BLOCK, NULL, &b->mask));
    SHOW("prctl", prctl(PR_GET_NAME, b->other));
    printf("%s\n", b->other);
    strcpy(b->name, "exit 3");
    SHOW("system", WEXITSTATUS(system(b->name)));
    strcpy(b->name, "echo popen");
    SHOW("popen", (file = popen(b->name, "r")) != NULL);
    if (fgets(b->other, sizeof b->other, file))
        printf("%s", b->other);
    pclose(file);
    fflush(stdout);
    strcpy(b->name, "/bin/sh");
    strcpy(b->before, "-c");
    strcpy(b->other, "exit 5");
    b->arguments[0] = b->name;
    b->arguments[1] = b->before;
    b->arguments[2] = b->other;
    product();
    pid_t child = vfork();
    if (child == 0) {
        execv(b->name, b->arguments);
        _exit(99);
    }
    SHOW("waitpid", waitpid(child, &b->waited, 0) == child);
    printf("status %d\n", WEXITSTATUS(b->waited));
    look();
}

static void nothing(int signal) { (void)signal; }

static pid_t sleeping;

static void *sleeper(void *unused)
{
    __atomic_store_n(&sleeping, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&b->mutex);
    while (!b->woken)
        pthread_cond_wait(&b->condition, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
    return unused;
}

/* Returns when the thread sleeps on a futex in the kernel. */
static void until_asleep(pid_t thread)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    for (;;) {
        FILE *file = fopen(path, "r");
        if (!file || !fgets(line, sizeof line, file))
            line[0] = 0;
        if (file)
            fclose(file);
        if (atoi(line) == SYS_futex)
            return;
        sched_yield();
    }
}

static void sleepers(void)
{
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->condition, NULL);
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        b->woken = 0;
        __atomic_store_n(&sleeping, 0, __ATOMIC_SEQ_CST);
        pthread_create(&thread, NULL, sleeper, NULL);
        while (!__atomic_load_n(&sleeping, __ATOMIC_SEQ_CST))
            sched_yield();
        until_asleep(sleeping);
        product();
        pthread_kill(thread, SIGUSR1);
        until_asleep(sleeping);
        if (round % 10 == 9) {
            product();
            fflush(stdout);
            pid_t self = getpid(), child = fork();
            if (child == 0) {
                kill(self, SIGSTOP);
                kill(self, SIGCONT);
                _exit(0);
            }
            waitpid(child, NULL, 0);
            until_asleep(sleeping);
        }
        product();
        pthread_mutex_lock(&b->mutex);
        b->woken = 1;
        pthread_cond_signal(&b->condition);
        pthread_mutex_unlock(&b->mutex);
        pthread_join(thread, NULL);
        look();
    }
    printf("slept\n");
}

/* A matrix of 3 columns, 128 pages apart, and names in the pages between them. */
static void columns(void)
{
    const int rows = 512, wide = 3, ld = 65536, inner = 3;
    const double one = 1.0, zero = 0.0;
    double *c = doubles((size_t)ld * wide), *left = doubles((size_t)rows * inner), *right = doubles(inner * wide);
    fill(left, (size_t)rows * inner);
    fill(right, inner * wide);
    for (int round = 0; round < 4; round++) {
        for (int column = 0; column < wide - 1; column++)
            strcpy((char *)(c + column * ld + 1024), "/proc/self/exe");
        dgemm_("N", "N", &rows, &wide, &inner, &one, left, &rows, right, &inner, &zero, c, &ld);
        for (int column = 0; column < wide - 1; column++)
            printf("bare access %ld\n", bare(SYS_access, (long)(c + column * ld + 1024), R_OK, 0, 0));
        for (int column = 0; column < wide; column++)
            show("column", c + column * ld, rows);
    }
}

/* A matrix of 1,500 columns, each followed by a page and more with a word of the program's. */
static void many(void)
{
    const int rows = 256, wide = 1500, ld = 1024, inner = 3;
    const double one = 1.0, zero = 0.0;
    double *c = doubles((size_t)ld * wide), *left = doubles((size_t)rows * inner), *right = doubles((size_t)inner * wide);
    fill(left, (size_t)rows * inner);
    fill(right, (size_t)inner * wide);
    for (int round = 0; round < 2; round++) {
        for (int column = 0; column < wide; column++)
            c[(size_t)column * ld + 900] = column + round;
        dgemm_("N", "N", &rows, &wide, &inner, &one, left, &rows, right, &inner, &zero, c, &ld);
        double words = 0;
        for (int column = 0; column < wide; column++)
            words += c[(size_t)column * ld + 900];
        printf("words %.0f\n", words);
        for (int column = 0; column < wide; column += 100)
            show("column", c + (size_t)column * ld, rows);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    b = strcmp(argv[1], "heap") ? &kept : need(malloc(sizeof *b));
    memset(b, 0, sizeof *b);
    a = doubles((size_t)n * n);
    fill(a, (size_t)n * n);
    if (!strcmp(argv[1], "sleepers"))
        sleepers();
    else if (!strcmp(argv[1], "columns"))
        columns();
    else if (!strcmp(argv[1], "many"))
        many();
    else
        calls();
    return 0;
}
