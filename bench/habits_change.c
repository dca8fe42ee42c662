/* "square": products of orders 256 to 2048, of inputs that the CPU changes before each call ("host") or not ("resident"); one element
 * of the result is read after each. Two figures each: calls 11 to 60, and calls 81 to 140, after the first A/B probe.
 *
 * "change": programs that change what they do after 60 calls. Prints the seconds of each call with what the CPU reads after it, and
 * as "step" those with what it writes before it, too. */
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "habits.h"

/* -- square ------------------------------------------------------------------------------------------------------ */

/* A call that is much slower than others must not take the time of the other sizes. */
static const double LONGEST = 0.15;

static void squares(const char *label, int n, int changes)
{
    struct product_on p = new_product(n, n, n, 0);
    struct series early = {0}, late = {0};
    volatile double seen = 0;
    double begun = now();
    for (int call = 1; call <= 140 && (call <= 20 || now() - begun < LONGEST); call++) {
        p.alpha = 2 + call % 7;
        double start = now();
        if (changes) {
            change_some(p.A, entries(&p), 2 * (uint32_t)call);
            change_some(p.B, entries(&p), 2 * (uint32_t)call + 1);
        }
        multiply(&p);
        seen = p.C[entries(&p) / 2];
        double spent = now() - start;
        if (call > 10 && call <= 60)
            add(&early, spent);
        if (call > 80)
            add(&late, spent);
    }
    (void)seen;
    count_a(&p);
    count_b(&p);
    check_product("square", &p);
    for (int which = 0; which < 2; which++) {
        const struct series *s = which ? &late : &early;
        char more[100];
        snprintf(more, sizeof more, ",\"pattern\":\"square\",\"place\":\"%s\",\"calls\":\"%s\"", changes ? "host" : "resident",
                 which ? "late" : "early");
        if (s->n)
            emit("habits", (size_t)n, label, s, more);
    }
    end_product(&p);
}

void square(const char *label)
{
    static const int orders[] = {256, 512, 1024, 2048};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        for (int changes = 0; changes < 2; changes++)
            squares(label, scaled(orders[i]), changes);
}

/* -- change ------------------------------------------------------------------------------------------------------ */

enum { CALLS = 60 };

/* What the program does in its two phases: whether the CPU changes the inputs before each call, and how much of the result it reads. */
enum reads { NOTHING, ELEMENT, ALL };
static const struct phases {
    const char *name;
    int changes[2];
    enum reads reads[2];
} programs[] = {
    {"inputs change, then not", {1, 0}, {ELEMENT, ELEMENT}},
    {"inputs stay, then change", {0, 1}, {ELEMENT, ELEMENT}},
    {"results are read, then not", {0, 0}, {ALL, NOTHING}},
    {"results are not read, then are", {0, 0}, {NOTHING, ALL}},
};

static double half(const struct product_on *p, const double *c)
{
    double all = 0;
    for (size_t n = (size_t)p->n, j = 0; j < n; j++)
        for (size_t i = j; i < n; i++)
            all += c[j * n + i];
    return all;
}

/* alpha A A', of which the lower half is computed. */
static void rank_k(const struct product_on *p)
{
    const double zero = 0;
    dsyrk_("L", "N", &p->n, &p->k, &p->alpha, p->A, &p->n, &zero, p->C, &p->n);
}

static double half_total(const struct product_on *p)
{
    int64_t twice = 0;
    for (int k = 0; k < p->k; k++)
        twice += p->columns[k] * p->columns[k];
    for (size_t i = 0; i < (size_t)p->n * (size_t)p->k; i++)
        twice += (int64_t)p->A[i] * (int64_t)p->A[i];
    return p->alpha * (double)(twice / 2);
}

static void changing(const char *label, const char *routine, int n, const struct phases *is, size_t room)
{
    int vector = routine[2] == 'e' && routine[4] == 'v', syrk = routine[1] == 's';
    struct product_on p = new_product(n, vector ? 1 : n, n, room);
    struct series calls = {0}, steps = {0};
    size_t inputs = (size_t)n * (size_t)n;
    volatile double seen = 0;
    for (int call = 0; call < 2 * CALLS; call++) {
        int phase = call / CALLS;
        double read = 0;
        p.alpha = 2 + call % 7;
        double start = now();
        if (is->changes[phase]) {
            change_some(p.A, inputs, 2 * (uint32_t)call);
            if (!syrk)
                change_some(p.B, (size_t)p.k * (size_t)p.n, 2 * (uint32_t)call + 1);
        }
        double changed = now();
        if (syrk)
            rank_k(&p);
        else
            multiply(&p);
        if (is->reads[phase] == ELEMENT)
            seen = p.C[entries(&p) - 1];
        else if (is->reads[phase] == ALL)
            read = syrk ? half(&p, p.C) : sum(p.C, entries(&p), 1);
        double end = now();
        add(&calls, end - changed);
        add(&steps, end - start);
        if (is->reads[phase] == ALL)
            same(is->name, read, syrk ? half_total(&p) : total(&p));
    }
    (void)seen;
    count_a(&p);
    count_b(&p);
    if (syrk)
        same(is->name, half(&p, p.C), half_total(&p));
    else
        check_product(is->name, &p);
    char text[4096], more[4500];
    snprintf(more, sizeof more, ",\"pattern\":\"change\",\"routine\":\"%s\",\"change\":\"%s\",\"phase\":%d,\"step\":%s", routine, is->name,
             CALLS, list(&steps, text, sizeof text));
    emit("habits", (size_t)n, label, &calls, more);
    end_product(&p);
}

void change(const char *label)
{
    /* Blocks of lengths of their own: what is known of blocks of one length is kept for the next one. */
    size_t room = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        changing(label, "dgemm", scaled(512), &programs[i], room += 512);
        changing(label, "dsyrk", scaled(512), &programs[i], room += 512);
        changing(label, "dgemv", scaled(2048), &programs[i], room += 512);
    }
}
