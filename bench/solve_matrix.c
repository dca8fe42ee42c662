#include "solve.h"

#include <string.h>

#include "common.h"

const char *const problem_names[PROBLEMS] = {"getrf", "potrf", "geqrf", "gesv", "posv", "inv", "qr", "geqp3", "sytrf", "sysv"};

enum problem problem_of(const char *name)
{
    for (int i = 0; i < PROBLEMS; i++)
        if (!strcmp(name, problem_names[i]))
            return (enum problem)i;
    die("no problem %s", name);
}

int problem_solves(enum problem problem)
{
    return problem == GESV || problem == POSV || problem == SYSV;
}

struct part {
    size_t n;
    double *a, diagonal;
};

static void columns(void *arg, size_t from, size_t to, int thread)
{
    const struct part *p = arg;
    (void)thread;
    for (size_t j = from; j < to; j++) {
        for (size_t i = 0; i < p->n; i++) {
            size_t low = i < j ? i : j, high = i < j ? j : i;
            p->a[j * p->n + i] = value(71, low * p->n + high);
        }
        p->a[j * p->n + j] += p->diagonal;
    }
}

void solve_matrix(enum problem problem, size_t n, double *a)
{
    int positive = problem == POTRF || problem == POSV;
    struct part p = {n, a, positive ? 1024.0 * (double)n : 0};
    if (positive || problem == SYTRF || problem == SYSV)
        parallel(n, 0, columns, &p);
    else
        fill(a, n * n, 70);
}

double solve_flops(enum problem problem, double n, double sides)
{
    double cube = n * n * n, twice = 2 * n * n * sides;
    switch (problem) {
    case GETRF: return 2 * cube / 3;
    case GESV: return 2 * cube / 3 + twice;
    case POTRF:
    case SYTRF: return cube / 3;
    case POSV:
    case SYSV: return cube / 3 + twice;
    case INV: return 2 * cube;
    case QR: return 8 * cube / 3;
    default: return 4 * cube / 3;
    }
}
