/* The program guards pages of matrices that devices use: calls must fault on them as without semcache.
 *
 *   guards barrier [N]   results on read-only pages, which the program's handler of SIGSEGV makes writable and counts
 *                        (write barriers)
 *   guards inputs [N]    inputs on pages without access, which the handler makes accessible and counts, too
 *   guards reserve [N]   memory that is reserved without access, committed and given back piece by piece
 *   guards missing [N]   pages that the program's own userfaultfd fills in
 *   guards written [N]   pages that the program's own userfaultfd protects against writing
 *   guards sealed [N]    mappings that are sealed by mseal */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "edge.h"

enum { PAGE = 4096, MOST = 256 };
static int n = 64;
static size_t nn, bytes;
static double *a, *b;
static double fixed[2][MOST * MOST] __attribute__((aligned(PAGE)));
static double early[MOST * MOST] __attribute__((aligned(PAGE)));

static volatile int faults;
static char *volatile guarded;
static volatile size_t guarded_bytes;

static void opens(int signal, siginfo_t *info, void *context)
{
    char *at = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    (void)signal, (void)context;
    if (at < guarded || at >= guarded + guarded_bytes || info->si_code != SEGV_ACCERR)
        _exit(3);
    faults++;
    if (mprotect(at, PAGE, PROT_READ | PROT_WRITE))
        _exit(4);
}

/* The ways in which a program can change the protection of pages. */
static void guard(void *at, size_t len, int access)
{
    static int way;
    int failed = 0;
    guarded = at, guarded_bytes = len;
    switch (way++ % 3) {
    case 0: failed = mprotect(at, len, access); break;
    case 1: failed = (int)syscall(SYS_mprotect, at, len, access); break;
    default: failed = pkey_mprotect(at, len, access, -1);
    }
    if (failed)
        exit(2);
}

