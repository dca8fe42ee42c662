/* Conjugate gradients for a dense symmetric positive definite system: first without hints, then with them.
 *
 *   cg [N]        gcc -O2 -o cg cg.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * The solution is a vector of small integers. Results go to stdout, the same with and without semcache; seconds and bytes go to stderr. */
#include "example.h"

enum { STEPS = 40 };

static double wanted(int i)
{
    return i % 5 + 1;
}

/* r = b = A wanted, p = r, and x = 0. */
static void prepare(int n, const double *a, double *x, double *r, double *p)
{
    for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += a[(size_t)j * (size_t)n + (size_t)i] * wanted(i);
        x[j] = 0;
        r[j] = p[j] = sum;
    }
}

static void plain(int n, const double *a, double *x, double *r, double *p, double *q)
{
    const double unit = 1, zero = 0;
    const int one = 1;
    prepare(n, a, x, r, p);
    double rho = ddot_(&n, r, &one, r, &one), goal = 1e-24 * rho;
    for (int k = 0; k < STEPS && rho > goal; k++) {
        dgemv_("T", &n, &n, &unit, a, &n, p, &one, &zero, q, &one);
        double alpha = rho / ddot_(&n, p, &one, q, &one), minus = -alpha;
        daxpy_(&n, &alpha, p, &one, x, &one);
        daxpy_(&n, &minus, q, &one, r, &one);
        double next = ddot_(&n, r, &one, r, &one), beta = next / rho;
        dscal_(&n, &beta, p, &one);
        daxpy_(&n, &unit, r, &one, p, &one);
        rho = next;
    }
}

static void hinted(int n, const double *a, double *x, double *r, double *p, double *q)
{
    const double unit = 1, zero = 0;
    const int one = 1;
    /* Hint: A goes to the devices while the host makes b. Pays if the host has something to do before the first product. */
    semcache_matrix A = semcache_view(a, n, n, n, sizeof *a), X = semcache_view(x, n, 1, n, sizeof *x);
    semcache_event sent;
    semcache_prefetch(&A, SEMCACHE_ALL_DEVICES, &sent);
    /* Hint: messages and traces have these names, and the range. */
    semcache_name(&A, "A");
    prepare(n, a, x, r, p);
    semcache_range_begin("conjugate gradients");
    double rho = ddot_(&n, r, &one, r, &one), goal = 1e-24 * rho;
    for (int k = 0; k < STEPS && rho > goal; k++) {
        dgemv_("T", &n, &n, &unit, a, &n, p, &one, &zero, q, &one);
        double alpha = rho / ddot_(&n, p, &one, q, &one), minus = -alpha;
        daxpy_(&n, &alpha, p, &one, x, &one);
        daxpy_(&n, &minus, q, &one, r, &one);
        double next = ddot_(&n, r, &one, r, &one), beta = next / rho;
        dscal_(&n, &beta, p, &one);
        daxpy_(&n, &unit, r, &one, p, &one);
        rho = next;
    }
    semcache_range_end();
    /* Hint: all of x comes back at once. Pays if x is on devices and takes several page faults otherwise, of up to 2 MiB each. */
    semcache_read_cpu(&X);
}

int main(int argc, char **argv)
{
    int n = order_of(argc, argv, 8192);
    size_t size = (size_t)n;
    double *x[2], *matrix = doubles(size * size);
    for (size_t j = 0; j < size; j++)
        for (size_t i = 0; i < size; i++)
            matrix[j * size + i] = i == j ? 3.0 * n + (double)(i % 11) * n / 8 : (double)((i + j) % 5) - 2;
    bring_up();
    for (int hints = 0; hints < 2; hints++) {
        double *a = copy_of(matrix, size * size), *r = doubles(size), *p = doubles(size), *q = doubles(size);
        x[hints] = doubles(size);
        meter m = metered();
        (hints ? hinted : plain)(n, a, x[hints], r, p, q);
        report(hints ? "hinted" : "plain", &m);
        double error = 0, sum = 0;
        for (int i = 0; i < n; i++) {
            error = fmax(error, fabs(x[hints][i] - wanted(i)));
            sum += (i % 13 + 1) * x[hints][i];
        }
        printf("RESULT cg %s: checksum %.6f, error below 1e-9: %s\n", hints ? "hinted" : "plain", sum, error < 1e-9 ? "yes" : "NO");
        free(a);
        free(r);
        free(p);
        free(q);
    }
    /* Devices may add in another order. */
    double apart = 0;
    for (int i = 0; i < n; i++)
        apart = fmax(apart, fabs(x[0][i] - x[1][i]));
    printf("RESULT cg: hinted and plain agree within 1e-9: %s\n", apart < 1e-9 ? "yes" : "NO");
    free(x[0]);
    free(x[1]);
    free(matrix);
    return 0;
}
