/* Products of a sparse matrix and a vector by semcache_csr_multiply, each on the result of the one before.
 *
 *   spmv PATTERN ROWS REPS      a JSON line; csr.h names the patterns
 *
 * Each repetition calls at least 8 products and then reads one element of the last result. Keys: `spmv` the median of seconds per
 * product; `first` of the first product, which sends the matrix; `h2d`, `d2h`, `p2p` bytes per product, of the repetitions; `check` the sum
 * of a product of the vector of peer_csr, read by the CPU.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../include/semcache.h"
#include "common.h"
#include "csr.h"

static const double one = 1, zero = 0;

static void product(const semcache_csr *a, const double *x, double *y)
{
    semcache_matrix X = semcache_view(x, a->cols, 1, a->cols, 8), Y = semcache_view(y, a->rows, 1, a->rows, 8);
    int status = semcache_csr_multiply(a, 'N', &one, &X, &zero, &Y);
    if (status != SEMCACHE_OK)
        die("semcache_csr_multiply: %s", semcache_message(status));
}

static semcache_statistics count(void)
{
    semcache_statistics so_far = {.size = sizeof so_far};
    semcache_count(&so_far);
    return so_far;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: spmv PATTERN ROWS REPS");
    int reps = atoi(argv[3]);
    struct csr m = csr_matrix(argv[1], atoll(argv[2]));
    semcache_csr a = {sizeof a, 'd', 4, 0, m.rows, m.rows, m.offsets, m.columns, m.values};
    double *x = doubles((size_t)m.rows), *y = doubles((size_t)m.rows), *t;
    for (int64_t i = 0; i < m.rows; i++)
        x[i] = (double)(int)(i % 5) - 2;
    wake_briefly(3);
    double start = now();
    product(&a, x, y);
    double first = now() - start, check = sum(y, (size_t)m.rows, 0);
    struct series s = {0};
    semcache_statistics before = {0};
    int many = 8;
    for (int r = -2; r < reps; r++) {
        if (r == 0)
            before = count();
        start = now();
        for (int i = 0; i < many; i++) {
            product(&a, x, y);
            t = x, x = y, y = t;
        }
        volatile double seen = x[0];
        (void)seen;
        double each = (now() - start) / many;
        if (r < 0)
            many = each < 0.002 ? (int)(0.02 / each) + 1 : 8;
        else
            add(&s, each);
    }
    semcache_statistics after = count();
    double products = (double)reps * many, bytes = (double)m.nnz * 12 + (double)m.rows * (4 + 8 + 8);
    printf("{\"bench\":\"csr\",\"variant\":\"semcache\",\"pattern\":\"%s\",\"rows\":%lld,\"nnz\":%lld,\"spmv\":%.7f,\"first\":%.6f,"
           "\"GB_s\":%.1f,\"devices\":%d,\"h2d\":%.0f,\"d2h\":%.0f,\"p2p\":%.0f,\"check\":%.0f}\n",
           argv[1], (long long)m.rows, (long long)m.nnz, median(&s), first, bytes / median(&s) / 1e9, semcache_devices(),
           (double)(after.h2d - before.h2d) / products, (double)(after.d2h - before.d2h) / products,
           (double)(after.p2p - before.p2p) / products, check);
    return 0;
}
