/* semcache.h: hints for programs that may run under semcache.
 *
 * A program that includes this header needs no library of semcache to be linked or to start: each function looks the library up once, and
 * does nothing and returns SEMCACHE_ABSENT where the program runs without it. All functions are hints on matrices: what the program
 * computes is the same with and without them, whatever they are called with.
 *
 * C99 or C++11; link with -ldl where the C library is older than glibc 2.34. Functions may be called by several threads at a time, also
 * for the same matrix. In a signal handler that interrupted the library requests return SEMCACHE_BUSY, in the child of a fork
 * SEMCACHE_NO_DEVICE. A view names the matrix and nothing else: bytes of other data in it may be kept from system calls in pages that
 * devices use.
 */
#ifndef SEMCACHE_H
#define SEMCACHE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a request. */
enum {
    SEMCACHE_OK = 0,
    SEMCACHE_ABSENT = 1,    /* the library is not there, or is older than this function */
    SEMCACHE_PENDING = 2,   /* semcache_test: not complete yet */
    SEMCACHE_NO_DEVICE = 3, /* no device can be used, or the process is the child of a fork */
    SEMCACHE_INVALID = 4,   /* an argument is not valid */
    SEMCACHE_UNTRACKED = 5, /* memory that cannot be tracked: a stack, guarded pages, more than one allocation */
    SEMCACHE_NO_ROOM = 6,   /* the device has no room for the matrix, or too many requests wait */
    SEMCACHE_LOST = 7,      /* the device is lost */
    SEMCACHE_BUSY = 8,      /* called by a signal handler that interrupted the library */
    SEMCACHE_FAILED = 9     /* a device refused a copy */
};

/* In place of the number of a device, which counts from zero. */
enum { SEMCACHE_ALL_DEVICES = -1, SEMCACHE_HOST = -2 };

/* A matrix in column-major order: rows x cols elements of `element` bytes, whose columns begin `ld` elements apart (ld >= rows). A strided
 * vector is a matrix of one row. */
typedef struct semcache_matrix {
    uint32_t size; /* sizeof(semcache_matrix) */
    uint32_t element;
    const void *data;
    int64_t rows, cols, ld;
} semcache_matrix;

/* A request that may not be complete. Zero: complete. It may be copied, waited for several times, or never. */
typedef struct semcache_event {
    uint64_t number;
} semcache_event;

/* What the process did so far. */
typedef struct semcache_statistics {
    uint64_t size;          /* sizeof(semcache_statistics), set by the caller; then what the library has filled in */
    uint64_t offloaded;     /* BLAS calls that ran on devices */
    uint64_t h2d, d2h, p2p; /* bytes copied to devices, to the host, between devices */
    uint64_t faults;        /* page faults that the CPU took because a device had newer bytes, or kept copies */
} semcache_statistics;

/* How a matrix is cut into blocks, and which device each belongs to. */
enum {
    SEMCACHE_NOWHERE = 0, /* none: ends an earlier distribution */
    SEMCACHE_ROWS = 1,    /* one share of the rows for each device */
    SEMCACHE_COLUMNS = 2, /* one share of the columns for each device */
    SEMCACHE_BLOCKS = 3,  /* one block for each device of a grid of p x q */
    SEMCACHE_CYCLIC = 4,  /* blocks of mb x nb; block (i, j) belongs to device (i % p) * q + j % q */
    SEMCACHE_OWNERS = 5   /* blocks of mb x nb; `owner` says which device each belongs to. It is called before the function returns, on the
                           * same thread, and must return (no exception) */
};

typedef struct semcache_distribution {
    uint32_t size; /* sizeof(semcache_distribution) */
    uint32_t kind;
    int64_t mb, nb; /* rows and columns of a block (SEMCACHE_CYCLIC, SEMCACHE_OWNERS) */
    int32_t p, q;   /* rows and columns of the grid of devices (SEMCACHE_BLOCKS, SEMCACHE_CYCLIC); zero: as square as the devices permit */
    int32_t (*owner)(int64_t i, int64_t j, void *user);
    void *user;
} semcache_distribution;

/* A matrix in the memory of a device. */
typedef struct semcache_device_matrix {
    uint32_t size; /* sizeof(semcache_device_matrix), set by the caller */
    int32_t device;
    uint64_t address; /* of the first element: a device pointer */
    int64_t ld;       /* elements between two columns */
    uint64_t hold;    /* what semcache_release_gpu ends */
    void *context;    /* the CUcontext in which the address is valid; null on simulated devices, whose memory the CPU can use */
} semcache_device_matrix;

