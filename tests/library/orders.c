/* Orders and sections of semcache.h on integers, whose results are exact: with and without the library the program prints the same. With
 * it (argument "with") also what the functions answer is checked; without it they all answer SEMCACHE_ABSENT. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "semcache.h"

#ifdef __cplusplus
extern "C" {
#endif
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
void dsyrk_(const char *, const char *, const int *, const int *, const double *, const double *, const int *, const double *, double *,
            const int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *, const double *, const int *,
            double *, const int *);
void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
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

static void product(const double *a, const double *b, double *c, double beta)
{
    int n = N, ld = LD;
    double one = 1;
    dgemm_("N", "N", &n, &n, &n, &one, a, &ld, b, &ld, &beta, c, &ld);
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

/* Products, a rank-k update and a solution by a triangle of ones and zeros, whose results are integers. */
static void all(const double *a, const double *b, double *c, double *unit)
{
    int n = N, ld = LD, part = N - 64;
    double one = 1, minus = -1;
    product(a, b, c, 0);
    dsyrk_("L", "N", &n, &n, &minus, a, &ld, &one, c, &ld);
    dtrsm_("L", "L", "N", "U", &n, &n, &one, unit, &ld, c, &ld);
    dtrsm_("R", "U", "T", "U", &n, &n, &one, unit, &ld, c, &ld);
    /* A part of the matrix that begins at a block. */
    dgemm_("T", "N", &part, &part, &n, &minus, a, &ld, b, &ld, &one, c + 64 + 64 * LD, &ld);
}

static int32_t last_first(int64_t i, int64_t j, void *user)
{
    int devices = *(int *)user;
    return (int32_t)(devices - 1 - (i + j) % devices);
}

static int32_t liar(int64_t i, int64_t j, void *user)
{
    (void)user;
    return i == 0 && j == 0 ? 0 : 1000;
}

