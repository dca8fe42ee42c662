/* Access patterns from which the library learns, each as an ordinary BLAS program, to measure what that is worth.
 *
 *   habits LABEL PATTERNS [SCALE]      PATTERNS: comma-separated; SCALE divides the orders of all matrices (1)
 *
 *   fresh          a new result of 8 MiB for each product of order 1024, read entirely and freed
 *   thin           the same with 32 MiB and 32 columns of A: the host takes about as long
 *   read           a product of order 2048 into the same result, read entirely
 *   land           a result of 1 MiB, read entirely
 *   vector         a resident matrix of order 2048 times a resident vector, the result read entirely
 *   outer          as read, with 32 columns of A
 *   power          64 vectors that are made of the last result, times a matrix of order 2048
 *   feed           a product of order 512 of inputs that change, of whose result one element is read
 *   patch          100 elements of a matrix of order 4096 change between products with 32 vectors
 *   patch-vector   the same with one vector
 *   reuse          a new matrix of order 2048 times 64 vectors, one after the other
 *   narrow         the same with 8 vectors at once
 *   rewrite        16 products with 8 vectors of a matrix that changes before each
 *   arena          32 matrices of order 1024 in one new block, each used once
 *   small-dgemv, small-dgemm      many calls that take microseconds (orders 256 and 96)
 *   again-dgemm, again-dgemv, again-daxpy      100 calls on operands that nothing touches, then one element is read
 *   factor, square, change        habits_factor.c, habits_change.c
 *
 * Seconds are of one step, what the CPU writes and reads included; of the patterns with many calls, and of those that begin with new
 * matrices, of one call. Each pattern has arrays of its own. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "habits.h"

enum { READERS = 4, BATCH = 100 };

static const char *label;

/* So that the result of an earlier step is wrong. */
static double alpha_of(int step)
{
    return 2 + step % 7;
}

/* -- the results ------------------------------------------------------------------------------------------------- */

static void new_results(const char *pattern, int n, int k)
{
    struct product_on p = new_product(n, n, k, 0);
    int step = 0;
    free(p.C);
    struct steps s = steps_of(30);
    while (more(&s)) {
        p.alpha = alpha_of(step++);
        double start = now();
        p.C = doubles(entries(&p));
        multiply(&p);
        double read = sum(p.C, entries(&p), READERS);
        free(p.C);
        took(&s, now() - start);
        same(pattern, read, total(&p));
    }
    told(label, pattern, n, &s);
    p.C = NULL;
    end_product(&p);
}

static void same_result(const char *pattern, int m, int n, int k)
{
    struct product_on p = new_product(m, n, k, 0);
    int step = 0;
    struct steps s = steps_of(30);
    while (more(&s)) {
        p.alpha = alpha_of(step++);
        double start = now();
        multiply(&p);
        double read = sum(p.C, entries(&p), entries(&p) > 1 << 18 ? READERS : 1);
        took(&s, now() - start);
        same(pattern, read, total(&p));
    }
    told(label, pattern, n, &s);
    check_product(pattern, &p);
    end_product(&p);
}

/* -- the inputs -------------------------------------------------------------------------------------------------- */

__attribute__((optimize("O3"))) static void next_vectors(const double *y, double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (double)((int32_t)y[i] & 15);
}

static void power(void)
{
    int n = scaled(2048), step = 0;
    struct product_on p = new_product(n, scaled(512) / 8, n, 0);
    struct steps s = steps_of(30);
    while (more(&s)) {
        p.alpha = alpha_of(step++);
        count_b(&p);
        double wanted = total(&p), start = now();
        multiply(&p);
        double read = sum(p.C, entries(&p), 1);
        next_vectors(p.C, p.B, entries(&p));
        took(&s, now() - start);
        same("power", read, wanted);
    }
    told(label, "power", n, &s);
    end_product(&p);
}

