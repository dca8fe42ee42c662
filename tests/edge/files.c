/* Files and sockets straight from results and into inputs: no EFAULT, no short count, the right bytes.
 *
 *   files DIRECTORY */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "io.h"

static const int n64 = N, one = 1, all = NN;
static void *volatile nowhere = (void *)8;

static void writes(void)
{
    char *p = (char *)c;
    result(c);
    said("write", write(file, c, BYTES));
    contents("write");
    result(c);
    said("write of a piece", write(file, p + 4001, 8191));
    contents("write of a piece");
    result(c);
    said("pwrite", pwrite(file, p + 1, BYTES - 3, 77));
    contents("pwrite");
    result(c);
    result(d);
    struct iovec v[4] = {{p + 9000, 5000}, {d, 0}, {(char *)d + 123, 12345}, {a, 4097}};
    said("writev", writev(file, v, 4));
    contents("writev");
    result(c);
    said("pwritev", pwritev(file, v, 4, 11));
    contents("pwritev");
    result(c);
    FILE *f = fdopen(dup(file), "w");
    said("fwrite", (long)fwrite(c, sizeof *c, NN - 1, f));
    result(c);
    said("fwrite of odd bytes", (long)fwrite(p + 7, 1, 10001, f));
    result(c);
    for (int i = 0; i < 50; i++)
        fwrite(p + 100 * i, 3, 7, f);
    fprintf(f, "%g %g\n", c[5], c[NN - 1]);
    fclose(f);
    contents("fwrite");
    setvbuf(f = fdopen(dup(file), "w"), NULL, _IONBF, 0);
    result(c);
    said("unbuffered fwrite", (long)fwrite(c, 1, BYTES, f));
    fclose(f);
    contents("unbuffered fwrite");
    /* The replicas are still valid, and writing the matrix to the file changed no byte of it. */
    result(c);
    said("write", write(file, c, BYTES));
    daxpy_(&all, &(double){1}, c, &one, d, &one);
    show("after writes", d, NN);
    show("and their source", c, NN);
    contents("after writes");
}

static void reads(void)
{
    char *p = (char *)a;
    double *source = need(malloc(2 * BYTES));
    fill(source, 2 * NN);
    if (write(file, source, 2 * BYTES) != 2 * BYTES)
        exit(2);
    for (int way = 0; way < 2; way++) {
        /* First over inputs that devices hold (S), then over results that only they have (G). */
        double *to = way ? c : a;
        p = (char *)to;
#define READY()                                                                                                        \
    (way ? result(c) : input(a), lseek(file, 0, SEEK_SET))
        READY();
        said("read", read(file, to, BYTES));
        input(to);
        show("read", d, NN);
        READY();
        said("read of a piece", read(file, p + 8 * 513, 8 * 700));
        input(to);
        show("read of a piece", d, NN);
        READY();
        said("pread", pread(file, p + 8, BYTES - 8, 64));
        input(to);
        show("pread", d, NN);
        READY();
        said("pread past the end", pread(file, p, BYTES, 2 * BYTES - 4096 - 8));
        input(to);
        show("pread past the end", d, NN);
        READY();
        said("pread at the end", pread(file, p, BYTES, 2 * BYTES));
        input(to);
        show("pread at the end", d, NN);
        READY();
        struct iovec v[3] = {{p + 16000, 4096}, {p, 8}, {p + 8000, 808}};
        said("readv", readv(file, v, 3));
        input(to);
        show("readv", d, NN);
        READY();
        said("preadv", preadv(file, v, 3, 4096));
        input(to);
        show("preadv", d, NN);
        READY();
        FILE *f = fdopen(dup(file), "r");
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
        said("bad address", read(file, nowhere, 100));
        input(to);
        show("after refusals", d, NN);
    }
    free(source);
    contents("source");
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

static void text(void)
{
    char name[4096], *line = NULL;
    size_t room = 0;
    snprintf(name, sizeof name, "%s/text", directory);
    FILE *f = fopen(name, "w+");
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

int main(int argc, char **argv)
{
    if (argc != 2 || !begun(argv[1], "files"))
        return 2;
    writes();
    reads();
    fill(a, NN);
    sockets();
    text();
    closed();
    return 0;
}
