/* Jacobi's method for a dense system, one DGEMV per step: first without hints, then with them.
 *
 *   jacobi [N]        gcc -O2 -o jacobi jacobi.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * Solves (R + d I) x = b, made so that the solution is a vector of small integers. R is stored by rows, as in C; the BLAS calls that
 * transposed, and each device computes as many elements of y as it has columns: the shares that semcache_pin and semcache_prefetch send.
 * Results go to stdout, the same with and without semcache; seconds and bytes go to stderr. */
#include "example.h"

enum { STEPS = 60 };

static double wanted(int i)
{
    return i % 7 + 1;
}

/* b = (R + d I) wanted, and x = 0. */
static void prepare(int n, const double *r, double d, double *b, double *x)
{
    for (int i = 0; i < n; i++) {
        b[i] = d * wanted(i);
        x[i] = 0;
        for (int j = 0; j < n; j++)
            b[i] += r[(size_t)i * (size_t)n + (size_t)j] * wanted(j);
    }
}

static void plain(int n, const double *r, double d, double *b, double *x, double *y)
{
    const double one = 1, zero = 0;
    const int step = 1;
    prepare(n, r, d, b, x);
    for (int k = 0; k < STEPS; k++) {
        dgemv_("T", &n, &n, &one, r, &n, x, &step, &zero, y, &step);
        for (int i = 0; i < n; i++)
            x[i] = (b[i] - y[i]) / d;
    }
}

static void hinted(int n, const double *r, double d, double *b, double *x, double *y)
{
    const double one = 1, zero = 0;
    const int step = 1;
    /* Hint: R goes to the devices while the host makes b, and stays. Pays if the host has something to do before the first step; and if
     * other matrices would push R out between the steps. */
    semcache_matrix R = semcache_view(r, n, n, n, sizeof *r), Y = semcache_view(y, n, 1, n, sizeof *y);
    semcache_event sent;
    semcache_pin(&R, SEMCACHE_ALL_DEVICES, &sent);
    prepare(n, r, d, b, x);
    for (int k = 0; k < STEPS; k++) {
        dgemv_("T", &n, &n, &one, r, &n, x, &step, &zero, y, &step);
        /* Hint: all of y comes back at once. Pays if y takes several page faults otherwise, of up to 2 MiB each; results that are smaller
         * than SEMCACHE_OWN come back with the call. */
        semcache_read_cpu(&Y);
        for (int i = 0; i < n; i++)
            x[i] = (b[i] - y[i]) / d;
    }
    /* Hint: R may leave the devices. */
    semcache_unpin(&R);
}

int main(int argc, char **argv)
{
    int n = order_of(argc, argv, 8192);
    size_t size = (size_t)n;
    double d = 4.0 * n, *x[2];
    double *matrix = doubles(size * size);
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++)
            matrix[i * size + j] = i == j ? 0 : (double)((7 * i + 3 * j) % 5) - 2;
    bring_up();
    for (int hints = 0; hints < 2; hints++) {
        double *r = copy_of(matrix, size * size), *b = doubles(size), *y = doubles(size);
        x[hints] = doubles(size);
        meter m = metered();
        (hints ? hinted : plain)(n, r, d, b, x[hints], y);
        report(hints ? "hinted" : "plain", &m);
        double error = 0, sum = 0;
        for (int i = 0; i < n; i++) {
            error = fmax(error, fabs(x[hints][i] - wanted(i)));
            sum += (i % 13 + 1) * x[hints][i];
        }
        printf("RESULT jacobi %s: checksum %.6f, error below 1e-9: %s\n", hints ? "hinted" : "plain", sum, error < 1e-9 ? "yes" : "NO");
        free(r);
        free(b);
        free(y);
    }
    /* Devices may add in another order. */
    double apart = 0;
    for (int i = 0; i < n; i++)
        apart = fmax(apart, fabs(x[0][i] - x[1][i]));
    printf("RESULT jacobi: hinted and plain agree within 1e-12: %s\n", apart < 1e-12 ? "yes" : "NO");
    free(x[0]);
    free(x[1]);
    free(matrix);
    return 0;
}
