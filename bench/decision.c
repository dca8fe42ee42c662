/* Time per call over sizes, to compare the settings of SEMCACHE_OFFLOAD: one process per setting.
 *
 *   decision LABEL SIZES REPETITIONS      SIZES: comma-separated
 *
 * For dgemm and dgemv (n x n) and daxpy (n * n elements): "host", the CPU rewrites the inputs before each call, and
 * "resident", the CPU does not access them between the calls. Each time includes reading one element of the result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "common.h"

enum routine { GEMM, GEMV, AXPY };
static const char *const NAMES[] = {"dgemm", "dgemv", "daxpy"};
enum { MOST_AXPY = 1 << 24, MOST_CALLS = 400 };

static int n, length, step = 1;
static size_t all;
static double *a, *b, *c;
static struct product p;
static int added; /* daxpy: how often x was added to y */

static void refill(enum routine r, uint32_t seed)
{
    p = (struct product){(size_t)n, r == GEMM ? (size_t)n : 1, (size_t)n, 1, 0, 2 * seed, 2 * seed + 1, 0};
    fill(a, all, p.a);
    fill(b, r == GEMV ? (size_t)n : all, p.b);
    added = 0;
}

static void call(enum routine r)
{
    double zero = 0, one = 1;
    switch (r) {
    case GEMM:
        dgemm_("N", "N", &n, &n, &n, &p.alpha, a, &n, b, &n, &zero, c, &n);
        break;
    case GEMV:
        dgemv_("N", &n, &n, &p.alpha, a, &n, b, &step, &zero, c, &step);
        break;
    case AXPY:
        daxpy_(&length, &one, a, &step, b, &step);
        added++;
    }
}

static double look(enum routine r)
{
    const volatile double *out = r == AXPY ? b : c;
    return out[(r == GEMV ? (size_t)n : all) / 2];
}

static void check(const char *place, enum routine r)
{
    size_t entries = r == GEMV ? (size_t)n : all;
    if (r != AXPY) {
        product_check(place, &p, c, sum(c, entries, 0));
        return;
    }
    for (size_t s = 0; s < 64; s++) {
        size_t i = s == 63 ? entries - 1 : s * entries / 64;
        same("an entry of daxpy", b[i], value(p.b, i) + added * value(p.a, i));
    }
    double total = 0;
    for (size_t i = 0; i < entries; i++)
        total += value(p.b, i) + added * value(p.a, i);
    same("the sum of daxpy", sum(b, entries, 0), total);
}

static void measure(const char *label, enum routine r, int resident, int repetitions)
{
    struct series s = {0};
    const char *place = resident ? "resident" : "host";
    char more[200];
    uint32_t seed = 100;
    volatile double seen = 0;
    double begun = now(), spent = 0;
    refill(r, seed);
    /* Warms up, then makes as many calls per repetition as fill 20 ms. */
    int warm = 0;
    do {
        if (!resident)
            refill(r, ++seed);
        double start = now();
        call(r);
        seen = look(r);
        spent = now() - start;
        warm++;
        /* After enough calls on the same data semcache uploads them to a device. The warm-up includes that, so that
           it is not measured. */
    } while ((warm < 3 && spent < 0.3) || (warm < 30 && now() - begun < 0.05) ||
             (resident && warm < 200 && now() - begun < 0.4));
    int calls = spent > 0.02 ? 1 : (int)(0.02 / (spent + 1e-7));
    if (calls > MOST_CALLS)
        calls = MOST_CALLS;
    if (!resident && all > (1u << 20) && calls > 4)
        calls = 4;
    begun = now();
    for (int t = 0; t < repetitions && (t < 3 || now() - begun < 4); t++) {
        double time = 0;
        if (resident) {
            double start = now();
            for (int k = 0; k < calls; k++) {
                call(r);
                seen = look(r);
            }
            time = now() - start;
        } else {
            for (int k = 0; k < calls; k++) {
                refill(r, ++seed);
                double start = now();
                call(r);
                seen = look(r);
                time += now() - start;
            }
        }
        add(&s, time / calls);
    }
    (void)seen;
    check(place, r);
    snprintf(more, sizeof more, ",\"routine\":\"%s\",\"place\":\"%s\",\"calls\":%d", NAMES[r], place, calls);
    emit("decision", r == AXPY ? all : (size_t)n, label, &s, more);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: decision LABEL SIZES REPETITIONS");
    wake(1.0);
    for (double start = now(); now() - start < 0.3;)
        ; /* The processor's clock frequency rises, too. */
    for (char *w = strtok(argv[2], ","); w; w = strtok(NULL, ",")) {
        n = atoi(w);
        all = (size_t)n * (size_t)n;
        length = (int)all;
        a = doubles(all);
        b = doubles(all);
        c = doubles(all);
        poison(c, all);
        for (int r = GEMM; r <= AXPY; r++)
            for (int resident = 0; resident < 2; resident++)
                if (r != AXPY || all <= MOST_AXPY)
                    measure(argv[1], (enum routine)r, resident, atoi(argv[3]));
        free(c);
        free(b);
        free(a);
    }
    return 0;
}