static void *map(size_t len, int access, int flags)
{
    void *at = mmap(NULL, len, access, flags | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

enum { KINDS = 6 };
static const char *const name[KINDS] = {"heap", "mapped", "static", "committed", "shared", "read-only"};

/* A matrix in memory of some kind. */
static double *memory(int kind)
{
    double *at;
    switch (kind) {
    case 0: return doubles(nn);
    case 1: return map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    case 2: return fixed[0];
    case 3:
        at = map(4 * bytes, PROT_NONE, MAP_PRIVATE);
        guard(at + nn, bytes, PROT_READ | PROT_WRITE);
        return at + nn;
    case 4: return map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
    default: return map(bytes, PROT_READ, MAP_PRIVATE);
    }
}

static void told(const char *what, const double *x)
{
    printf("  %s: %d faults, %016llx\n", what, faults, (unsigned long long)hash(x, nn));
    faults = 0;
}

static void barrier(void)
{
    const int zero = open("/dev/zero", O_RDONLY);
    for (int kind = 0; kind < KINDS; kind++) {
        double *c = memory(kind);
        printf("%s\n", name[kind]);
        if (kind == 5) {
            guard(c, bytes, PROT_READ);
            multiply(n, 1, a, b, 0, c);
            told("before anything", c);
        }
        for (int round = 0; round < 4; round++) {
            multiply(n, 1, a, b, 0, c);
            multiply(n, 2, a, b, 1, c);
            guard((char *)c + 2 * PAGE, PAGE, PROT_READ);
            multiply(n, 1, a, b, 1, c);
            told("a page", c);
            multiply(n, 1, b, a, 1, c);
            guard(c, bytes, PROT_READ);
            multiply(n, 1, c, b, 0, fixed[1]);
            show("  as an input", fixed[1], nn);
            multiply(n, 1, a, b, 1, c);
            told("all", c);
            /* As open as ever. */
            multiply(n, 1, a, b, 0, c);
            multiply(n, 1, a, b, 1, c);
            c[3] += 1;
            multiply(n, 1, a, b, 1, c);
            told("none", c);
            multiply(n, 1, a, b, 0, c);
            guard((char *)c + PAGE, 2 * PAGE, PROT_READ);
            c[PAGE / 8 + 1] = 7;
            c[PAGE / 8 + 2] = 7;
            c[2 * PAGE / 8] = 7;
            told("by the CPU", c);
            guard(c, PAGE, PROT_READ);
            ssize_t got = read(zero, c, 64);
            printf("  read: %d %s\n", (int)got, got < 0 ? strerror(errno) : "");
            c[1] = 3;
            told("after that", c);
            multiply(n, 1, c, b, 0, fixed[1]);
            show("  as an input", fixed[1], nn);
        }
        if (kind == 0)
            free(c);
    }
    guarded = (char *)early, guarded_bytes = bytes;
    multiply(n, 1, a, b, 1, early);
    told("static data from the beginning", early);
    multiply(n, 1, a, b, 1, early);
    told("then", early);
    close(zero);
}

static void inputs(void)
{
    double *c = doubles(nn);
    for (int kind = 0; kind < KINDS; kind++) {
        double *x = memory(kind);
        printf("%s\n", name[kind]);
        if (kind == 5)
            guard(x, bytes, PROT_READ | PROT_WRITE);
        for (int round = 0; round < 4; round++) {
            memcpy(x, b, bytes);
            x[round] += 1;
            if (round > 1)
                multiply(n, 1, a, b, 1, x);
            if (round % 2)
                multiply(n, 1, x, b, 0, c);
            guard((char *)x + 3 * PAGE, 2 * PAGE, PROT_NONE);
            multiply(n, 1, x, b, 0, c);
            told("two pages", c);
            multiply(n, 1, a, x, 1, c);
            told("none", c);
            guard(x, bytes, PROT_NONE);
            double sum = ddot_(&(int){(int)nn}, x, &(int){1}, a, &(int){1});
            printf("  a sum: %d faults, %.0f\n", faults, sum);
            faults = 0;
            multiply(n, 1, x, b, 0, c);
            told("open", c);
        }
        if (kind == 0)
            free(x);
    }
    /* Two matrices in one mapping; guarded pages of one do not affect calls on the second. */
    double *x = map(3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE), *y = x + 2 * nn;
    memcpy(x, b, bytes);
    for (int round = 0; round < 6; round++) {
        multiply(n, 1, a, b, round > 0, y);
        guard((char *)x + PAGE, PAGE, PROT_NONE);
        multiply(n, 1, a, b, 1, y);
        told("a neighbour", y);
        multiply(n, 1, x, y, 0, c);
        told("both", c);
        memcpy(y, a, bytes);
    }
}

/* An arena: reserved, committed by protection, given back, committed again. */
static void reserve(void)
{
    char *arena = map(64 * bytes, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    double *c = doubles(nn);
    for (int round = 0; round < 4; round++) {
        for (int i = 1; i < 60; i += 4 + round) {
            double *x = (double *)(arena + i * bytes), *y = x + nn, *z = y + nn;
            if (mprotect(x, 3 * bytes, PROT_READ | PROT_WRITE))
                exit(2);
            memcpy(x, b, bytes);
            multiply(n, 1, a, x, 0, y);
            multiply(n, 1, x, b, 0, z);
            x[i] += 2;
            multiply(n, 1, x, b, 1, z);
            show("  x", x, nn), show("  y", y, nn), show("  z", z, nn);
            multiply(n, 1, a, b, 1, z);
            if (madvise(y, bytes, MADV_DONTNEED))
                exit(2);
            multiply(n, 1, a, b, 1, y);
            multiply(n, 1, x, b, 0, c);
            show("  discarded", y, nn);
            show("  z", z, nn);
            if (mprotect(x, 3 * bytes, PROT_NONE) || madvise(x, 3 * bytes, MADV_DONTNEED))
                exit(2);
            show("  c", c, nn);
        }
    }
}

static int fd;
static volatile int filled, stops;

/* Answers every fault: missing pages are filled with a number that tells which, protected ones are made writable. */
static void *answers(void *unused)
{
    static double page[PAGE / 8] __attribute__((aligned(PAGE)));
    struct pollfd of = {fd, POLLIN, 0};
    (void)unused;
    while (!stops) {
        struct uffd_msg msg;
        if (poll(&of, 1, 20) <= 0 || read(fd, &msg, sizeof msg) != sizeof msg || msg.event != UFFD_EVENT_PAGEFAULT)
            continue;
        uintptr_t at = msg.arg.pagefault.address & ~(uintptr_t)(PAGE - 1);
        filled++;
        if (msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
            struct uffdio_writeprotect open = {{at, PAGE}, 0};
            if (ioctl(fd, UFFDIO_WRITEPROTECT, &open))
                _exit(5);
            continue;
        }
        for (int i = 0; i < PAGE / 8; i++)
            page[i] = (double)((at - (uintptr_t)guarded) / PAGE % 5) + i % 2;
        struct uffdio_copy copy = {at, (uintptr_t)page, PAGE, 0, 0};
        if (ioctl(fd, UFFDIO_COPY, &copy) && errno != EEXIST)
            _exit(6);
    }
    return NULL;
}

static void watch(void *at, unsigned long long mode)
{
    struct uffdio_register range = {{(uintptr_t)at, bytes}, mode, 0};
    if (ioctl(fd, UFFDIO_REGISTER, &range)) {
        perror("UFFDIO_REGISTER");
        exit(2);
    }
    guarded = at, guarded_bytes = bytes;
}

static void unwatch(void *at)
{
    struct uffdio_range range = {(uintptr_t)at, bytes};
    if (ioctl(fd, UFFDIO_UNREGISTER, &range))
        exit(2);
}

static void served(const char *what, const double *x)
{
    printf("  %s: ", what);
    uint64_t h = hash(x, nn);
    printf("%d pages, %016llx\n", filled, (unsigned long long)h);
    filled = 0;
}

static void userfault(unsigned long long mode)
{
    pthread_t thread;
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API, .features = 0};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || pthread_create(&thread, NULL, answers, NULL)) {
        perror("userfaultfd");
        exit(2);
    }
    double *c = doubles(nn);
    for (int kind = 0; kind < 2; kind++) {
        double *x = memory(kind);
        printf("%s\n", name[kind]);
        for (int round = 0; round < 4; round++) {
            memset(x, 0, bytes);
            if (round % 2)
                multiply(n, 1, a, b, 1, x);
            if (round > 1)
                multiply(n, 1, x, b, 0, c);
            watch(x, mode);
            if (mode == UFFDIO_REGISTER_MODE_WP) {
                struct uffdio_writeprotect close = {{(uintptr_t)x, bytes}, UFFDIO_WRITEPROTECT_MODE_WP};
                if (ioctl(fd, UFFDIO_WRITEPROTECT, &close))
                    exit(2);
                multiply(n, 1, x, b, 0, c);
                served("read", c);
                multiply(n, 1, a, b, 1, x);
                served("written", x);
                multiply(n, 1, a, b, 1, x);
                served("once more", x);
            } else {
                if (madvise(x, bytes, MADV_DONTNEED))
                    exit(2);
                multiply(n, 1, x, b, 0, c);
                served("an input", c);
                multiply(n, 1, x, b, 0, c);
                served("again", c);
                if (madvise(x, bytes, MADV_DONTNEED))
                    exit(2);
                multiply(n, 1, a, b, 1, x);
                served("a result", x);
                if (madvise((char *)x + PAGE, 2 * PAGE, MADV_DONTNEED))
                    exit(2);
                multiply(n, 1, a, x, 1, c);
                served("two pages", c);
            }
            unwatch(x);
            multiply(n, 1, a, b, 0, x);
            multiply(n, 1, x, b, 0, c);
            served("no longer", c);
            show("  x", x, nn);
        }
    }
    stops = 1;
    pthread_join(thread, NULL);
    close(fd);
}

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

static void sealed(void)
{
    double *c = doubles(nn), *x = map(2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE), *y = x + nn;
    for (int round = 0; round < 4; round++) {
        memcpy(x, b, bytes);
        multiply(n, 1, x, b, 0, y);
        multiply(n, 1, a, y, round > 0, c);
        if (round == 1) {
            long result = syscall(SYS_mseal, x, 2 * bytes, 0);
            printf("sealed: %ld %s\n", result, result ? strerror(errno) : "");
        }
        if (round > 0)
            printf("refused: %d %d\n", mprotect(x, PAGE, PROT_READ), munmap(x, 2 * bytes));
        multiply(n, 1, x, b, 1, y);
        y[3] += 1;
        x[5] += 1;
        multiply(n, 1, x, y, 1, c);
        show("x", x, nn), show("y", y, nn), show("c", c, nn);
        for (size_t i = 0; i < nn; i++)
            c[i] = (double)((long)c[i] % 5);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc > 2)
        n = atoi(argv[2]);
    nn = (size_t)n * n, bytes = nn * sizeof(double);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_sigaction = opens, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    if (!strcmp(what, "barrier"))
        guard(early, bytes, PROT_READ);
    a = doubles(nn), b = doubles(nn);
    fill(a, nn);
    /* Products of products stay small. */
    for (size_t i = 0; i < nn; i++)
        b[i] = i % n == (i / n * 5 + 1) % n;
    if (!strcmp(what, "barrier"))
        barrier();
    else if (!strcmp(what, "inputs"))
        inputs();
    else if (!strcmp(what, "reserve"))
        reserve();
    else if (!strcmp(what, "missing"))
        userfault(UFFDIO_REGISTER_MODE_MISSING);
    else if (!strcmp(what, "written"))
        userfault(UFFDIO_REGISTER_MODE_WP);
    else if (!strcmp(what, "sealed"))
        sealed();
    else
        return 2;
    return 0;
}
