/* Arguments as programs really pass them: empty, wrong, not finite, aliased, interleaved, and in every kind
 * of memory. Everything is printed as hashes; run without semcache it is its own oracle.
 *
 *   arguments FILE      FILE: a scratch file for the mapped ones */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "edge.h"

enum { N = 48, NN = N * N };
static const int n48 = N, one = 1;
static int complaints, complaint;

/* The program's own xerbla, which BLAS lets a program replace. */
void xerbla_(const char *name, const int *info, size_t len)
{
    (void)name, (void)len;
    complaints++;
    complaint = *info;
}

static void after(const char *what, const double *x, size_t n)
{
    printf("%s: %016llx", what, (unsigned long long)hash(x, n));
    if (complaints)
        printf(" xerbla %d", complaint);
    printf("\n");
    complaints = complaint = 0;
}

static void sizes(double *a, double *b, double *c)
{
    static const int size[] = {-1, 0, 1, N};
    static const char letters[] = "NnTtCcX ";
    const double alpha = 2, beta = -1;
    char what[99];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 4; k++) {
                twice(NN, a, c);
                dgemm_("N", "T", &size[i], &size[j], &size[k], &alpha, a, &n48, b, &n48, &beta, c, &n48);
                snprintf(what, sizeof what, "gemm %d %d %d", size[i], size[j], size[k]);
                after(what, c, NN);
            }
    static const int ld[] = {-1, 0, 1, N - 1, N};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 3; j++) {
            const int *l[3] = {&n48, &n48, &n48};
            l[j] = &ld[i];
            twice(NN, a, c);
            dgemm_("N", "N", &n48, &n48, &n48, &alpha, a, l[0], b, l[1], &beta, c, l[2]);
            snprintf(what, sizeof what, "gemm ld %d = %d", j, ld[i]);
            after(what, c, NN);
        }
    for (int i = 0; i < 8; i++) {
        twice(NN, a, c);
        dgemm_(&letters[i], "N", &n48, &n48, &n48, &alpha, a, &n48, b, &n48, &beta, c, &n48);
        dgemm_("N", &letters[i], &n48, &n48, &n48, &alpha, a, &n48, b, &n48, &beta, c, &n48);
        snprintf(what, sizeof what, "gemm trans '%c'", letters[i]);
        after(what, c, NN);
        dgemv_(&letters[i], &n48, &n48, &alpha, a, &n48, b, &one, &beta, c, &one);
        snprintf(what, sizeof what, "gemv trans '%c'", letters[i]);
        after(what, c, NN);
    }
    static const int inc[] = {-2, -1, 0, 1, 3};
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 5; p++)
            for (int q = 0; q < 5; q++) {
                const int *n = &size[i], *ix = &inc[p], *iy = &inc[q];
                twice(NN, a, c);
                daxpy_(n, &alpha, a, ix, c + 7, iy);
                dgemv_("N", n, &n48, &alpha, a, &n48, b, ix, &beta, c + 300, iy);
                dgemv_("T", &n48, n, &alpha, a, &n48, b, ix, &beta, c + 600, iy);
                dcopy_(n, b, ix, c + 900, iy);
                snprintf(what, sizeof what, "n %d inc %d %d", *n, *ix, *iy);
                after(what, c, NN);
                dswap_(n, c, ix, c + 1200, iy);
                dscal_(n, &alpha, c + 1500, ix);
                dger_(n, &n48, &alpha, a, ix, b, iy, c, &n48);
                printf("%g %g %g %d\n", ddot_(n, c + 1600, ix, b, iy), *ix > 0 ? dnrm2_(n, c + 1800, ix) : 0,
                       *ix > 0 ? dasum_(n, c + 2000, ix) : 0, *ix > 0 ? idamax_(n, c + 2000, ix) : 0);
                after(what, c, NN);
            }
}

