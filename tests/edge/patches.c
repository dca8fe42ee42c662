/* Large inputs that change a little between calls: by the processor, by read(2), pread and recv; a program that closes
 * descriptors of semcache; memory that another userfaultfd watches; fork; threads.
 *
 *   patches WHAT DIRECTORY [N]     WHAT: one kernel closer watched watches fork threads beside early */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

static int n = 256;
static const int one = 1;
static double *a, *x, *y;

/* y = A x: what the call says of A's bytes. */
static void use(const char *what)
{
    const double alpha = 1, beta = 0;
    dgemv_("N", &n, &n, &alpha, a, &n, x, &one, &beta, y, &one);
    show(what, y, n);
}

static size_t bytes(void)
{
    return (size_t)n * n * sizeof(double);
}

static void change(size_t i)
{
    a[i % ((size_t)n * n)] = (double)(i % 9) - 4;
}

/* One element, then another, between calls: before the gate chooses write-tracking, and for long after. */
static void element(void)
{
    for (size_t round = 0; round < 40; round++) {
        change(round * 7919 * 31);
        change(round * round * 65537 + 5);
        use("one element");
    }
    use("unchanged");
    for (size_t i = 0; i < (size_t)n * n; i++)
        change(i * 13);
    use("all of them");
    for (size_t i = 0; i < (size_t)n * n; i += 511)
        change(i + 3);
    use("scattered");
    for (size_t round = 0; round < 6; round++) {
        fill(a, (size_t)n * n);
        use("refilled");
    }
    for (size_t round = 0; round < 6; round++) {
        change(round * 77777);
        use("one element again");
    }
}

static void kernel(const char *directory)
{
    char path[4096];
    double some[64];
    int fd, pair[2];
    snprintf(path, sizeof path, "%s/patch", directory);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        exit(2);
    for (size_t round = 0; round < 24; round++) {
        size_t at = round * 104729 % ((size_t)n * n - 64);
        long got = 0;
        fill(some, 64);
        if (pwrite(fd, some, sizeof some, 0) != sizeof some)
            exit(2);
        switch (round % 4) {
        case 0:
            lseek(fd, 0, SEEK_SET);
            got = read(fd, a + at, sizeof some);
            break;
        case 1:
            got = pread(fd, (char *)(a + at) + 8, sizeof some - 8, 8);
            break;
        case 2:
            if (write(pair[0], some, sizeof some) != sizeof some)
                exit(2);
            got = recv(pair[1], a + at, sizeof some, MSG_WAITALL);
            break;
        case 3: /* past every hook of the C library's functions */
            if (a[at] > 99)
                exit(2);
            change(at);
            got = syscall(SYS_pread64, fd, a + at, sizeof some, 0);
            break;
        }
        printf("%ld bytes: ", got);
        use("by the kernel");
    }
    /* All of it. */
    for (int round = 0; round < 3; round++) {
        double *all = doubles((size_t)n * n);
        fill(all, (size_t)n * n);
        if (pwrite(fd, all, bytes(), 0) != (ssize_t)bytes())
            exit(2);
        free(all);
        lseek(fd, 0, SEEK_SET);
        printf("%ld bytes: ", round ? (long)pread(fd, a, bytes(), 0) : (long)read(fd, a, bytes()));
        use("all by the kernel");
    }
    unlink(path);
}

static void patch(const char *what, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        change(round * 40503 + 11);
        use(what);
    }
}

/* Descriptors that the program knows nothing of; and the numbers are used again. */
static void closer(void)
{
    patch("before", 10);
    change(3);
    for (int fd = 3; fd < 70000; fd++) {
        char name[64], file[256];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        long length = readlink(name, file, sizeof file - 1);
        file[length > 0 ? length : 0] = 0;
        if (strstr(file, "userfaultfd") || strstr(file, "pagemap"))
            close(fd);
    }
    change(100);
    use("closed");
    patch("after closing", 10);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++)
            if (dup(2) < 0)
                exit(2);
        patch("numbers used again", 5);
    }
}

/* Another user of userfaultfd holds a part of the matrix. */
static int watch(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_WP};
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    range.range.start = ((uintptr_t)a + bytes() / 2) & ~4095ul;
    range.range.len = 65536;
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
        fprintf(stderr, "patches: no userfaultfd\n");
    return fd;
}

/* The same changes while the whole matrix is write-protected by the program's userfaultfd. */
static void watches(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_WP};
    patch("before", 12);
    for (int round = 0; round < 3; round++) {
        int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
        range.range.start = (uintptr_t)a & ~4095ul;
        range.range.len = bytes() & ~4095ul;
        if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
            fprintf(stderr, "patches: no userfaultfd\n");
        errno = 0;
        printf("registered: %d", ioctl(fd, UFFDIO_REGISTER, &range));
        printf(" %s, ioctls %d\n", strerror(errno), range.ioctls != 0);
        patch("watched by another user, too", 6);
        close(fd);
        patch("no more", 6);
    }
}