/* What the library knows of a device and its links. Bytes, multiply-adds and seconds; zero where unknown. */
typedef struct semcache_rates {
    uint64_t size; /* sizeof(semcache_rates), set by the caller */
    double h2d_bytes_per_s, d2h_bytes_per_s, p2p_bytes_per_s;
    double latency_s;                          /* of a copy from the host */
    double sgemm_flops, dgemm_flops;           /* of large products on the device */
    double host_sgemm_flops, host_dgemm_flops; /* of large products by the host BLAS */
    uint64_t memory;                           /* bytes that copies of matrices may take on the device */
} semcache_rates;

/* What the library expects of a call. */
typedef struct semcache_prediction {
    uint32_t size; /* sizeof(semcache_prediction), set by the caller */
    int32_t devices; /* on how many devices it would run; zero: on the host */
    double host_s, devices_s; /* seconds on the host, and on devices (zero if none can run it) */
} semcache_prediction;

/* A sparse matrix in compressed rows: of row i the entries row_offsets[i] to row_offsets[i + 1] - 1, each with its column. */
typedef struct semcache_csr {
    uint32_t size;        /* sizeof(semcache_csr) */
    uint32_t type;        /* of the entries: 's', 'd', 'c' or 'z' */
    uint32_t index_bytes; /* of a row offset and a column: 4 or 8 */
    uint32_t base;        /* what the first entry and the first column are called: 0 or 1 */
    int64_t rows, cols;
    const void *row_offsets, *columns, *values;
} semcache_csr;

/* The table that the library exports. Later versions add functions at its end. */
typedef struct semcache_interface {
    size_t size;
    int (*devices)(void);
    int (*prefetch)(const semcache_matrix *, int, uint64_t *);
    int (*coherent)(const semcache_matrix *, uint64_t *);
    int (*to_cpu)(const semcache_matrix *, int);
    int (*evict)(const semcache_matrix *, int);
    int (*residency)(const semcache_matrix *, int, int64_t *);
    int (*wait)(const uint64_t *, int);
    int (*statistics)(semcache_statistics *);
    int (*section)(int, uint64_t *);
    int (*distribute)(const semcache_matrix *, const semcache_distribution *, uint64_t *);
    int (*pin)(const semcache_matrix *, int, int, uint64_t *);
    int (*to_gpu)(const semcache_matrix *, int, int, semcache_device_matrix *);
    int (*release)(uint64_t);
    int (*name)(const semcache_matrix *, const char *);
    int (*range)(const char *);
    int (*rates)(int, semcache_rates *);
    int (*predict)(const char *, const int64_t *, int, semcache_prediction *);
    int (*csr_multiply)(const semcache_csr *, int, const void *, const semcache_matrix *, const void *, const semcache_matrix *);
} semcache_interface;

static inline const semcache_interface *semcache_library(void)
{
    /* Two threads that look the library up at the same time find the same. */
    static const semcache_interface *found;
    static int looked;
    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        void *program = dlopen(NULL, RTLD_LAZY);
        const void *table = program ? dlsym(program, "semcache_interface_1") : NULL;
        __atomic_store_n(&found, (const semcache_interface *)table, __ATOMIC_RELAXED);
        if (program)
            dlclose(program);
        __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found, __ATOMIC_RELAXED);
}

/* Whether the library has a function of the table. */
#define SEMCACHE_HAS(library, function) \
    ((library) && offsetof(semcache_interface, function) + sizeof((library)->function) <= (library)->size)

static inline semcache_matrix semcache_view(const void *data, int64_t rows, int64_t cols, int64_t ld, size_t element)
{
    semcache_matrix view;
    view.size = (uint32_t)sizeof view;
    view.element = element > UINT32_MAX ? 0 : (uint32_t)element;
    view.data = data;
    view.rows = rows;
    view.cols = cols;
    view.ld = ld;
    return view;
}

/* One sentence for a status. */
static inline const char *semcache_message(int status)
{
    switch (status) {
    case SEMCACHE_OK: return "done, or queued";
    case SEMCACHE_ABSENT: return "the program runs without semcache, or with a version that lacks this function";
    case SEMCACHE_PENDING: return "not complete yet";
    case SEMCACHE_NO_DEVICE: return "no device can be used here";
    case SEMCACHE_INVALID: return "an argument is not valid";
    case SEMCACHE_UNTRACKED: return "the memory cannot be tracked: a stack, guarded pages, or more than one allocation";
    case SEMCACHE_NO_ROOM: return "the device has no room for the matrix, or too many requests wait";
    case SEMCACHE_LOST: return "the device is lost";
    case SEMCACHE_BUSY: return "a signal handler interrupted the library";
    case SEMCACHE_FAILED: return "a device refused a copy";
    default: return "unknown status";
    }
}

/* The number of devices in use: zero before the first large BLAS call or prefetch, and without the library. */
static inline int semcache_devices(void)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, devices) ? library->devices() : 0;
}

