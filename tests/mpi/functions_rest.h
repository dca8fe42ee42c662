/* Windows, files, packing, memory and processes: a part of functions.c. */

/* One-sided communication. */

static MPI_Win win;
static double *exposed; /* What others access here. */
static int shared_window;
static MPI_Group to_group, from_group;
static MPI_Aint place, there[RANKS]; /* In the window of the next process. */
enum { FENCE, POSTED, LOCKED, FLUSHED, MODES };
static const char *const mode_names[] = {"fence", "post", "lock", "flush"};

static void opened(int mode)
{
    /* The window is the result of a BLAS call, too. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    product(2 * step + 1, a, b, exposed);
    exposed[EDGE + 1] = 7;
    MPI_Win_unlock(rank, win);
    meet(world);
    if (mode == FENCE) {
        MPI_Win_fence(0, win);
    } else if (mode == POSTED) {
        MPI_Win_post(from_group, 0, win);
        MPI_Win_start(to_group, 0, win);
    } else if (mode == LOCKED) {
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    } else {
        MPI_Win_lock_all(0, win);
    }
}

static void closed(int mode)
{
    if (mode == FENCE) {
        MPI_Win_fence(0, win);
    } else if (mode == POSTED) {
        MPI_Win_complete(win);
        product(1, r, b, e);
        MPI_Win_wait(win);
    } else if (mode == LOCKED) {
        MPI_Win_unlock(next, win);
    } else {
        switch (way++ % 4) {
        case 0: MPI_Win_flush(next, win); break;
        case 1: MPI_Win_flush_local(next, win); break;
        case 2: MPI_Win_flush_all(win); break;
        default: MPI_Win_flush_local_all(win);
        }
        /* The buffers of this process are free again. */
        product(1, r, b, e);
        product(step + 1, a, b, s);
        MPI_Win_unlock_all(win);
    }
    meet(world);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    product(1, exposed, b, e + ALL);
    e[0] += (double)(hash(exposed, ALL) >> 40);
    MPI_Win_unlock(rank, win);
}

