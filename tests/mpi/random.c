/* A random program of communications and BLAS calls. All ranks derive the same plan from the seed, so that it always ends, and
 * how requests are completed from one of their own. Numbers stay small integers, so that every result is exact.
 *
 *   random SEED [STEPS] [THREADS]    each thread has a communicator and matrices of its own
 *   random SEED end KIND             abort: one rank calls MPI_Abort in the middle; kill: one rank kills itself;
 *                                    pending: requests are active at MPI_Finalize; leave: they are at exit without it
 *
 * Rank 0 prints hashes of everything every few steps. With MPI_TRACE each rank says on standard error what it does. */
#include <pthread.h>
#include <signal.h>

#include "mpi_kit.h"

enum { SIDE = 64, SIZE = SIDE * SIDE, COUNT = 10, PENDING = 10, KEPT = 3, EVERY = 8, TEXT = 1 << 20 };

struct pending {
    MPI_Request q[2];
    int read, written; /* The matrices in use, or -1. */
    int kept;          /* The persistent pair that has been started, or -1. */
};

struct kept {
    MPI_Request q[2];
    int from, to, used;
};

/* What a thread has. All but `own`, requests and numbers is the same in all ranks. */
struct part {
    int index, steps, count, size;
    uint64_t plan, own, digest;
    MPI_Comm comm;
    MPI_Datatype gaps;
    double *x[COUNT], bound[COUNT];
    int reads[COUNT], writes[COUNT], pinned[COUNT];
    struct pending pending[PENDING];
    struct kept kept[KEPT];
    char *text;
    size_t length;
};

static int trace, threads = 1;

static unsigned next_of(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(*state >> 33) % below;
}

#define PLAN(below) ((int)next_of(&p->plan, (unsigned)(below)))
#define OWN(below) ((int)next_of(&p->own, (unsigned)(below)))

/* A matrix that may be written, or one that may be read: -1 if there is none. */
static int writable(struct part *p)
{
    for (int tries = 0, i; tries < 20; tries++)
        if (i = PLAN(COUNT), !p->reads[i] && !p->writes[i])
            return i;
    return -1;
}

static int readable(struct part *p, int but)
{
    for (int tries = 0, i; tries < 20; tries++)
        if (i = PLAN(COUNT), i != but && !p->writes[i])
            return i;
    return -1;
}

/* The CPU makes numbers small again. */
static void reduced(struct part *p, int i)
{
    for (int j = 0; j < SIZE; j++)
        p->x[i][j] = fmod(p->x[i][j], 7);
    p->bound[i] = 6;
}

static void filled(struct part *p, int i)
{
    uint64_t state = p->plan + (uint64_t)rank;
    for (int j = 0; j < SIZE; j++)
        p->x[i][j] = (int)next_of(&state, 9) - 4;
    p->bound[i] = 4;
}

static void hashed(struct part *p, int i)
{
    p->digest = p->digest * 31 + hash(p->x[i], SIZE);
}

/* Products of whole matrices and of parts. */
static void computed(struct part *p)
{
    int c = writable(p);
    int a = c < 0 ? -1 : readable(p, c), b = c < 0 ? -1 : readable(p, c);
    if (a < 0 || b < 0)
        return;
    const double limit = 1e12;
    const int ld = SIDE, one = 1, all = SIZE, kind = PLAN(6);
    if (kind < 4 && p->bound[a] * p->bound[b] * SIDE > limit) {
        if (p->reads[a] || (a != b && p->reads[b]))
            return;
        reduced(p, a);
        reduced(p, b);
    }
    if (p->bound[c] > limit)
        reduced(p, c);
    const double alpha = PLAN(2) ? 1 : -1, beta = PLAN(2), factor = PLAN(3) - 1;
    if (kind < 4) {
        int m = SIDE, n = SIDE, k = SIDE, at = 0;
        double kept = beta;
        if (kind == 3)
            m = 1 + PLAN(SIDE - 1), n = 1 + PLAN(SIDE - 1), k = 1 + PLAN(SIDE), at = PLAN(SIDE - m) + SIDE * PLAN(SIDE - n);
        dgemm_(PLAN(2) ? "N" : "T", PLAN(2) ? "N" : "T", &m, &n, &k, &alpha, p->x[a], &ld, p->x[b], &ld, &kept, p->x[c] + at, &ld);
        p->bound[c] = p->bound[a] * p->bound[b] * SIDE + p->bound[c];
    } else if (kind == 4) {
        if (p->bound[a] > limit)
            return;
        daxpy_(&all, &alpha, p->x[a], &one, p->x[c], &one);
        p->bound[c] += p->bound[a];
    } else {
        dscal_(&all, &factor, p->x[c], &one);
    }
}

