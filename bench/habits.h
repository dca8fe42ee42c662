/* What the access patterns of habits.c share: products of matrices of the program's own, checked by the contents of its arrays, and
 * steps that are made for a given time. */
#ifndef BENCH_HABITS_H
#define BENCH_HABITS_H

#include "common.h"

/* C = alpha A B on integers, A being m x k and B k x n, all without padding; with n = 1 it is dgemv. C may be NULL. */
struct product_on {
    int m, n, k;
    double alpha;
    double *A, *B, *C;
    int64_t *columns; /* the sums of A's columns */
    int64_t *rows;    /* the sums of B's rows */
};

/* New matrices with data; `room` are further elements of each block, which no call uses. */
struct product_on new_product(int m, int n, int k, size_t room);
void end_product(struct product_on *p);
void multiply(const struct product_on *p);
/* Sums up A or B again, after the program has changed it. */
void count_a(struct product_on *p);
void count_b(struct product_on *p);
/* What the entries of C add up to. */
double total(const struct product_on *p);
/* Ends the program unless all entries of C have the right sum, and 16 of them are right. */
void check_product(const char *what, const struct product_on *p);
size_t entries(const struct product_on *p);

/* The sums of the columns of an m x n matrix. */
void column_sums(const double *a, size_t m, size_t n, int64_t *sums);

/* The CPU changes one element in 64: in every page, and in all that a sample of some words looks at. */
void change_some(double *a, size_t n, uint32_t seed);

/* An order of matrices, divided by the SCALE. */
int scaled(int n);
void scale_by(int scale);

/* Steps that are made for a given time: `warm` that do not count, or eight or more for 0.08 s, then those of 0.16 s, four at
 * least and 200 at most; all less with a SCALE.
 *
 *   struct steps s = steps_of(30);
 *   while (more(&s)) { start = now(); ...; took(&s, now() - start); } */
struct steps {
    int warm, made; /* warm steps left and made */
    double until;
    struct series s;
};
struct steps steps_of(int warm);
int more(struct steps *s);
void took(struct steps *s, double seconds);
/* Prints the steps of a pattern. */
void told(const char *label, const char *pattern, int n, const struct steps *s);

/* The patterns with files of their own. */
void factor(const char *label);
void square(const char *label);
void change(const char *label);

#endif
