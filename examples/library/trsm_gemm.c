/* X = L^-1 B, then C = A X, while the host does something else: first without hints, then in an asynchronous section.
 *
 *   trsm_gemm [N]        gcc -O2 -o trsm_gemm trsm_gemm.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * L(i, j) = r(i) / r(j) with r among 1, 2, 4, -1, -2, -4: its inverse has two diagonals, and all results are exact. They go to stdout, the
 * same with and without semcache; seconds and bytes go to stderr. */
#include "example.h"

static double r_of(size_t i)
{
    static const double values[] = {1, -2, 4, -1, 2, 2, -4};
    return values[i % 7];
}

/* The host has something else to do between the calls, and before it reads C. */
static double plain(int n, const double *l, double *b, const double *a, double *c)
{
    const double one = 1, zero = 0;
    dtrsm_("L", "L", "N", "U", &n, &n, &one, l, &n, b, &n);
    double done = host_work(n);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    return done + host_work(n);
}

static double hinted(int n, const double *l, double *b, const double *a, double *c)
{
    const double one = 1, zero = 0;
    semcache_matrix A = semcache_view(a, n, n, n, sizeof *a), C = semcache_view(c, n, n, n, sizeof *c);
    semcache_event sent, complete;
    /* Hint: in the section calls return once they are queued. Pays where a call would wait for its result (a small one that the CPU reads
     * each time, devices of unequal speed, a part for the host), and the host has something else to do. */
    semcache_begin();
    dtrsm_("L", "L", "N", "U", &n, &n, &one, l, &n, b, &n);
    /* Hint: A is not needed before the second call. Pays, as the section does, if the host works meanwhile. */
    semcache_prefetch(&A, SEMCACHE_ALL_DEVICES, &sent);
    double done = host_work(n);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    semcache_end(&complete);
    done += host_work(n);
    /* Hint: only to know when. Whatever uses the results waits by itself. */
    semcache_wait(&complete);
    /* Hint: C comes back at once. Pays if the CPU reads all of it. */
    semcache_read_cpu(&C);
    return done;
}

int main(int argc, char **argv)
{
    int n = order_of(argc, argv, 4096);
    size_t size = (size_t)n, all = size * size;
    double *first[2] = {NULL, NULL};
    bring_up();
    for (int hints = 0; hints < 2; hints++) {
        const char *name = hints ? "hinted" : "plain";
        double *l = doubles(all), *b = doubles(all), *a = doubles(all), *c = doubles(all), sums[2] = {0, 0};
        for (size_t j = 0; j < size; j++)
            for (size_t i = 0; i < size; i++) {
                l[j * size + i] = i < j ? -7777 : r_of(i) / r_of(j);
                b[j * size + i] = (double)((3 * i + 5 * j) % 7) - 3;
                a[j * size + i] = (double)((2 * i + 7 * j) % 5) - 2;
            }
        meter m = metered();
        double done = (hints ? hinted : plain)(n, l, b, a, c);
        for (size_t i = 0; i < all; i++)
            sums[0] += c[i] * ((double)(i % 11) - 5);
        report(name, &m);
        /* What X must be: of each column two neighbours. */
        size_t wrong = 0;
        for (size_t j = 0; j < size; j++)
            for (size_t i = 0; i < size; i++) {
                double up = i ? r_of(i) / r_of(i - 1) * ((double)((3 * (i - 1) + 5 * j) % 7) - 3) : 0;
                wrong += b[j * size + i] != (double)((3 * i + 5 * j) % 7) - 3 - up;
                sums[1] += b[j * size + i] * (double)(i % 13);
            }
        printf("RESULT trsm_gemm %s: checksums %.2f %.2f, wrong elements of X: %zu, host work %.6e\n", name, sums[0], sums[1], wrong, done);
        if (!hints) {
            first[0] = copy_of(b, all);
            first[1] = copy_of(c, all);
        }
        printf("RESULT trsm_gemm %s: as the first: %s\n", name, same(b, first[0], all) && same(c, first[1], all) ? "yes" : "NO");
        free(l);
        free(b);
        free(a);
        free(c);
    }
    free(first[0]);
    free(first[1]);
    return 0;
}