/* What the CPU does with matrices. */
static void touched(struct part *p)
{
    int kind = PLAN(4), i = kind ? writable(p) : readable(p, -1);
    if (i < 0)
        return;
    if (kind == 0) {
        hashed(p, i);
    } else if (kind == 1) {
        int at = PLAN(SIZE - 600), n = PLAN(2) ? 1 : PLAN(600);
        for (int j = at; j < at + n; j++)
            p->x[i][j] = j % 5 - 2;
        p->bound[i] = fmax(p->bound[i], 3);
    } else if (kind == 2 || p->pinned[i]) {
        filled(p, i);
    } else {
        /* Blocks of the heap share pages with others. */
        free(p->x[i]);
        p->x[i] = need(malloc(SIZE * 8 + 16 * (size_t)PLAN(200)));
        filled(p, i);
    }
}

static struct pending *empty(struct part *p)
{
    for (int i = 0; i < PENDING; i++)
        if (p->pending[i].read < 0 && p->pending[i].written < 0)
            return &p->pending[i];
    return NULL;
}

static void began(struct part *p, struct pending *it, int read, int written)
{
    it->read = read, it->written = written, it->kept = -1;
    if (read >= 0)
        p->reads[read]++;
    p->writes[written]++;
}

/* Completes an operation if there is one. */
static void completed(struct part *p, int i)
{
    struct pending *it = &p->pending[i];
    if (it->read < 0 && it->written < 0)
        return;
    MPI_Request *q = it->kept < 0 ? it->q : p->kept[it->kept].q;
    complete(2, q, OWN(WAYS), NULL);
    if (it->read >= 0)
        p->reads[it->read]--;
    p->writes[it->written]--;
    it->read = it->written = -1;
}

