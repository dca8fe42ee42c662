/* Every MPI function that uses buffers, called on matrices: before a call the buffer that it reads is the result of a BLAS
 * call, and the one that it writes is another result or an input of one; afterwards a BLAS call uses what was received. While
 * a request is active, BLAS calls read what is being sent and compute elsewhere.
 *
 *   functions [GROUP]...     of the groups at the end of this file those named, or all but two: `spawn` (which Open MPI can
 *                            with its TCP transport), and `persistent`, persistent collective functions (in which MPICH 4.0
 *                            hangs at times, most often after other groups)
 *
 * It prints, for each call and rank, a hash of the received matrix and one of the rest. With MPI_TRACE each rank says on
 * standard error what it is about to call. The program runs with 1 to 4 ranks. */
#include "mpi_kit.h"

#if defined OPEN_MPI && MPI_VERSION < 4
/* Open MPI 4 has them as extensions. */
#include <mpi-ext.h>
#define MPI_Allgather_init MPIX_Allgather_init
#define MPI_Allgatherv_init MPIX_Allgatherv_init
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Alltoall_init MPIX_Alltoall_init
#define MPI_Alltoallv_init MPIX_Alltoallv_init
#define MPI_Alltoallw_init MPIX_Alltoallw_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Exscan_init MPIX_Exscan_init
#define MPI_Gather_init MPIX_Gather_init
#define MPI_Gatherv_init MPIX_Gatherv_init
#define MPI_Neighbor_allgather_init MPIX_Neighbor_allgather_init
#define MPI_Neighbor_allgatherv_init MPIX_Neighbor_allgatherv_init
#define MPI_Neighbor_alltoall_init MPIX_Neighbor_alltoall_init
#define MPI_Neighbor_alltoallv_init MPIX_Neighbor_alltoallv_init
#define MPI_Neighbor_alltoallw_init MPIX_Neighbor_alltoallw_init
#define MPI_Reduce_init MPIX_Reduce_init
#define MPI_Reduce_scatter_init MPIX_Reduce_scatter_init
#define MPI_Reduce_scatter_block_init MPIX_Reduce_scatter_block_init
#define MPI_Scan_init MPIX_Scan_init
#define MPI_Scatter_init MPIX_Scatter_init
#define MPI_Scatterv_init MPIX_Scatterv_init
#endif

enum {
    M = NN / 4,      /* numbers that a process exchanges with each other one */
    EDGE = 700,      /* numbers before a buffer that are in the same result */
    BIG = 131072,    /* numbers of a large message */
    ALL = 2 * NN,
};

/* The arguments of collective functions; those with an L are large counts. */
struct arguments {
    void *sb, *rb;
    int sn, rn, n, bn, root;
    MPI_Datatype st, rt, t;
    MPI_Op op;
    MPI_Comm comm;
    /* Of the functions with a count for each process: of this process's own part, of all, and of pairs with this one. */
    int vsn, vrn, *sns, *sds, *rns, *rds, *psn, *prn, *swd, *rwd, *rsn;
    MPI_Count *Lsns, *Lrns, *Lpsn, *Lprn, *Lrsn;
    MPI_Aint *Lsds, *Lrds, *Lswd, *Lrwd;
    MPI_Datatype *sts, *rts;
};
static struct arguments g;

static double *a, *b, *s, *r, *d, *e;
static double step;
static int way, trace;
/* MPICH 4.0 does not see that persistent collective functions, partitioned messages and operations on files are complete in
 * other ways than the first three. */
static int ways = WAYS;
enum {
#ifdef OPEN_MPI
    SURE = WAYS,
#else
    SURE = 3,
#endif
};
/* Persistent versions of collective functions are called, and no others. MPICH 4.0 frees derived types in them too early. */
static int persistent, plain_types;
static const char *scene = "";
static MPI_Comm world;
static MPI_Request opposite;
static int next, last;
/* What happens before and after the function that is called: what other processes need to communicate with it. */
static void (*before)(void), (*after)(void);

static void ready(const char *name)
{
    if (trace)
        fprintf(stderr, "[%d] %s: %s\n", rank, scene, name);
    step++;
    product(step, a, b, s);
    if ((int)step % 3) {
        product(-step, a, b, r);
    } else {
        /* An input: the CPU writes it, and devices have it. */
        for (int i = 0; i < ALL; i++)
            r[i] = i % 97 - step;
        product(1, r, b, d);
    }
    if (before)
        before();
}

static void beside(void)
{
    product(1, s, b, e);
    product(2, a, b, e + ALL);
}

static void shown(const char *name)
{
    if (after)
        after();
    product(1, r + EDGE, b, d);
    uint64_t received = hash(r, ALL);
    record(scene, name, received, hash(d, ALL) + 3 * hash(s, ALL) + 5 * hash(e, 2 * ALL));
}

static void finish(MPI_Request *q)
{
    complete(1, q, way++ % ways, NULL);
}

