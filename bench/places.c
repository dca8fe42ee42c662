/* dgemm and daxpy of any shape from any places, as an ordinary BLAS program.
 *
 *   places FILE REPETITIONS SECONDS     FILE names the calls: problem.h */
#include <stdlib.h>

#include "blas.h"
#include "common.h"
#include "problem.h"

static int place(const struct problem *p)
{
    (void)p;
    return 1; /* it brings to the device what is to stay there */
}

static void bring_home(const struct problem *p, int which)
{
    (void)p, (void)which;
}

static void call(const struct problem *p, double alpha)
{
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, step = 1;
    double one = 1;
    if (p->product)
        dgemm_("N", "N", &m, &n, &k, &alpha, operand[OPERAND_A], &m, operand[OPERAND_B], &k, &one, operand[OPERAND_C], &m);
    else
        daxpy_(&m, &alpha, operand[OPERAND_A], &step, operand[OPERAND_C], &step);
}

static double result(const struct problem *p, size_t i)
{
    (void)p;
    return *(volatile double *)&operand[OPERAND_C][i];
}

int main(int argc, char **argv)
{
    static const struct side side = {"blas", place, bring_home, call, result};
    struct problem *list;
    if (argc != 4)
        die("usage: places FILE REPETITIONS SECONDS");
    double begun = now();
    size_t n = problems_read(argv[1], &list);
    for (int o = 0; o < OPERANDS; o++) {
        operand[o] = doubles(most_elements(list, n, o, 0));
        operand_fill(o, most_elements(list, n, o, 0));
    }
    wake(1.0);
    problems_measure(list, n, atoi(argv[2]), atof(argv[3]) - (now() - begun), &side);
    return 0;
}
