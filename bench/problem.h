/* Calls that a file names, from places that it names, for programs that measure the same calls on both sides: places.c and
 * peer_places.c. A line is a call:
 *
 *   dgemm M N K PLACES PART     C += alpha A B, all column-major without padding
 *   daxpy N PLACES PART         y += alpha x
 *
 * PLACES has a letter for each operand, in the order of the arguments. h: the CPU writes to every page of it before each call, and,
 * of the result, reads every page within the time. d: it stays on the device; of the result one element is read. PART is for the
 * peer (how the call is cut), and of no use to us. A result has at least two elements. */
#ifndef BENCH_PROBLEM_H
#define BENCH_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

enum { OPERAND_A, OPERAND_B, OPERAND_C, OPERANDS }; /* x is A, and y is C */

struct problem {
    int product;          /* dgemm, or else daxpy */
    size_t m, n, k;       /* daxpy: m elements */
    char places[OPERANDS];
    int part;
};

/* Reads the file, or ends the program. */
size_t problems_read(const char *path, struct problem **list);
/* Elements of an operand; none if there is no such operand. */
size_t elements(const struct problem *p, int operand);
/* The most elements of an operand in any of these, of those at `place`, or of all if that is 0. */
size_t most_elements(const struct problem *list, size_t n, int operand, char place);

/* Where the CPU has the operands of all problems: each has a buffer for its largest size, of which problems use the front. */
extern double *operand[OPERANDS];
/* Writes the buffer's data, once. */
void operand_fill(int which, size_t n);

/* What the two sides do differently. */
struct side {
    const char *name;
    /* Called when the CPU has written all operands and before the first call: places what is to be on the device. Returns how many
     * calls are to be made before those that are timed. */
    int (*place)(const struct problem *p);
    /* Called before the CPU writes to an operand. */
    void (*bring_home)(const struct problem *p, int which);
    /* C += alpha A B or y += alpha x; the result is where it belongs on return, or is brought there when the CPU reads it. */
    void (*call)(const struct problem *p, double alpha);
    /* Reads an element of the result, wherever it is. */
    double (*result)(const struct problem *p, size_t i);
};

/* Measures the problems one after the other, each `repetitions` times and more if these take less than 0.1 s, checks some entries of
 * each result, and prints a line for each. None is begun after `seconds` seconds. */
void problems_measure(const struct problem *list, size_t n, int repetitions, double seconds, const struct side *side);

#endif
