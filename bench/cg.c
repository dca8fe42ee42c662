/* Conjugate gradients by semcache_csr_multiply and the BLAS. The matrix is the Laplacian of csr.h.
 *
 *   cg ROWS STEPS REPS      a JSON line
 *
 * Each repetition begins with x = 0 and makes STEPS steps. Keys: `step` the median of seconds per step; `first` of the first repetition,
 * which sends the matrix; `h2d`, `d2h`, `p2p` bytes per step; `residual` what is left of |b| after the steps, which the CPU checks.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../include/semcache.h"
#include "blas.h"
#include "common.h"
#include "csr.h"

static const double one = 1, zero = 0;
static const int by = 1;

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
        die("usage: cg ROWS STEPS REPS");
    int steps = atoi(argv[2]), reps = atoi(argv[3]);
    struct csr m = csr_matrix("laplace", atoll(argv[1]));
    semcache_csr a = {sizeof a, 'd', 4, 0, m.rows, m.rows, m.offsets, m.columns, m.values};
    int n = (int)m.rows;
    double *b = csr_right_side(&m), *x = doubles((size_t)n), *r = doubles((size_t)n), *p = doubles((size_t)n), *q = doubles((size_t)n);
    double *nothing = doubles((size_t)n);
    for (int i = 0; i < n; i++)
        nothing[i] = 0;
    wake_briefly(3);
    struct series s = {0};
    semcache_statistics before = {0};
    double first = 0, rho = 0, begun = 0;
    for (int t = -2; t < reps; t++) {
        dcopy_(&n, nothing, &by, x, &by);
        dcopy_(&n, b, &by, r, &by);
        dcopy_(&n, b, &by, p, &by);
        begun = rho = ddot_(&n, r, &by, r, &by);
        if (t == 0)
            before = count();
        double start = now();
        for (int i = 0; i < steps; i++) {
            product(&a, p, q);
            double alpha = rho / ddot_(&n, p, &by, q, &by), minus = -alpha;
            daxpy_(&n, &alpha, p, &by, x, &by);
            daxpy_(&n, &minus, q, &by, r, &by);
            double next = ddot_(&n, r, &by, r, &by), beta = next / rho;
            dscal_(&n, &beta, p, &by);
            daxpy_(&n, &one, r, &by, p, &by);
            rho = next;
        }
        double each = (now() - start) / steps;
        if (t == -2)
            first = each;
        if (t >= 0)
            add(&s, each);
    }
    semcache_statistics after = count();
    double residual = sqrt(rho / begun), all = (double)steps * reps;
    csr_check_solution(&m, b, x, residual);
    printf("{\"bench\":\"cg\",\"variant\":\"semcache\",\"rows\":%lld,\"nnz\":%lld,\"steps\":%d,\"devices\":%d,\"step\":%.7f,\"first\":%.6f,"
           "\"GB_s\":%.1f,\"h2d\":%.0f,\"d2h\":%.0f,\"p2p\":%.0f,\"residual\":%.6e}\n",
           (long long)m.rows, (long long)m.nnz, steps, semcache_devices(), median(&s), first, csr_step_bytes(&m) / median(&s) / 1e9,
           (double)(after.h2d - before.h2d) / all, (double)(after.d2h - before.d2h) / all,
           (double)(after.p2p - before.p2p) / all, residual);
    return 0;
}
