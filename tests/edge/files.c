/* Files and sockets straight from results and into inputs: no EFAULT, no short count, the right bytes.
 *
 *   files DIRECTORY */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N, BYTES = NN * sizeof(double) };
static const int n64 = N, one = 1, all = NN;
static double *a, *b, *c, *d;
static void *volatile nowhere = (void *)8;

static void result(double *to)
{
    multiply(N, 1, a, b, 0, to);
}

/* Uses it as an input, so that devices hold it. */
static void input(double *from)
{
    multiply(N, 1, from, b, 0, d);
}

static void said(const char *what, long count)
{
    printf("%s: %ld%s%s\n", what, count, count < 0 ? " " : "", count < 0 ? strerror(errno) : "");
}

static void contents(const char *what, int fd)
{
    static unsigned char bytes[4 * BYTES];
    long n = pread(fd, bytes, sizeof bytes, 0);
    printf("%s: %ld bytes %016llx\n", what, n, (unsigned long long)hash_bytes(bytes, n > 0 ? n : 0));
    if (ftruncate(fd, 0))
        exit(2);
    lseek(fd, 0, SEEK_SET);
}

static void writes(int fd)
{
    char *p = (char *)c;
    result(c);
    said("write", write(fd, c, BYTES));
    contents("write", fd);
    result(c);
    said("write of a piece", write(fd, p + 4001, 8191));
    contents("write of a piece", fd);
    result(c);
    said("pwrite", pwrite(fd, p + 1, BYTES - 3, 77));
    contents("pwrite", fd);
    result(c);
    result(a == c ? d : d);
    struct iovec v[4] = {{p + 9000, 5000}, {d, 0}, {(char *)d + 123, 12345}, {a, 4097}};
    said("writev", writev(fd, v, 4));
    contents("writev", fd);
    result(c);
    said("pwritev", pwritev(fd, v, 4, 11));
    contents("pwritev", fd);
    result(c);
    FILE *f = fdopen(dup(fd), "w");
    said("fwrite", (long)fwrite(c, sizeof *c, NN - 1, f));
    result(c);
    said("fwrite of odd bytes", (long)fwrite(p + 7, 1, 10001, f));
    result(c);
    for (int i = 0; i < 50; i++)
        fwrite(p + 100 * i, 3, 7, f);
    fprintf(f, "%g %g\n", c[5], c[NN - 1]);
    fclose(f);
    contents("fwrite", fd);
    setvbuf(f = fdopen(dup(fd), "w"), NULL, _IONBF, 0);
    result(c);
    said("unbuffered fwrite", (long)fwrite(c, 1, BYTES, f));
    fclose(f);
    contents("unbuffered fwrite", fd);
    /* The devices' copies are still good, and a write changed nothing. */
    result(c);
    said("write", write(fd, c, BYTES));
    daxpy_(&all, &(double){1}, c, &one, d, &one);
    show("after writes", d, NN);
    show("and their source", c, NN);
    contents("after writes", fd);
}

static void reads(int fd)
{
    char *p = (char *)a;
    double *file = need(malloc(2 * BYTES));
    fill(file, 2 * NN);
    if (write(fd, file, 2 * BYTES) != 2 * BYTES)
        exit(2);
    for (int way = 0; way < 2; way++) {
        /* First over inputs that devices hold (S), then over results that only they have (G). */
        double *to = way ? c : a;
        p = (char *)to;
#define READY()                                                                                                        \
    (way ? result(c) : input(a), lseek(fd, 0, SEEK_SET))
        READY();
        said("read", read(fd, to, BYTES));
        input(to);
        show("read", d, NN);
        READY();
        said("read of a piece", read(fd, p + 8 * 513, 8 * 700));
        input(to);
        show("read of a piece", d, NN);
        READY();
        said("pread", pread(fd, p + 8, BYTES - 8, 64));
        input(to);
        show("pread", d, NN);
        READY();
        said("pread past the end", pread(fd, p, BYTES, 2 * BYTES - 4096 - 8));
        input(to);
        show("pread past the end", d, NN);
        READY();
        said("pread at the end", pread(fd, p, BYTES, 2 * BYTES));
        input(to);
        show("pread at the end", d, NN);
        READY();
        struct iovec v[3] = {{p + 16000, 4096}, {p, 8}, {p + 8000, 808}};
        said("readv", readv(fd, v, 3));
        input(to);
        show("readv", d, NN);
        READY();
        said("preadv", preadv(fd, v, 3, 4096));
        input(to);
        show("preadv", d, NN);
        READY();
        FILE *f = fdopen(dup(fd), "r");
        said("fread", (long)fread(to, sizeof *to, NN, f));
        input(to);
        show("fread", d, NN);
        for (int i = 0; i < 20; i++)
            if (fread(p + 800 * i, 8, 3, f) != 3)
                printf("short\n");
        input(to);
        show("small freads", d, NN);
        fclose(f);
        /* Refusals are the program's own: a bad descriptor, a bad address. */
        said("bad descriptor", read(-1, to, BYTES));
        said("bad address", read(fd, nowhere, 100));
        input(to);
        show("after refusals", d, NN);
    }
    free(file);
    contents("source", fd);
}