#define BLOCKING(F, ...) (ready(#F), MPI_##F(__VA_ARGS__), shown(#F))
#define REQUEST(F, ...)             \
    do {                            \
        MPI_Request q;              \
        ready(#F);                  \
        MPI_##F(__VA_ARGS__, &q);   \
        beside();                   \
        finish(&q);                 \
        shown(#F);                  \
    } while (0)
static int rounds = 3;
#define PERSISTENT(F, ...)                                        \
    do {                                                          \
        MPI_Request q;                                            \
        MPI_##F(__VA_ARGS__, &q);                                 \
        for (int round = 0; round < rounds; round++) {            \
            ready(#F);                                            \
            round == 1 ? MPI_Startall(1, &q) : MPI_Start(&q);     \
            beside();                                             \
            finish(&q);                                                      \
            shown(#F);                                            \
        }                                                         \
        MPI_Request_free(&q);                                     \
    } while (0)

static int brief, turn; /* Of two versions of a function, or of all modes, one is called in turn. */

/* All functions of a family. ARGS_F(L) is their arguments. */
#define EVERY(F, f)                                                      \
    do {                                                                 \
        turn++;                                                          \
        if (!brief || MPI_VERSION < 4 || turn % 2) {                     \
            if (!persistent) {                                           \
                BLOCKING(F, ARGS_##F());                                 \
                REQUEST(I##f, ARGS_##F());                               \
            }                                                            \
            if (persistent && plain_types)                               \
                PERSISTENT(F##_init, ARGS_##F(), MPI_INFO_NULL);         \
        }                                                                \
        MPI4(if (!brief || turn % 2 == 0) {                              \
            if (!persistent) {                                           \
                BLOCKING(F##_c, ARGS_##F(L));                            \
                REQUEST(I##f##_c, ARGS_##F(L));                          \
            } else if (plain_types) {                                    \
                PERSISTENT(F##_init_c, ARGS_##F(L), MPI_INFO_NULL);      \
            }                                                            \
        })                                                               \
    } while (0)
#define SEND(F, f)                   \
    do {                             \
        BLOCKING(F, SENT);           \
        MPI4(BLOCKING(F##_c, SENT);) \
        BEGUN(F, f, SENT);           \
    } while (0)
#define BEGUN(F, f, ...)                        \
    do {                                        \
        REQUEST(I##f, __VA_ARGS__);             \
        PERSISTENT(F##_init, __VA_ARGS__);      \
        MPI4(REQUEST(I##f##_c, __VA_ARGS__);    \
             PERSISTENT(F##_init_c, __VA_ARGS__);) \
    } while (0)

#define ARGS_Allgather(L) g.sb, g.sn, g.st, g.rb, g.rn, g.rt, g.comm
#define ARGS_Allgatherv(L) g.sb, g.vsn, g.st, g.rb, g.L##rns, g.L##rds, g.rt, g.comm
#define ARGS_Allreduce(L) g.sb, g.rb, g.n, g.t, g.op, g.comm
#define ARGS_Alltoall(L) g.sb, g.sn, g.st, g.rb, g.rn, g.rt, g.comm
#define ARGS_Alltoallv(L) g.sb, g.L##psn, g.L##sds, g.st, g.rb, g.L##prn, g.L##rds, g.rt, g.comm
#define ARGS_Alltoallw(L) g.sb, g.L##psn, g.L##swd, g.sts, g.rb, g.L##prn, g.L##rwd, g.rts, g.comm
#define ARGS_Bcast(L) g.rb, g.n, g.rt, g.root, g.comm
#define ARGS_Exscan(L) ARGS_Allreduce(L)
#define ARGS_Gather(L) g.sb, g.sn, g.st, g.rb, g.rn, g.rt, g.root, g.comm
#define ARGS_Gatherv(L) g.sb, g.vsn, g.st, g.rb, g.L##rns, g.L##rds, g.rt, g.root, g.comm
#define ARGS_Reduce(L) g.sb, g.rb, g.n, g.t, g.op, g.root, g.comm
#define ARGS_Reduce_scatter(L) g.sb, g.rb, g.L##rsn, g.t, g.op, g.comm
#define ARGS_Reduce_scatter_block(L) g.sb, g.rb, g.bn, g.t, g.op, g.comm
#define ARGS_Scan(L) ARGS_Allreduce(L)
#define ARGS_Scatter(L) ARGS_Gather(L)
#define ARGS_Scatterv(L) g.sb, g.L##sns, g.L##sds, g.st, g.rb, g.vrn, g.rt, g.root, g.comm
#define ARGS_Neighbor_allgather(L) ARGS_Allgather(L)
#define ARGS_Neighbor_allgatherv(L) ARGS_Allgatherv(L)
#define ARGS_Neighbor_alltoall(L) ARGS_Alltoall(L)
#define ARGS_Neighbor_alltoallv(L) ARGS_Alltoallv(L)
#define ARGS_Neighbor_alltoallw(L) g.sb, g.L##psn, g.Lswd, g.sts, g.rb, g.L##prn, g.Lrwd, g.rts, g.comm
#define SENT g.sb, g.n, g.st, next, 5, world
#define RECEIVED g.rb, g.n, g.rt, last, 5, world

/* Datatypes. */

static MPI_Datatype committed(MPI_Datatype t)
{
    MPI_Type_commit(&t);
    return t;
}

static MPI_Datatype resized(MPI_Datatype t, MPI_Aint lower, MPI_Aint extent)
{
    MPI_Datatype to;
    MPI_Type_create_resized(t, lower, extent, &to);
    return committed(to);
}

/* Five of twelve numbers, some of them before the buffer. */
static const int gap_at[] = {6, 0, -3}, gap_n[] = {2, 1, 2};
static MPI_Datatype gaps(void)
{
    MPI_Datatype t;
    MPI_Type_indexed(3, gap_n, gap_at, MPI_DOUBLE, &t);
    return resized(t, -40, 96);
}

/* The same numbers of an array at an address, for MPI_BOTTOM. */
static MPI_Datatype absolute(const double *x)
{
    MPI_Aint at[3];
    MPI_Datatype t;
    for (int i = 0; i < 3; i++)
        MPI_Get_address(x + gap_at[i], &at[i]);
    MPI_Type_create_hindexed(3, gap_n, at, MPI_DOUBLE, &t);
    return resized(t, at[0], 96);
}

static struct {
    const char *name;
    MPI_Datatype t;
    int n, at; /* Each test sends n elements of t, the first one at doubles after the start of the matrix. */
} types[32];
static int type_count;

static void type(const char *name, MPI_Datatype t, int n, int at)
{
    types[type_count].name = name, types[type_count].t = committed(t);
    types[type_count].n = n, types[type_count++].at = at;
}

static void types_made(void)
{
    MPI_Datatype t, u, column;
    MPI_Type_vector(48, 40, N, MPI_DOUBLE, &t);
    type("submatrix", t, 1, EDGE);
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &t);
    type("rows", resized(t, 0, 8), 5, EDGE);
    MPI_Type_create_hvector(30, 50, 1000, MPI_DOUBLE, &t);
    type("hvector", t, 2, 9);
    MPI_Type_indexed(4, (int[]){7, 0, 300, 1}, (int[]){5000, 3, 100, 2}, MPI_DOUBLE, &t);
    type("indexed", t, 1, EDGE);
    MPI_Type_create_hindexed(3, (int[]){7, 300, 1}, (MPI_Aint[]){8000, -4000, 16}, MPI_DOUBLE, &t);
    type("hindexed", t, 2, EDGE);
    MPI_Type_create_indexed_block(4, 60, (int[]){900, 0, 3000, 100}, MPI_DOUBLE, &t);
    type("indexed_block", t, 2, 1);
    MPI_Type_create_hindexed_block(3, 60, (MPI_Aint[]){9000, 0, 30000}, MPI_DOUBLE, &t);
    type("hindexed_block", t, 2, 1);
    MPI_Type_contiguous(N, MPI_DOUBLE, &column);
    MPI_Type_create_struct(3, (int[]){3, 2, 1}, (MPI_Aint[]){0, 4000, 64},
                           (MPI_Datatype[]){MPI_DOUBLE, column, types[1].t}, &t);
    type("struct", t, 2, 5);
    MPI_Type_create_subarray(2, (int[]){N, N}, (int[]){40, 30}, (int[]){20, 50}, MPI_ORDER_C, MPI_DOUBLE, &t);
    type("subarray", t, 2, 0);
    MPI_Type_dup(t, &u);
    type("dup", u, 1, 333);
    MPI_Type_create_subarray(2, (int[]){N, N}, (int[]){40, 30}, (int[]){20, 50}, MPI_ORDER_FORTRAN, MPI_DOUBLE, &t);
    type("Fortran subarray", t, 2, 0);
    MPI_Type_create_darray(4, 2, 2, (int[]){N, N}, (int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}, (int[]){8, 8},
                           (int[]){2, 2}, MPI_ORDER_FORTRAN, MPI_DOUBLE, &t);
    type("darray", t, 1, EDGE);
    type("before", gaps(), 300, EDGE);
    MPI_Type_vector(50, 90, -N, MPI_DOUBLE, &t);
    type("backwards", t, 1, 70 * N);
    MPI_Type_contiguous(10, MPI_DOUBLE, &t);
    type("negative extent", resized(t, 0, -96), 300, 6000);
    MPI_Type_vector(3, 2, 3, column, &t);
    MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){16, 40000}, (MPI_Datatype[]){t, gaps()}, &u);
    MPI_Type_create_hvector(2, 1, 8 * N, u, &t);
    type("nested", t, 2, EDGE);
    MPI_Type_contiguous(0, MPI_DOUBLE, &t);
    type("empty", t, 3, 0);
    type("bytes", MPI_BYTE, 8 * 999, 3);
    type("one", MPI_DOUBLE, 1, NN + 5);
}

/* Point to point. */

static void receiving(void)
{
    MPI_Irecv(g.rb, g.n, g.rt, last, 5, world, &opposite);
    meet(world); /* Rsend needs it. */
}

static void sending(void)
{
    MPI_Isend(g.sb, g.n, g.st, next, 5, world, &opposite);
}

static void ended(void)
{
    MPI_Wait(&opposite, MPI_STATUS_IGNORE);
}

static MPI_Message message;

static void probed(void)
{
    int flag = way++ % 2;
    sending();
    if (flag)
        MPI_Mprobe(last, 5, world, &message, MPI_STATUS_IGNORE);
    while (!flag)
        MPI_Improbe(last, 5, world, &flag, &message, MPI_STATUS_IGNORE);
}

static void looked(void)
{
    sending();
    MPI_Probe(last, 5, world, MPI_STATUS_IGNORE);
}

static void points(void)
{
    before = receiving, after = ended;
    SEND(Send, send);
    SEND(Ssend, ssend);
    SEND(Rsend, rsend);
    SEND(Bsend, bsend);
    before = sending;
    BLOCKING(Recv, RECEIVED, MPI_STATUS_IGNORE);
    MPI4(BLOCKING(Recv_c, RECEIVED, MPI_STATUS_IGNORE);)
    BEGUN(Recv, recv, RECEIVED);
    before = looked;
    BLOCKING(Recv, RECEIVED, MPI_STATUS_IGNORE);
    if (last != MPI_PROC_NULL) {
        before = probed;
        BLOCKING(Mrecv, g.rb, g.n, g.rt, &message, MPI_STATUS_IGNORE);
        REQUEST(Imrecv, g.rb, g.n, g.rt, &message);
        MPI4(BLOCKING(Mrecv_c, g.rb, g.n, g.rt, &message, MPI_STATUS_IGNORE);
             REQUEST(Imrecv_c, g.rb, g.n, g.rt, &message);)
    }
    before = after = NULL;
#define BOTH g.sb, g.n, g.st, next, 6, g.rb, g.n, g.rt, last, 6, world
#define REPLACED g.rb, g.n, g.rt, next, 7, last, 7, world
    BLOCKING(Sendrecv, BOTH, MPI_STATUS_IGNORE);
    BLOCKING(Sendrecv_replace, REPLACED, MPI_STATUS_IGNORE);
    MPI4(BLOCKING(Sendrecv_c, BOTH, MPI_STATUS_IGNORE);
         BLOCKING(Sendrecv_replace_c, REPLACED, MPI_STATUS_IGNORE);)
    if (g.st != MPI_DOUBLE || next == MPI_PROC_NULL)
        return; /* MPICH 4.0 crashes in Isendrecv with types that need packing, or with nobody. */
    MPI4(REQUEST(Isendrecv, BOTH);
         REQUEST(Isendrecv_replace, REPLACED);
         REQUEST(Isendrecv_c, BOTH);
         REQUEST(Isendrecv_replace_c, REPLACED);)
}

static void set(const char *name, void *sb, MPI_Datatype st, void *rb, MPI_Datatype rt, int n)
{
    scene = name;
    plain_types = st == MPI_DOUBLE && rt == MPI_DOUBLE;
    g.sb = sb, g.st = st, g.rb = rb, g.rt = g.t = rt, g.n = n;
}

static void attached(void)
{
    /* The memory of buffered sends is within a matrix, which devices hold. */
    double *room = doubles(4 * BIG), *from = room;
    int size = 0;
    for (int i = 0; i + ALL < 4 * BIG; i += ALL)
        product(3, a, b, room + i);
    if (ranks % 2)
        MPI_Buffer_attach(room + 100, (4 * BIG - 200) * 8);
    else
        MPI4(MPI_Buffer_attach_c(room + 100, (4 * BIG - 200) * 8); if (0)) MPI_Buffer_attach(room + 100, (4 * BIG - 200) * 8);
    product(1, room, b, e);
    set("plain", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, NN);
    points();
    set("small", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, 1);
    points();
    set("none", (void *)3, MPI_DOUBLE, (void *)3, MPI_DOUBLE, 0);
    points();
    MPI_Buffer_detach(&from, &size);
    if (from != room + 100 || size != (4 * BIG - 200) * 8)
        record("detached", "elsewhere", 1, 1);
    product(1, s, b, room); /* It is the program's again. */
    product(1, room, b, e);
    MPI_Buffer_attach(room, 4 * BIG * 8);
    set("gaps", s + EDGE, gaps(), r + EDGE, gaps(), 300);
    points();
    MPI_Datatype from_s = absolute(s + EDGE), to_r = absolute(r + EDGE);
    set("absolute", MPI_BOTTOM, from_s, MPI_BOTTOM, to_r, 300);
    points();
    int kept[2] = {next, last};
    next = last = MPI_PROC_NULL;
    set("nobody", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, NN);
    points();
    next = kept[0], last = kept[1];
    MPI4(MPI_Count bytes; MPI_Buffer_detach_c(&from, &bytes); if (0)) MPI_Buffer_detach(&from, &size);
    product(2, a, b, room);
    product(1, room, b, e);
    free(room);
}

static void typed(void)
{
    MPI_Request q[2];
    static char name[RANKS * 32];
    scene = "types";
    for (int i = 0; i < type_count; i++) {
        MPI_Datatype t = types[i].t;
        int n = types[i].n, at = types[i].at, size;
        MPI_Type_size(t, &size);
        size = size * n / 8;
        MPI_Datatype packed = t == MPI_BYTE ? MPI_BYTE : MPI_DOUBLE;
        int packed_n = t == MPI_BYTE ? size * 8 : size;
#define NAMED(what) (snprintf(name, sizeof name, "%s %s", what, types[i].name), name)
        ready(NAMED("from"));
        MPI_Sendrecv(s + at, n, t, next, 1, r + EDGE, packed_n, packed, last, 1, world, MPI_STATUS_IGNORE);
        shown(name);
        ready(NAMED("to"));
        MPI_Irecv(r + at, n, t, last, 2, world, &q[0]);
        MPI_Issend(s + EDGE, packed_n, packed, next, 2, world, &q[1]);
        beside();
        complete(2, q, way++, NULL);
        shown(name);
        ready(NAMED("both"));
        MPI_Irecv(r + at, n, t, last, 2, world, &q[0]);
        MPI_Isend(s + at, n, t, next, 2, world, &q[1]);
        beside();
        complete(2, q, way++, NULL);
        shown(name);
        ready(NAMED("bcast"));
        MPI_Bcast(r + at, n, t, i % ranks, world);
        shown(name);
    }
}

/* A large message, and requests for its parts, which computations use as soon as they have come. */

static double *big_s, *big_r, *big_d;
enum { PARTS = 7 };

static void used(int i)
{
    if (i < PARTS)
        product(1, big_r + i * ALL, b, big_d + i * ALL);
}

static void large(void)
{
    scene = "large";
    big_s = doubles(BIG), big_r = doubles(BIG), big_d = doubles(BIG);
    for (int w = 0; w < 2 * WAYS; w++) {
        MPI_Request q[2 * PARTS + 1];
        for (int i = 0; i < PARTS; i++) {
            product(i + w + 1, a, b, big_s + i * ALL);
            product(i + w + 2, a, b, big_r + i * ALL);
        }
        if (w < 2) {
            MPI_Sendrecv(big_s, BIG - 9, MPI_DOUBLE, next, 1, big_r + 9, BIG - 9, MPI_DOUBLE, last, 1, world,
                         MPI_STATUS_IGNORE);
            memset(big_s + PARTS * ALL, 0, (BIG - PARTS * ALL) * 8);
        }
        for (int i = 0; i < PARTS; i++) {
            MPI_Irecv(big_r + i * ALL, i % 2 ? ALL : ALL - 50, MPI_DOUBLE, last, i, world, &q[i]);
            MPI_Isend(big_s + i * ALL, i % 2 ? ALL : ALL - 50, MPI_DOUBLE, next, i, world, &q[PARTS + i]);
        }
        q[2 * PARTS] = MPI_REQUEST_NULL;
        product(1, big_s + ALL, b, e);
        complete(2 * PARTS + 1, q, w, used);
        for (int i = 0; i < PARTS; i++)
            used(i);
        record(scene, "parts", hash(big_r, PARTS * ALL), hash(big_d, PARTS * ALL) + hash(big_s, PARTS * ALL));
    }
    free(big_s);
    free(big_r);
    free(big_d);
}

static void *queried_state;
static int queried(void *state, MPI_Status *status)
{
    queried_state = state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int freed(void *state)
{
    queried_state = state;
    return MPI_SUCCESS;
}

static int cancelled(void *state, int complete)
{
    queried_state = state;
    return complete ? MPI_SUCCESS : MPI_SUCCESS;
}

static void requests(void)
{
    MPI_Request q[6];
    char told = 0, heard;
    scene = "requests";
    for (int w = 0; w < WAYS; w++) {
        /* A request that the program frees: the receiver says when the buffer may change. */
        ready("Request_free");
        MPI_Isend(s + EDGE, w % 2 ? NN : 1, MPI_DOUBLE, next, 1, world, &q[0]);
        MPI_Request_free(&q[0]);
        beside();
        MPI_Recv(r + EDGE, NN, MPI_DOUBLE, last, 1, world, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&told, 1, MPI_CHAR, last, 2, &heard, 1, MPI_CHAR, next, 2, world, MPI_STATUS_IGNORE);
        product(9, a, b, s);
        shown("Request_free");

        /* A receive that never comes is cancelled; its memory is the program's again. */
        ready("Cancel");
        MPI_Irecv(r + EDGE, NN, MPI_DOUBLE, last, 99, world, &q[0]);
        beside();
        MPI_Cancel(&q[0]);
        complete(1, q, w, NULL);
        product(7, a, b, r);
        shown("Cancel");

        /* Persistent requests, not all of them started, and a null one. */
        MPI_Send_init(s, NN, MPI_DOUBLE, next, 3, world, &q[0]);
        MPI_Recv_init(r, NN, MPI_DOUBLE, last, 3, world, &q[1]);
        MPI_Send_init(s + NN, NN, MPI_DOUBLE, next, 4, world, &q[2]);
        MPI_Recv_init(r + NN, NN, MPI_DOUBLE, last, 4, world, &q[3]);
        MPI_Recv_init(r, ALL, MPI_DOUBLE, last, 5, world, &q[4]);
        q[5] = MPI_REQUEST_NULL;
        for (int round = 0; round < 3; round++) {
            ready("Startall");
            MPI_Startall(round == 1 ? 2 : 4, q);
            beside();
            complete(6, q, w + round, NULL);
            shown("Startall");
        }
        for (int i = 0; i < 5; i++)
            MPI_Request_free(&q[i]);

        /* Requests of other kinds among those of messages. */
        MPI_Comm copy;
        ready("others");
        MPI_Ibarrier(world, &q[0]);
        MPI_Irecv(r + EDGE, NN, MPI_DOUBLE, last, 6, world, &q[1]);
        MPI_Comm_idup(world, &copy, &q[2]);
        MPI4(complete(1, q + 2, w, NULL);) /* MPICH 4.0 may hang if it overlaps with others. */
        MPI_Grequest_start(queried, freed, cancelled, &q, &q[3]);
        MPI_Isend(s + EDGE, NN, MPI_DOUBLE, next, 6, world, &q[4]);
        beside();
        MPI_Grequest_complete(q[3]);
        q[5] = MPI_REQUEST_NULL;
        complete(6, q, w, NULL);
        MPI_Comm_free(&copy);
        shown("others");
        MPI4(MPI_Barrier_init(world, MPI_INFO_NULL, &q[0]);
             for (int round = 0; round < 3; round++) {
                 MPI_Start(&q[0]);
                 complete(1, q, round, NULL);
             }
             MPI_Request_free(&q[0]);
             MPI_Comm_idup_with_info(world, MPI_INFO_NULL, &copy, &q[0]);
             complete(1, q, w, NULL);
             MPI_Comm_free(&copy);)
    }
    /* Partitions that are computed after the start. */
    MPI4(
        MPI_Psend_init(s, 4, NN / 4, MPI_DOUBLE, next, 8, world, MPI_INFO_NULL, &q[0]);
        MPI_Precv_init(r, 4, NN / 4, MPI_DOUBLE, last, 8, world, MPI_INFO_NULL, &q[1]);
        for (int round = 0; round < 3; round++) {
            const int n = N, columns = N / 4, k = 16;
            int flags[2] = {3, 1};
            const double zero = 0;
            int arrived = 0;
            ready("Psend_init");
            MPI_Startall(2, q);
            for (int i = 0; i < 4; i++) {
                dgemm_("N", "N", &n, &columns, &k, &step, a, &n, b + k * i, &k, &zero, s + i * NN / 4, &n);
                if (i == 0 || i == 2)
                    MPI_Pready(i, q[0]);
            }
            round == 1 ? MPI_Pready_list(2, flags, q[0]) : (MPI_Pready(1, q[0]), MPI_Pready_range(3, 3, q[0]));
            while (MPI_Parrived(q[1], 2, &arrived), !arrived)
                sched_yield();
            product(1, a, b, e);
            complete(2, q, way++ % SURE, NULL);
            shown("Psend_init");
        }
        MPI_Request_free(&q[0]);
        MPI_Request_free(&q[1]);)
}

static void p2p(void)
{
    attached();
    typed();
    large();
    requests();
}

/* Collective functions. */

/* A sum by stride over the elements of the type with gaps. */
static void gap_sum(void *in, void *inout, int *n, MPI_Datatype *t)
{
    const int twelve = 12;
    const double one = 1;
    (void)t;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < gap_n[i]; j++)
            daxpy_(n, &one, (double *)in + gap_at[i] + j, &twelve, (double *)inout + gap_at[i] + j, &twelve);
}

static void blas_sum(void *in, void *inout, int *n, MPI_Datatype *t)
{
    const int one = 1;
    const double factor = 1;
    (void)t;
    daxpy_(n, &factor, in, &one, inout, &one);
}

MPI4(static void large_sum(void *in, void *inout, MPI_Count *n, MPI_Datatype *t)
{
    int few = (int)*n;
    blas_sum(in, inout, &few, t);
})

/* The product of square matrices modulo 11, which does not commute. */
static void blas_product(void *in, void *inout, int *n, MPI_Datatype *t)
{
    enum { SIDE = 16, AREA = SIDE * SIDE };
    double *x = in, *y = inout, p[AREA];
    (void)t;
    for (; *n && x < (double *)in + *n * AREA; x += AREA, y += AREA) {
        for (int i = 0; i < AREA; i++)
            x[i] = fmod(x[i], 11), y[i] = fmod(y[i], 11);
        multiply(SIDE, 1, x, y, 0, p);
        for (int i = 0; i < AREA; i++)
            y[i] = fmod(p[i], 11);
    }
}

static int s_n[RANKS], s_d[RANKS], r_n[RANKS], r_d[RANKS], ps_n[RANKS], pr_n[RANKS], s_w[RANKS], r_w[RANKS], rs_n[RANKS];
static MPI_Count Ls_n[RANKS], Lr_n[RANKS], Lps_n[RANKS], Lpr_n[RANKS], Lrs_n[RANKS];
static MPI_Aint Ls_d[RANKS], Lr_d[RANKS], Ls_w[RANKS], Lr_w[RANKS];
static MPI_Datatype s_t[RANKS], r_t[RANKS];
static const int from_self[RANKS] = {0, 1, 2, 3};
static int symmetric; /* Pairs exchange as much as they get. */

/* Sets the arguments for exchanges with the processes `from` and `to`, by elements of type t. */
static void exchange(MPI_Comm comm, int me, int group, int froms, const int *from, int tos, const int *to, int m)
{
    MPI_Aint lower, s_extent, r_extent;
    MPI_Type_get_extent(g.st, &lower, &s_extent);
    MPI_Type_get_extent(g.rt, &lower, &r_extent);
#define COUNT(i) (m ? m - 10 * (i) : 0)
#define PAIR(i, j) (m ? m - 10 * (i) - (symmetric ? 10 : 7) * (j) : 0)
    for (int i = 0; i < RANKS; i++) {
        s_n[i] = r_n[i] = ps_n[i] = pr_n[i] = 0;
        /* Out of order. */
        s_d[i] = r_d[i] = (RANKS - 1 - i) * m;
        /* Open MPI 4 mistakes the displacements of one process for elements. */
        s_w[i] = tos > 1 ? (int)s_extent * s_d[i] : 0, r_w[i] = froms > 1 ? (int)r_extent * r_d[i] : 0;
        s_t[i] = g.st, r_t[i] = g.rt;
        rs_n[i] = m / group;
    }
    for (int i = 0; i < tos; i++)
        s_n[i] = COUNT(to[i]), ps_n[i] = PAIR(me, to[i]);
    for (int i = 0; i < froms; i++)
        r_n[i] = COUNT(from[i]), pr_n[i] = PAIR(from[i], me);
    for (int i = 0; i < RANKS; i++) {
        Ls_n[i] = s_n[i], Lr_n[i] = r_n[i], Lps_n[i] = ps_n[i], Lpr_n[i] = pr_n[i], Lrs_n[i] = rs_n[i];
        Ls_d[i] = s_d[i], Lr_d[i] = r_d[i], Ls_w[i] = s_w[i], Lr_w[i] = r_w[i];
    }
    g.comm = comm, g.sn = g.rn = g.n = m, g.bn = m / group, g.vsn = g.vrn = COUNT(me);
    g.sns = s_n, g.sds = s_d, g.rns = r_n, g.rds = r_d, g.psn = ps_n, g.prn = pr_n, g.swd = s_w, g.rwd = r_w;
    g.Lsns = Ls_n, g.Lrns = Lr_n, g.Lpsn = Lps_n, g.Lprn = Lpr_n, g.Lsds = Ls_d, g.Lrds = Lr_d, g.Lswd = Ls_w, g.Lrwd = Lr_w;
    g.rsn = rs_n, g.Lrsn = Lrs_n, g.sts = s_t, g.rts = r_t;
}

/* Makes the arguments of a side meaningless. */
static void no_send(void *at)
{
    g.sb = at, g.sn = g.vsn = -7, g.st = MPI_DATATYPE_NULL;
    g.sns = g.sds = g.psn = g.swd = NULL, g.Lsns = g.Lpsn = NULL, g.Lsds = g.Lswd = NULL, g.sts = NULL;
}

static void no_receive(void *at)
{
    g.rb = at, g.rn = g.vrn = -7, g.rt = MPI_DATATYPE_NULL;
    g.rns = g.rds = NULL, g.Lrns = NULL, g.Lrds = NULL;
}

enum { MOVES = 1, REDUCES = 2, IN_PLACE = 4, INTER = 8, ALL_TO_ALL = 16 };
static int half, halves[2]; /* This process's half of an intercommunicator, and their sizes. */

static void scene_of(int kinds)
{
    const struct arguments all = g;
    const int in_place = kinds & IN_PLACE, inter = kinds & INTER;
    if (in_place)
        no_send(MPI_IN_PLACE);
    if (kinds & MOVES) {
        EVERY(Allgather, allgather);
        EVERY(Allgatherv, allgatherv);
    }
    if (kinds & (MOVES | ALL_TO_ALL)) {
        EVERY(Alltoall, alltoall);
        EVERY(Alltoallv, alltoallv);
        EVERY(Alltoallw, alltoallw);
    }
    if (kinds & REDUCES) {
        EVERY(Allreduce, allreduce);
        EVERY(Reduce_scatter, reduce_scatter);
        EVERY(Reduce_scatter_block, reduce_scatter_block);
        if (!inter) {
            EVERY(Scan, scan);
            EVERY(Exscan, exscan);
        }
    }
    for (int who = 0; who < ranks && !(kinds & ALL_TO_ALL); who++) {
        int root = who, at_root = who == rank, leaf = 1;
        if (inter) {
            int its = who >= halves[0];
            leaf = its != half;
            root = leaf ? who - its * halves[0] : at_root ? MPI_ROOT : MPI_PROC_NULL;
        }
#define ARGUMENTS(SENDS, RECEIVES)                                             \
    do {                                                                       \
        g = all, g.root = root;                                                \
        if (!(SENDS))                                                          \
            no_send((void *)3);                                                \
        if (!(RECEIVES))                                                       \
            no_receive((void *)3);                                             \
    } while (0)
        if (kinds & MOVES) {
            ARGUMENTS(1, 1);
            if (!leaf && !at_root)
                g.rb = (void *)3;
            if (!in_place)
                EVERY(Bcast, bcast);
            ARGUMENTS(leaf, at_root);
            if (in_place && at_root)
                no_send(MPI_IN_PLACE);
            EVERY(Gather, gather);
            EVERY(Gatherv, gatherv);
            ARGUMENTS(at_root, leaf);
            if (in_place && at_root)
                no_receive(MPI_IN_PLACE);
#ifndef OPEN_MPI
            rounds = 1; /* MPICH 4.0 fails when a persistent scatter starts again. */
#endif
            EVERY(Scatter, scatter);
            rounds = 3;
            EVERY(Scatterv, scatterv);
        }
        if (kinds & REDUCES) {
            ARGUMENTS(leaf, at_root);
            if (in_place && at_root)
                no_send(MPI_IN_PLACE);
#ifndef OPEN_MPI
            if (in_place && who)
                continue; /* MPICH 4.0 crashes. */
#endif
            EVERY(Reduce, reduce);
        }
    }
    g = all, symmetric = 0;
}

static void collectives(void)
{
    MPI_Op gap_op, axpy_op, product_op;
    MPI_Datatype square, up, from_s = absolute(s + EDGE), to_r = absolute(r + EDGE), gap = gaps();
    const int *everyone = from_self;
#define EXCHANGE(m) exchange(world, rank, ranks, ranks, everyone, ranks, everyone, m)
    MPI_Op_create(gap_sum, 1, &gap_op);
    MPI_Op_create(blas_sum, 1, &axpy_op);
    MPI_Op_create(blas_product, 0, &product_op);
    MPI_Type_contiguous(256, MPI_DOUBLE, &square);
    up = resized(MPI_DOUBLE, 0, -8);
    MPI_Type_commit(&square);

    set("plain", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, 0), g.op = MPI_SUM;
    EXCHANGE(M);
    scene_of(MOVES | REDUCES);
    brief = 1;
    scene = "in place", g.op = MPI_MAX, symmetric = 1;
    EXCHANGE(M);
    scene_of(MOVES | REDUCES | IN_PLACE);
    set("small", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, 0), g.op = MPI_SUM;
    EXCHANGE(64);
    scene_of(MOVES | REDUCES);
    set("gaps", s + EDGE, gap, r + EDGE, gap, 0), g.op = gap_op;
    EXCHANGE(M / 12);
    for (int i = 0; i < RANKS; i++) /* The same numbers without gaps, to every other process. */
        if (i % 2)
            MPI_Type_contiguous(5, MPI_DOUBLE, &s_t[i]), MPI_Type_commit(&s_t[i]);
    scene_of(MOVES | REDUCES);
    scene = "gaps in place", symmetric = 1;
    EXCHANGE(M / 12);
    scene_of(MOVES | REDUCES | IN_PLACE);
    set("absolute", MPI_BOTTOM, from_s, MPI_BOTTOM, to_r, 0);
    EXCHANGE(M / 12);
    scene_of(MOVES);
    set("downwards", s + NN, up, r + NN, up, 0);
    EXCHANGE(M);
    scene_of(ALL_TO_ALL); /* Open MPI 4 fails in gathering downwards. */
    set("daxpy", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, 0), g.op = axpy_op;
    EXCHANGE(M);
    scene_of(REDUCES);
    set("dgemm", s + EDGE, square, r + EDGE, square, 0), g.op = product_op;
    EXCHANGE(8);
    scene_of(REDUCES);
    scene = "dgemm in place";
    scene_of(REDUCES | IN_PLACE);
    set("none", (void *)3, MPI_DOUBLE, (void *)5, MPI_DOUBLE, 0), g.op = MPI_SUM;
    EXCHANGE(0);
    scene_of(MOVES | REDUCES);
    if (ranks > 1) {
        MPI_Comm mine, inter;
        int me;
        halves[0] = ranks / 2, halves[1] = ranks - ranks / 2, half = rank >= halves[0];
        MPI_Comm_split(world, half, rank, &mine);
        MPI_Comm_rank(mine, &me);
        MPI_Intercomm_create(mine, 0, world, half ? 0 : halves[0], 3, &inter);
        set("inter", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, 0);
        exchange(inter, me, halves[half], halves[!half], everyone, halves[!half], everyone, M);
        scene_of(MOVES | REDUCES | INTER);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&mine);
    }
    brief = 0;
    set("local", s + EDGE, MPI_DOUBLE, r + EDGE, MPI_DOUBLE, 0);
    BLOCKING(Reduce_local, s + EDGE, r + EDGE, NN, MPI_DOUBLE, MPI_SUM);
    BLOCKING(Reduce_local, s + EDGE, r + EDGE, NN, MPI_DOUBLE, axpy_op);
    BLOCKING(Reduce_local, s + EDGE, r + EDGE, 12, square, product_op);
    MPI4(BLOCKING(Reduce_local_c, s + EDGE, r + EDGE, 500, gap, gap_op);
         MPI_Op_free(&axpy_op);
         MPI_Op_create_c(large_sum, 1, &axpy_op);
         BLOCKING(Reduce_local_c, s + EDGE, r + EDGE, NN, MPI_DOUBLE, axpy_op);
         BLOCKING(Allreduce, s + EDGE, r + EDGE, NN, MPI_DOUBLE, axpy_op, world);
         REQUEST(Iallreduce, MPI_IN_PLACE, r + EDGE, NN, MPI_DOUBLE, axpy_op, world);)
    MPI_Op_free(&gap_op);
    MPI_Op_free(&axpy_op);
    MPI_Op_free(&product_op);
}

static void neighbourly(MPI_Comm comm, int froms, const int *from, int tos, const int *to, const char *names[3])
{
    for (int i = 0; i < 3; i++) {
        brief = i > 0;
        MPI_Datatype t = i ? gaps() : MPI_DOUBLE;
        if (i == 2)
            set(names[i], MPI_BOTTOM, absolute(s + EDGE), MPI_BOTTOM, absolute(r + EDGE), 0);
        else
            set(names[i], s + EDGE, t, r + EDGE, t, 0);
        exchange(comm, rank, ranks, froms, from, tos, to, i ? M / 12 : M);
        EVERY(Neighbor_allgather, neighbor_allgather);
        EVERY(Neighbor_allgatherv, neighbor_allgatherv);
        EVERY(Neighbor_alltoall, neighbor_alltoall);
        EVERY(Neighbor_alltoallv, neighbor_alltoallv);
#ifndef OPEN_MPI
        /* MPICH 4.0 forgets counts of those who receive from more than they send to, except large ones: only these are used. */
        if (!strcmp(names[0], "graph"))
            brief = turn = 1;
#endif
        EVERY(Neighbor_alltoallw, neighbor_alltoallw);
    }
}

static void neighbours(void)
{
    MPI_Comm comm;
    int sizes[2] = {ranks == 4 ? 2 : ranks, 2}, periods[2] = {1, 1}, dimensions = ranks == 4 ? 2 : 1, around[4];
    MPI_Cart_create(world, dimensions, sizes, periods, 0, &comm);
    for (int i = 0; i < dimensions; i++)
        MPI_Cart_shift(comm, i, 1, &around[2 * i], &around[2 * i + 1]);
    neighbourly(comm, 2 * dimensions, around, 2 * dimensions, around, (const char *[]){"grid", "grid gaps", "grid absolute"});
    MPI_Comm_free(&comm);
    /* Each sends to itself and to the next, the first also to the last. The last receives more than it sends. */
    int from[3] = {last, rank, 0}, to[3] = {rank, next, ranks - 1}, froms = 2 + (rank == ranks - 1), tos = 2 + !rank, weights;
    MPI_Dist_graph_create_adjacent(world, froms, from, MPI_UNWEIGHTED, tos, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    MPI_Dist_graph_neighbors_count(comm, &froms, &tos, &weights);
    neighbourly(comm, froms, from, tos, to, (const char *[]){"graph", "graph gaps", "graph absolute"});
    MPI_Comm_free(&comm);
    brief = 0;
}

static void persistents(void)
{
    persistent = 1, ways = SURE;
    collectives();
    neighbours();
    persistent = 0, ways = WAYS;
}

#include "functions_rest.h"

static const struct {
    const char *name;
    void (*all)(void);
} groups[] = {{"p2p", p2p},     {"collective", collectives}, {"neighbours", neighbours},
              {"rma", rma},     {"files", files},            {"pack", packing},
              {"memory", memory}, {"spawn", processes},      {"persistent", persistents}};

int main(int argc, char **argv)
{
    self = argv[0];
    a = doubles(ALL), b = doubles(ALL), s = doubles(ALL), r = doubles(ALL), d = doubles(ALL), e = doubles(2 * ALL);
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    if (ranks > RANKS)
        return 2;
    next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    trace = getenv("MPI_TRACE") != NULL;
    fill(a, ALL);
    fill(b, ALL);
    fill(e, 2 * ALL);
    for (int i = 0; i < NN; i++)
        a[i] += rank;
    types_made();
    for (unsigned i = 0; i < sizeof groups / sizeof *groups; i++) {
        int named = argc < 2 && strcmp(groups[i].name, "spawn") && strcmp(groups[i].name, "persistent");
        for (int j = 1; j < argc; j++)
            named |= !strcmp(argv[j], groups[i].name);
        if (!named)
            continue;
        groups[i].all();
        print_lines(world);
    }
    MPI_Comm_free(&world);
    MPI_Finalize();
    return 0;
}
