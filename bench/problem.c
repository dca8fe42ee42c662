#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

enum { CHECKED = 32, READERS = 8, MOST = 20 };
static const double ENOUGH = 0.1, TOO_LONG = 10; /* seconds of one problem */

double *operand[OPERANDS];
/* How often the CPU has written to the pages of an operand. */
static uint32_t written[OPERANDS];

static size_t page(void)
{
    static size_t elements_of_page;
    if (!elements_of_page)
        elements_of_page = (size_t)sysconf(_SC_PAGESIZE) / sizeof(double);
    return elements_of_page;
}

/* -- the list ----------------------------------------------------------------------------------------------------- */

static int parse(const char *line, struct problem *p)
{
    char places[8];
    unsigned operands = 0;
    *p = (struct problem){.n = 1, .k = 1};
    if (sscanf(line, "dgemm %zu %zu %zu %3s %d", &p->m, &p->n, &p->k, places, &p->part) == 5)
        p->product = 1, operands = 3;
    else if (sscanf(line, "daxpy %zu %2s %d", &p->m, places, &p->part) == 3)
        operands = 2;
    if (!operands || strlen(places) != operands || strspn(places, "hd") != operands || !p->m || !p->n || !p->k)
        return 0;
    if (p->m * p->n < 2)
        return 0; /* the CPU writes to the first entry of a page, which cannot be checked */
    p->places[OPERAND_A] = places[0];
    p->places[OPERAND_B] = p->product ? places[1] : 0;
    p->places[OPERAND_C] = places[operands - 1];
    return 1;
}

size_t problems_read(const char *path, struct problem **list)
{
    char line[200];
    size_t n = 0, room = 64;
    FILE *file = fopen(path, "r");
    *list = malloc(room * sizeof **list);
    if (!file || !*list)
        die("%s cannot be read", path);
    while (fgets(line, sizeof line, file)) {
        if (n == room && !(*list = realloc(*list, (room *= 2) * sizeof **list)))
            die("out of memory");
        if (!parse(line, &(*list)[n++]))
            die("%s is no call", line);
    }
    fclose(file);
    return n;
}

size_t elements(const struct problem *p, int which)
{
    if (!p->product)
        return which == OPERAND_B ? 0 : p->m;
    return which == OPERAND_A ? p->m * p->k : which == OPERAND_B ? p->k * p->n : p->m * p->n;
}

size_t most_elements(const struct problem *list, size_t n, int which, char place)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        if ((!place || list[i].places[which] == place) && elements(&list[i], which) > most)
            most = elements(&list[i], which);
    return most;
}

/* -- the data ----------------------------------------------------------------------------------------------------- */

/* Entry i of an input: the first one of each page is as the CPU last wrote it, the others are as at the start. */
static double entry(int which, size_t i)
{
    uint32_t seed = (uint32_t)which + 1;
    return value(i % page() ? seed : seed + OPERANDS * written[which], i);
}

void operand_fill(int which, size_t n)
{
    fill(operand[which], n, (uint32_t)which + 1);
}

static void write_pages(void *arg, size_t from, size_t to, int thread)
{
    int which = *(int *)arg;
    (void)thread;
    for (size_t p = from; p < to; p++)
        operand[which][p * page()] = entry(which, p * page());
}

static size_t pages(size_t n)
{
    return (n + page() - 1) / page();
}

static void write_to(int which, size_t n)
{
    written[which]++;
    parallel(pages(n), pages(n) < 1000 ? 1 : 0, write_pages, &which);
}

static void read_pages(void *arg, size_t from, size_t to, int thread)
{
    const volatile double *c = arg;
    (void)thread;
    for (size_t p = from; p < to; p++)
        (void)c[p * page()];
}

/* -- a problem ---------------------------------------------------------------------------------------------------- */

/* The entry of the result that is checked as the i-th: none that the CPU writes to. */
static size_t checked(const struct problem *p, size_t i)
{
    size_t all = elements(p, OPERAND_C), at = i == 0 ? all - 1 : i * (all / CHECKED) + i * 7919 % (all / CHECKED + 1);
    if (at >= all)
        at = all - 1;
    return at % page() || all < 2 ? at : at + 1 < all ? at + 1 : at - 1;
}

/* What a call with alpha = 1 adds to that entry. */
static double added(const struct problem *p, size_t at)
{
    if (!p->product)
        return entry(OPERAND_A, at);
    int64_t s = 0;
    size_t i = at % p->m, j = at / p->m;
    for (size_t k = 0; k < p->k; k++)
        s += (int64_t)entry(OPERAND_A, k * p->m + i) * (int64_t)entry(OPERAND_B, j * p->k + k);
    return (double)s;
}

static void measure(const struct problem *p, int repetitions, const struct side *side)
{
    struct series whole = {0}, called = {0};
    double expected[CHECKED], spent = 0, begun = now();
    size_t all = elements(p, OPERAND_C), middle = checked(p, CHECKED / 2);
    int home = p->places[OPERAND_C] == 'h';
    for (int o = 0; o < OPERANDS; o++)
        if (elements(p, o)) {
            side->bring_home(p, o);
            write_to(o, elements(p, o));
        }
    for (size_t i = 0; i < CHECKED; i++)
        expected[i] = operand[OPERAND_C][checked(p, i)];
    int first = -side->place(p);
    for (int r = first; r < 1 || (now() - begun < TOO_LONG && (r < repetitions || (spent < ENOUGH && r < MOST))); r++) {
        double alpha = 1 + (r - first) % 3;
        for (int o = 0; o < OPERANDS; o++)
            if (elements(p, o) && p->places[o] == 'h') {
                side->bring_home(p, o);
                write_to(o, elements(p, o));
            }
        double start = now();
        side->call(p, alpha);
        double returned = now();
        if (home)
            parallel(pages(all), pages(all) < 1000 ? 1 : READERS, read_pages, operand[OPERAND_C]);
        else
            side->result(p, middle);
        double end = now();
        for (size_t i = 0; i < CHECKED; i++)
            expected[i] += alpha * added(p, checked(p, i));
        if (r >= 0) {
            add(&whole, end - start);
            add(&called, returned - start);
            spent += end - start;
        }
    }
    for (size_t i = 0; i < CHECKED; i++)
        same(p->product ? "an entry of dgemm" : "an entry of daxpy", side->result(p, checked(p, i)), expected[i]);
    char l1[4096], l2[4096], sizes[100];
    snprintf(sizes, sizeof sizes, p->product ? "%zu,%zu,%zu" : "%zu", p->m, p->n, p->k);
    printf("{\"bench\":\"places\",\"side\":\"%s\",\"routine\":\"%s\",\"sizes\":[%s],\"from\":\"%.1s%.1s%.1s\",\"part\":%d,"
           "\"seconds\":%s,\"call\":%s,\"calls\":%d}\n",
           side->name, p->product ? "dgemm" : "daxpy", sizes, &p->places[OPERAND_A], p->product ? &p->places[OPERAND_B] : "",
           &p->places[OPERAND_C], p->part, list(&whole, l1, sizeof l1), list(&called, l2, sizeof l2), whole.n - first);
    fflush(stdout);
}

void problems_measure(const struct problem *all, size_t n, int repetitions, double seconds, const struct side *side)
{
    double begun = now();
    for (size_t i = 0; i < n && now() - begun < seconds; i++)
        measure(&all[i], repetitions, side);
}
