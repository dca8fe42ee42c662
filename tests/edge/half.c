/* Triangles: calls that use one triangle of a matrix, calls that use all of it, and a CPU that writes and reads either
 * triangle in between. Large enough that a triangle is moved in several pieces. Everything is printed as hashes. */
#include "edge.h"

void dsymv_(const char *u, const int *n, const double *alpha, const double *a, const int *lda, const double *x,
            const int *incx, const double *beta, double *y, const int *incy);
void dtrmv_(const char *u, const char *t, const char *d, const int *n, const double *a, const int *lda, double *x,
            const int *incx);
void dtrsv_(const char *u, const char *t, const char *d, const int *n, const double *a, const int *lda, double *x,
            const int *incx);
void dsyr_(const char *u, const int *n, const double *alpha, const double *x, const int *incx, double *a, const int *lda);
void dsyr2_(const char *u, const int *n, const double *alpha, const double *x, const int *incx, const double *y,
            const int *incy, double *a, const int *lda);
void dsyrk_(const char *u, const char *t, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *beta, double *c, const int *ldc);

enum { N = 400, LD = 403, SIZE = LD * N };
static const int n = N, ld = LD, one = 1;
static const double plus = 1, minus = -1;

static int draw(int below) { return (int)((edge_draw() + 4) * 8 + edge_draw() + 4) % below; }

/* One triangle, with the CPU. */
static uint64_t triangle(int lower, const double *a)
{
    uint64_t h = 0;
    for (int c = 0; c < N; c++)
        h = h * 31 + (lower ? hash(a + c * LD + c, N - c) : hash(a + c * LD, c + 1));
    return h;
}

/* A matrix that is solved with exactly: its part beside the diagonal has a square of zero. */
static void solvable(double *a)
{
    for (int c = 0; c < N; c++)
        for (int r = 0; r < N; r++)
            a[r + c * LD] = r == c ? (r % 3 ? 1 : -2) : r % 2 && c % 2 == 0 ? edge_draw() : r < c ? 77 : 0;
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 120;
    double *a = doubles(SIZE), *t = doubles(SIZE), *x = doubles(2 * N), *y = doubles(2 * N), *z = doubles(2 * N);
    fill(a, SIZE), fill(x, 2 * N), fill(y, 2 * N), fill(z, 2 * N);
    solvable(t);
    for (int step = 0; step < steps; step++) {
        const char *u = draw(2) ? "L" : "U";
        const int two = 2, what = draw(11), r = draw(20) * 20 + draw(20), c = draw(20) * 20 + draw(20);
        switch (what) {
        case 0:
        case 1:
            dsymv_(u, &n, &plus, a, &ld, x, &one, &plus, y, &two);
            break;
        case 2:
            dsyr_(u, &n, &minus, x, &two, a, &ld);
            break;
        case 3:
            dsyr2_(u, &n, &plus, x, &one, z, &two, a, &ld);
            break;
        case 4:
            dcopy_(&n, x, &one, z, &one);
            dtrmv_(u, draw(2) ? "N" : "T", "U", &n, a, &ld, z, &one);
            show("trmv", z, N);
            fill(z, 2 * N);
            break;
        case 5:
            dcopy_(&n, x, &one, z, &two);
            /* The other triangle of T would overflow. */
            dtrsv_("L", draw(2) ? "N" : "T", "N", &n, t, &ld, z, &two);
            show("trsv", z, 2 * N);
            fill(z, 2 * N);
            break;
        case 6:
            dgemv_("N", &n, &n, &plus, a, &ld, x, &one, &minus, y, &one);
            break;
        case 7:
            dger_(&n, &n, &plus, x, &one, z, &one, a, &ld);
            break;
        case 8:
            /* Stored or not, and what stands between the columns. */
            a[r + c * LD] = edge_draw();
            a[LD * c + N] = step;
            t[c / 2 * 2 * LD + (r | 1)] += r / 2 > c / 2;
            break;
        case 9:
            printf("%s: %016llx\n", u, (unsigned long long)triangle(*u == 'L', a));
            break;
        default:
            dsyrk_(u, "N", &n, &two, &minus, z, &n, &plus, a, &ld);
        }
        if (step % 7 == 6) {
            show("y", y, 2 * N);
            fill(y, 2 * N);
        }
        if (step % 40 == 39) {
            show("a", a, SIZE);
            fill(a, draw(2) ? SIZE : SIZE / 2);
        }
    }
    show("a", a, SIZE), show("t", t, SIZE), show("y", y, 2 * N);
    return 0;
}