static void not_finite(double *a, double *b, double *c)
{
    static const double scalar[] = {0, 1, 2};
    const double bad[] = {NAN, INFINITY, -INFINITY};
    char what[99];
    for (int k = 0; k < 3; k++)
        for (int where = 0; where < 3; where++)
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) {
                    double *m = where == 0 ? a : where == 1 ? b : c;
                    twice(NN, b, c);
                    double kept = m[5 * N + 7];
                    m[5 * N + 7] = bad[k];
                    snprintf(what, sizeof what, "%g in %c, alpha %g beta %g", fabs(bad[k]), "ABC"[where], scalar[i], scalar[j]);
                    dgemm_("N", "N", &n48, &n48, &n48, &scalar[i], a, &n48, b, &n48, &scalar[j], c, &n48);
                    after(what, c, NN);
                    m[5 * N + 7] = kept;
                    twice(NN, b, c);
                    kept = m[5 * N + 7];
                    m[5 * N + 7] = bad[k];
                    dgemv_("N", &n48, &n48, &scalar[i], a, &n48, b + 5 * N, &one, &scalar[j], c + 5 * N, &one);
                    after("gemv N", c, NN);
                    dgemv_("T", &n48, &n48, &scalar[i], a, &n48, b + 5 * N, &one, &scalar[j], c + 5 * N, &one);
                    after("gemv T", c, NN);
                    dger_(&n48, &n48, &scalar[i], a + 5 * N, &one, b + 5 * N, &one, c, &n48);
                    after("ger", c, NN);
                    daxpy_(&n48, &scalar[i], a + 5 * N, &one, c + 5 * N, &one);
                    after("axpy", c, NN);
                    double d = ddot_(&n48, a + 5 * N, &one, b + 5 * N, &one), s = dasum_(&n48, c + 5 * N, &one);
                    printf("dot %s asum %s\n", isnan(d) ? "nan" : isinf(d) ? "inf" : "finite",
                           isnan(s) ? "nan" : isinf(s) ? "inf" : "finite");
                    m[5 * N + 7] = kept;
                }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) {
            twice(NN, b, c);
            c[17] = bad[k];
            twice(NN, a, c + 0 * NN);
            c[17] = bad[k];
            dscal_(&n48, &scalar[i], c, &one);
            after("scal", c, NN);
        }
    for (int k = 0; k < 3; k++) {
        twice(NN, b, c);
        c[17] = bad[k];
        double r = dnrm2_(&n48, c, &one);
        printf("nrm2 %s iamax %d\n", isnan(r) ? "nan" : isinf(r) ? "inf" : "finite", idamax_(&n48, c, &one));
    }
    /* An element of the result may be -0 only if its sum is. */
    twice(NN, b, c);
    multiply(N, 0, a, b, 0, c);
    int negative = 0;
    for (int i = 0; i < NN; i++)
        negative += signbit(c[i]) != 0;
    printf("negative zeros %d\n", negative);
}