static void feed(void)
{
    int n = scaled(512), step = 0;
    struct product_on p = new_product(n, n, n, 0);
    volatile double seen = 0;
    struct steps s = steps_of(30);
    while (more(&s)) {
        p.alpha = alpha_of(step++);
        double start = now();
        change_some(p.A, entries(&p), 300 + 2 * (uint32_t)step);
        change_some(p.B, entries(&p), 301 + 2 * (uint32_t)step);
        multiply(&p);
        seen = p.C[entries(&p) / 2];
        took(&s, now() - start);
    }
    told(label, "feed", n, &s);
    (void)seen;
    count_a(&p);
    count_b(&p);
    check_product("feed", &p);
    end_product(&p);
}

/* The changed elements lie in 25 of the 64 panels of 2 MiB: what the CPU changes panel by panel must be less than half. */
static void patch(const char *pattern, int vectors)
{
    enum { COLUMNS = 25, EACH = 4 };
    int n = scaled(4096), step = 0;
    size_t N = (size_t)n;
    struct product_on p = new_product(n, vectors, n, 0);
    struct steps s = steps_of(30);
    while (more(&s)) {
        uint32_t seed = 500 + (uint32_t)step;
        size_t at[COLUMNS * EACH], from = (size_t)(value(seed, 0) + 1024), row = (size_t)(value(seed, 1) + 1024);
        p.alpha = alpha_of(step++);
        for (size_t i = 0; i < COLUMNS * EACH; i++) {
            size_t column = (from + i / EACH * (N / COLUMNS)) % N;
            at[i] = column * N + (row + i % EACH * (N / EACH)) % N;
            p.columns[column] += (int64_t)(value(seed, 2 + i) - p.A[at[i]]);
        }
        double start = now();
        for (size_t i = 0; i < COLUMNS * EACH; i++)
            p.A[at[i]] = value(seed, 2 + i);
        multiply(&p);
        double read = sum(p.C, entries(&p), 1);
        took(&s, now() - start);
        same(pattern, read, total(&p));
    }
    told(label, pattern, n, &s);
    check_product(pattern, &p);
    end_product(&p);
}

/* -- uploads for later calls ------------------------------------------------------------------------------------- */

/* A new matrix for each `calls` products; it changes before each of them, or stays as it is. */
static void new_matrix(const char *pattern, int vectors, int calls, int changes)
{
    int n = scaled(2048), step = 0;
    struct steps s = steps_of(1);
    while (more(&s)) {
        struct product_on p = new_product(n, vectors, n, 0);
        double spent = 0;
        for (int call = 0; call < calls; call++) {
            p.alpha = alpha_of(step++);
            double start = now();
            if (changes)
                change_some(p.A, (size_t)n * (size_t)n, 700 + (uint32_t)step);
            multiply(&p);
            double read = sum(p.C, entries(&p), 1);
            spent += now() - start;
            if (changes)
                count_a(&p);
            same(pattern, read, total(&p));
        }
        took(&s, spent / calls);
        end_product(&p);
    }
    told(label, pattern, n, &s);
}

static void arena(void)
{
    enum { MATRICES = 32 };
    int n = scaled(1024), step = 0;
    size_t each = (size_t)n * (size_t)n;
    struct product_on p = new_product(n, 8, n, 0);
    double *own = p.A;
    struct steps s = steps_of(1);
    while (more(&s)) {
        double *block = doubles(MATRICES * each), spent = 0;
        fill(block, MATRICES * each, 900 + (uint32_t)s.s.n);
        for (int i = 0; i < MATRICES; i++) {
            p.A = block + (size_t)i * each;
            p.alpha = alpha_of(step++);
            count_a(&p);
            double start = now();
            multiply(&p);
            double read = sum(p.C, entries(&p), 1);
            spent += now() - start;
            same("arena", read, total(&p));
        }
        took(&s, spent / MATRICES);
        free(block);
    }
    told(label, "arena", n, &s);
    p.A = own;
    end_product(&p);
}

/* -- many calls -------------------------------------------------------------------------------------------------- */

/* Calls in memory that is never protected; one element of B changes between them. */
static void small(const char *pattern, int n, int vectors)
{
    struct product_on p = new_product(n, vectors, n, 0);
    int step = 0;
    struct steps s = steps_of(30);
    while (more(&s)) {
        p.alpha = alpha_of(step++);
        double start = now();
        for (int call = 0; call < BATCH; call++) {
            p.B[call % n] = call;
            multiply(&p);
        }
        took(&s, (now() - start) / BATCH);
        count_b(&p);
        same(pattern, sum(p.C, entries(&p), 1), total(&p));
    }
    told(label, pattern, n, &s);
    check_product(pattern, &p);
    end_product(&p);
}

