/* Code that the benchmark programs share: a clock, several threads over a range, integer-valued data, exact checks,
 * and one JSON line per measurement. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>

/* One measurement: how long each repetition took. */
struct series {
    int n;
    double s[256];
};

double now(void);
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Runs f on [0, n) cut into contiguous parts, one per thread; threads 0: as many as there are cores, at most
 * 16 (BENCH_THREADS sets another number). */
void parallel(size_t n, int threads, void (*f)(void *arg, size_t from, size_t to, int thread), void *arg);
int default_threads(void);

/* Entry i of the data with that seed: an integer in [-1024, 1023]. Sums of products of these are exact in
 * doubles at every size used here, in any order. */
static inline double value(uint32_t seed, size_t i)
{
    uint32_t h = (uint32_t)i * 0x9E3779B1u + seed * 0x85EBCA6Bu + (uint32_t)(i >> 32);
    h ^= h >> 15;
    h *= 0x2C1B3C6Du;
    h ^= h >> 12;
    h *= 0x297A2D39u;
    h ^= h >> 15;
    return (double)((int)(h >> 21) - 1024);
}

/* malloc, or the end of the program. */
double *doubles(size_t n);
/* Writes the data with that seed; large arrays are written by several threads. */
void fill(double *a, size_t n, uint32_t seed);
/* Writes NaN to all elements, so that elements which a call fails to write are found. */
void poison(double *a, size_t n);
/* The sum of the elements, read front to back by `threads` threads, each its contiguous part. */
double sum(const double *a, size_t n, int threads);

/* Data of D = alpha A B, or D = alpha A (B + C) when two_terms; all column-major without padding. */
struct product {
    size_t m, n, k;
    double alpha;
    int two_terms;
    uint32_t a, b, c; /* seeds */
};
/* The sum that the entries of D must have. */
double product_sum(const struct product *p);
/* Compares `total` with product_sum and 64 entries of d with sums of their own; ends the program if not
 * equal. d may be NULL: the total only. */
void product_check(const char *what, const struct product *p, const double *d, double total);
/* Entry i, j. */
double product_entry(const struct product *p, size_t i, size_t j);

/* y = A x for the m x n matrix with seed a and the vector with seed x: entry i. */
double row_times(size_t m, size_t n, uint32_t a, uint32_t x, size_t i);

/* Ends the program unless they are equal. */
void same(const char *what, double got, double wanted);

void add(struct series *s, double seconds);
double median(const struct series *s);
/* Prints {"bench":..., "size":..., "variant":..., "seconds":[...]}; `more` is further keys (", \"k\":v") or "". */
void emit(const char *bench, size_t size, const char *variant, const struct series *s, const char *more);
/* Writes the series as a JSON list into `text`, which has room for `bytes` bytes. */
const char *list(const struct series *s, char *text, size_t bytes);

/* Is `word` in the comma-separated list? */
int listed(const char *words, const char *word);

/* The CPU's part of a Jacobi iteration, the same code for all implementations. */
void jacobi_update(int n, double d, const double *b, const double *y, double *x);

/* Lets a runtime that starts in the background finish its start: calls dgemm_ on memory of its own for `seconds`
   seconds (BENCH_WAKE sets another number). */
void wake(double seconds);
/* The same with matrices of order n. */
void wake_by(int n, double seconds);
/* The same until a device computes, and 0.1 s more; `most` seconds if none does. */
void wake_briefly(double most);

#endif
