/* What hints of semcache.h are worth. Each mode prints a JSON line.
 *
 *   hints placed ROUTINE N BLOCK REPS    dgemm, dsyr2k or dtrsm of order N on operands that lie on the devices: in one replica where there
 *                                        is one device, else 2-D block-cyclic in blocks of BLOCK x BLOCK (XKBlas, Fig. 4). The first call copies tiles of the inputs
 *                                        between devices; later ones find these copies
 *   hints prefetch N REPS                a product with cold operands behind host work that takes as long as sending them, with and
 *                                        without semcache_prefetch before that work
 *   hints overlap N REPS                 TRSM, host work, GEMM on its result, host work; with and without an asynchronous section
 *   hints cpu N REPS                     the CPU reads a result of order N that a device has, by columns, and 64 of its columns by rows, with and
 *                                        without semcache_read_cpu; behind host work, with and without semcache_coherent; and changes an
 *                                        input that a device holds, with and without semcache_write_cpu
 *   hints memory N REPS                  a product with a matrix that is used again and again, between products that take all other
 *                                        memory (SEMCACHE_MEMORY for five matrices of order N), with and without semcache_pin, and with
 *                                        semcache_evict of what is used no more
 *   hints cost N REPS                    products of order N in a loop on resident operands, with and without hints before each
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/semcache.h"
#include "common.h"

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
void dsyr2k_(const char *, const char *, const int *, const int *, const double *, const double *, const int *, const double *, const int *,
             const double *, double *, const int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *, const double *, const int *,
            double *, const int *);

static const double zero = 0, one = 1;
static volatile double sink;

/* Entry (i, j) of all matrices: small integers by which results are known. */
static double pattern(int i) { return i % 3; }

struct made {
    double *a;
    int n;
};

static void columns(void *arg, size_t from, size_t to, int thread)
{
    struct made *made = arg;
    (void)thread;
    for (size_t j = from; j < to; j++)
        for (int i = 0; i < made->n; i++)
            made->a[i + j * (size_t)made->n] = pattern(i);
}

static double *matrix(int n)
{
    struct made made = {doubles((size_t)n * n), n};
    parallel(n, 0, columns, &made);
    return made.a;
}

static semcache_matrix view(const double *a, int n) { return semcache_view(a, n, n, n, sizeof *a); }

static void done(int status, const char *what)
{
    if (status != SEMCACHE_OK && status != SEMCACHE_ABSENT)
        die("%s: %s", what, semcache_message(status));
}