static void scalars_in_results(double *a, double *b, double *c)
{
    double *d = doubles(NN);
    char what[99];
    for (int k = 0; k < 8; k++) {
        multiply(N, 1, a, b, 0, c);
        twice(NN, a, d);
        dgemm_("N", "N", &n48, &n48, &n48, &c[k * 289 % NN], a, &n48, b, &n48, &d[k * 511 % NN], d, &n48);
        snprintf(what, sizeof what, "alpha in C, beta in the output, %d", k);
        after(what, d, NN);
        multiply(N, 1, a, b, 0, c);
        daxpy_(&(int){NN}, &c[NN - 1 - k], a, &one, c, &one);
        after("axpy by its own y", c, NN);
        multiply(N, 1, a, b, 0, c);
        dscal_(&n48, &c[3], c, &one);
        after("scal by its own x", c, NN);
    }
    /* A header and its matrix in one block, as many programs keep them: the sizes lie in an inaccessible panel. */
    struct packed {
        int rows, columns, ld, step;
        double alpha, beta;
        char trans[8];
        double at[NN];
    } *p = need(calloc(1, sizeof *p)), *q = need(calloc(1, sizeof *q));
    *p = (struct packed){.rows = N, .columns = N, .ld = N, .step = 1, .alpha = 2, .beta = 1, .trans = "T"};
    *q = *p;
    fill(p->at, NN);
    fill(q->at, NN);
    for (int i = 0; i < 5; i++) {
        dgemm_(p->trans, q->trans, &p->rows, &q->columns, &p->ld, &p->alpha, p->at, &q->ld, b, &p->ld, &q->beta,
               q->at, &q->ld);
        dgemv_(q->trans, &q->rows, &q->columns, &q->alpha, q->at, &q->ld, a, &q->step, &p->beta, p->at, &p->step);
        q->alpha = 1 - q->alpha;
        dscal_(&(int){NN}, &(double){0.0}, p->at, &q->step);
        daxpy_(&(int){NN}, &q->beta, a, &q->step, p->at, &p->step);
    }
    after("packed p", p->at, NN);
    after("packed q", q->at, NN);
    printf("%d %d %d %d %g %g %s\n", q->rows, q->columns, q->ld, q->step, q->alpha, q->beta, q->trans);
    free(p);
    free(q);
    free(d);
}

static void sharing(double *a, double *b, double *c)
{
    double *w = doubles(3 * NN);
    const int half = N / 2, big = NN, two = 2, back = -1, rest = NN - 5;
    const double alpha = 2, beta = 1;
    twice(NN, a, c);
    dgemm_("N", "N", &n48, &n48, &n48, &alpha, c, &n48, b, &n48, &beta, c, &n48);
    after("A == C", c, NN);
    twice(NN, a, c);
    dgemm_("N", "T", &n48, &n48, &n48, &alpha, b, &n48, c, &n48, &beta, c, &n48);
    after("B == C", c, NN);
    twice(NN, a, c);
    dgemm_("N", "N", &n48, &n48, &n48, &alpha, c, &n48, c, &n48, &(double){0}, c, &n48);
    after("A == B == C", c, NN);
    fill(w, 3 * NN);
    twice(NN, a, w + NN);
    dgemm_("N", "N", &n48, &n48, &n48, &alpha, w + NN, &n48, b, &n48, &beta, w + NN + 100, &n48);
    after("C shifted over A", w, 3 * NN);
    twice(NN, a, c);
    daxpy_(&rest, &alpha, c, &one, c + 5, &one);
    after("axpy over itself, up", c, NN);
    twice(NN, a, c);
    daxpy_(&rest, &alpha, c + 5, &one, c, &one);
    after("axpy over itself, down", c, NN);
    twice(NN, a, c);
    daxpy_(&big, &alpha, c, &one, c, &one);
    after("axpy x == y", c, NN);
    twice(NN, a, c);
    dcopy_(&rest, c + 5, &one, c, &one);
    after("copy down", c, NN);
    twice(NN, a, c);
    dcopy_(&n48, c, &one, c, &back);
    after("copy onto its reverse", c, NN);
    twice(NN, a, c);
    dswap_(&big, c, &one, c, &one);
    after("swap with itself", c, NN);
    twice(NN, a, c);
    dgemv_("N", &n48, &n48, &alpha, c, &n48, b, &one, &beta, c + N, &one);
    after("y a column of A", c, NN);
    twice(NN, a, c);
    dger_(&n48, &n48, &alpha, c, &one, c + 1, &n48, c, &n48);
    after("x and y in A", c, NN);
    twice(NN, a, c);
    dgemv_("T", &n48, &n48, &alpha, b, &n48, c, &one, &beta, c, &one);
    after("x == y", c, NN);

    /* No byte is shared: upper from lower half, odd from even rows and columns. */
    twice(NN, a, c);
    dgemm_("N", "N", &half, &n48, &n48, &alpha, c, &n48, b, &n48, &beta, c + half, &n48);
    after("lower half from upper", c, NN);
    dgemm_("N", "N", &half, &half, &half, &alpha, c, &n48, c + half, &n48, &beta, c + N * half, &n48);
    after("a quarter from two others", c, NN);
    dgemm_("N", "N", &n48, &half, &n48, &alpha, a, &n48, c, &(int){2 * N}, &(double){-1}, c + N, &(int){2 * N});
    after("odd columns from even", c, NN);
    daxpy_(&(int){NN / 2}, &alpha, c, &two, c + 1, &two);
    after("odd elements from even", c, NN);
    dswap_(&n48, c, &n48, c + 1, &n48);
    after("two rows swapped", c, NN);
    dgemv_("N", &n48, &(int){N - 1}, &alpha, c + N, &n48, b, &one, &beta, c, &one);
    after("first column from the others", c, NN);
    printf("dot %.0f\n", ddot_(&big, a, &one, a, &one));
    twice(NN, a, c);
    printf("dot of a result %.0f\n", ddot_(&big, c, &one, c, &one));
    printf("and reversed %.0f\n", ddot_(&big, c, &one, c, &back));
    dgemm_("T", "N", &n48, &n48, &n48, &alpha, a, &n48, a, &n48, &beta, c, &n48);
    after("A == B", c, NN);
    free(w);
}

