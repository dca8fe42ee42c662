/* LU factors of a matrix by blocks, without pivots: first without hints, then with a block-cyclic distribution, then with a distribution
 * of the program's own.
 *
 *   lu [N]        gcc -O2 -o lu lu.c $(pkg-config --cflags --libs semcache) -lblas -lm
 *
 * A(i, j) = r(i) min(i, j) c(j), counted from one, with r and c among 1, 2, 4, -1, -2, -4. Its factors are known, L(i, j) = r(i) / r(j) and
 * U(i, j) = r(i) c(j), and all numbers on the way to them exact. Results go to stdout, the same with and without semcache; seconds and
 * bytes go to stderr. */
#include "example.h"

static const double VALUES[] = {1, -2, 4, -1, 2, 2, -4};

static double r_of(size_t i)
{
    return VALUES[i % 7];
}

static double c_of(size_t j)
{
    return VALUES[j % 5];
}

/* The factors of a block on the diagonal, by the host. */
static void factor(int n, double *a, int ld)
{
    size_t step = (size_t)ld;
    for (int k = 0; k < n; k++) {
        const double *pivots = a + (size_t)k * step;
        for (int i = k + 1; i < n; i++)
            a[(size_t)k * step + (size_t)i] /= pivots[k];
        for (int j = k + 1; j < n; j++) {
            double *column = a + (size_t)j * step;
            for (int i = k + 1; i < n; i++)
                column[i] -= pivots[i] * column[k];
        }
    }
}

static void plain(int n, int nb, double *a)
{
    const double one = 1, minus = -1;
    for (int k = 0; k < n; k += nb) {
        int here = n - k < nb ? n - k : nb, rest = n - k - here;
        double *diagonal = a + (size_t)k * (size_t)n + k;
        factor(here, diagonal, n);
        if (!rest)
            break;
        double *below = diagonal + here, *right = diagonal + (size_t)here * (size_t)n;
        dtrsm_("L", "L", "N", "U", &here, &rest, &one, diagonal, &n, right, &n);
        dtrsm_("R", "U", "N", "N", &rest, &here, &one, diagonal, &n, below, &n);
        dgemm_("N", "N", &rest, &rest, &here, &minus, below, &n, right, &n, &one, right + here, &n);
    }
}

static void hinted(int n, int nb, double *a, const semcache_distribution *of)
{
    const double one = 1, minus = -1;
    semcache_matrix A = semcache_view(a, n, n, n, sizeof *a);
    /* Hint: messages and traces have this name, and the ranges below. */
    semcache_name(&A, "A");
    /* Hint: blocks go to the devices that compute them from now on. Pays with several devices: a block stays where it is, and only what
     * other devices need of the new row and column is copied between them. */
    semcache_distribute(&A, of, NULL);
    for (int k = 0; k < n; k += nb) {
        int here = n - k < nb ? n - k : nb, rest = n - k - here;
        double *diagonal = a + (size_t)k * (size_t)n + k;
        semcache_matrix D = semcache_view(diagonal, here, here, n, sizeof *a);
        semcache_range_begin("block on the diagonal");
        /* Hint: the host changes this block. Pays since its columns lie in many pages: one wait instead of a fault for each. */
        semcache_write_cpu(&D);
        factor(here, diagonal, n);
        semcache_range_end();
        if (!rest)
            break;
        double *below = diagonal + here, *right = diagonal + (size_t)here * (size_t)n;
        semcache_range_begin("row, column and update");
        dtrsm_("L", "L", "N", "U", &here, &rest, &one, diagonal, &n, right, &n);
        dtrsm_("R", "U", "N", "N", &rest, &here, &one, diagonal, &n, below, &n);
        dgemm_("N", "N", &rest, &rest, &here, &minus, below, &n, right, &n, &one, right + here, &n);
        semcache_range_end();
    }
    /* Hint: the factors come back at once. Pays if the CPU reads all of them. */
    semcache_read_cpu(&A);
}

/* Diagonals of blocks are dealt to the devices, there and back (0 1 1 0 0 1 ...): every row and column of blocks is spread over all. */
static int32_t owner(int64_t i, int64_t j, void *user)
{
    int64_t devices = *(const int *)user, turn = (i + j) % (2 * devices);
    return (int32_t)(turn < devices ? turn : 2 * devices - 1 - turn);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"plain", "block-cyclic", "own distribution"};
    int n = order_of(argc, argv, 8192), nb = n / 8 < 32 ? 32 : n / 8 > 256 ? 256 : n / 8, devices;
    size_t size = (size_t)n;
    double *first = NULL;
    bring_up();
    devices = semcache_devices() ? semcache_devices() : 1;
    semcache_distribution of[2];
    of[0] = semcache_block_cyclic(nb, nb, 0, 0);
    of[1] = semcache_distribution_of(SEMCACHE_OWNERS);
    of[1].mb = of[1].nb = nb;
    of[1].owner = owner;
    of[1].user = &devices;
    for (int variant = 0; variant < 3; variant++) {
        double *a = doubles(size * size);
        size_t wrong = 0;
        for (size_t j = 0; j < size; j++)
            for (size_t i = 0; i < size; i++)
                a[j * size + i] = r_of(i) * (double)((i < j ? i : j) + 1) * c_of(j);
        meter m = metered();
        if (variant)
            hinted(n, nb, a, &of[variant - 1]);
        else
            plain(n, nb, a);
        double sum = 0;
        for (size_t i = 0; i < size * size; i++)
            sum += a[i] * (double)(i % 13);
        report(names[variant], &m);
        for (size_t j = 0; j < size; j++)
            for (size_t i = 0; i < size; i++)
                wrong += a[j * size + i] != (i > j ? r_of(i) / r_of(j) : r_of(i) * c_of(j));
        printf("RESULT lu %s: checksum %.2f, wrong elements: %zu\n", names[variant], sum, wrong);
        if (!first)
            first = copy_of(a, size * size);
        printf("RESULT lu %s: as the first: %s\n", names[variant], same(a, first, size * size) ? "yes" : "NO");
        free(a);
    }
    free(first);
    return 0;
}
