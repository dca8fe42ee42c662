/* The products of families.c, computed by NVIDIA's libraries.
 *
 *   peer_families resident N CALLS REPETITIONS FAMILIES             plain cuBLAS on device memory, one GPU; trmm in
 *                                                                   place, and into a matrix of its own
 *   peer_families refilled N REPETITIONS FAMILIES BLOCKS [READERS]  cuBLASXt on registered memory; the best of the
 *                                                                   comma-separated block sizes
 *
 * Host memory is allocated, touched and registered once, for all families. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "cuda.h"
#include "family.h"

enum { LEFT = 0, LOWER = 0, NON_UNIT = 0, MOST_GPUS = 8 };

/* The value of elements that no call may read: a number that would make each result wrong. */
static const double UNREAD = 777;

static blas_t blas;
static stream_t stream;
static const double zero[2] = {0, 0};
static int gpus;

/* Makes the call; trmm writes to a matrix of its own if `into` is not B. */
static void call(const struct work *w, double *into)
{
    int n = (int)w->n;
    const double alpha[2] = {w->alpha, 0};
    switch (w->routine) {
    case GEMM: BLAS(Dgemm_v2, blas, OP_N, OP_N, n, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case SYMM: BLAS(Dsymm_v2, blas, LEFT, LOWER, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case HEMM: BLAS(Zhemm_v2, blas, LEFT, LOWER, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case SYRK: BLAS(Dsyrk_v2, blas, LOWER, OP_N, n, n, alpha, w->A, n, zero, w->C, n); break;
    case HERK: BLAS(Zherk_v2, blas, LOWER, OP_N, n, n, alpha, w->A, n, zero, w->C, n); break;
    case SYR2K: BLAS(Dsyr2k_v2, blas, LOWER, OP_N, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case HER2K: BLAS(Zher2k_v2, blas, LOWER, OP_N, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case TRMM: BLAS(Dtrmm_v2, blas, LEFT, LOWER, OP_N, NON_UNIT, n, n, alpha, w->A, n, w->B, n, into, n); break;
    case TRSM: BLAS(Dtrsm_v2, blas, LEFT, LOWER, OP_N, NON_UNIT, n, n, alpha, w->A, n, w->B, n); break;
    case ROUTINES: break;
    }
}

static void resident(const struct work *host, int calls, int repetitions, int apart)
{
    struct work h = *host;
    size_t i = 5 % h.n, j = 3 % h.n, p = parts(h.routine), all = p * h.n * h.n;
    struct series s = {0};
    h.a = 1;
    h.b = 2;
    h.applied = 1;
    h.alpha = 1;
    family_prepare(&h, UNREAD);
    family_fill(&h);
    struct work d = h;
    d.A = device_doubles(all);
    d.B = device_doubles(all);
    d.C = device_doubles(all);
    copy(d.A, h.A, all, TO_DEVICE);
    copy(d.B, h.B, all, TO_DEVICE);
    copy(d.C, h.C, all, TO_DEVICE);
    double element[2], got, product = 1;
    element[1] = family_entry(&h, i, j);
    h.applied = 0;
    element[0] = has_c(h.routine) ? element[1] : family_entry(&h, i, j);
    for (int r = -2; r < repetitions; r++) {
        d.alpha = has_c(h.routine) ? 3 + r : r % 2 ? -1 : 1;
        double start = now();
        for (int k = 0; k < calls; k++) {
            call(&d, apart ? d.C : d.B);
            if (apart) {
                double *last = d.B;
                d.B = d.C;
                d.C = last;
            }
        }
        CU(MemcpyAsync, &got, result(&d) + p * (j * h.n + i), sizeof got, TO_HOST, stream);
        CU(StreamSynchronize, stream);
        double end = now();
        h.applied += calls;
        product = has_c(h.routine) ? d.alpha : calls % 2 ? product * d.alpha : product;
        same("the element read", got, product * element[h.applied % 2]);
        if (r >= 0)
            add(&s, (end - start) / calls);
    }
    h.alpha = product;
    copy(result(&h), result(&d), all, TO_HOST);
    family_check("cuBLAS", &h, result(&h), family_read(&h, 0));
    emit(family_names[h.routine], h.n, apart ? "cublas-apart" : "cublas", &s, "");
    CU(Free, d.A);
    CU(Free, d.B);
    CU(Free, d.C);
}

static xt_t xt;

static void xt_call(const struct work *w)
{
    size_t n = w->n;
    const double alpha[2] = {w->alpha, 0};
    switch (w->routine) {
    case GEMM: BLAS(XtDgemm, xt, OP_N, OP_N, n, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case SYMM: BLAS(XtDsymm, xt, LEFT, LOWER, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case HEMM: BLAS(XtZhemm, xt, LEFT, LOWER, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case SYRK: BLAS(XtDsyrk, xt, LOWER, OP_N, n, n, alpha, w->A, n, zero, w->C, n); break;
    case HERK: BLAS(XtZherk, xt, LOWER, OP_N, n, n, alpha, w->A, n, zero, w->C, n); break;
    case SYR2K: BLAS(XtDsyr2k, xt, LOWER, OP_N, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case HER2K: BLAS(XtZher2k, xt, LOWER, OP_N, n, n, alpha, w->A, n, w->B, n, zero, w->C, n); break;
    case TRMM: BLAS(XtDtrmm, xt, LEFT, LOWER, OP_N, NON_UNIT, n, n, alpha, w->A, n, w->B, n, w->C, n); break;
    case TRSM: BLAS(XtDtrsm, xt, LEFT, LOWER, OP_N, NON_UNIT, n, n, alpha, w->A, n, w->B, n); break;
    case ROUTINES: break;
    }
}

struct times {
    struct series whole, call, read;
};

static void once(struct work *w, int repetition, int readers, struct times *out)
{
    w->a = 20 + 2 * (uint32_t)(repetition + 1);
    w->b = 21 + 2 * (uint32_t)(repetition + 1);
    w->alpha = 1 + (repetition + 4) % 4;
    w->applied = 1;
    family_fill(w);
    double start = now();
    xt_call(w);
    /* cuBLASXt's trmm can only write to a matrix of its own. */
    struct work r = *w;
    if (w->routine == TRMM)
        r.B = w->C;
    double returned = now();
    double total = family_read(&r, readers);
    double end = now();
    same("the sum read again", family_read(&r, readers), total);
    double last = now();
    family_check("cuBLASXt", &r, result(&r), total);
    if (out) {
        add(&out->whole, end - start);
        add(&out->call, returned - start);
        add(&out->read, last - end);
    }
}

static void open_xt(int block)
{
    int devices[MOST_GPUS];
    for (int g = 0; g < gpus && g < MOST_GPUS; g++)
        devices[g] = g;
    BLAS(XtCreate, &xt);
    BLAS(XtDeviceSelect, xt, gpus, devices);
    BLAS(XtSetBlockDim, xt, block);
}

static void refilled(struct work *w, int repetitions, const char *blocks, int readers)
{
    struct times t = {0};
    double least = 1e30, begun = now();
    char more[9500], tried[300] = "", l1[4096], l2[4096];
    int best = 0;
    family_prepare(w, UNREAD);
    for (const char *b = blocks; b; b = strchr(b, ',') ? strchr(b, ',') + 1 : NULL) {
        struct times one = {0};
        int block = atoi(b);
        open_xt(block);
        if (b == blocks)
            once(w, -1, readers, NULL); /* the first call on these GPUs allocates */
        once(w, 0, readers, &one);
        BLAS(XtDestroy, xt);
        snprintf(tried + strlen(tried), sizeof tried - strlen(tried), "%s\"%d\":%.6g", *tried ? "," : "", block, median(&one.whole));
        if (median(&one.whole) < least) {
            least = median(&one.whole);
            best = block;
        }
    }
    open_xt(best);
    once(w, -1, readers, NULL);
    for (int r = 0; r < repetitions && (r < 2 || now() - begun < 30); r++)
        once(w, r, readers, &t);
    BLAS(XtDestroy, xt);
    snprintf(more, sizeof more, ",\"call\":%s,\"read\":%s,\"readers\":%d,\"gpus\":%d,\"blocks\":{%s},\"block\":%d",
             list(&t.call, l1, sizeof l1), list(&t.read, l2, sizeof l2), readers, gpus, tried, best);
    emit(family_names[w->routine], w->n, "xt", &t.whole, more);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        die("usage: peer_families resident N CALLS REPETITIONS FAMILIES | refilled N REPETITIONS FAMILIES BLOCKS [READERS]");
    int is_resident = !strcmp(argv[1], "resident");
    enum routine chosen[ROUTINES];
    int families = family_list(argv[is_resident ? 5 : 4], chosen);
    size_t n = (size_t)atoi(argv[2]), widest = 1;
    for (int i = 0; i < families; i++)
        if (parts(chosen[i]) > widest)
            widest = parts(chosen[i]);
    gpus = cuda_start();
    stream = new_stream();
    BLAS(Create_v2, &blas);
    BLAS(SetStream_v2, blas, stream);
    struct work w = {.n = n};
    w.A = pinned_doubles(widest * n * n);
    w.B = pinned_doubles(widest * n * n);
    w.C = pinned_doubles(widest * n * n);
    for (int i = 0; i < families; i++) {
        w.routine = chosen[i];
        if (!is_resident) {
            refilled(&w, atoi(argv[3]), argv[5], argc > 6 ? atoi(argv[6]) : 8);
            continue;
        }
        resident(&w, atoi(argv[3]), atoi(argv[4]), 0);
        if (w.routine == TRMM)
            resident(&w, atoi(argv[3]), atoi(argv[4]), 1);
    }
    return 0;
}
