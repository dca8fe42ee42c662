/* Every level-3 routine on square matrices, as an ordinary BLAS program.
 *
 *   families resident N CALLS REPETITIONS FAMILIES             the CPU does not access the matrices between the calls;
 *                                                              then it reads one element of the result. Seconds per call
 *   families refilled N REPETITIONS FAMILIES [READERS]         the CPU rewrites the inputs in place before each call
 *                                                              and reads all of the result; both are timed
 *
 * FAMILIES: comma-separated, see family.c. "calls" of refilled counts all calls of the process; "compulsory" is the
 * number of bytes that each call must move. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "common.h"
#include "family.h"

static void call(const struct work *w)
{
    int n = (int)w->n;
    const double alpha[2] = {w->alpha, 0}, zero[2] = {0, 0};
    switch (w->routine) {
    case GEMM: dgemm_("N", "N", &n, &n, &n, alpha, w->A, &n, w->B, &n, zero, w->C, &n); break;
    case SYMM: dsymm_("L", "L", &n, &n, alpha, w->A, &n, w->B, &n, zero, w->C, &n); break;
    case HEMM: zhemm_("L", "L", &n, &n, alpha, w->A, &n, w->B, &n, zero, w->C, &n); break;
    case SYRK: dsyrk_("L", "N", &n, &n, alpha, w->A, &n, zero, w->C, &n); break;
    case HERK: zherk_("L", "N", &n, &n, alpha, w->A, &n, zero, w->C, &n); break;
    case SYR2K: dsyr2k_("L", "N", &n, &n, alpha, w->A, &n, w->B, &n, zero, w->C, &n); break;
    case HER2K: zher2k_("L", "N", &n, &n, alpha, w->A, &n, w->B, &n, zero, w->C, &n); break;
    case TRMM: dtrmm_("L", "L", "N", "N", &n, &n, alpha, w->A, &n, w->B, &n); break;
    case TRSM: dtrsm_("L", "L", "N", "N", &n, &n, alpha, w->A, &n, w->B, &n); break;
    case ROUTINES: break;
    }
}

static void allocate(struct work *w)
{
    size_t all = parts(w->routine) * w->n * w->n;
    w->A = doubles(all);
    w->B = has_b(w->routine) ? doubles(all) : NULL;
    w->C = has_c(w->routine) ? doubles(all) : NULL;
    family_prepare(w, NAN);
}

static void release(struct work *w)
{
    free(w->A);
    free(w->B);
    free(w->C);
}

static void resident(struct work *w, int calls, int repetitions)
{
    size_t i = 5 % w->n, j = 3 % w->n, p = parts(w->routine);
    struct series s = {0};
    char more[100];
    allocate(w);
    w->a = 1;
    w->b = 2;
    w->applied = 1;
    w->alpha = 1;
    family_fill(w);
    double element[2];
    element[1] = family_entry(w, i, j);
    w->applied = 0;
    element[0] = has_c(w->routine) ? element[1] : family_entry(w, i, j);
    double product = 1;
    for (int r = -2; r < repetitions; r++) {
        w->alpha = r % 2 ? -1 : 1;
        if (has_c(w->routine))
            w->alpha = 3 + r;
        double start = now();
        for (int k = 0; k < calls; k++)
            call(w);
        volatile double got = result(w)[p * (j * w->n + i)];
        double end = now();
        w->applied += calls;
        product = has_c(w->routine) ? w->alpha : calls % 2 ? product * w->alpha : product;
        same("the element read", got, product * element[w->applied % 2]);
        if (r >= 0)
            add(&s, (end - start) / calls);
    }
    w->alpha = product;
    family_check("resident", w, result(w), family_read(w, 0));
    snprintf(more, sizeof more, ",\"operations\":%.6g", family_operations(w->routine, w->n));
    emit(family_names[w->routine], w->n, "resident", &s, more);
    release(w);
}

static void refilled(struct work *w, int repetitions, int readers)
{
    struct series whole = {0}, called = {0}, read = {0};
    double begun = now();
    int calls = 0;
    allocate(w);
    for (int r = -1; r < repetitions && (r < 2 || now() - begun < 30); r++, calls++) {
        w->a = 20 + 2 * (uint32_t)r;
        w->b = 21 + 2 * (uint32_t)r;
        w->alpha = 1 + (r + 4) % 4; /* so that the result of an earlier repetition is wrong */
        w->applied = 1;
        family_fill(w);
        double start = now();
        call(w);
        double returned = now();
        double total = family_read(w, readers);
        double end = now();
        double again = family_read(w, readers);
        double last = now();
        family_check("refilled", w, result(w), total);
        same("the sum read again", again, total);
        if (r >= 0) {
            add(&whole, end - start);
            add(&called, returned - start);
            add(&read, last - end);
        }
    }
    char more[9000], l1[4096], l2[4096];
    snprintf(more, sizeof more, ",\"call\":%s,\"read\":%s,\"readers\":%d,\"calls\":%d,\"compulsory\":%.17g,\"operations\":%.6g",
             list(&called, l1, sizeof l1), list(&read, l2, sizeof l2), readers, calls, family_compulsory(w),
             family_operations(w->routine, w->n));
    emit(family_names[w->routine], w->n, "refilled", &whole, more);
    release(w);
}

int main(int argc, char **argv)
{
    int is_resident = argc > 1 && !strcmp(argv[1], "resident");
    if (argc < (is_resident ? 6 : 5))
        die("usage: families resident N CALLS REPETITIONS FAMILIES | refilled N REPETITIONS FAMILIES [READERS]");
    enum routine chosen[ROUTINES];
    int n = family_list(argv[is_resident ? 5 : 4], chosen);
    if (is_resident)
        wake(1.0);
    for (int i = 0; i < n; i++) {
        struct work w = {.routine = chosen[i], .n = (size_t)atoi(argv[2])};
        if (is_resident)
            resident(&w, atoi(argv[3]), atoi(argv[4]));
        else
            refilled(&w, atoi(argv[3]), argc > 5 ? atoi(argv[5]) : 8);
    }
    return 0;
}
