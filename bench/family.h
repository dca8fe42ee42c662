/* The level-3 families on square matrices: their data, their right results, and the bytes that must cross the host
 * link.
 *
 * All calls are lower, left, not transposed, beta 0. Data are integers, so that every sum is exact:
 *   gemm, syrk, syr2k, herk, her2k     random integers
 *   symm, hemm                         random integers in the lower half; the other half is never read
 *   trmm, trsm                         a dense triangle that is its own inverse: with signs e and d, d alternating,
 *                                      L(i, i) = d(i), L(i, j) = 2 e(i) e(j) d(j) below. So L B costs O(n^2), the
 *                                      two routines have the same result, and a result that is used again does not grow */
#ifndef BENCH_FAMILY_H
#define BENCH_FAMILY_H

#include <stddef.h>
#include <stdint.h>

enum routine { GEMM, SYMM, SYRK, SYR2K, TRMM, TRSM, HEMM, HERK, HER2K, ROUTINES };

/* Names as in the BLAS, without underscore. */
extern const char *const family_names[ROUTINES];
/* The routines named in the comma-separated list, in that order; their number. Ends the program at another word. */
int family_list(char *words, enum routine list[ROUTINES]);

struct work {
    enum routine routine;
    size_t n;
    double alpha;
    uint32_t a, b;      /* seeds */
    int applied;        /* trmm and trsm: how often B was multiplied by L, alpha being the product of all alphas */
    double *A, *B, *C;  /* n x n, column-major; two doubles an entry where complex; those unused are not touched */
};

/* Doubles per entry. */
size_t parts(enum routine r);
/* Whether the routine has an operand B, and whether its result is a matrix of its own. */
int has_b(enum routine r), has_c(enum routine r);
/* The matrix that holds the result, and whether the result is only half of it. */
double *result(const struct work *w);
int result_is_half(enum routine r);

/* Called before the first call of a routine: writes `unread` where no call may read, and a mark where no call may
   write. */
void family_prepare(const struct work *w, double unread);
/* The CPU writes the inputs, in place. */
void family_fill(const struct work *w);
/* The sum of the result, or of the half that the routine writes, read front to back by `threads` threads. */
double family_read(const struct work *w, int threads);
/* Ends the program unless the sum, 64 entries and the marks are right. A NULL `at` leaves the entries out. */
void family_check(const char *what, const struct work *w, const double *at, double total);
/* Entry i, j of the result, its real part. */
double family_entry(const struct work *w, size_t i, size_t j);

/* Bytes that must be copied in and out if neither the device nor the host has the other's data; a triangle counts
   half. */
double family_compulsory(const struct work *w);
/* Floating-point operations on doubles. */
double family_operations(enum routine r, size_t n);

#endif
