/* Every function of semcache.h, on integers, whose results are exact: with and without the library the program prints the same. With it
 * (argument "with") also what the functions answer is checked; without it they all answer SEMCACHE_ABSENT. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "semcache.h"

#ifdef __cplusplus
extern "C" {
#endif
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
#ifdef __cplusplus
}
#endif

enum { N = 300, LD = 311 };
static int with;

static void fail(const char *what, int line, int got, int wanted)
{
    printf("line %d: %s: %d (%s), not %d\n", line, what, got, semcache_message(got), wanted);
    exit(1);
}

/* With the library the answer is `wanted`, without it SEMCACHE_ABSENT. */
#define ANSWERS(call, wanted)                                              \
    do {                                                                   \
        int got_ = (call), wanted_ = with ? (wanted) : SEMCACHE_ABSENT;    \
        if (got_ != wanted_)                                               \
            fail(#call, __LINE__, got_, wanted_);                          \
    } while (0)

#define HOLDS(condition)                         \
    do {                                         \
        if (!(condition))                        \
            fail(#condition, __LINE__, 0, 1);    \
    } while (0)

static double *matrix(int seed)
{
    double *a = (double *)malloc(sizeof(double) * N * LD);
    for (int i = 0; i < N * LD; i++)
        a[i] = (double)((i * 7 + seed) % 11 - 5);
    return a;
}

static void product(const double *a, const double *b, double *c)
{
    int n = N, ld = LD;
    double one = 1, zero = 0;
    dgemm_("N", "N", &n, &n, &n, &one, a, &ld, b, &ld, &zero, c, &ld);
}

static void show(const char *what, const double *c)
{
    double sum = 0;
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            sum += c[i + j * LD] * (double)((i + 3 * j) % 5);
    printf("%s %.0f\n", what, sum);
}

static semcache_matrix view(const double *a)
{
    return semcache_view(a, N, N, LD, sizeof *a);
}

static int64_t held(const double *a, int where)
{
    int64_t bytes = -1;
    semcache_matrix m = view(a);
    ANSWERS(semcache_residency(&m, where, &bytes), SEMCACHE_OK);
    return bytes;
}

static const int64_t ALL = (int64_t)sizeof(double) * N * N;

/* Bytes of the first and the last page, which a matrix may share with other data: devices may not keep these. */
static int nearly(int64_t bytes)
{
    return bytes >= ALL - 2 * 4096 - 8 * LD && bytes <= ALL;
}

static void *others(void *a)
{
    for (int i = 0; i < 50; i++) {
        semcache_event event;
        semcache_matrix m = view((double *)a);
        ANSWERS(semcache_prefetch(&m, SEMCACHE_ALL_DEVICES, &event), SEMCACHE_OK);
        ANSWERS(semcache_read_cpu(&m), SEMCACHE_OK);
        if (i % 3 == 0)
            ANSWERS(semcache_evict(&m, SEMCACHE_ALL_DEVICES), SEMCACHE_OK);
        ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    }
    return NULL;
}

static void bad(double *a)
{
    semcache_matrix good = view(a), m;
    semcache_event event;
    int64_t bytes;
    ANSWERS(semcache_prefetch(NULL, 0, NULL), SEMCACHE_INVALID);
    m = semcache_view(NULL, 1, 1, 1, 8);
    ANSWERS(semcache_prefetch(&m, 0, &event), SEMCACHE_INVALID);
    HOLDS(event.number == 0);
    m = semcache_view(a, N, N, N - 1, 8);
    ANSWERS(semcache_coherent(&m, NULL), SEMCACHE_INVALID);
    m = semcache_view(a, -1, N, LD, 8);
    ANSWERS(semcache_read_cpu(&m), SEMCACHE_INVALID);
    m = semcache_view(a, INT64_MAX, INT64_MAX, INT64_MAX, 16);
    ANSWERS(semcache_write_cpu(&m), SEMCACHE_INVALID);
    m = semcache_view(a, N, N, LD, 7);
    ANSWERS(semcache_evict(&m, 0), SEMCACHE_INVALID);
    m = good;
    m.size = 8;
    ANSWERS(semcache_evict(&m, 0), SEMCACHE_INVALID);
    ANSWERS(semcache_prefetch(&good, 1000, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_prefetch(&good, -7, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_residency(&good, 0, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_residency(&good, -9, &bytes), SEMCACHE_INVALID);
    ANSWERS(semcache_wait(NULL), SEMCACHE_INVALID);
    event.number = UINT64_MAX;
    ANSWERS(semcache_wait(&event), SEMCACHE_INVALID);
    ANSWERS(semcache_test(&event), SEMCACHE_INVALID);
    /* More than the allocation, and a stack. */
    m = semcache_view(a, N, 100 * N, LD, 8);
    ANSWERS(semcache_prefetch(&m, 0, NULL), SEMCACHE_UNTRACKED);
    double here[64] = {0};
    m = semcache_view(here, 8, 8, 8, 8);
    ANSWERS(semcache_prefetch(&m, 0, NULL), SEMCACHE_UNTRACKED);
    /* Nothing of nothing. */
    m = semcache_view(a, 0, N, LD, 8);
    ANSWERS(semcache_prefetch(&m, 0, NULL), SEMCACHE_OK);
    semcache_statistics few;
    memset(&few, 0, sizeof few);
    few.size = 8;
    ANSWERS(semcache_count(&few), SEMCACHE_INVALID);
    ANSWERS(semcache_count(NULL), SEMCACHE_INVALID);
}

int main(int argc, char **argv)
{
    with = argc > 1 && !strcmp(argv[1], "with");
    double *a = matrix(1), *b = matrix(2), *c = matrix(3);
    semcache_matrix A = view(a), B = view(b), C = view(c);
    semcache_event event;

    /* Before any BLAS call: a cold prefetch brings devices up. */
    ANSWERS(semcache_prefetch(&A, 0, NULL), SEMCACHE_OK);
    HOLDS(with == (semcache_devices() > 0));
    if (with) {
        HOLDS(nearly(held(a, 0)));
        HOLDS(held(a, SEMCACHE_HOST) == ALL);
    }
    ANSWERS(semcache_prefetch(&B, SEMCACHE_ALL_DEVICES, &event), SEMCACHE_OK);
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    ANSWERS(semcache_test(&event), SEMCACHE_OK);
    if (with)
        HOLDS(nearly(held(b, SEMCACHE_ALL_DEVICES)));
    semcache_statistics before, after;
    before.size = after.size = sizeof before;
    ANSWERS(semcache_count(&before), SEMCACHE_OK);
    product(a, b, c);
    if (with) {
        ANSWERS(semcache_count(&after), SEMCACHE_OK);
        HOLDS(after.offloaded == before.offloaded + 1);
        HOLDS(held(c, SEMCACHE_HOST) < ALL);
    }

    /* Of columns that lie apart only the panels that they touch are opened. */
    semcache_matrix apart = {sizeof apart, sizeof *c, c, N, 3, 100 * LD};
    ANSWERS(semcache_read_cpu(&apart), SEMCACHE_OK);
    if (with) {
        int64_t home = 0;
        ANSWERS(semcache_residency(&apart, SEMCACHE_HOST, &home), SEMCACHE_OK);
        HOLDS(home == 3 * N * (int64_t)sizeof *c);
        HOLDS(!getenv("SEMCACHE_PANEL") || held(c, SEMCACHE_HOST) < ALL);
    }

    /* The result goes home, devices keep it. */
    ANSWERS(semcache_coherent(&C, &event), SEMCACHE_OK);
    /* A simulated device that is late completes nothing that no thread waits for. */
    for (int i = 0; with && i < 100 && semcache_test(&event) == SEMCACHE_PENDING; i++)
        sched_yield();
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    ANSWERS(semcache_read_cpu(&C), SEMCACHE_OK);
    if (with) {
        ANSWERS(semcache_count(&before), SEMCACHE_OK);
        HOLDS(held(c, SEMCACHE_HOST) == ALL);
        HOLDS(nearly(held(c, SEMCACHE_ALL_DEVICES)));
    }
    show("product", c);
    if (with) {
        ANSWERS(semcache_count(&after), SEMCACHE_OK);
        HOLDS(after.faults == before.faults && after.d2h == before.d2h);
    }

    /* A change by the CPU reaches the devices, with and without the hint. */
    ANSWERS(semcache_write_cpu(&A), SEMCACHE_OK);
    if (with)
        HOLDS(held(a, SEMCACHE_ALL_DEVICES) == 0);
    a[5 * LD + 7] = 100;
    product(a, b, c);
    ANSWERS(semcache_prefetch(&A, 0, &event), SEMCACHE_OK);
    a[6 * LD + 7] = 50;
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    product(c, a, b);
    ANSWERS(semcache_evict(&B, SEMCACHE_ALL_DEVICES), SEMCACHE_OK);
    if (with) {
        HOLDS(held(b, SEMCACHE_ALL_DEVICES) == 0);
        HOLDS(held(b, SEMCACHE_HOST) == ALL);
    }
    show("changed", b);

    /* Two threads, the same matrices, and a third that computes. */
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, others, a);
    pthread_create(&threads[1], NULL, others, c);
    double *d = matrix(4);
    for (int i = 0; i < 20; i++)
        product(a, c, d);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    show("threads", d);

    /* Memory that is freed while a request waits for its turn. */
    for (int i = 0; i < 30; i++) {
        double *e = matrix(i);
        semcache_matrix E = view(e);
        ANSWERS(semcache_prefetch(&E, SEMCACHE_ALL_DEVICES, &event), SEMCACHE_OK);
        free(e);
    }
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);

    /* Memory whose contents the kernel discards, or whose length changes, while a request waits or is carried out. */
    size_t bytes = sizeof(double) * N * LD;
    double *z = (double *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double *r = matrix(5), nonzero = 0;
    for (int i = 0; i < 60; i++) {
        memcpy(z, a, bytes);
        semcache_matrix Z = view(z), R = view(r);
        semcache_event sent;
        ANSWERS(semcache_prefetch(&R, SEMCACHE_ALL_DEVICES, &sent), SEMCACHE_OK);
        ANSWERS(semcache_prefetch(&Z, i % 2 ? 0 : SEMCACHE_ALL_DEVICES, &event), SEMCACHE_OK);
        for (int j = 0; j < i % 7; j++)
            sched_yield();
        if (i % 3) {
            HOLDS(madvise(z, bytes, MADV_DONTNEED) == 0);
            product(z, b, d);
            for (int j = 0; j < N; j++)
                nonzero += d[j * LD + j] != 0;
        } else {
            HOLDS(mprotect(z, bytes, PROT_READ | PROT_WRITE) == 0);
            z[i * LD + i] = i;
            product(z, b, d);
        }
        r = (double *)realloc(r, bytes / 2);
        r = (double *)realloc(r, bytes);
        for (int j = N * LD / 2 - 8; j < N * LD; j++)
            r[j] = (double)((i + j) % 9 - 4);
        product(r, a, c);
    }
    HOLDS(nonzero == 0);
    show("discarded", d);
    show("resized", c);
    bad(a);

    /* The child of a fork computes on the host. */
    ANSWERS(semcache_evict(&A, SEMCACHE_ALL_DEVICES), SEMCACHE_OK);
    ANSWERS(semcache_prefetch(&A, 0, &event), SEMCACHE_OK);
    HOLDS(!with || event.number);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ANSWERS(semcache_prefetch(&A, 0, NULL), SEMCACHE_NO_DEVICE);
        ANSWERS(semcache_wait(&event), SEMCACHE_NO_DEVICE);
        product(a, c, d);
        show("child", d);
        fflush(stdout);
        _exit(0);
    }
    int status = 1;
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
    product(d, a, c);
    show("parent", c);
    /* An event that nobody waits for. */
    ANSWERS(semcache_prefetch(&A, 0, &event), SEMCACHE_OK);
    return 0;
}