static void strides(double *a, double *b)
{
    const int ld = 200003, m = 33, cols = 5, big = 99991;
    double *w = need(calloc((size_t)ld * cols, sizeof *w)), *x = need(calloc((size_t)big * 40, sizeof *x));
    for (int r = 0; r < 3; r++) {
        for (int j = 0; j < cols; j++)
            for (int i = 0; i < m; i++)
                w[(size_t)j * ld + i + r] = edge_draw();
        dgemm_("N", "N", &m, &cols, &m, &(double){1}, a, &n48, b, &n48, &(double){1}, w + r, &ld);
        dgemv_("T", &m, &cols, &(double){1}, w + r, &ld, a, &one, &(double){1}, x, &big);
        dgemm_("T", "N", &cols, &cols, &m, &(double){1}, w + r, &ld, a, &n48, &(double){0}, x + 7, &big);
        daxpy_(&(int){40}, &(double){2}, a, &one, x, &big);
        uint64_t h = 0;
        for (int j = 0; j < cols; j++)
            h = h * 31 + hash(w + (size_t)j * ld, m + 9);
        for (int j = 0; j < 40; j++)
            h = h * 31 + hash(x + (size_t)j * big, 13);
        printf("leading dimension %d: %016llx\n", ld, (unsigned long long)h);
    }
    free(x);
    free(w);
}

/* The CPU works in the gaps of a matrix while calls work in it. */
static void gaps(double *a, double *b)
{
    const int ld = 2 * N + 3;
    double *w = doubles((size_t)ld * N);
    fill(w, (size_t)ld * N);
    for (int r = 0; r < 6; r++) {
        dgemm_("N", r & 1 ? "T" : "N", &n48, &n48, &n48, &(double){1}, a, &n48, b, &n48, &(double){r & 2}, w, &ld);
        for (int j = 0; j < N; j++)
            for (int i = N; i < ld; i++)
                w[(size_t)j * ld + i] += i + r;
        dgemv_("N", &n48, &n48, &(double){1}, w, &ld, a, &one, &(double){1}, w + N, &one);
        for (int j = 0; j < N; j += 3)
            w[(size_t)j * ld + N + 40] -= w[(size_t)j * ld + N + 41];
        dger_(&(int){40}, &n48, &(double){1}, a, &one, b, &one, w + N, &ld);
        after("gaps", w, (size_t)ld * N);
    }
    free(w);
}