static void watched(int fd)
{
    patch("watched by another user", 12);
    close(fd);
    patch("no more", 12);
}

static void forks(void)
{
    patch("before", 10);
    change(5);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        change(6);
        use("child");
        patch("child", 3);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    change(7);
    use("parent");
    patch("parent", 5);
    /* Grown, shrunk, moved and mapped anew. */
    void *old = a;
    double *more = need(realloc(a, bytes() + 4 * 1000 * 1000));
    a = more;
    patch("moved", 5);
    (void)old;
    a = need(realloc(a, bytes()));
    patch("shrunk", 5);
    double *mapped = mmap(NULL, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(mapped, a, bytes());
    free(a);
    a = mapped;
    patch("mapped", 10);
    if (madvise(a, bytes() / 2, MADV_DONTNEED))
        exit(2);
    use("half forgotten");
    patch("then", 4);
    if (mprotect(a, bytes(), PROT_READ) || mprotect(a, bytes(), PROT_READ | PROT_WRITE))
        exit(2);
    patch("protected", 4);
    a = mremap(mapped, bytes(), 2 * bytes(), MREMAP_MAYMOVE);
    if (a == MAP_FAILED)
        exit(2);
    patch("remapped", 8);
    if (mmap(a, bytes() / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (void *)a)
        exit(2);
    use("half mapped anew");
    patch("then", 4);
    munmap(a, 2 * bytes());
    a = doubles((size_t)n * n);
    fill(a, (size_t)n * n);
    patch("new", 4);
}

/* An element changes beside a result that makes its panel inaccessible, and the block is shrunk before semcache looks
 * for changes. */
static void beside(void)
{
    const double three = 3;
    const int few = 50;
    for (int round = 0; round < 20; round++) {
        use("before");
        change(round * 3000);
        daxpy_(&few, &three, x, &one, a + 20000 + 997 * round, &one);
        if (round % 3 == 2)
            a = need(realloc(a, bytes() + (20 - round) * 100000));
        use("beside a result");
    }
}

/* Each thread changes elements of its own columns, beside those of the other threads, and uses only these columns. */
static void *column(void *argument)
{
    long me = (long)argument;
    const double alpha = 1, beta = 0;
    int width = n / 4;
    double *result = doubles(n);
    uint64_t h = 0;
    for (int round = 0; round < 60; round++) {
        double *mine = a + me * width * n;
        mine[(round * 7919 + me) % (width * n)] = round % 9 - 4;
        mine[width * n - 1] = round % 5;
        mine[0] = round % 7;
        dgemv_("N", &n, &width, &alpha, mine, &n, x, &one, &beta, result, &one);
        /* The input may change as soon as the call has returned. */
        mine[(round * 104729 + 7) % (width * n)] = round % 3;
        h = h * 31 + hash(result, n);
    }
    free(result);
    return (void *)h;
}

static void threads(void)
{
    pthread_t t[4];
    void *h;
    for (long i = 0; i < 4; i++)
        pthread_create(t + i, NULL, column, (void *)i);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &h);
        printf("thread %d: %016llx\n", i, (unsigned long long)(uintptr_t)h);
    }
    use("all");
}

/* Inputs that are overwritten as soon as a call has returned, while devices may still compute; results are read later. */
static void early(void)
{
    double *b = doubles((size_t)n * n), *c = doubles((size_t)n * n);
    fill(b, (size_t)n * n);
    for (int round = 0; round < 12; round++) {
        change(round * 31);
        multiply(n, 1, a, b, 0, c);
        for (int i = 0; i < n * n; i += 1 + round * 97)
            a[i] = b[n * n - 1 - i] = round - 5;
        show("early", c, (size_t)n * n);
        multiply(n, 1, b, a, 1, c);
        /* Results that are changed in places and used again. */
        c[round * 1000] = 3;
        multiply(n, 1, c, b, 0, a);
        c[round * 1001] = 4;
        for (int i = 0; i < n * n; i++)
            a[i] = fmod(a[i], 7);
        show("again", c, (size_t)n * n);
        for (int i = 0; i < n * n; i++)
            c[i] = fmod(c[i], 7);
    }
    show("a", a, (size_t)n * n);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *directory = argc > 2 ? argv[2] : ".";
    if (argc > 3)
        n = atoi(argv[3]);
    a = doubles((size_t)n * n);
    x = doubles(n);
    y = doubles(n);
    fill(a, (size_t)n * n);
    fill(x, n);
    int fd = strcmp(what, "watched") ? -1 : watch();
    use("first");
    if (!strcmp(what, "one"))
        element();
    else if (!strcmp(what, "kernel"))
        kernel(directory);
    else if (!strcmp(what, "closer"))
        closer();
    else if (!strcmp(what, "watched"))
        watched(fd);
    else if (!strcmp(what, "watches"))
        watches();
    else if (!strcmp(what, "fork"))
        forks();
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "beside"))
        beside();
    else if (!strcmp(what, "early"))
        early();
    else
        return 2;
    return 0;
}