/* Copies a matrix to a device, or its columns to all devices in equal shares (SEMCACHE_ALL_DEVICES), before a BLAS call uses it. Brings
 * devices up if none was, and waits for them. Without an event (NULL) it returns when the bytes have arrived; with one at once, and a
 * thread of the library sends them. */
static inline int semcache_prefetch(const semcache_matrix *matrix, int device, semcache_event *event)
{
    const semcache_interface *library = semcache_library();
    if (event)
        event->number = 0;
    return SEMCACHE_HAS(library, prefetch) ? library->prefetch(matrix, device, event ? &event->number : NULL) : SEMCACHE_ABSENT;
}

/* Copies the newest bytes of a matrix to the host; devices keep their copies. Without an event it returns when the bytes have arrived. */
static inline int semcache_coherent(const semcache_matrix *matrix, semcache_event *event)
{
    const semcache_interface *library = semcache_library();
    if (event)
        event->number = 0;
    return SEMCACHE_HAS(library, coherent) ? library->coherent(matrix, event ? &event->number : NULL) : SEMCACHE_ABSENT;
}

/* The CPU is about to read the matrix: its newest bytes are copied to the host and its pages become readable, at once instead of by
 * page faults. Devices keep their copies. */
static inline int semcache_read_cpu(const semcache_matrix *matrix)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, to_cpu) ? library->to_cpu(matrix, 0) : SEMCACHE_ABSENT;
}

/* The CPU is about to change the matrix: as semcache_read_cpu, and devices drop their copies. */
static inline int semcache_write_cpu(const semcache_matrix *matrix)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, to_cpu) ? library->to_cpu(matrix, 1) : SEMCACHE_ABSENT;
}

/* Frees the memory of a device, or of all (SEMCACHE_ALL_DEVICES), that holds bytes of the matrix. What only it holds goes to the host. */
static inline int semcache_evict(const semcache_matrix *matrix, int device)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, evict) ? library->evict(matrix, device) : SEMCACHE_ABSENT;
}

/* How many bytes of the matrix a device holds (at least), any device (SEMCACHE_ALL_DEVICES), or the host (SEMCACHE_HOST); copies that are
 * out of date do not count. */
static inline int semcache_residency(const semcache_matrix *matrix, int place, int64_t *bytes)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, residency) ? library->residency(matrix, place, bytes) : SEMCACHE_ABSENT;
}

/* Returns when the request is complete, and what became of it. */
static inline int semcache_wait(const semcache_event *event)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, wait) ? library->wait(event ? &event->number : NULL, 1) : SEMCACHE_ABSENT;
}

/* As semcache_wait, but returns SEMCACHE_PENDING at once if the request is not complete. */
static inline int semcache_test(const semcache_event *event)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, wait) ? library->wait(event ? &event->number : NULL, 0) : SEMCACHE_ABSENT;
}

/* From here to semcache_end, BLAS calls of this thread that devices run return once their copies and kernels are queued: results are
 * complete when the CPU reads them, or a call uses them, as ever. Without a section calls may wait: for small results that the CPU is
 * expected to read, for the host's part, for devices of unequal speed. Operands in memory that cannot be protected are complete at return
 * in any case. Sections may be nested; the outermost counts. */
static inline int semcache_begin(void)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, section) ? library->section(1, NULL) : SEMCACHE_ABSENT;
}

/* Ends a section. The event is complete when the calls of the section are. Without one (NULL) it waits for them. */
static inline int semcache_end(semcache_event *event)
{
    const semcache_interface *library = semcache_library();
    if (event)
        event->number = 0;
    return SEMCACHE_HAS(library, section) ? library->section(0, event ? &event->number : NULL) : SEMCACHE_ABSENT;
}

/* Sends the blocks of a matrix to the devices of a distribution. From then on, each block of the matrix, or of a part of it, that a level-3
 * call writes is computed by the device that it belongs to. A later distribution of bytes of the matrix takes its place. */
static inline int semcache_distribute(const semcache_matrix *matrix, const semcache_distribution *distribution, semcache_event *event)
{
    const semcache_interface *library = semcache_library();
    if (event)
        event->number = 0;
    return SEMCACHE_HAS(library, distribute) ? library->distribute(matrix, distribution, event ? &event->number : NULL) : SEMCACHE_ABSENT;
}

static inline semcache_distribution semcache_distribution_of(uint32_t kind)
{
    semcache_distribution of;
    of.size = (uint32_t)sizeof of;
    of.kind = kind;
    of.mb = of.nb = 0;
    of.p = of.q = 0;
    of.owner = NULL;
    of.user = NULL;
    return of;
}

