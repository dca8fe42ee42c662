/* Time per call over sizes, to compare the settings of SEMCACHE_OFFLOAD: one process per setting.
 *
 *   decision LABEL SIZES REPETITIONS WARM      SIZES: comma-separated
 *
 * For dgemm, dsyrk and dtrsm (order n), dgemv (n x n) and daxpy (n * n elements): "host", the CPU rewrites the inputs before each
 * call, and "resident", the CPU does not access them between the calls. Each time includes reading one element of the result. What
 * rewriting takes, per call, is measured as well: page faults of it are a cost of the device. WARM calls of each kind come before the
 * measured ones; REPETITIONS times as many calls are measured as fill 20 ms, or 60 ms of rewriting. Inputs of order 1024 at most are
 * rewritten by one thread: starting threads takes longer than the call, and as long as it likes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "common.h"
#include "family.h"

enum { GEMV = ROUTINES, AXPY };
static const int KINDS[] = {GEMM, SYRK, TRSM, GEMV, AXPY};
enum { MOST_AXPY = 1 << 24, MOST_CALLS = 400 };

static int n, length, step = 1;
static size_t all;
static struct work w;
static int added; /* daxpy: how often x was added to y */

static const char *name(int r)
{
    return r == GEMV ? "dgemv" : r == AXPY ? "daxpy" : family_names[r];
}

static void refill(int r, uint32_t seed)
{
    w.a = 2 * seed;
    w.b = 2 * seed + 1;
    w.applied = added = 0;
    if (r < ROUTINES) {
        w.routine = (enum routine)r;
        family_fill(&w);
        return;
    }
    fill(w.A, all, w.a);
    fill(w.B, r == GEMV ? (size_t)n : all, w.b);
}

static void call(int r)
{
    double zero = 0, one = 1;
    switch (r) {
    case GEMM:
        dgemm_("N", "N", &n, &n, &n, &w.alpha, w.A, &n, w.B, &n, &zero, w.C, &n);
        break;
    case SYRK:
        dsyrk_("L", "N", &n, &n, &w.alpha, w.A, &n, &zero, w.C, &n);
        break;
    case TRSM:
        dtrsm_("L", "L", "N", "N", &n, &n, &w.alpha, w.A, &n, w.B, &n);
        w.applied++;
        break;
    case GEMV:
        dgemv_("N", &n, &n, &w.alpha, w.A, &n, w.B, &step, &zero, w.C, &step);
        break;
    default:
        daxpy_(&length, &one, w.A, &step, w.B, &step);
        added++;
    }
}

static double look(int r)
{
    const volatile double *out = r == AXPY || r == TRSM ? w.B : w.C;
    /* The last row of a column in the middle: of dsyrk in the half that is written. */
    return out[r == GEMV ? (size_t)n / 2 : (size_t)(n / 2) * (size_t)n + (size_t)n - 1];
}

static void check(const char *place, int r)
{
    if (r < ROUTINES) {
        family_check(place, &w, result(&w), family_read(&w, 0));
    } else if (r == GEMV) {
        struct product p = {(size_t)n, 1, (size_t)n, w.alpha, 0, w.a, w.b, 0};
        product_check(place, &p, w.C, sum(w.C, (size_t)n, 0));
    } else {
        double total = 0;
        for (size_t i = 0; i < all; i++)
            total += value(w.b, i) + added * value(w.a, i);
        for (size_t s = 0; s < 64; s++) {
            size_t i = s == 63 ? all - 1 : s * all / 64;
            same("an entry of daxpy", w.B[i], value(w.b, i) + added * value(w.a, i));
        }
        same("the sum of daxpy", sum(w.B, all, 0), total);
    }
}

static void measure(const char *label, int r, int resident, int repetitions, int warm)
{
    struct series s = {0}, refills = {0};
    const char *place = resident ? "resident" : "host";
    char more[2000];
    uint32_t seed = 100;
    volatile double seen = 0;
    double spent = 0, rewriting = 0;
    if (r < ROUTINES) {
        w.routine = (enum routine)r;
        family_prepare(&w, 0);
    }
    refill(r, seed);
    for (int i = 0; i < warm; i++) {
        double before = now();
        if (!resident)
            refill(r, ++seed);
        double start = now();
        call(r);
        seen = look(r);
        spent = now() - start;
        rewriting = start - before;
    }
    int calls = spent > 0.02 ? 1 : (int)(0.02 / (spent + 1e-7));
    if (calls > MOST_CALLS)
        calls = MOST_CALLS;
    if (calls * rewriting > 0.06)
        calls = rewriting > 0.015 ? 4 : (int)(0.06 / rewriting);
    double begun = now();
    for (int t = 0; t < repetitions && (t < 1 || now() - begun < 2); t++) {
        double time = 0, refilling = 0;
        if (resident) {
            double start = now();
            for (int k = 0; k < calls; k++) {
                call(r);
                seen = look(r);
            }
            time = now() - start;
        } else {
            for (int k = 0; k < calls; k++) {
                double before = now();
                refill(r, ++seed);
                double start = now();
                call(r);
                seen = look(r);
                time += now() - start;
                refilling += start - before;
            }
        }
        add(&s, time / calls);
        add(&refills, refilling / calls);
    }
    (void)seen;
    check(place, r);
    int used = snprintf(more, sizeof more, ",\"routine\":\"%s\",\"place\":\"%s\",\"calls\":%d,\"refills\":[", name(r), place, calls);
    for (int i = 0; i < refills.n && used < (int)sizeof more - 20; i++)
        used += snprintf(more + used, sizeof more - (size_t)used, "%s%.9f", i ? "," : "", refills.s[i]);
    snprintf(more + used, sizeof more - (size_t)used, "]");
    emit("decision", r == AXPY ? all : (size_t)n, label, &s, more);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        die("usage: decision LABEL SIZES REPETITIONS WARM");
    /* Products of this order tell nothing of the rate of large ones. */
    wake_by(256, 1.5);
    for (double start = now(); now() - start < 0.3;)
        ; /* The processor's clock frequency rises, too. */
    for (char *word = strtok(argv[2], ","); word; word = strtok(NULL, ",")) {
        n = atoi(word);
        if (n <= 1024)
            setenv("BENCH_THREADS", "1", 1);
        else
            unsetenv("BENCH_THREADS");
        all = (size_t)n * (size_t)n;
        length = (int)all;
        w = (struct work){.n = (size_t)n, .alpha = 1, .A = doubles(all), .B = doubles(all), .C = doubles(all)};
        for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
            for (int resident = 0; resident < 2; resident++)
                if (KINDS[i] != AXPY || all <= MOST_AXPY)
                    measure(argv[1], KINDS[i], resident, atoi(argv[3]), atoi(argv[4]));
        free(w.C);
        free(w.B);
        free(w.A);
    }
    return 0;
}