/* Looks at all requests: those that are complete may end now or later. */
static void polled(struct part *p)
{
    MPI_Request q[2 * PENDING];
    int some, flag, indices[2 * PENDING];
    for (int i = 0; i < PENDING; i++)
        for (int j = 0; j < 2; j++)
            q[2 * i + j] = p->pending[i].q[j];
    switch (OWN(3)) {
    case 0: MPI_Testsome(2 * PENDING, q, &some, indices, MPI_STATUSES_IGNORE); break;
    case 1: MPI_Testany(2 * PENDING, q, &some, &flag, MPI_STATUS_IGNORE); break;
    default: some = OWN(2 * PENDING), MPI_Test(&q[some], &flag, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < PENDING; i++)
        for (int j = 0; j < 2; j++)
            p->pending[i].q[j] = q[2 * i + j];
}

/* Messages between a rank and another: all of a matrix, a range, or with gaps. */
static void sent(struct part *p, int step)
{
    int to = writable(p), from = to < 0 ? -1 : readable(p, to), kind = PLAN(8), form = PLAN(3);
    int by = PLAN(p->size), dest = (rank + by) % p->size, source = (rank + p->size - by) % p->size;
    struct pending *it = empty(p);
    if (from < 0 || !it)
        return;
    int n = form == 1 ? 1 + PLAN(SIZE / 2) : SIZE, at = form == 1 ? PLAN(SIZE / 2) : 0, tag = step;
    MPI_Datatype t = MPI_DOUBLE;
    double *x = p->x[from] + at, *y = p->x[to] + at;
    if (form == 2)
        n = 1, t = p->gaps;
    p->bound[to] = fmax(p->bound[to], p->bound[from]);
    it->q[0] = it->q[1] = MPI_REQUEST_NULL;
    switch (kind) {
    case 0:
        MPI_Sendrecv(x, n, t, dest, tag, y, n, t, source, tag, p->comm, MPI_STATUS_IGNORE);
        return;
    case 1:
        MPI_Sendrecv_replace(y, n, t, dest, tag, source, tag, p->comm, MPI_STATUS_IGNORE);
        return;
    case 2:
        MPI_Isend(x, n, t, dest, tag, p->comm, &it->q[0]);
        MPI_Recv(y, n, t, source, tag, p->comm, MPI_STATUS_IGNORE);
        MPI_Wait(&it->q[0], MPI_STATUS_IGNORE);
        return;
    case 3:
        MPI_Irecv(y, n, t, source, tag, p->comm, &it->q[0]);
        MPI_Ssend(x, n, t, dest, tag, p->comm);
        break;
    case 4: {
        MPI_Message message;
        MPI_Isend(x, n, t, dest, tag, p->comm, &it->q[0]);
        MPI_Mprobe(source, tag, p->comm, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(y, n, t, &message, &it->q[1]);
        break;
    }
    case 5:
        MPI_Issend(x, n, t, dest, tag, p->comm, &it->q[0]);
        MPI_Irecv(y, n, t, source, tag, p->comm, &it->q[1]);
        break;
    default:
        MPI_Irecv(y, n, t, source, tag, p->comm, &it->q[1]);
        MPI_Isend(x, n, t, dest, tag, p->comm, &it->q[0]);
    }
    began(p, it, kind == 3 ? -1 : from, to);
}

/* Persistent pairs: made, started, freed. */
static void persisted(struct part *p, int step)
{
    int i = PLAN(KEPT), by = PLAN(p->size);
    struct kept *k = &p->kept[i];
    if (!k->used) {
        k->to = PLAN(COUNT), k->from = (k->to + 1 + PLAN(COUNT - 1)) % COUNT;
        MPI_Send_init(p->x[k->from], SIZE, MPI_DOUBLE, (rank + by) % p->size, step, p->comm, &k->q[0]);
        MPI_Recv_init(p->x[k->to], SIZE, MPI_DOUBLE, (rank + p->size - by) % p->size, step, p->comm, &k->q[1]);
        p->pinned[k->from]++, p->pinned[k->to]++;
        k->used = 1;
        return;
    }
    for (int j = 0; j < PENDING; j++)
        if (p->pending[j].written >= 0 && p->pending[j].kept == i) {
            completed(p, j);
            return;
        }
    if (!PLAN(6)) {
        MPI_Request_free(&k->q[0]);
        MPI_Request_free(&k->q[1]);
        p->pinned[k->from]--, p->pinned[k->to]--;
        k->used = 0;
        return;
    }
    struct pending *it = empty(p);
    if (!it || p->writes[k->from] || p->writes[k->to] || p->reads[k->to])
        return;
    it->q[0] = it->q[1] = MPI_REQUEST_NULL;
    if (PLAN(2))
        MPI_Startall(2, k->q);
    else
        MPI_Start(&k->q[0]), MPI_Start(&k->q[1]);
    began(p, it, k->from, k->to);
    it->kept = i;
    p->bound[k->to] = p->bound[k->from];
}

/* A collective function, or one that goes on as a request. */
static void collected(struct part *p)
{
    int to = writable(p), from = to < 0 ? -1 : readable(p, to), kind = PLAN(7), root = PLAN(p->size), wait = PLAN(2);
    int n = SIZE / p->size;
    struct pending *it = empty(p);
    if (from < 0 || !it || p->bound[from] > 1e12 || p->bound[to] > 1e12)
        return;
    double *x = p->x[from], *y = p->x[to];
    MPI_Request *q = &it->q[0];
    const MPI_Comm c = p->comm;
    it->q[1] = MPI_REQUEST_NULL;
#define EITHER(F, f, ...) (wait ? MPI_##F(__VA_ARGS__, c) : MPI_I##f(__VA_ARGS__, c, q))
    switch (kind) {
    case 0: EITHER(Bcast, bcast, y, SIZE, MPI_DOUBLE, root), from = -1; break;
    case 1: EITHER(Allreduce, allreduce, x, y, SIZE, MPI_DOUBLE, MPI_SUM); break;
    case 2: EITHER(Allgather, allgather, x, n, MPI_DOUBLE, y, n, MPI_DOUBLE); break;
    case 3: EITHER(Alltoall, alltoall, x, n, MPI_DOUBLE, y, n, MPI_DOUBLE); break;
    case 4: EITHER(Reduce, reduce, x, rank == root ? y : NULL, SIZE, MPI_DOUBLE, MPI_SUM, root); break;
    case 5: EITHER(Scan, scan, x, y, SIZE, MPI_DOUBLE, MPI_SUM); break;
    default: EITHER(Allreduce, allreduce, MPI_IN_PLACE, y, SIZE, MPI_DOUBLE, MPI_MAX), from = -1;
    }
    p->bound[to] = fmax(p->bound[to], from < 0 ? 0 : p->bound[from] * p->size);
    if (!wait)
        began(p, it, from, to);
}

/* A window over a matrix for a few operations. */
static void exposed(struct part *p)
{
    int to = writable(p), lock = PLAN(2), times = 1 + PLAN(3), by = PLAN(p->size), there = (rank + by) % p->size;
    int get = to < 0 ? -1 : writable(p);
    if (get < 0 || get == to || p->bound[to] > 1e12)
        return;
#ifdef OPEN_MPI
    if (p->size == 1 || threads > 1)
        return; /* Open MPI has no window of one process here, and none is safe in several threads. */
#endif
    MPI_Win w;
    MPI_Win_create(p->x[to], SIZE * 8, 8, MPI_INFO_NULL, p->comm, &w);
    if (!lock)
        MPI_Win_fence(0, w);
    for (int i = 0; i < times; i++) {
        int kind = PLAN(3), from = readable(p, to), n = 1 + PLAN(SIZE / 2), at = PLAN(SIZE / 2);
        if (from < 0 || from == get || p->bound[from] > 1e12)
            continue;
        if (lock)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, there, 0, w);
        if (kind == 0)
            MPI_Put(p->x[from], n, MPI_DOUBLE, there, at, n, MPI_DOUBLE, w);
        else if (kind == 1)
            MPI_Get(p->x[get] + 3, n, MPI_DOUBLE, there, at, n, MPI_DOUBLE, w);
        else
            MPI_Accumulate(p->x[from], n, MPI_DOUBLE, there, at, n, MPI_DOUBLE, MPI_SUM, w);
        if (lock)
            MPI_Win_unlock(there, w), MPI_Barrier(p->comm);
        else
            MPI_Win_fence(0, w);
        p->bound[get] = fmax(p->bound[get], p->bound[to]);
        p->bound[to] = p->bound[to] + p->bound[from];
    }
    MPI_Win_free(&w);
}

/* Hashes of what may be read, in rank order. */
static void told(struct part *p, int step)
{
    for (int i = 0; i < COUNT; i++)
        if (!p->writes[i])
            hashed(p, i);
    uint64_t all[64];
    MPI_Gather(&p->digest, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, p->comm);
    if (rank)
        return;
    p->length += (size_t)snprintf(p->text + p->length, TEXT - p->length, "%d.%d:", p->index, step);
    for (int i = 0; i < p->size; i++)
        p->length += (size_t)snprintf(p->text + p->length, TEXT - p->length, " %016llx", (unsigned long long)all[i]);
    p->length += (size_t)snprintf(p->text + p->length, TEXT - p->length, "\n");
    if (threads == 1) {
        fputs(p->text, stdout);
        fflush(stdout);
        p->length = 0;
    }
}

static void *run(void *at)
{
    struct part *p = at;
    for (int step = 1; step <= p->steps; step++) {
        int kind = PLAN(20);
        if (trace)
            fprintf(stderr, "[%d.%d] step %d: %d\n", rank, p->index, step, kind);
        if (kind < 7)
            computed(p);
        else if (kind < 9)
            touched(p);
        else if (kind < 12)
            sent(p, step);
        else if (kind < 14)
            collected(p);
        else if (kind < 16)
            persisted(p, step);
        else if (kind < 17)
            exposed(p);
        else
            completed(p, PLAN(PENDING));
        if (!OWN(3))
            polled(p);
        if (step % EVERY == 0)
            told(p, step);
    }
    return NULL;
}

static void ended(struct part *p)
{
    for (int i = 0; i < PENDING; i++)
        completed(p, i);
    for (int i = 0; i < KEPT; i++)
        for (int j = 0; j < 2 && p->kept[i].used; j++)
            MPI_Request_free(&p->kept[i].q[j]);
    told(p, p->steps + 1);
}

int main(int argc, char **argv)
{
    int provided, ending = argc > 3 && !strcmp(argv[2], "end");
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const int steps = ending ? 60 : argc > 2 ? atoi(argv[2]) : 400;
    threads = argc > 3 && !ending ? atoi(argv[3]) : 1;
    trace = getenv("MPI_TRACE") != NULL;
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > 64 || (threads > 1 && provided < MPI_THREAD_MULTIPLE)) {
        fprintf(stderr, "no threads, or too many ranks\n");
        return 2;
    }
    struct part *parts = need(calloc((size_t)threads, sizeof *parts));
    pthread_t *ids = need(calloc((size_t)threads, sizeof *ids));
    for (int i = 0; i < threads; i++) {
        struct part *p = &parts[i];
        p->index = i, p->steps = steps, p->size = ranks;
        p->plan = seed * 1000 + (uint64_t)i, p->own = p->plan * 77 + (uint64_t)rank;
        p->text = need(calloc(TEXT, 1));
        MPI_Comm_dup(MPI_COMM_WORLD, &p->comm);
        MPI_Type_vector(SIDE / 2, SIDE - 9, 2 * SIDE, MPI_DOUBLE, &p->gaps);
        MPI_Type_commit(&p->gaps);
        for (int j = 0; j < PENDING; j++)
            p->pending[j].read = p->pending[j].written = -1, p->pending[j].q[0] = p->pending[j].q[1] = MPI_REQUEST_NULL;
        for (int j = 0; j < COUNT; j++) {
            p->x[j] = need(malloc(SIZE * 8 + 16 * (size_t)PLAN(200)));
            filled(p, j);
        }
    }
    for (int i = 1; i < threads; i++)
        pthread_create(&ids[i], NULL, run, &parts[i]);
    run(&parts[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    if (ending) {
        const char *kind = argv[3];
        const int chosen = (int)(seed % (uint64_t)ranks);
        if (rank == chosen && !strcmp(kind, "abort"))
            MPI_Abort(MPI_COMM_WORLD, 3);
        if (rank == chosen && !strcmp(kind, "kill"))
            raise(SIGKILL);
        if (!strcmp(kind, "abort") || !strcmp(kind, "kill"))
            for (;;)
                meet(MPI_COMM_WORLD);
        /* What is active already, and a receive that never comes. */
        MPI_Request q;
        double *never = doubles(SIZE), *none = doubles(SIZE);
        multiply(SIDE, 1, parts[0].x[0], parts[0].x[1], 0, none);
        MPI_Irecv(never, SIZE, MPI_DOUBLE, rank, 1 << 20, MPI_COMM_WORLD, &q);
        meet(MPI_COMM_WORLD);
        if (!strcmp(kind, "leave"))
            exit(0);
        MPI_Finalize();
        return 0;
    }
    for (int i = 0; i < threads; i++) {
        ended(&parts[i]);
        fputs(parts[i].text, stdout);
    }
    MPI_Finalize();
    return 0;
}