static void distributions(double *a, double *b, double *c, double *unit)
{
    int devices = semcache_devices();
    int64_t bytes;
    semcache_matrix m = view(c), ma = view(a);
    semcache_event event;
    semcache_distribution of[8];
    of[0] = semcache_block_cyclic(64, 64, 0, 0);
    of[1] = semcache_block_cyclic(50, 90, 1, devices ? devices : 1);
    of[2] = semcache_distribution_of(SEMCACHE_ROWS);
    of[3] = semcache_distribution_of(SEMCACHE_COLUMNS);
    of[4] = semcache_distribution_of(SEMCACHE_BLOCKS);
    of[5] = semcache_distribution_of(SEMCACHE_OWNERS);
    of[5].mb = 100;
    of[5].nb = 33;
    of[5].owner = last_first;
    of[5].user = &devices;
    of[6] = semcache_distribution_of(SEMCACHE_NOWHERE);
    for (int i = 0; i < 7; i++) {
        ANSWERS(semcache_distribute(&m, &of[i], i % 2 ? &event : NULL), SEMCACHE_OK);
        ANSWERS(semcache_distribute(&ma, &of[i], NULL), SEMCACHE_OK);
        if (i % 2)
            ANSWERS(semcache_wait(&event), SEMCACHE_OK);
        all(a, b, c, unit);
        show("distributed", c);
    }
    /* Half of the blocks on each device. */
    if (with && devices > 1) {
        ANSWERS(semcache_write_cpu(&m), SEMCACHE_OK);
        ANSWERS(semcache_distribute(&m, &of[3], NULL), SEMCACHE_OK);
        ANSWERS(semcache_residency(&m, devices - 1, &bytes), SEMCACHE_OK);
        HOLDS(bytes > 0 && bytes <= (int64_t)sizeof(double) * N * (N / devices + 1));
        ANSWERS(semcache_distribute(&m, &of[6], NULL), SEMCACHE_OK);
    }
    /* Nonsense changes nothing. */
    of[7] = semcache_block_cyclic(0, 64, 1, 1);
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    of[7] = semcache_block_cyclic(-64, 64, 1, 1);
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    of[7] = semcache_block_cyclic(64, 64, 1000, 1000);
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    of[7] = semcache_block_cyclic(64, 64, -1, 1);
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    of[7] = semcache_block_cyclic(64, 64, INT32_MAX, INT32_MAX);
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    of[7] = semcache_distribution_of(77);
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    of[7] = semcache_distribution_of(SEMCACHE_OWNERS);
    of[7].mb = of[7].nb = 30;
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    of[7].owner = liar;
    ANSWERS(semcache_distribute(&m, &of[7], &event), SEMCACHE_INVALID);
    HOLDS(event.number == 0);
    of[7].size = 4;
    ANSWERS(semcache_distribute(&m, &of[7], NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_distribute(&m, NULL, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_distribute(NULL, &of[0], NULL), SEMCACHE_INVALID);
    /* A distribution of an overlapping matrix takes the place of the first. */
    semcache_matrix part = semcache_view(c + 10 + 20 * LD, N - 50, N - 60, LD, sizeof *c);
    ANSWERS(semcache_distribute(&m, &of[0], NULL), SEMCACHE_OK);
    ANSWERS(semcache_distribute(&part, &of[1], NULL), SEMCACHE_OK);
    all(a, b, c, unit);
    show("overlapping", c);
    ANSWERS(semcache_distribute(&part, &of[6], NULL), SEMCACHE_OK);
}

static void *section_of_thread(void *c)
{
    double *a = matrix(3), *b = matrix(4);
    semcache_event event;
    for (int i = 0; i < 10; i++) {
        ANSWERS(semcache_begin(), SEMCACHE_OK);
        product(a, b, (double *)c, i > 0);
        ANSWERS(semcache_end(&event), SEMCACHE_OK);
        ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    }
    free(a);
    free(b);
    return NULL;
}

static void sections(double *a, double *b, double *c, double *unit)
{
    int n = N * LD, one = 1;
    double two = 2, small[64 * 64] = {0}, here[64 * 64];
    semcache_event event, other;
    ANSWERS(semcache_end(NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_begin(), SEMCACHE_OK);
    ANSWERS(semcache_end(&event), SEMCACHE_OK);
    HOLDS(event.number == 0);
    for (int i = 0; i < 4; i++) {
        ANSWERS(semcache_begin(), SEMCACHE_OK);
        all(a, b, c, unit);
        ANSWERS(semcache_begin(), SEMCACHE_OK);
        daxpy_(&n, &two, a, &one, c, &one);
        ANSWERS(semcache_end(&other), SEMCACHE_OK);
        HOLDS(other.number == 0);
        /* Results on a stack are complete when the call returns. */
        int m = 64;
        double beta = 0;
        dgemm_("N", "N", &m, &m, &m, &two, a, &m, small, &m, &beta, here, &m);
        HOLDS(here[0] == 0 && here[64 * 64 - 1] == 0);
        if (i == 3) {
            /* The CPU reads a result in the section. */
            show("within", c);
            HOLDS(c[0] == c[0]);
        }
        ANSWERS(semcache_end(i % 2 ? &event : NULL), SEMCACHE_OK);
        if (i % 2) {
            ANSWERS(semcache_wait(&event), SEMCACHE_OK);
            ANSWERS(semcache_wait(&event), SEMCACHE_OK);
        }
        show("section", c);
    }
    /* An event that nobody waits for, and a matrix that is freed before. */
    double *gone = matrix(9);
    ANSWERS(semcache_begin(), SEMCACHE_OK);
    product(a, b, gone, 0);
    free(gone);
    ANSWERS(semcache_end(&event), SEMCACHE_OK);
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    pthread_t threads[3];
    double *results[3];
    for (int i = 0; i < 3; i++) {
        results[i] = matrix(i);
        HOLDS(pthread_create(&threads[i], NULL, section_of_thread, results[i]) == 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        show("thread", results[i]);
        free(results[i]);
    }
}

static void pins(double *a, double *b, double *c)
{
    semcache_matrix m = view(a), part = semcache_view(a, 10, 10, LD, sizeof *a);
    semcache_event event;
    int64_t bytes;
    ANSWERS(semcache_pin(&m, 0, NULL), SEMCACHE_OK);
    ANSWERS(semcache_pin(&m, 0, &event), SEMCACHE_OK);
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);
    ANSWERS(semcache_pin(&m, 1000, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_pin(NULL, 0, NULL), SEMCACHE_INVALID);
    product(a, b, c, 0);
    show("pinned", c);
    /* The CPU's writes are seen as ever. */
    a[5 + 7 * LD] += 1;
    product(a, b, c, 0);
    show("changed", c);
    ANSWERS(semcache_evict(&m, SEMCACHE_ALL_DEVICES), SEMCACHE_OK);
    ANSWERS(semcache_residency(&m, SEMCACHE_ALL_DEVICES, &bytes), SEMCACHE_OK);
    HOLDS(!with || bytes == 0);
    ANSWERS(semcache_unpin(&part), SEMCACHE_OK);
    ANSWERS(semcache_unpin(&part), SEMCACHE_OK);
    a[5 + 7 * LD] -= 1;
    /* Memory that is freed while it is pinned, and used again. */
    for (int i = 0; i < 3; i++) {
        double *d = matrix(i);
        semcache_matrix md = view(d);
        ANSWERS(semcache_pin(&md, SEMCACHE_ALL_DEVICES, i == 1 ? &event : NULL), SEMCACHE_OK);
        product(d, b, c, 0);
        show("freed", c);
        free(d);
    }
    ANSWERS(semcache_wait(&event), SEMCACHE_OK);
}

/* What a kernel of the program would do: doubles columns of a matrix on a device. */
static void doubled_columns(const semcache_device_matrix *at, int columns)
{
    if (!at->context) {
        for (int j = 0; j < columns; j++)
            for (int i = 0; i < N; i++)
                ((double *)(uintptr_t)at->address)[i + j * at->ld] *= 2;
        return;
    }
    int (*push)(void *), (*pop)(void **), (*in)(uint64_t, const void *, size_t), (*out)(void *, uint64_t, size_t);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    HOLDS(driver);
    *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
    *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
    *(void **)&in = dlsym(driver, "cuMemcpyHtoD_v2");
    *(void **)&out = dlsym(driver, "cuMemcpyDtoH_v2");
    double column[N];
    void *popped;
    HOLDS(push(at->context) == 0);
    for (int j = 0; j < columns; j++) {
        uint64_t from = at->address + (uint64_t)(j * at->ld) * sizeof(double);
        HOLDS(out(column, from, sizeof column) == 0);
        for (int i = 0; i < N; i++)
            column[i] *= 2;
        HOLDS(in(from, column, sizeof column) == 0);
    }
    HOLDS(pop(&popped) == 0);
}

static void doubled(double *a)
{
    semcache_matrix m = view(a);
    semcache_device_matrix at;
    at.size = sizeof at;
    int status = semcache_write_gpu(&m, 0, &at);
    if (status == SEMCACHE_OK) {
        doubled_columns(&at, N);
        ANSWERS(semcache_release_gpu(&at), SEMCACHE_OK);
        ANSWERS(semcache_release_gpu(&at), SEMCACHE_INVALID);
        return;
    }
    HOLDS(!with);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            a[i + j * LD] *= 2;
}

/* A kernel changes one half of the matrix, then the program does something that writes back what is there, then the other half. */
static void interrupted(int how)
{
    enum { ROOM = N * LD + 700 };
    double *block = (double *)malloc(2 * ROOM * sizeof *block), *a = block + 300, *beside = block + ROOM;
    for (int i = 0; i < 2 * ROOM; i++)
        block[i] = (double)(i % 13 - 6);
    semcache_matrix m = view(a), halves[2];
    semcache_device_matrix at;
    double seen = 0;
    halves[0] = semcache_view(a, N, N / 2, LD, sizeof *a);
    halves[1] = semcache_view(a + N / 2 * LD, N, N / 2, LD, sizeof *a);
    at.size = sizeof at;
    ANSWERS(semcache_write_gpu(&m, 0, &at), SEMCACHE_OK);
    for (int half = 0; half < 2; half++) {
        semcache_device_matrix there = at;
        if (with) {
            there.address += (uint64_t)(half * (N / 2) * at.ld) * sizeof(double);
            doubled_columns(&there, N / 2);
        } else {
            for (int j = 0; j < N / 2; j++)
                for (int i = 0; i < N; i++)
                    a[half * (N / 2) * LD + i + j * LD] *= 2;
        }
        if (half)
            break;
        switch (how) {
        case 0: beside[0] += 1; block[0] += 1; break;
        case 1: seen = beside[0] + block[299]; break;
        case 2: {
            fflush(stdout);
            pid_t child = fork();
            if (!child)
                _exit(0);
            HOLDS(waitpid(child, NULL, 0) == child);
            break;
        }
        case 3: ANSWERS(semcache_coherent(&halves[0], NULL), SEMCACHE_OK); break;
        case 4: ANSWERS(semcache_evict(&halves[1], SEMCACHE_ALL_DEVICES), SEMCACHE_OK); break;
        case 5: ANSWERS(semcache_read_cpu(&halves[1]), SEMCACHE_OK); break;
        default: ANSWERS(semcache_write_cpu(&halves[1]), SEMCACHE_OK); break;
        }
    }
    if (with)
        ANSWERS(semcache_release_gpu(&at), SEMCACHE_OK);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            HOLDS(a[i + j * LD] == 2.0 * ((300 + i + j * LD) % 13 - 6));
    show("interrupted kernel", a);
    printf("beside %.0f %.0f\n", beside[0] + block[0], seen);
    free(block);
}

static void kernels(double *a, double *b, double *c)
{
    semcache_matrix m = view(a), mc = view(c);
    semcache_device_matrix at, again;
    at.size = again.size = sizeof at;
    doubled(a);
    show("doubled", a);
    product(a, b, c, 0);
    doubled(c);
    product(c, b, a, 1);
    show("after", a);
    show("result", c);
    /* Reading: the newest bytes, which only a device has. */
    product(a, b, c, 0);
    ANSWERS(semcache_read_gpu(&mc, semcache_devices() > 1 ? 1 : 0, &at), SEMCACHE_OK);
    if (with && !at.context)
        HOLDS(((double *)(uintptr_t)at.address)[3 + 5 * at.ld] == c[3 + 5 * LD]);
    ANSWERS(semcache_read_gpu(&mc, 0, &again), SEMCACHE_OK);
    /* What is held stays where it is. */
    ANSWERS(semcache_evict(&mc, SEMCACHE_ALL_DEVICES), SEMCACHE_OK);
    for (int i = 0; i < 20; i++)
        product(a, b, c, 1);
    show("held", c);
    ANSWERS(semcache_release_gpu(&at), SEMCACHE_OK);
    ANSWERS(semcache_release_gpu(&again), SEMCACHE_OK);
    /* Memory that is freed while it is held: the device's memory is not used for anything else. */
    double *d = matrix(2);
    semcache_matrix md = view(d);
    ANSWERS(semcache_read_gpu(&md, 0, &at), SEMCACHE_OK);
    free(d);
    d = matrix(6);
    md = view(d);
    ANSWERS(semcache_read_gpu(&md, 0, &again), SEMCACHE_OK);
    HOLDS(!with || at.address != again.address);
    ANSWERS(semcache_release_gpu(&at), SEMCACHE_OK);
    ANSWERS(semcache_release_gpu(&again), SEMCACHE_OK);
    free(d);
    for (int how = 0; how < 7; how++)
        interrupted(how);
    at.size = 8;
    ANSWERS(semcache_read_gpu(&m, 0, &at), SEMCACHE_INVALID);
    at.size = sizeof at;
    ANSWERS(semcache_read_gpu(&m, SEMCACHE_ALL_DEVICES, &at), SEMCACHE_INVALID);
    ANSWERS(semcache_read_gpu(&m, 0, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_write_gpu(NULL, 0, &at), SEMCACHE_INVALID);
    at.hold = UINT64_MAX;
    ANSWERS(semcache_release_gpu(&at), SEMCACHE_INVALID);
    ANSWERS(semcache_release_gpu(NULL), SEMCACHE_OK);
    double here[64] = {0};
    semcache_matrix stack = semcache_view(here, 8, 8, 8, 8);
    ANSWERS(semcache_write_gpu(&stack, 0, &at), SEMCACHE_UNTRACKED);
}

static void told(double *a)
{
    semcache_matrix m = view(a);
    semcache_rates rates;
    semcache_prediction cold, warm;
    rates.size = sizeof rates;
    cold.size = warm.size = sizeof cold;
    ANSWERS(semcache_device_rates(0, &rates), SEMCACHE_OK);
    HOLDS(!with || (rates.h2d_bytes_per_s > 1e6 && rates.dgemm_flops > 1e6 && rates.host_dgemm_flops > 1e6 && rates.memory > 0));
    ANSWERS(semcache_device_rates(1000, &rates), SEMCACHE_INVALID);
    ANSWERS(semcache_device_rates(-1, &rates), SEMCACHE_INVALID);
    ANSWERS(semcache_device_rates(0, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_predict("dgemm", 1000, 1000, 1000, 0, &cold), SEMCACHE_OK);
    ANSWERS(semcache_predict("DGEMM", 1000, 1000, 1000, 1, &warm), SEMCACHE_OK);
    HOLDS(!with || (cold.devices_s > warm.devices_s && warm.devices_s > 0 && cold.host_s > 0));
    ANSWERS(semcache_predict("dtrsm", 1000, 1000, 0, 1, &warm), SEMCACHE_OK);
    ANSWERS(semcache_predict("daxpy", 1000, 0, 0, 1, &warm), SEMCACHE_OK);
    ANSWERS(semcache_predict("nonsense", 1, 1, 1, 1, &warm), SEMCACHE_INVALID);
    ANSWERS(semcache_predict(NULL, 1, 1, 1, 1, &warm), SEMCACHE_INVALID);
    ANSWERS(semcache_predict("dgemm", -1, INT64_MAX, INT64_MAX, 1, &warm), SEMCACHE_INVALID);
    ANSWERS(semcache_predict("dgemm", 1, 1, 1, 1, NULL), SEMCACHE_INVALID);
    ANSWERS(semcache_name(&m, "the matrix A"), SEMCACHE_OK);
    ANSWERS(semcache_name(&m, "\xff\xfe"), SEMCACHE_OK);
    ANSWERS(semcache_name(&m, NULL), SEMCACHE_OK);
    ANSWERS(semcache_name(NULL, "nothing"), SEMCACHE_INVALID);
    ANSWERS(semcache_range_end(), SEMCACHE_INVALID);
    for (int i = 0; i < 40; i++)
        ANSWERS(semcache_range_begin(i == 3 ? NULL : "a range of the program"), SEMCACHE_OK);
    for (int i = 0; i < 40; i++)
        ANSWERS(semcache_range_end(), SEMCACHE_OK);
    ANSWERS(semcache_range_end(), SEMCACHE_INVALID);
}

static double *of_handler;

static void handler(int signal)
{
    (void)signal;
    semcache_matrix m = view(of_handler);
    semcache_device_matrix at;
    semcache_distribution of = semcache_block_cyclic(64, 64, 0, 0);
    at.size = sizeof at;
    /* Any answer is right. */
    semcache_begin();
    semcache_pin(&m, 0, NULL);
    semcache_distribute(&m, &of, NULL);
    if (semcache_read_gpu(&m, 0, &at) == SEMCACHE_OK)
        semcache_release_gpu(&at);
    semcache_end(NULL);
}

int main(int argc, char **argv)
{
    with = argc > 1 && !strcmp(argv[1], "with");
    double *a = matrix(1), *b = matrix(2), *c = matrix(3), *unit = matrix(0);
    /* A triangle of ones on the diagonal and next to it: its inverse has integers only. */
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            unit[i + j * LD] = i == j + 1 ? 1 : 0;
    /* Devices are up before the first question. */
    semcache_matrix m = view(a);
    ANSWERS(semcache_prefetch(&m, SEMCACHE_ALL_DEVICES, NULL), SEMCACHE_OK);
    distributions(a, b, c, unit);
    sections(a, b, c, unit);
    pins(a, b, c);
    kernels(a, b, c);
    told(a);
    for (int i = 0; i < N * LD; i++)
        a[i] = (double)(i % 3);
    of_handler = a;
    signal(SIGALRM, handler);
    for (int i = 0; i < 20; i++) {
        ualarm(300, 0);
        all(a, b, c, unit);
    }
    signal(SIGALRM, SIG_IGN);
    show("interrupted", c);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        semcache_distribution of = semcache_block_cyclic(64, 64, 0, 0);
        semcache_device_matrix at;
        at.size = sizeof at;
        ANSWERS(semcache_pin(&m, 0, NULL), SEMCACHE_NO_DEVICE);
        ANSWERS(semcache_distribute(&m, &of, NULL), SEMCACHE_NO_DEVICE);
        ANSWERS(semcache_write_gpu(&m, 0, &at), SEMCACHE_NO_DEVICE);
        ANSWERS(semcache_begin(), SEMCACHE_NO_DEVICE);
        ANSWERS(semcache_end(NULL), SEMCACHE_NO_DEVICE);
        ANSWERS(semcache_name(&m, "child"), SEMCACHE_NO_DEVICE);
        ANSWERS(semcache_range_begin("child"), SEMCACHE_NO_DEVICE);
        all(a, b, c, unit);
        show("child", c);
        fflush(stdout);
        _exit(0);
    }
    int status;
    HOLDS(waitpid(child, &status, 0) == child);
    HOLDS(status == 0);
    all(a, b, c, unit);
    show("parent", c);
    return 0;
}
