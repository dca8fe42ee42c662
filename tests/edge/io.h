/* Shared by the clients that read and write files: matrices, their uses, and the file. */
#ifndef IO_H
#define IO_H
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N, BYTES = NN * sizeof(double) };
static double *a, *b, *c, *d, *e, *identity;
static int file;
static const char *directory;
static char path[4096];

static inline void result(double *to)
{
    multiply(N, 1, a, b, 0, to);
}

/* Uses it as an input, so that devices hold it. */
static inline void input(double *from)
{
    multiply(N, 1, from, b, 0, d);
}

/* Hashes of the matrix as devices see it, then as the CPU reads it. Integers that a system call has put at odd
 * addresses are any numbers, of which only the product with the identity is the same in every order of its sums. */
static inline void shown(const char *what, double *x)
{
    multiply(N, 1, x, identity, 0, d);
    show(what, d, NN);
    show("  itself", x, NN);
}

static inline long said(const char *what, long count)
{
    printf("%s: %ld%s%s\n", what, count, count < 0 ? " " : "", count < 0 ? strerror(errno) : "");
    return count;
}

/* Reads the contents of the file, and empties it. */
static inline void contents(const char *what)
{
    static unsigned char bytes[4 * BYTES];
    long n = pread(file, bytes, sizeof bytes, 0);
    printf("%s: %ld bytes %016llx\n", what, n, (unsigned long long)hash_bytes(bytes, n > 0 ? n : 0));
    if (ftruncate(file, 0))
        exit(2);
    lseek(file, 0, SEEK_SET);
}

/* Fills the file. */
static inline void prepare(void)
{
    static double bytes[2 * NN];
    uint64_t before = edge_seed;
    edge_seed = 4711;
    fill(bytes, 2 * NN);
    edge_seed = before;
    if (pwrite(file, bytes, sizeof bytes, 0) != sizeof bytes || lseek(file, 0, SEEK_SET))
        exit(2);
}

/* e, as a result that only devices have, or as an input that they hold, too. */
static inline void fresh(int way)
{
    if (way)
        result(e);
    else {
        fill(e, NN);
        input(e);
    }
}

/* Makes the matrices, and the file NAME in the directory, which `closed` takes away. */
static inline int begun(const char *in, const char *name)
{
    directory = in;
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN), e = doubles(NN), identity = doubles(NN);
    for (int i = 0; i < NN; i++)
        identity[i] = i % (N + 1) == 0;
    fill(a, NN);
    fill(b, NN);
    fill(c, NN);
    fill(d, NN);
    fill(e, NN);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    return file >= 0;
}

static inline void closed(void)
{
    close(file);
    unlink(path);
}
#endif