static int by_time(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double middle(double *s, int n)
{
    qsort(s, n, sizeof *s, by_time);
    return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

static semcache_statistics count(void)
{
    semcache_statistics s;
    memset(&s, 0, sizeof s);
    s.size = sizeof s;
    semcache_count(&s);
    return s;
}

static void placed(const char *routine, int n, int block, int reps, int tells)
{
    double *a = matrix(n), *b = matrix(n), *c = matrix(n), s[256];
    semcache_matrix all[3] = {view(a, n), view(b, n), view(c, n)};
    int solves = !strcmp(routine, "dtrsm"), used = solves ? 2 : 3;
    if (solves) {
        /* The identity, stored as a unit triangle: the solution is the right side. */
        memset(a, 0, sizeof *a * (size_t)n * n);
    }
    done(semcache_prefetch(&all[0], 0, NULL), "prefetch");
    int devices = semcache_devices();
    double begun = now();
    for (int i = 0; i < used; i++) {
        semcache_distribution of = semcache_block_cyclic(block, block, 0, 0);
        done(devices > 1 ? semcache_distribute(&all[i], &of, NULL) : semcache_prefetch(&all[i], 0, NULL), "distribute");
    }
    double sent = now() - begun;
    semcache_statistics before = count(), after = before;
    double first = 0;
    for (int r = -1; r < reps; r++) {
        if (r == 0)
            before = count();
        double start = now();
        done(semcache_begin(), "begin");
        if (!strcmp(routine, "dgemm"))
            dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        else if (!strcmp(routine, "dsyr2k"))
            dsyr2k_("L", "N", &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        else if (solves)
            dtrsm_("L", "L", "N", "U", &n, &n, &one, a, &n, b, &n);
        else
            die("%s?", routine);
        done(semcache_end(NULL), "end");
        *(r < 0 ? &first : &s[r]) = now() - start;
    }
    after = count();
    for (int t = 0; t < 50; t++) {
        size_t i = (size_t)(t * 7919) % n, j = (size_t)(t * 104729) % n;
        if (i < j)
            continue;
        double sum_k = 0;
        for (int k = 0; k < n; k++)
            sum_k += pattern(k);
        double wanted = pattern(i);
        double got = solves ? b[i + j * n] : c[i + j * n];
        if (!strcmp(routine, "dgemm"))
            wanted = pattern(i) * sum_k;
        else if (!solves)
            wanted = 2.0 * n * pattern(i) * pattern(j);
        if (got != wanted)
            die("%s: %g at %zu %zu, not %g", routine, got, i, j, wanted);
    }
    for (int i = 0; i < 3; i++)
        free((void *)all[i].data);
    if (!tells)
        return;
    double mid = middle(s, reps);
    printf("{\"mode\":\"placed\",\"routine\":\"%s\",\"n\":%d,\"block\":%d,\"devices\":%d,\"sent_s\":%.4f,\"first_s\":%.6f,\"median_s\":%.6f,"
           "\"least_s\":%.6f,\"most_s\":%.6f,\"h2d\":%.0f,\"d2h\":%.0f,\"p2p\":%.0f}\n",
           routine, n, block, devices, sent, first, mid, s[0], s[reps - 1], (double)(after.h2d - before.h2d) / reps,
           (double)(after.d2h - before.d2h) / reps, (double)(after.p2p - before.p2p) / reps);
}

/* Work of one core that touches no memory to speak of. */
static void host_work(double seconds)
{
    double x = 1, end = now() + seconds;
    while (now() < end)
        for (int i = 0; i < 2000; i++)
            x = x * 0.999999 + 1e-6;
    sink = x;
}

/* A product on matrices a and b until its result is computed. */
static double product(const double *a, const double *b, double *c, int n)
{
    double start = now();
    done(semcache_begin(), "begin");
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    done(semcache_end(NULL), "end");
    return now() - start;
}

static void prefetch(int n, int reps)
{
    double *c = matrix(n), cold[256], warm[256], plain[256], hinted[256], work = 0.01;
    for (int r = -1; r < reps; r++) {
        for (int hint = 0; hint < 3; hint++) {
            double *a = matrix(n), *b = matrix(n);
            semcache_matrix va = view(a, n), vb = view(b, n);
            if (hint == 0) {
                /* How long it takes by itself, cold and warm. */
                double first = product(a, b, c, n), second = product(a, b, c, n);
                if (r >= 0)
                    cold[r] = first, warm[r] = second;
                if (r == 0)
                    work = 1.2 * first;
            } else {
                semcache_event sent[2];
                double start = now();
                if (hint == 2) {
                    done(semcache_prefetch(&va, 0, &sent[0]), "prefetch");
                    done(semcache_prefetch(&vb, 0, &sent[1]), "prefetch");
                }
                host_work(work);
                product(a, b, c, n);
                if (r >= 0)
                    (hint == 2 ? hinted : plain)[r] = now() - start;
            }
            free(a);
            free(b);
        }
    }
    double tc = middle(cold, reps), tw = middle(warm, reps), tp = middle(plain, reps), th = middle(hinted, reps);
    printf("{\"mode\":\"prefetch\",\"n\":%d,\"work_s\":%.6f,\"cold_s\":%.6f,\"warm_s\":%.6f,\"plain_s\":%.6f,\"hinted_s\":%.6f,\"hidden\":%.4f}\n", n,
           work, tc, tw, tp, th, 1 - (th - work - tw) / (tc - tw));
}

/* TRSM, host work, GEMM, host work; returns seconds until the result has been computed. */
static double steps(const double *a, double *b, double *c, int n, double work, int section)
{
    double start = now();
    if (section)
        done(semcache_begin(), "begin");
    dtrsm_("L", "L", "N", "U", &n, &n, &one, a, &n, b, &n);
    host_work(work);
    dgemm_("N", "N", &n, &n, &n, &one, b, &n, b, &n, &zero, c, &n);
    host_work(work);
    if (section)
        done(semcache_end(NULL), "end");
    sink = c[(size_t)n * n - 1];
    return now() - start;
}

static void overlap(int n, int reps)
{
    double *a = matrix(n), *b = matrix(n), *c = matrix(n), alone[256], plain[256], hinted[256];
    memset(a, 0, sizeof *a * (size_t)n * n);
    steps(a, b, c, n, 0, 0);
    steps(a, b, c, n, 0, 1);
    for (int r = 0; r < reps; r++)
        alone[r] = steps(a, b, c, n, 0, 1);
    double devices = middle(alone, reps), work = devices / 2;
    for (int r = 0; r < reps; r++) {
        plain[r] = steps(a, b, c, n, work, 0);
        hinted[r] = steps(a, b, c, n, work, 1);
    }
    printf("{\"mode\":\"overlap\",\"n\":%d,\"devices_s\":%.6f,\"host_s\":%.6f,\"plain_s\":%.6f,\"hinted_s\":%.6f}\n", n, devices, 2 * work,
           middle(plain, reps), middle(hinted, reps));
}

static double sum_by_columns(const double *a, int n)
{
    double s = 0;
    for (size_t i = 0; i < (size_t)n * n; i += 8)
        s += a[i];
    return s;
}

/* One row after the other of 64 columns that lie far apart, so that read-ahead follows no order. */
static double sum_by_rows(const double *a, int n)
{
    double s = 0;
    int apart = n / 64;
    for (int i = 0; i < n; i += 8)
        for (int j = 0; j < 64; j++)
            s += a[i + (size_t)(j * 37 % 64) * apart * n];
    return s;
}

enum { READ_COLUMNS, READ_ROWS, READ_LATER, WRITE_INPUT, KINDS };

static void cpu(int n, int reps)
{
    double *a = matrix(n), *b = matrix(n), *c = matrix(n), s[KINDS][2][256];
    semcache_matrix va = view(a, n), vc = view(c, n), spread = vc;
    /* The columns that sum_by_rows reads. */
    spread.cols = 64;
    spread.ld *= n / 64;
    done(semcache_prefetch(&va, 0, NULL), "prefetch");
    for (int r = -2; r < reps; r++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int hint = 0; hint < 2; hint++) {
                semcache_event event = {0};
                product(a, b, c, n);
                double start = now();
                if (kind == READ_LATER) {
                    if (hint)
                        done(semcache_coherent(&vc, &event), "coherent");
                    host_work(0.02);
                    done(semcache_wait(&event), "wait");
                }
                if (kind == WRITE_INPUT) {
                    if (hint)
                        done(semcache_write_cpu(&va), "write_cpu");
                    for (size_t i = 0; i < (size_t)n * n; i += 8)
                        a[i] = pattern((int)(i % n));
                } else {
                    if (hint && kind != READ_LATER)
                        done(semcache_read_cpu(kind == READ_ROWS ? &spread : &vc), "read_cpu");
                    sink = kind == READ_ROWS ? sum_by_rows(c, n) : sum_by_columns(c, n);
                }
                if (r >= 0)
                    s[kind][hint][r] = now() - start;
            }
    static const char *const names[KINDS] = {"read_columns", "read_rows", "read_later", "write_input"};
    printf("{\"mode\":\"cpu\",\"n\":%d", n);
    for (int kind = 0; kind < KINDS; kind++)
        printf(",\"%s_s\":%.6f,\"%s_hinted_s\":%.6f", names[kind], middle(s[kind][0], reps), names[kind], middle(s[kind][1], reps));
    printf("}\n");
}

static void memory(int n, int reps)
{
    double *a = matrix(n), *b = matrix(n), *c = matrix(n), *others[4], s[3][256];
    semcache_matrix va = view(a, n);
    double moved[3] = {0};
    for (int i = 0; i < 4; i++)
        others[i] = matrix(n);
    done(semcache_prefetch(&va, 0, NULL), "prefetch");
    for (int hint = 0; hint < 3; hint++) {
        if (hint == 1)
            done(semcache_pin(&va, 0, NULL), "pin");
        for (int r = -2; r < reps; r++) {
            semcache_statistics before = count();
            double start = now();
            product(others[0], others[1], others[2], n);
            product(others[1], others[2], others[3], n);
            if (hint == 2)
                for (int i = 0; i < 4; i++) {
                    semcache_matrix v = view(others[i], n);
                    done(semcache_evict(&v, 0), "evict");
                }
            product(a, b, c, n);
            if (r >= 0) {
                semcache_statistics after = count();
                s[hint][r] = now() - start;
                moved[hint] += (double)(after.h2d - before.h2d + after.d2h - before.d2h) / reps;
            }
        }
        if (hint == 1)
            done(semcache_unpin(&va), "unpin");
    }
    printf("{\"mode\":\"memory\",\"n\":%d,\"plain_s\":%.6f,\"pinned_s\":%.6f,\"evicted_s\":%.6f,\"plain_bytes\":%.0f,\"pinned_bytes\":%.0f,"
           "\"evicted_bytes\":%.0f}\n",
           n, middle(s[0], reps), middle(s[1], reps), middle(s[2], reps), moved[0], moved[1], moved[2]);
}

static void cost(int n, int reps)
{
    double *a = matrix(n), *b = matrix(n), *c = matrix(n), s[5][256];
    semcache_matrix va = view(a, n), vb = view(b, n);
    /* Products in a row, as many as take some milliseconds at least. */
    int calls = n >= 2048 ? 4 : n >= 512 ? 32 : 256;
    done(semcache_prefetch(&va, 0, NULL), "prefetch");
    for (int r = -3; r < reps; r++)
        for (int kind = 0; kind < 5; kind++) {
            double start = now();
            if (kind == 3)
                done(semcache_begin(), "begin");
            for (int i = 0; i < calls; i++) {
                semcache_event sent;
                if (kind == 1) {
                    done(semcache_prefetch(&va, 0, &sent), "prefetch");
                    done(semcache_prefetch(&vb, 0, &sent), "prefetch");
                }
                if (kind == 2)
                    done(semcache_begin(), "begin");
                dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
                if (kind == 2)
                    done(semcache_end(&sent), "end");
                if (kind == 4) {
                    done(semcache_range_begin("product"), "range");
                    done(semcache_range_end(), "range");
                }
            }
            if (kind == 3)
                done(semcache_end(NULL), "end");
            sink = c[0];
            if (r >= 0)
                s[kind][r] = now() - start;
        }
    double plain = middle(s[0], reps);
    printf("{\"mode\":\"cost\",\"n\":%d,\"calls\":%d,\"plain_s\":%.6f,\"prefetch\":%.4f,\"section_each\":%.4f,\"section\":%.4f,\"range\":%.4f}\n", n, calls,
           plain, middle(s[1], reps) / plain, middle(s[2], reps) / plain, middle(s[3], reps) / plain, middle(s[4], reps) / plain);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (argc == 6 && !strcmp(mode, "placed"))
    {
        /* The devices load the code of the kernels. */
        placed(argv[2], 2 * atoi(argv[4]), atoi(argv[4]), 1, 0);
        placed(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), 1);
    }
    else if (argc == 4 && !strcmp(mode, "prefetch"))
        prefetch(atoi(argv[2]), atoi(argv[3]));
    else if (argc == 4 && !strcmp(mode, "overlap"))
        overlap(atoi(argv[2]), atoi(argv[3]));
    else if (argc == 4 && !strcmp(mode, "cpu"))
        cpu(atoi(argv[2]), atoi(argv[3]));
    else if (argc == 4 && !strcmp(mode, "memory"))
        memory(atoi(argv[2]), atoi(argv[3]));
    else if (argc == 4 && !strcmp(mode, "cost"))
        cost(atoi(argv[2]), atoi(argv[3]));
    else
        die("usage: hints placed ROUTINE N BLOCK REPS | prefetch N REPS | overlap N REPS | cpu N REPS | memory N REPS | cost N REPS");
    return 0;
}
