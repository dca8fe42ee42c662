/* D = A B + A C, by two DGEMMs, and by one DAXPY and one DGEMM: each first without hints, then with them.
 *
 *   abac [N]        gcc -O2 -o abac abac.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * Small integers throughout: all results are exact. They go to stdout, the same with and without semcache; seconds and bytes go to
 * stderr. */
#include "example.h"

/* The host has something else to do before the products, and before it reads D. */
static double by_dgemm(int n, const double *a, const double *b, const double *c, double *d)
{
    const double one = 1, zero = 0;
    double done = host_work(n);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, d, &n);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, c, &n, &one, d, &n);
    return done + host_work(n);
}

static double by_dgemm_hinted(int n, const double *a, const double *b, const double *c, double *d)
{
    const double one = 1, zero = 0;
    semcache_matrix A = semcache_view(a, n, n, n, sizeof *a), B = semcache_view(b, n, n, n, sizeof *b);
    semcache_matrix C = semcache_view(c, n, n, n, sizeof *c), D = semcache_view(d, n, n, n, sizeof *d);
    semcache_event event;
    /* Hint: the inputs go to the devices while the host works, in the order in which they are needed. Pays if the host works before the
     * first product. Nobody has to wait for the event: the products do. */
    semcache_prefetch(&A, SEMCACHE_ALL_DEVICES, &event);
    semcache_prefetch(&B, SEMCACHE_ALL_DEVICES, &event);
    semcache_prefetch(&C, SEMCACHE_ALL_DEVICES, &event);
    double done = host_work(n);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, d, &n);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, c, &n, &one, d, &n);
    /* Hint: D comes back while the host works. Pays if the host works before it reads D. */
    semcache_coherent(&D, &event);
    done += host_work(n);
    /* Hint: D can be read from here on without page faults. Pays if the CPU reads all of it. */
    semcache_read_cpu(&D);
    return done;
}

static double by_daxpy(int n, const double *a, double *b, const double *c, double *d)
{
    const double one = 1, zero = 0;
    const int all = n * n, step = 1;
    double done = host_work(n);
    daxpy_(&all, &one, c, &step, b, &step);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, d, &n);
    return done + host_work(n);
}

static double by_daxpy_hinted(int n, const double *a, double *b, const double *c, double *d)
{
    const double one = 1, zero = 0;
    const int all = n * n, step = 1;
    semcache_matrix A = semcache_view(a, n, n, n, sizeof *a), B = semcache_view(b, n, n, n, sizeof *b);
    semcache_matrix C = semcache_view(c, n, n, n, sizeof *c), D = semcache_view(d, n, n, n, sizeof *d);
    semcache_event event;
    /* Hint: as above. DAXPY alone is not worth a copy of B and C: it pays to send both, since B has to go there anyway. */
    semcache_prefetch(&B, SEMCACHE_ALL_DEVICES, &event);
    semcache_prefetch(&C, SEMCACHE_ALL_DEVICES, &event);
    semcache_prefetch(&A, SEMCACHE_ALL_DEVICES, &event);
    double done = host_work(n);
    daxpy_(&all, &one, c, &step, b, &step);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, d, &n);
    /* Hint: C is used no more. Pays if the devices' memory is short. */
    semcache_evict(&C, SEMCACHE_ALL_DEVICES);
    /* Hints: as above. */
    semcache_coherent(&D, &event);
    done += host_work(n);
    semcache_read_cpu(&D);
    return done;
}

static double *matrix(int n, size_t p, size_t q, size_t modulus)
{
    size_t size = (size_t)n;
    double *a = doubles(size * size);
    for (size_t j = 0; j < size; j++)
        for (size_t i = 0; i < size; i++)
            a[j * size + i] = (double)((p * i + q * j) % modulus) - (double)(modulus / 2);
    return a;
}

/* How many rows of D v are not those of A (B + C) v. With v = 1, 2, 3, 1, ... every element of D matters. */
static int wrong(int n, const double *a, const double *b, const double *c, const double *d)
{
    size_t size = (size_t)n;
    double *s = doubles(size), *w = doubles(size);
    int rows = 0;
    memset(s, 0, size * sizeof *s);
    memset(w, 0, size * sizeof *w);
    for (size_t j = 0; j < size; j++)
        for (size_t i = 0; i < size; i++)
            s[i] += (b[j * size + i] + c[j * size + i]) * (double)(j % 3 + 1);
    for (size_t j = 0; j < size; j++)
        for (size_t i = 0; i < size; i++)
            w[i] += a[j * size + i] * s[j] - d[j * size + i] * (double)(j % 3 + 1);
    for (size_t i = 0; i < size; i++)
        rows += w[i] != 0;
    free(s);
    free(w);
    return rows;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"by dgemm, plain", "by dgemm, hinted", "by daxpy, plain", "by daxpy, hinted"};
    int n = order_of(argc, argv, 4096);
    size_t all = (size_t)n * (size_t)n;
    double *inputs[3] = {matrix(n, 3, 5, 7), matrix(n, 2, 7, 5), matrix(n, 5, 1, 9)}, *first = NULL;
    bring_up();
    for (int i = 0; i < 4; i++) {
        double *a = copy_of(inputs[0], all), *b = copy_of(inputs[1], all), *c = copy_of(inputs[2], all), *d = doubles(all);
        double done = 0, sum = 0;
        meter m = metered();
        switch (i) {
        case 0: done = by_dgemm(n, a, b, c, d); break;
        case 1: done = by_dgemm_hinted(n, a, b, c, d); break;
        case 2: done = by_daxpy(n, a, b, c, d); break;
        default: done = by_daxpy_hinted(n, a, b, c, d); break;
        }
        for (size_t j = 0; j < all; j++)
            sum += d[j] * ((double)(j % 11) - 5);
        report(names[i], &m);
        printf("RESULT abac %s: checksum %.0f, host work %.6e\n", names[i], sum, done);
        if (!first) {
            printf("RESULT abac: wrong rows: %d\n", wrong(n, inputs[0], inputs[1], inputs[2], d));
            first = copy_of(d, all);
        }
        printf("RESULT abac %s: as the first: %s\n", names[i], same(d, first, all) ? "yes" : "NO");
        free(a);
        free(b);
        free(c);
        free(d);
    }
    free(first);
    for (int i = 0; i < 3; i++)
        free(inputs[i]);
    return 0;
}
