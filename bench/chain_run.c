#include "chain.h"

#include <stdio.h>
#include <string.h>

#include "common.h"

const char *const CHAIN_VARIANTS[] = {"cycle", "daxpy", "ddot", "dgemv", "read", NULL};

void chain_prepare(struct chain *c, int n)
{
    *c = (struct chain){.n = n};
    int64_t dot0 = 0, dot1 = 0;
    for (int i = 0; i < n; i++) {
        int64_t x = (int64_t)value(SEED_X, (size_t)i), y = (int64_t)value(SEED_Y, (size_t)i);
        dot0 += x * y;
        dot1 += x * (x + y);
    }
    c->dot[0] = (double)dot0;
    c->dot[1] = (double)dot1;
    for (int s = 0; s < CHAIN_SPOTS; s++) {
        size_t i = c->spot[s] = (size_t)n / CHAIN_SPOTS * (size_t)s;
        c->y[0][s] = value(SEED_Y, i);
        c->y[1][s] = value(SEED_Y, i) + value(SEED_X, i);
        c->z[s] = row_times((size_t)n, CHAIN_COLUMNS, SEED_A, SEED_W, i);
    }
}

void chain_check(const struct chain *c, const double *y, const double *z)
{
    double sum_y = 0, sum_z = 0;
    for (int i = 0; i < c->n; i++) {
        size_t at = (size_t)i;
        double want_y = value(SEED_Y, at) + (c->added ? value(SEED_X, at) : 0);
        double want_z = row_times((size_t)c->n, CHAIN_COLUMNS, SEED_A, SEED_W, at);
        same("an entry of y", y[i], want_y);
        same("an entry of z", z[i], want_z);
        sum_y += want_y;
        sum_z += want_z;
    }
    same("the sum of y", sum(y, (size_t)c->n, 1), sum_y);
    same("the sum of z", sum(z, (size_t)c->n, 1), sum_z);
}

int chain_ops(const char *variant, enum chain_op ops[CHAIN_OPS])
{
    if (!strcmp(variant, "cycle") || !strcmp(variant, "read")) {
        for (int k = 0; k < CHAIN_OPS; k++)
            ops[k] = (enum chain_op)k;
        return CHAIN_OPS;
    }
    ops[0] = !strcmp(variant, "daxpy") ? CHAIN_AXPY : !strcmp(variant, "ddot") ? CHAIN_DOT : CHAIN_GEMV;
    return 1;
}

void chain_run(struct chain *c, const struct chain_calls *f, const char *variant, const char *label, int calls,
               int repetitions)
{
    enum chain_op ops[CHAIN_OPS];
    int count = chain_ops(variant, ops), reads = !strcmp(variant, "read"), wrong = 0;
    struct series s = {0};
    double spots[CHAIN_SPOTS];
    char more[64];
    for (int r = -2; r < repetitions; r++) {
        double start = now();
        for (int k = 0; k < calls; k++) {
            int of_z = 0;
            switch (ops[k % count]) {
            case CHAIN_AXPY:
                f->axpy(c->added ? -1 : 1);
                c->added = !c->added;
                break;
            case CHAIN_DOT:
                wrong += f->dot() != c->dot[c->added];
                break;
            default:
                f->gemv();
                of_z = 1;
            }
            if (reads) {
                f->spots(of_z, c, spots);
                wrong += memcmp(spots, of_z ? c->z : c->y[c->added], sizeof spots) != 0;
            }
        }
        f->finish();
        double end = now();
        if (wrong)
            die("WRONG: chain %s: %d results", variant, wrong);
        if (r >= 0)
            add(&s, (end - start) / calls);
    }
    snprintf(more, sizeof more, ",\"op\":\"%s\",\"calls\":%d", variant, calls);
    emit("chain", (size_t)c->n, label, &s, more);
}
