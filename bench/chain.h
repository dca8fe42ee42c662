/* The chain of small calls: the operations and their results, which are the same for all implementations.
 *
 * Vectors x, y, z, w of n and a matrix A of n x 16. In a cycle: y += x or y -= x in turn, x . y, z = A w[0..15]. */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include <stddef.h>
#include <stdint.h>

enum { CHAIN_COLUMNS = 16, CHAIN_SPOTS = 8 };
enum chain_op { CHAIN_AXPY, CHAIN_DOT, CHAIN_GEMV, CHAIN_OPS };

/* The seeds of the data. */
enum { SEED_X = 11, SEED_Y = 12, SEED_A = 13, SEED_W = 14 };

struct chain {
    int n;
    int added;          /* whether y is now y0 + x */
    double dot[2];      /* x . y0 and x . (y0 + x) */
    size_t spot[CHAIN_SPOTS];
    double y[2][CHAIN_SPOTS], z[CHAIN_SPOTS];
};

void chain_prepare(struct chain *c, int n);
/* Checks 64 entries of y and of z, and the sums of all their entries. */
void chain_check(const struct chain *c, const double *y, const double *z);

/* The operations that the named variant cycles through; returns how many there are. */
int chain_ops(const char *variant, enum chain_op ops[CHAIN_OPS]);

/* The implementation under test. */
struct chain_calls {
    void (*axpy)(double alpha);
    double (*dot)(void);
    void (*gemv)(void);
    /* The CPU reads the CHAIN_SPOTS elements of the vector that was written last. */
    void (*spots)(int of_z, const struct chain *c, double *out);
    void (*finish)(void);
};
/* Times `calls` calls, `repetitions` times, and prints the line. */
void chain_run(struct chain *c, const struct chain_calls *f, const char *variant, const char *label, int calls,
               int repetitions);

/* The variants measured. */
extern const char *const CHAIN_VARIANTS[];

#endif