static void again(const char *pattern, int n, int vectors)
{
    struct product_on p = new_product(n, vectors, n, 0);
    double wanted = 0;
    int step = 0;
    struct steps s = steps_of(10);
    while (more(&s)) {
        p.alpha = alpha_of(step++);
        double start = now();
        for (int call = 0; call < BATCH; call++)
            multiply(&p);
        volatile double got = p.C[n / 2];
        took(&s, (now() - start) / BATCH);
        if (step == 1) /* checked at the end, with all other entries */
            wanted = got / p.alpha;
        same(pattern, got, wanted * p.alpha);
    }
    told(label, pattern, n, &s);
    check_product(pattern, &p);
    end_product(&p);
}

static void again_daxpy(void)
{
    int n = scaled(1 << 20), step = 1;
    double *x = doubles((size_t)n), *y = doubles((size_t)n), added = 0;
    fill(x, (size_t)n, 41);
    fill(y, (size_t)n, 42);
    struct steps s = steps_of(10);
    while (more(&s)) {
        double start = now(), alpha = 3;
        for (int call = 0; call < BATCH; call++) {
            daxpy_(&n, &alpha, x, &step, y, &step);
            added += alpha;
            alpha = 1 - alpha; /* 3 and -2 by turns */
        }
        volatile double got = y[n / 2];
        took(&s, (now() - start) / BATCH);
        same("again-daxpy", got, value(42, (size_t)n / 2) + added * value(41, (size_t)n / 2));
    }
    told(label, "again-daxpy", n, &s);
    for (size_t i = 0; i < (size_t)n; i++)
        same("an entry of again-daxpy", y[i], value(42, i) + added * value(41, i));
    free(y);
    free(x);
}

static void run(const char *pattern)
{
#define PATTERN(name, call)                                                                                                              \
    if (!strcmp(pattern, name)) {                                                                                                       \
        call;                                                                                                                           \
        return;                                                                                                                         \
    }
    PATTERN("fresh", new_results(pattern, scaled(1024), scaled(1024)))
    PATTERN("thin", new_results(pattern, scaled(2048), 32))
    PATTERN("read", same_result(pattern, scaled(2048), scaled(2048), scaled(2048)))
    PATTERN("land", same_result(pattern, scaled(256), scaled(512), scaled(2048)))
    PATTERN("vector", same_result(pattern, scaled(2048), 1, scaled(2048)))
    PATTERN("outer", same_result(pattern, scaled(2048), scaled(2048), 32))
    PATTERN("power", power())
    PATTERN("feed", feed())
    PATTERN("patch", patch(pattern, 32))
    PATTERN("patch-vector", patch(pattern, 1))
    PATTERN("reuse", new_matrix(pattern, 1, 64, 0))
    PATTERN("narrow", new_matrix(pattern, 8, 64, 0))
    PATTERN("rewrite", new_matrix(pattern, 8, 16, 1))
    PATTERN("arena", arena())
    PATTERN("small-dgemv", small(pattern, 256, 1))
    PATTERN("small-dgemm", small(pattern, 96, 96))
    PATTERN("again-dgemm", again(pattern, scaled(512), scaled(512)))
    PATTERN("again-dgemv", again(pattern, scaled(1024), 1))
    PATTERN("again-daxpy", again_daxpy())
    PATTERN("factor", factor(label))
    PATTERN("square", square(label))
    PATTERN("change", change(label))
#undef PATTERN
    die("habits: no pattern %s", pattern);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("usage: habits LABEL PATTERNS [SCALE]");
    label = argv[1];
    char *patterns = argv[2];
    scale_by(argc > 3 ? atoi(argv[3]) : 1);
    if (listed(patterns, "square"))
        wake_by(256, 1.3); /* products of this order tell nothing of the rate of large ones */
    else
        wake_briefly(5);
    for (char *word = strtok(patterns, ","); word; word = strtok(NULL, ","))
        run(word);
    return 0;
}