/* A program in small: products, a vector, the CPU reads and writes in between. */
static void work(const char *where, double *at)
{
    double *a = at, *b = at + NN, *c = at + 2 * NN;
    edge_seed = 88172645463325252ULL;
    fill(at, 4 * NN);
    for (int r = 0; r < 3; r++) {
        multiply(N, 1, a, b, r, c);
        a[r * 100] += c[r * 7];
        daxpy_(&n48, &(double){2}, a, &one, c + 3 * N + 5, &one);
        dgemv_("T", &n48, &n48, &(double){1}, c, &n48, a, &one, &(double){0}, at + 3 * NN, &one);
        c[NN - 1] = 5;
        dscal_(&(int){NN}, &(double){-1}, c, &one);
        twice(N, at + 3 * NN, at + 3 * NN + N);
        printf("%s dot %.0f\n", where, ddot_(&(int){N}, c, &one, b, &one));
        for (int i = 0; i < NN; i++)
            c[i] = fmod(c[i], 101);
    }
    multiply(N, 1, a, b, 1, c);
    printf("%s: %016llx\n", where, (unsigned long long)hash(at, 4 * NN));
}

static double in_bss[4 * NN];
static double in_data[4 * NN] = {1, 2, 3};
static __thread double in_tls[4 * NN];

static void *on_a_thread(void *name)
{
    double on_stack[4 * NN];
    work(name, on_stack);
    work("tls of a thread", in_tls);
    return NULL;
}

static void kinds(const char *file)
{
    enum { BYTES = 4 * NN * sizeof(double) };
    double on_stack[4 * NN];
    pthread_t thread;
    work("stack", on_stack);
    if (pthread_create(&thread, NULL, on_a_thread, "stack of a thread"))
        exit(2);
    pthread_join(thread, NULL);
    for (int twice_over = 0; twice_over < 2; twice_over++) {
        work("bss", in_bss);
        work("data", in_data);
    }
    work("tls", in_tls);
    char *brk = sbrk(BYTES + 64);
    work("brk", (double *)(brk + (-(uintptr_t)brk & 63)));
    for (int odd = 0; odd < 128; odd += 40) {
        char *m = need(malloc(BYTES + odd));
        work("malloc", (double *)(m + odd));
        free(m);
    }
    struct {
        const char *name;
        int flags, file;
    } maps[] = {
        {"mmap", MAP_PRIVATE | MAP_ANONYMOUS, 0},
        {"mmap shared", MAP_SHARED | MAP_ANONYMOUS, 0},
        {"mmap of a file", MAP_PRIVATE, 1},
        {"mmap of a shared file", MAP_SHARED, 1},
    };
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, BYTES + 8192))
        exit(2);
    for (int i = 0; i < 4; i++)
        for (int odd = 0; odd < 100; odd += 48) {
            char *m = mmap(NULL, BYTES + 8192, PROT_READ | PROT_WRITE, maps[i].flags, maps[i].file ? fd : -1, 0);
            if (m == MAP_FAILED)
                exit(2);
            work(maps[i].name, (double *)(m + odd));
            munmap(m, BYTES + 8192);
        }
    /* The bytes that a shared mapping wrote to the file. */
    double *back = need(malloc(BYTES));
    if (pread(fd, back, BYTES, 48 * 2) != BYTES)
        printf("short read\n");
    printf("file: %016llx\n", (unsigned long long)hash(back, 4 * NN));
    /* A mapping whose protection the program changes between calls. */
    double *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    work("before mprotect", m);
    mprotect(m, BYTES, PROT_READ);
    double *c = doubles(NN);
    multiply(N, 1, m, m + NN, 0, c);
    after("from read-only memory", c, NN);
    mprotect(m, BYTES, PROT_READ | PROT_WRITE);
    work("after mprotect", m);
    munmap(m, BYTES);
    close(fd);
    free(c);
    free(back);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    double *a = doubles(NN), *b = doubles(NN), *c = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    sizes(a, b, c);
    not_finite(a, b, c);
    scalars_in_results(a, b, c);
    sharing(a, b, c);
    strides(a, b);
    gaps(a, b);
    kinds(argv[1]);
    free(a);
    free(b);
    free(c);
    return 0;
}