static void *sender(void *fd)
{
    long sent = 0, n = 1;
    result(c);
    for (sent = 0; sent < BYTES && n > 0; sent += n)
        n = send(*(int *)fd, (char *)c + sent, BYTES - sent > 20000 ? 20000 : BYTES - sent, 0);
    result(c);
    struct iovec v[2] = {{(char *)c + 5, 3001}, {(char *)c + 8192, 4096}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    sent += sendmsg(*(int *)fd, &m, 0);
    said("sent", sent);
    return NULL;
}

static void sockets(void)
{
    int fd[2];
    pthread_t thread;
    double *to = doubles(NN + 2000);
    fill(to, NN + 2000);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) || pthread_create(&thread, NULL, sender, &fd[0]))
        exit(2);
    long got = 0, n = 1;
    while (got < BYTES + 7097 && n > 0) {
        long want = BYTES + 7097 - got;
        if (got < BYTES && got > BYTES / 2)
            multiply(N, 0, a, b, 1, to); /* a no-op, but not for the cache */
        dscal_(&n64, &(double){-1}, to + NN + 1000, &one);
        n = got & 1 ? recv(fd[1], (char *)to + got, want, 0) : read(fd[1], (char *)to + got, want);
        got += n;
    }
    pthread_join(thread, NULL);
    said("received", got);
    printf("%016llx\n", (unsigned long long)hash_bytes(to, got));
    multiply(N, 1, to, b, 0, d);
    show("received", d, NN);
    /* A pipe to another program. */
    result(c);
    FILE *f = popen("cksum", "w");
    fflush(stdout);
    fwrite(c, 1, BYTES, f);
    pclose(f);
    close(fd[0]);
    close(fd[1]);
    free(to);
}

static void text(const char *directory)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/text", directory);
    FILE *f = fopen(path, "w+");
    result(c);
    for (int i = 0; i < 300; i++)
        fprintf(f, "%.0f %d\n", c[i * 13], i);
    rewind(f);
    result(c);
    double sum = 0;
    for (int i = 0; i < 100; i++) {
        int k;
        /* Straight into a result. */
        if (fscanf(f, "%lf %d", &c[i * 40], &k) != 2)
            printf("short\n");
        sum += k;
    }
    for (int i = 0; i < 150; i++)
        if (getline(&line, &room, f) > 0)
            sum += strtod(line, NULL);
    char small[16];
    while (fgets(small, sizeof small, f))
        sum += strlen(small);
    printf("text %.0f\n", sum);
    input(c);
    show("after fscanf", d, NN);
    free(line);
    fclose(f);
}

static double *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

static void mappings(int fd)
{
    double *m = map(2 * BYTES);
    for (int round = 0; round < 3; round++) {
        fill(m, 2 * NN);
        result(m);
        madvise(m, 8192, MADV_DONTNEED);
        input(m);
        show("half discarded", m, 2 * NN);
        show("as an input", d, NN);
        result(m);
        madvise(m, 2 * BYTES, MADV_DONTNEED);
        multiply(N, 1, a, b, 1, m);
        show("discarded and used", m, NN);
        result(m);
        double *moved = mremap(m, 2 * BYTES, 4 * BYTES, MREMAP_MAYMOVE);
        show("grown", moved, 4 * NN);
        result(moved + 3 * NN);
        result(moved);
        m = mremap(moved, 4 * BYTES, 2 * BYTES, MREMAP_MAYMOVE);
        show("shrunk", m, 2 * NN);
        result(m);
        munmap((char *)m + BYTES, BYTES);
        input(m);
        show("cut", d, NN);
        result(m);
        double *again = mmap(m, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        show("mapped over", again, NN);
        result(again);
        munmap(again, BYTES);
        m = map(2 * BYTES);
        show("fresh", m, 2 * NN);
        result(m + 3);
        /* A file over a part of a used block, then away again. */
        if (ftruncate(fd, 8192) || pwrite(fd, b, 8192, 0) != 8192)
            exit(2);
        if (mmap((char *)m + 4096, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
            exit(2);
        show("a file in the middle", m, 2 * NN);
        input(m);
        result(m);
        show("a result over it", m, 2 * NN);
        mprotect(m, 4096, PROT_READ);
        input(m);
        show("a protected head", d, NN);
        mprotect(m, 4096, PROT_READ | PROT_WRITE);
        result(m);
        show("no longer", m, NN);
        munmap(m, 2 * BYTES);
        m = map(2 * BYTES);
    }
    munmap(m, 2 * BYTES);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 2)
        return 2;
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    fill(d, NN);
    snprintf(path, sizeof path, "%s/data", argv[1]);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return 2;
    writes(fd);
    reads(fd);
    fill(a, NN);
    sockets();
    text(argv[1]);
    mappings(fd);
    close(fd);
    return 0;
}
