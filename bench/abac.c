/* D = alpha (A B + A C), or D = alpha A B, from host memory to host memory; then the CPU reads all of D. An ordinary
 * BLAS program, which runs unchanged with any library that provides dgemm_.
 *
 *   abac N TERMS VARIANTS REPETITIONS [READERS]
 *
 * TERMS is 2 (abac) or 1 (dgemm). VARIANTS, in this order, out of
 *   first      one call, the first of the process
 *   cold       one call on new memory, after calls on other memory
 *   resident   the inputs are not changed between the calls
 *   inplace    the CPU rewrites the inputs before each call
 *   realloc    all matrices are freed, allocated and filled before each call
 * Times are from the first call until READERS threads have read D; "call" is the part until the last call returns,
 * "read" the time of reading D once more. */
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "common.h"

static int n, terms, readers = 8;
static size_t all;
static double *a, *b, *c, *d;

static void allocate(void)
{
    a = doubles(all);
    b = doubles(all);
    c = terms == 2 ? doubles(all) : NULL;
    d = doubles(all);
    poison(d, all);
}

static void release(void)
{
    free(a);
    free(b);
    free(c);
    free(d);
    a = b = c = d = NULL;
}

static struct product inputs(uint32_t seed)
{
    struct product p = {(size_t)n, (size_t)n, (size_t)n, 1, terms == 2, 3 * seed, 3 * seed + 1, 3 * seed + 2};
    return p;
}

static void fill_all(const struct product *p)
{
    fill(a, all, p->a);
    fill(b, all, p->b);
    if (c)
        fill(c, all, p->c);
}

struct times {
    struct series whole, call, read;
};

static void once(const char *variant, struct product *p, int repetition, struct times *out)
{
    double zero = 0, one = 1;
    p->alpha = 1 + repetition % 4; /* so that the D of an earlier repetition is a wrong result */
    double start = now();
    dgemm_("N", "N", &n, &n, &n, &p->alpha, a, &n, b, &n, &zero, d, &n);
    if (c)
        dgemm_("N", "N", &n, &n, &n, &p->alpha, a, &n, c, &n, &one, d, &n);
    double returned = now();
    double total = sum(d, all, readers);
    double end = now();
    double again = sum(d, all, readers);
    double last = now();
    product_check(variant, p, d, total);
    same("the sum read again", again, total);
    if (out) {
        add(&out->whole, end - start);
        add(&out->call, returned - start);
        add(&out->read, last - end);
    }
}

static void print(const char *variant, const struct times *t)
{
    char call[4096], read[4096], more[9000];
    snprintf(more, sizeof more, ",\"call\":%s,\"read\":%s,\"readers\":%d", list(&t->call, call, sizeof call),
             list(&t->read, read, sizeof read), readers);
    emit(terms == 2 ? "abac" : "dgemm", (size_t)n, variant, &t->whole, more);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        die("usage: abac N TERMS VARIANTS REPETITIONS [READERS]");
    n = atoi(argv[1]);
    terms = atoi(argv[2]);
    int repetitions = atoi(argv[4]);
    if (argc > 5)
        readers = atoi(argv[5]);
    all = (size_t)n * (size_t)n;
    struct product p = inputs(1);

    if (listed(argv[3], "first")) {
        struct times t = {0};
        allocate();
        fill_all(&p);
        once("first", &p, 1, &t);
        print("first", &t);
        release();
    }
    if (listed(argv[3], "cold")) {
        struct times t = {0};
        wake(1.0);
        allocate();
        fill_all(&p);
        once("cold", &p, 2, &t);
        print("cold", &t);
    }
    if (!a) {
        allocate();
        fill_all(&p);
    }
    if (listed(argv[3], "resident") || listed(argv[3], "inplace")) {
        wake(0.6);
        once("warm-up", &p, 0, NULL);
        once("warm-up", &p, 1, NULL);
    }
    if (listed(argv[3], "resident")) {
        struct times t = {0};
        double begun = now();
        for (int r = 0; r < repetitions && (r < 3 || now() - begun < 30); r++)
            once("resident", &p, r, &t);
        print("resident", &t);
    }
    if (listed(argv[3], "inplace")) {
        struct times t = {0};
        double begun = now();
        for (int r = 0; r < repetitions && (r < 3 || now() - begun < 30); r++) {
            p = inputs(10 + (uint32_t)r);
            fill_all(&p);
            once("inplace", &p, r, &t);
        }
        print("inplace", &t);
    }
    if (listed(argv[3], "realloc")) {
        struct times t = {0};
        double begun = now();
        for (int r = -1; r < repetitions && (r < 3 || now() - begun < 30); r++) {
            p = inputs(100 + (uint32_t)r);
            release();
            allocate();
            fill_all(&p);
            once("realloc", &p, r + 1, r < 0 ? NULL : &t); /* the first is a warm-up */
        }
        print("realloc", &t);
    }
    release();
    return 0;
}