static inline semcache_distribution semcache_block_cyclic(int64_t mb, int64_t nb, int32_t p, int32_t q)
{
    semcache_distribution of = semcache_distribution_of(SEMCACHE_CYCLIC);
    of.mb = mb;
    of.nb = nb;
    of.p = p;
    of.q = q;
    return of;
}

/* As semcache_prefetch, and calls that need room evict other copies first, until semcache_unpin. */
static inline int semcache_pin(const semcache_matrix *matrix, int device, semcache_event *event)
{
    const semcache_interface *library = semcache_library();
    if (event)
        event->number = 0;
    return SEMCACHE_HAS(library, pin) ? library->pin(matrix, device, 1, event ? &event->number : NULL) : SEMCACHE_ABSENT;
}

/* Ends what semcache_pin began for this matrix, or for parts of it. */
static inline int semcache_unpin(const semcache_matrix *matrix)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, pin) ? library->pin(matrix, SEMCACHE_ALL_DEVICES, 0, NULL) : SEMCACHE_ABSENT;
}

/* A kernel of the program is about to read the matrix on a device: where its newest bytes are there. Until semcache_release_gpu the device
 * memory is used for nothing else, and neither the CPU nor a BLAS call may change the matrix. In `context` the driver must not be given
 * host memory of matrices (cuMemcpyHtoD and the like): their pages may be inaccessible, or out of date. */
static inline int semcache_read_gpu(const semcache_matrix *matrix, int device, semcache_device_matrix *found)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, to_gpu) ? library->to_gpu(matrix, device, 0, found) : SEMCACHE_ABSENT;
}

/* A kernel of the program is about to change the matrix on a device: as semcache_read_gpu, and all other copies are out of date. Until
 * semcache_release_gpu neither the CPU nor a BLAS call may use the matrix. */
static inline int semcache_write_gpu(const semcache_matrix *matrix, int device, semcache_device_matrix *found)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, to_gpu) ? library->to_gpu(matrix, device, 1, found) : SEMCACHE_ABSENT;
}

/* The kernels of the program that used the matrix are complete. */
static inline int semcache_release_gpu(const semcache_device_matrix *found)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, release) ? library->release(found ? found->hold : 0) : SEMCACHE_ABSENT;
}

/* Names a matrix in messages and traces; NULL takes the name away. */
static inline int semcache_name(const semcache_matrix *matrix, const char *name)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, name) ? library->name(matrix, name) : SEMCACHE_ABSENT;
}

/* A range of the calling thread in the trace (SEMCACHE_TRACE, NVTX), until semcache_range_end. Ranges may be nested. */
static inline int semcache_range_begin(const char *name)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, range) ? library->range(name ? name : "") : SEMCACHE_ABSENT;
}

static inline int semcache_range_end(void)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, range) ? library->range(NULL) : SEMCACHE_ABSENT;
}

/* What the library knows of a device and its links: built in, measured by `semcache calibrate`, and corrected by calls. */
static inline int semcache_device_rates(int device, semcache_rates *rates)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, rates) ? library->rates(device, rates) : SEMCACHE_ABSENT;
}

/* What the library expects of a call ("dgemm") of these sizes, with its operands on the host, or on the devices (resident). */
static inline int semcache_predict(const char *routine, int64_t m, int64_t n, int64_t k, int resident, semcache_prediction *prediction)
{
    const semcache_interface *library = semcache_library();
    int64_t sizes[3];
    sizes[0] = m;
    sizes[1] = n;
    sizes[2] = k;
    return SEMCACHE_HAS(library, predict) ? library->predict(routine, sizes, resident, prediction) : SEMCACHE_ABSENT;
}

/* Y = alpha op(A) X + beta Y for a sparse A, by devices where that pays, else by a loop of the library. X and Y have the element type of A;
 * `op` is 'N', 'T' or 'C'; alpha and beta point to numbers of that type. Columns may come in any order, and more than once. Devices keep
 * A until the program changes or frees its arrays, and Y until the CPU touches it. SEMCACHE_ABSENT: nothing was computed, the program has
 * to do it. SEMCACHE_INVALID: as well, since row offsets descend, a column is not in the matrix, or Y overlaps an input. */
static inline int semcache_csr_multiply(const semcache_csr *A, char op, const void *alpha, const semcache_matrix *X, const void *beta,
                                        const semcache_matrix *Y)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, csr_multiply) ? library->csr_multiply(A, op, alpha, X, beta, Y) : SEMCACHE_ABSENT;
}

/* What the process did so far. */
static inline int semcache_count(semcache_statistics *statistics)
{
    const semcache_interface *library = semcache_library();
    return SEMCACHE_HAS(library, statistics) ? library->statistics(statistics) : SEMCACHE_ABSENT;
}

#ifdef __cplusplus
}
#endif

#endif