#define ONE_SIDED(F, ...)                               \
    for (int mode = brief ? turn++ % MODES : 0; mode < MODES; mode += brief ? MODES : 1) {     \
        scene = mode_names[mode];                       \
        ready(#F);                                      \
        opened(mode);                                   \
        MPI_##F(__VA_ARGS__, win);                      \
        product(1, a, b, d);                            \
        closed(mode);                                   \
        shown(#F);                                      \
    }
#define ONE_SIDED_REQUEST(F, ...)                       \
    for (int mode = LOCKED + (brief ? turn++ % 2 : 0); mode < MODES; mode += brief ? 2 : 1) {\
        MPI_Request q;                                  \
        scene = mode_names[mode];                       \
        ready(#F);                                      \
        opened(mode);                                   \
        MPI_##F(__VA_ARGS__, win, &q);                  \
        beside();                                       \
        finish(&q);                                     \
        product(step + 2, a, b, s);                     \
        closed(mode);                                   \
        shown(#F);                                      \
    }
#define ONE_SIDED_ALL(F, f, ...)                             \
    do {                                                     \
        ONE_SIDED(F, __VA_ARGS__)                            \
        ONE_SIDED_REQUEST(R##f, __VA_ARGS__)                 \
        MPI4(ONE_SIDED(F##_c, __VA_ARGS__)             \
             ONE_SIDED_REQUEST(R##f##_c, __VA_ARGS__))       \
    } while (0)

static void one_sided(int n, MPI_Datatype t)
{
    double *from = s + EDGE, *to = r + EDGE;
    ONE_SIDED_ALL(Put, put, from, n, t, next, place, n, t);
    ONE_SIDED_ALL(Get, get, to, n, t, next, place, n, t);
    ONE_SIDED_ALL(Accumulate, accumulate, from, n, t, next, place, n, t, MPI_SUM);
    ONE_SIDED_ALL(Get_accumulate, get_accumulate, from, n, t, to, n, t, next, place, n, t, MPI_REPLACE);
    if (t != MPI_DOUBLE)
        return;
    ONE_SIDED_ALL(Get_accumulate, get_accumulate, NULL, 0, MPI_DOUBLE, to, n, t, next, place, n, t, MPI_NO_OP);
    ONE_SIDED(Fetch_and_op, from, to, t, next, place, MPI_SUM)
    ONE_SIDED(Fetch_and_op, NULL, to, t, next, place, MPI_NO_OP)
#ifdef OPEN_MPI
    if (!shared_window)
        return; /* Open MPI 4 crashes here. */
#endif
    /* Of bits: the second finds the 7. */
    static const double seven = 7;
    ONE_SIDED(Compare_and_swap, from, from + 9, to, MPI_INT64_T, next, place)
    ONE_SIDED(Compare_and_swap, from, &seven, to, MPI_INT64_T, next, place + (place == EDGE ? 1 : 8))
}

static void rma(void)
{
    MPI_Group all;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &next, &to_group);
    MPI_Group_incl(all, 1, &last, &from_group);
    MPI_Datatype gap = gaps();
#ifdef OPEN_MPI
    if (ranks == 1)
        return; /* Open MPI has no window of one process here. */
#endif
    for (int flavour = 0; flavour < MPI4(3 +) 5; flavour++) {
        const MPI_Aint size = ALL * 8;
        double *own = doubles(ALL);
        place = EDGE;
        shared_window = flavour == 2 || flavour == 7;
        exposed = own;
        product(1, a, b, own);
        switch (flavour) {
        case 0: MPI_Win_create(own, size, 8, MPI_INFO_NULL, world, &win); break;
        case 1: MPI_Win_allocate(size, 8, MPI_INFO_NULL, world, &exposed, &win); break;
        case 2: MPI_Win_allocate_shared(size, 8, MPI_INFO_NULL, world, &exposed, &win); break;
        case 3:
        case 4:
            MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win);
            MPI_Win_attach(win, own, size);
            MPI_Get_address(own + EDGE, &place);
            MPI_Allgather(&place, 1, MPI_AINT, there, 1, MPI_AINT, world);
            place = there[next];
            break;
        MPI4(case 5: MPI_Win_create_c(own, size, 8, MPI_INFO_NULL, world, &win); break;
             case 6: MPI_Win_allocate_c(size, 8, MPI_INFO_NULL, world, &exposed, &win); break;
             case 7: MPI_Win_allocate_shared_c(size, 8, MPI_INFO_NULL, world, &exposed, &win); break;)
        }
        brief = flavour > 0;
        if (flavour < 4)
            one_sided(NN, MPI_DOUBLE);
        brief = 1;
        one_sided(flavour == 1 ? 1 : 300, flavour == 1 ? MPI_DOUBLE : gap);
        if (shared_window) {
            /* A BLAS call reads what another process has computed. */
            MPI_Aint other;
            int unit;
            double *its;
            scene = "shared";
            ready("Win_shared_query");
            MPI_Win_lock_all(0, win);
            product(step, a, b, exposed);
            MPI_Win_sync(win);
            meet(world);
            MPI_Win_sync(win);
            MPI_Win_shared_query(win, next, &other, &unit, &its);
            MPI4(MPI_Aint large; MPI_Win_shared_query_c(win, next, &other, &large, &its);)
            product(1, its, b, r);
            meet(world);
            MPI_Win_unlock_all(win);
            shown("Win_shared_query");
        }
        if (flavour == 3 || flavour == 4)
            MPI_Win_detach(win, own);
        MPI_Win_free(&win);
        product(3, a, b, own); /* It is the program's again. */
        product(1, own, b, e);
        free(own);
    }
    brief = 0;
    MPI_Group_free(&all);
}

/* Files. */

static MPI_File file;

/* What all have written is in the file: Open MPI 4 returns from collective functions before other processes have written what
 * they write for this one. */
static void settled(void)
{
    MPI_File_sync(file);
    meet(world);
    MPI_File_sync(file);
}

static void rewound(void)
{
    settled();
    MPI_File_seek(file, 0, MPI_SEEK_SET);
}

static void rewound_all(void)
{
    settled();
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
}

#define AT 11
#define IO(F, f, ...)                                                      \
    do {                                                                   \
        BLOCKING(File_##F, file, __VA_ARGS__, MPI_STATUS_IGNORE);          \
        REQUEST(File_i##F, file, __VA_ARGS__);                             \
        MPI4(BLOCKING(File_##F##_c, file, __VA_ARGS__, MPI_STATUS_IGNORE); \
             REQUEST(File_i##F##_c, file, __VA_ARGS__);)                   \
    } while (0)
#define STEPS(F, BUFFER, ...)                                        \
    do {                                                             \
        ready(#F);                                                   \
        MPI_File_##F##_begin(file, __VA_ARGS__);                     \
        beside();                                                    \
        MPI_File_##F##_end(file, BUFFER, MPI_STATUS_IGNORE);         \
        shown(#F);                                                   \
        MPI4(ready(#F);                                              \
             MPI_File_##F##_begin_c(file, __VA_ARGS__);              \
             beside();                                               \
             MPI_File_##F##_end(file, BUFFER, MPI_STATUS_IGNORE);    \
             shown(#F);)                                             \
    } while (0)
/* One process after the other. */
#define IN_TURN(CALLS)                       \
    for (int i = 0; i < ranks; i++) {        \
        if (i == rank)                       \
            CALLS;                           \
        meet(world);                  \
    }

static void filed(const char *name, int n, MPI_Datatype t)
{
    double *from = s + EDGE, *to = r + EDGE;
    scene = name;
    before = rewound;
    IO(write, iwrite, from, n, t);
    IO(read, iread, to, n, t);
    IO(write_all, iwrite_all, from, n, t);
    IO(read_all, iread_all, to, n, t);
    STEPS(write_all, from, from, n, t);
    STEPS(read_all, to, to, n, t);
    before = settled;
    IO(write_at, iwrite_at, AT, from, n, t);
    IO(read_at, iread_at, AT, to, n, t);
    IO(write_at_all, iwrite_at_all, AT, from, n, t);
    IO(read_at_all, iread_at_all, AT, to, n, t);
    STEPS(write_at_all, from, AT, from, n, t);
    STEPS(read_at_all, to, AT, to, n, t);
    before = NULL;
}

static void shared_pointers(int n, MPI_Datatype t)
{
    double *from = s + EDGE, *to = r + EDGE;
    scene = "shared";
    rewound_all();
    IN_TURN(IO(write_shared, iwrite_shared, from, n, t))
    rewound_all();
    IN_TURN(IO(read_shared, iread_shared, to, n, t))
    before = rewound_all;
#define ORDERED(F, BUFFER)                                                   \
    BLOCKING(File_##F, file, BUFFER, n, t, MPI_STATUS_IGNORE);               \
    MPI4(BLOCKING(File_##F##_c, file, BUFFER, n, t, MPI_STATUS_IGNORE);)     \
    STEPS(F, BUFFER, BUFFER, n, t);
    ORDERED(write_ordered, from)
    ORDERED(read_ordered, to)
    before = NULL;
}

static void files(void)
{
    char name[64];
    int id = (int)getpid();
    MPI_Bcast(&id, 1, MPI_INT, 0, world);
    snprintf(name, sizeof name, "functions.%d.tmp", id);
    MPI_File_open(world, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_Datatype column, gap = gaps();
    ways = SURE;
    MPI_Type_contiguous(N, MPI_DOUBLE, &column);
    MPI_Datatype own = resized(column, 0, (MPI_Aint)ranks * N * 8);
    MPI_File_set_view(file, (MPI_Offset)rank * N * 8, MPI_DOUBLE, own, "native", MPI_INFO_NULL);
    filed("columns", NN, MPI_DOUBLE);
    filed("gaps", 700, gap);
    /* What another process has written. */
    scene = "plain";
    MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
    BLOCKING(File_write_at, file, (MPI_Offset)rank * NN, s + EDGE, NN, MPI_DOUBLE, MPI_STATUS_IGNORE);
    settled();
    BLOCKING(File_read_at, file, (MPI_Offset)next * NN, r + EDGE, NN, MPI_DOUBLE, MPI_STATUS_IGNORE);
    shared_pointers(NN, MPI_DOUBLE);
    shared_pointers(700, gap);
    MPI_File_close(&file);
    ways = WAYS;
}

/* Packing. */

static void packing(void)
{
    double *p = doubles(ALL);
    scene = "pack";
    for (int i = 0; i < type_count; i++) {
        MPI_Datatype t = types[i].t;
        int n = types[i].n, at = types[i].at, position, size;
        MPI_Aint place, room;
        static char name[RANKS * 32];
#define PACKED(what, ...) (ready(NAMED(#what)), product(2, a, b, p), position = 8, place = 8, MPI_##what(__VA_ARGS__), shown(name), \
                           record(scene, name, hash_bytes(p, ALL * 8), (uint64_t)(position + place)))
        MPI_Pack_size(n, t, world, &size);
        if (!size)
            continue;
        MPI_Pack_external_size("external32", n, t, &room);
        if (size > ALL * 8 - 16 || room > ALL * 8 - 16)
            continue;
        PACKED(Pack, s + at, n, t, p, size + 8, &position, world);
        PACKED(Unpack, s, size + 8, &position, r + at, n, t, world);
        PACKED(Pack_external, "external32", s + at, n, t, p, room + 8, &place);
        ready(NAMED("Unpack_external"));
        place = 8;
        MPI_Unpack_external("external32", p, room + 8, &place, r + at, n, t);
        shown(name);
        MPI4(MPI_Count count;
             PACKED(Pack_c, s + at, n, t, p, size + 8, (count = 8, &count), world);
             PACKED(Unpack_c, s, size + 8, (count = 8, &count), r + at, n, t, world);
             PACKED(Pack_external_c, "external32", s + at, n, t, p, room + 8, (count = 8, &count));
             count = 8;
             ready(NAMED("Unpack_external_c"));
             MPI_Unpack_external_c("external32", p, room + 8, &count, r + at, n, t);
             shown(name);)
    }
    free(p);
}

/* Memory of MPI, and the ways to have a communicator. */

static void memory(void)
{
    scene = "memory";
    for (int i = 0; i < 6; i++) {
        double *x, *y;
        MPI_Alloc_mem(ALL * 8 + 64 * i, MPI_INFO_NULL, &x);
        MPI_Alloc_mem(ALL * 8 + 64, MPI_INFO_NULL, &y);
        ready("Alloc_mem");
        product(step, a, b, x);
        product(step + 1, a, b, y);
        MPI_Sendrecv(x, NN, MPI_DOUBLE, next, 1, y + 5, NN, MPI_DOUBLE, last, 1, world, MPI_STATUS_IGNORE);
        product(1, y, b, r);
        MPI_Allreduce(r, x, NN, MPI_DOUBLE, MPI_SUM, world);
        product(1, x, b, s);
        shown("Alloc_mem");
        product(step, a, b, x);
        MPI_Free_mem(x);
        product(step, a, b, y);
        MPI_Free_mem(y);
    }
    MPI4(
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        for (int i = 0; i < 2; i++) {
            MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
            MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
            MPI_Comm_create_from_group(group, "semcache", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
            BLOCKING(Allreduce, s, r, NN, MPI_DOUBLE, MPI_SUM, comm);
            MPI_Group_free(&group);
            MPI_Comm_free(&comm);
            MPI_Session_finalize(&session);
        })
}

/* Processes that are started, and ports. */

static void related(MPI_Comm other, int first)
{
    /* Between the groups, then in one. */
    MPI_Comm one;
    int me;
    BLOCKING(Allreduce, s + EDGE, r + EDGE, NN, MPI_DOUBLE, MPI_SUM, other);
    MPI_Intercomm_merge(other, !first, &one);
    MPI_Comm_rank(one, &me);
    REQUEST(Ibcast, r + EDGE, NN, MPI_DOUBLE, 0, one);
    BLOCKING(Allgather, s + EDGE, NN / 8, MPI_DOUBLE, r + EDGE, NN / 8, MPI_DOUBLE, one);
    uint64_t h = hash(r, ALL), sum;
    MPI_Allreduce(&h, &sum, 1, MPI_UINT64_T, MPI_SUM, one);
    record(scene, "all", sum, 0);
    MPI_Comm_free(&one);
    MPI_Comm_disconnect(&other);
}

static char *self;

static void processes(void)
{
    MPI_Comm other, mine;
    scene = "spawned";
    MPI_Comm_get_parent(&other);
    if (other != MPI_COMM_NULL) {
        related(other, 0);
        logged = 0; /* The parents print. */
        return;
    }
    MPI_Comm_spawn(self, (char *[]){"spawn", NULL}, 2, MPI_INFO_NULL, 0, world, &other, MPI_ERRCODES_IGNORE);
    related(other, 1);
    if (ranks == 1)
        return;
    char port[MPI_MAX_PORT_NAME] = "";
    scene = "connected";
    half = rank >= ranks / 2;
    MPI_Comm_split(world, half, rank, &mine);
    if (!rank)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, world);
    half ? MPI_Comm_connect(port, MPI_INFO_NULL, 0, mine, &other) : MPI_Comm_accept(port, MPI_INFO_NULL, 0, mine, &other);
    related(other, !half);
    if (!rank)
        MPI_Close_port(port);
    MPI_Comm_free(&mine);
}
