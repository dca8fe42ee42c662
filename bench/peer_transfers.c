/* Transfers between page-locked host memory and one GPU, as the parameters of performance models are fitted to them.
 *
 *   peer_transfers MIB REPETITIONS SECONDS [STEPS]
 *
 * Prints for each direction, "h2d" or "d2h":
 *   latency      a copy of one byte
 *   alone        copies of square matrices of doubles, of STEPS orders (12) up to MIB MiB: one stream, nothing else on the link
 *   both         the same while a copy in the opposite direction runs all the time
 *   mapped       a kernel (cuBLAS dcopy) that reads the host's memory, or writes to it, of MIB MiB, while nothing else runs
 *   mapped both  the same while copies in the opposite direction run all the time
 *   against mapped   a copy of MIB MiB while a kernel accesses the host's memory in the opposite direction all the time
 *   streams      16 MiB in equal parts in 1 to 256 streams, all begun before the first is awaited
 *
 * Each until the 95 % confidence interval of the mean lies within 5 % of it, from 5 repetitions on and at most REPETITIONS. What is not
 * begun after SECONDS seconds is left out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "cuda.h"

enum { MOST_STREAMS = 256, LEAST = 5 };

static const char *const names[] = {"h2d", "d2h"};
static const size_t streamed = (size_t)16 << 20;

static double *host[2], *mapped[2], *device[2]; /* for each direction; the host's memory as kernels see it */
static stream_t streams[MOST_STREAMS], against;
static blas_t blas;
static size_t most;      /* bytes of a buffer */
static int repetitions;
static double until;

static void copy_in(stream_t s, int direction, size_t from, size_t bytes)
{
    char *h = (char *)host[direction] + from, *d = (char *)device[direction] + from;
    CU(MemcpyAsync, direction ? h : d, direction ? d : h, bytes, direction ? TO_HOST : TO_DEVICE, s);
}

/* A kernel that moves the bytes. */
static void mapped_in(stream_t s, int direction, size_t bytes)
{
    double *h = mapped[direction], *d = device[direction];
    BLAS(SetStream_v2, blas, s);
    BLAS(Dcopy_v2, blas, (int)(bytes / sizeof(double)), direction ? d : h, 1, direction ? h : d, 1);
}

/* Whether the mean is known well enough, with the t of as many samples. */
static int settled(const struct series *s)
{
    double mean = 0, square = 0, n = s->n;
    if (s->n < LEAST)
        return 0;
    for (int i = 0; i < s->n; i++)
        mean += s->s[i] / n;
    for (int i = 0; i < s->n; i++)
        square += (s->s[i] - mean) * (s->s[i] - mean);
    double t = 1.96 + 2.4 / (n - 1) + 3.3 / ((n - 1) * (n - 1));
    return t * sqrt(square / (n - 1) / n) <= 0.05 * mean;
}

struct what {
    const char *variant;
    int direction, mapped, streams;
    int opposite; /* 0 nothing, 1 copies, 2 a kernel */
    size_t bytes;
};

static double once(const struct what *w)
{
    /* What runs in the opposite direction begins before and ends after. */
    if (w->opposite == 1)
        for (size_t sent = 0; sent < 3 * w->bytes; sent += w->bytes)
            copy_in(against, !w->direction, 0, w->bytes);
    else if (w->opposite == 2)
        for (size_t sent = 0; sent < 3 * w->bytes; sent += w->bytes)
            mapped_in(against, !w->direction, w->bytes);
    double start = now();
    if (w->mapped)
        mapped_in(streams[0], w->direction, w->bytes);
    for (int i = 0; i < w->streams && !w->mapped; i++) {
        size_t from = w->bytes / (size_t)w->streams * (size_t)i;
        copy_in(streams[i], w->direction, from, i + 1 < w->streams ? w->bytes / (size_t)w->streams : w->bytes - from);
    }
    for (int i = 0; i < w->streams; i++)
        CU(StreamSynchronize, streams[i]);
    double end = now();
    CU(StreamSynchronize, against);
    return end - start;
}

static void measure(struct what w)
{
    struct series s = {0};
    char more[120];
    if (now() > until || w.bytes > most)
        return;
    once(&w);
    while (s.n < repetitions && (s.n < LEAST || now() < until) && !settled(&s))
        add(&s, once(&w));
    snprintf(more, sizeof more, ",\"direction\":\"%s\",\"streams\":%d", names[w.direction], w.streams);
    emit("transfers", w.bytes, w.variant, &s, more);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: peer_transfers MIB REPETITIONS SECONDS [STEPS]");
    most = (size_t)atoi(argv[1]) << 20;
    repetitions = atoi(argv[2]);
    until = now() + atof(argv[3]);
    int steps = argc > 4 ? atoi(argv[4]) : 12;
    size_t n = most / sizeof(double);
    cuda_start();
    BLAS(Create_v2, &blas);
    against = new_stream();
    for (int i = 0; i < MOST_STREAMS; i++)
        streams[i] = new_stream();
    for (int d = 0; d < 2; d++) {
        host[d] = mapped_doubles(n, &mapped[d]);
        device[d] = device_doubles(n);
        fill(host[d], n, (uint32_t)d + 1);
        copy(device[d], host[d], n, TO_DEVICE);
    }
    for (int d = 0; d < 2; d++)
        measure((struct what){"latency", d, 0, 1, 0, 1});
    for (int k = 1; k <= MOST_STREAMS; k *= 2)
        for (int d = 0; d < 2; d++)
            measure((struct what){"streams", d, 0, k, 0, streamed});
    for (int both = 0; both < 2; both++)
        for (int i = 1; i <= steps; i++) {
            size_t order = (size_t)(sqrt((double)n) * i / steps);
            for (int d = 0; d < 2; d++)
                measure((struct what){both ? "both" : "alone", d, 0, 1, both, order * order * sizeof(double)});
        }
    for (int d = 0; d < 2; d++) {
        measure((struct what){"mapped", d, 1, 1, 0, most});
        measure((struct what){"mapped both", d, 1, 1, 1, most});
        measure((struct what){"against mapped", d, 0, 1, 2, most});
    }
    /* Whatever was moved is where it came from, too. */
    for (int d = 0; d < 2; d++) {
        double total = sum(host[d], n, 0);
        copy(host[!d], device[d], n, TO_HOST);
        same("what was copied", sum(host[!d], n, 0), total);
        fill(host[!d], n, (uint32_t)!d + 1);
    }
    return 0;
}
