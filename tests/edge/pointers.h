/* Structures and strings in inaccessible memory: within a result or an input, across the end of a page, and before and
 * behind the matrix in the same block; on the heap, in a mapping, in static data. */
#ifndef POINTERS_H
#define POINTERS_H
#define _GNU_SOURCE
/* Some functions are called only for their use of pointers, whatever they return. */
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { MARGIN = 2048, WINDOW = 1800, LARGEST = 1 << 19 };
static double in_data[LARGEST + 2 * MARGIN / 8] __attribute__((aligned(4096)));
static double *matrix, *other;
static char *model, *P, *Q; /* where things lie: at P, and some bytes behind it */
static int count;           /* numbers of the matrix */
static int memory, way, spot;

/* Makes the matrix an input of which devices hold a copy (its pages are read-only then), or a result that only they
 * have (inaccessible). The number of calls varies: after a regular pattern of accesses semcache would leave the pages
 * accessible. */
static void shut(void)
{
    static int turn;
    const int one = 1;
    memcpy(model, matrix, 8L * count);
    for (int i = 0; i < 2; i++)
        dcopy_(&count, matrix, &one, other, &one);
    turn++;
    for (int i = 0; way && i <= turn % 3; i++)
        dcopy_(&count, other, &one, matrix, &one);
}

/* Whether the matrix is unchanged around the structure. */
static long intact(void)
{
    char *m = (char *)matrix, *end = m + 8L * count;
    char *from = P < m ? m : P > end ? end : P, *to = P + WINDOW < m ? m : P + WINDOW > end ? end : P + WINDOW;
    return !memcmp(m, model, from - m) && !memcmp(to, model + (to - m), end - to);
}

static void told(const char *name, long result, int error, long seen)
{
    printf("%s %d%d%d: %ld %d %ld%s\n", name, memory, way, spot, result, result == -1 || !result ? error : 0, seen,
           intact() ? "" : " overwritten");
}

/* TRY(name, preparation, call, what is printed besides the call's result and errno) */
#define TRY(name, before, call, seen)                                                                                  \
    do {                                                                                                               \
        memset(P, 0, WINDOW);                                                                                          \
        before;                                                                                                        \
        shut();                                                                                                        \
        errno = 0;                                                                                                     \
        long result_ = (long)(call);                                                                                   \
        int error_ = errno;                                                                                            \
        long seen_ = (long)(seen);                                                                                     \
        told(name, result_, error_, seen_);                                                                            \
    } while (0)
#define AT(type, where) ((type *)(void *)(where))

/* Calls a function for each kind of memory, state of the matrix and place in it. The matrix has `numbers` elements;
 * only one of `every` places is tried. */
static void places(int numbers, int every, void (*each)(void))
{
    int number = 0;
    count = numbers;
    other = doubles(count);
    model = need(malloc(8L * count));
    for (memory = 0; memory < 3; memory++) {
        size_t bytes = 8L * count + 2 * MARGIN;
        char *block = memory == 0   ? (char *)doubles(bytes / 8)
                      : memory == 1 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                    : (char *)in_data;
        matrix = AT(double, block + MARGIN);
        fill(matrix, count);
        for (way = 0; way < 2; way++)
            for (spot = 0; spot < 4; spot++) {
                if (number++ % every)
                    continue;
                P = spot == 0   ? block
                    : spot == 1 ? block + 4096 + 64
                    : spot == 2 ? block + 3 * 4096 - 20
                                : block + MARGIN + 8L * count;
                Q = P + 704;
                each();
            }
        if (memory == 0)
            free(block);
        else if (memory == 1)
            munmap(block, bytes);
    }
}

/* The directory that the program works in, with a file. */
static int begun(const char *directory)
{
    mkdir(directory, 0700);
    if (chdir(directory))
        exit(2);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(fd, "contents\n", 9) != 9)
        exit(2);
    return fd;
}
#endif
