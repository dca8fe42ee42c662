/* Calls of the BLAS on matrices that nobody has written, for simulated devices that compute nothing (SEMCACHE_SIM=hollow): orders
 * of 100,000 take address space only. What the calls take is in the report.
 *
 *   virtual PROGRAM N CALLS [OPTION...]
 *
 *   dgemm, dsymm, dsyrk, dsyr2k, dtrmm, dtrsm    one call of order N
 *   abac          C = A B, then B = A C: SemCache++'s AB + AC by products
 *   abac-daxpy    D = A B, T = A C, D = D + T by daxpy: its AB + AC
 *   jacobi        y = c - R x by dcopy and dgemv, and the same from y to x; with cpu=1 y = R x alone, and the CPU makes x of y
 *   cg            a step of conjugate gradients in single precision with a symmetric tridiagonal matrix in compressed rows
 *   trsm-gemm     B = inverse(A) B, then D = D - C B
 *   network       forward and backward pass of fully connected layers in single precision, N samples at once: layers=IN,...,OUT
 *
 * All of that CALLS times. Options:
 *   place=again   the same matrices for all calls (unless said); place=host: each call of the BLAS has matrices of its own, so that all
 *                 of its operands are at the host. Without "place=", too
 *   beta=1        of the routines that have a beta, so that they read their result; 0 unless said
 *   read=1        the CPU reads the results, one byte in each 2 MiB: at the end, and where each call has its own, after each call
 *   cpu=1         network: the CPU reads and writes what each layer has computed, one byte in each page */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../include/semcache.h"
#include "blas.h"
#include "common.h"

void sgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha, const float *a,
            const int *lda, const float *b, const int *ldb, const float *beta, float *c, const int *ldc);
float sdot_(const int *n, const float *x, const int *incx, const float *y, const int *incy);
void saxpy_(const int *n, const float *alpha, const float *x, const int *incx, float *y, const int *incy);
void sscal_(const int *n, const float *alpha, float *x, const int *incx);
void dcopy_(const int *n, const double *x, const int *incx, double *y, const int *incy);

enum { MOST_MATRICES = 64, MOST_LAYERS = 12, PAGE = 4096, PANEL = 2 << 20 };

enum place { AGAIN, HOST };

static struct {
    enum place place;
    double beta;
    int read, cpu, layers, size[MOST_LAYERS];
} set;

static struct {
    void *at;
    size_t bytes;
    int result;
} matrices[MOST_MATRICES];

/* The next call has matrices of its own. */
static int own;

static void read_results(void)
{
    for (int i = 0; set.read && i < MOST_MATRICES; i++)
        for (size_t at = 0; matrices[i].result && at < matrices[i].bytes; at += PANEL)
            (void)((volatile char *)matrices[i].at)[at];
}

/* After each call of the BLAS. */
static void called(void)
{
    own = set.place == HOST;
}

/* All of them, or those that are no results. */
static void unmap(int all)
{
    for (int i = 0; i < MOST_MATRICES; i++)
        if (matrices[i].at && (all || !matrices[i].result)) {
            munmap(matrices[i].at, matrices[i].bytes);
            matrices[i].at = NULL;
            matrices[i].result = 0;
        }
}

/* Matrix i of the next call. More than the machine has memory, since no page of it is written. */
static void *matrix(int i, size_t bytes)
{
    if (own) {
        own = 0;
        read_results();
        unmap(1);
    }
    if (i >= MOST_MATRICES)
        die("virtual: too many matrices");
    if (!matrices[i].at) {
        void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED)
            die("virtual: no address space for %zu bytes", bytes);
        matrices[i].at = found;
        matrices[i].bytes = bytes;
    }
    return matrices[i].at;
}

static double *square(int i, int n)
{
    return matrix(i, (size_t)n * (size_t)n * sizeof(double));
}

static double *result(int i, int n)
{
    double *found = square(i, n);
    matrices[i].result = 1;
    return found;
}

/* The CPU computes with all entries and changes them. */
static void use(void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PAGE)
        ((volatile char *)from)[at]++;
}

static const double one = 1, minus = -1;
static const int step = 1;

static void product(int n, double alpha, int a, int b, double beta, int c)
{
    dgemm_("N", "N", &n, &n, &n, &alpha, square(a, n), &n, square(b, n), &n, &beta, result(c, n), &n);
    called();
}

static void routine(const char *name, int n)
{
    double *A = square(0, n);
    if (!strcmp(name, "dgemm"))
        dgemm_("N", "N", &n, &n, &n, &one, A, &n, square(1, n), &n, &set.beta, result(2, n), &n);
    else if (!strcmp(name, "dsymm"))
        dsymm_("L", "L", &n, &n, &one, A, &n, square(1, n), &n, &set.beta, result(2, n), &n);
    else if (!strcmp(name, "dsyrk"))
        dsyrk_("L", "N", &n, &n, &one, A, &n, &set.beta, result(2, n), &n);
    else if (!strcmp(name, "dsyr2k"))
        dsyr2k_("L", "N", &n, &n, &one, A, &n, square(1, n), &n, &set.beta, result(2, n), &n);
    else if (!strcmp(name, "dtrmm"))
        dtrmm_("L", "L", "N", "N", &n, &n, &one, A, &n, result(1, n), &n);
    else if (!strcmp(name, "dtrsm"))
        dtrsm_("L", "L", "N", "N", &n, &n, &one, A, &n, result(1, n), &n);
    else
        die("virtual: no program %s", name);
    called();
}

static void abac_daxpy(int n)
{
    int all = n * n;
    if (n > 46340)
        die("virtual: daxpy takes 2^31 elements at most");
    product(n, 1, 0, 1, set.beta, 4);
    product(n, 1, 0, 2, set.beta, 3);
    /* Only daxpy reads T, unless it goes back to the host. */
    matrices[3].result = set.place == HOST;
    daxpy_(&all, &one, square(3, n), &step, result(4, n), &step);
    called();
}

static void jacobi(int n)
{
    const double zero = 0;
    size_t bytes = (size_t)n * sizeof(double);
    for (int x = 2, y = 3, i = 0; i < 2; i++, x ^= 1, y ^= 1) {
        if (!set.cpu) {
            dcopy_(&n, matrix(1, bytes), &step, matrix(y, bytes), &step);
            called();
        }
        dgemv_("N", &n, &n, set.cpu ? &one : &minus, square(0, n), &n, matrix(x, bytes), &step, set.cpu ? &zero : &one, matrix(y, bytes),
               &step);
        if (set.cpu)
            use(matrix(y, bytes), bytes);
        matrices[y].result = 1;
        called();
    }
}

/* The matrix is written, since the host checks it. */
static semcache_csr tridiagonal(int64_t n)
{
    static int made;
    int32_t *offsets = matrix(0, (size_t)(n + 1) * 4), *columns = matrix(1, (size_t)n * 12);
    float *values = matrix(2, (size_t)n * 12);
    int64_t nnz = 0;
    for (int64_t i = 0; !made && i < n; i++) {
        offsets[i] = (int32_t)nnz;
        for (int64_t j = i > 0 ? i - 1 : 0; j <= i + 1 && j < n; j++, nnz++) {
            columns[nnz] = (int32_t)j;
            values[nnz] = j == i ? 4 : -1;
        }
        offsets[i + 1] = (int32_t)nnz;
    }
    made = 1;
    return (semcache_csr){sizeof(semcache_csr), 's', 4, 0, n, n, offsets, columns, values};
}

static void cg(int n)
{
    const float once = 1, nothing = 0, alpha = 0.5F, less = -0.5F;
    semcache_csr a = tridiagonal(n);
    size_t bytes = (size_t)n * sizeof(float);
    float *x = matrix(3, bytes), *r = matrix(4, bytes), *p = matrix(5, bytes), *q = matrix(6, bytes);
    semcache_matrix P = semcache_view(p, n, 1, n, 4), Q = semcache_view(q, n, 1, n, 4);
    int status = semcache_csr_multiply(&a, 'N', &once, &P, &nothing, &Q);
    if (status != SEMCACHE_OK)
        die("virtual: %s", semcache_message(status));
    sdot_(&n, p, &step, q, &step);
    saxpy_(&n, &alpha, p, &step, x, &step);
    saxpy_(&n, &less, q, &step, r, &step);
    sdot_(&n, r, &step, r, &step);
    sscal_(&n, &alpha, p, &step);
    saxpy_(&n, &once, r, &step, p, &step);
    matrices[3].result = 1;
    called();
}

static void trsm_gemm(int n)
{
    dtrsm_("L", "L", "N", "N", &n, &n, &one, square(0, n), &n, result(1, n), &n);
    called();
    product(n, -1, 2, 1, 1, 3);
}

/* Of a layer: W (out x in) and its derivative; what it computes for all samples (out x samples), and the derivative of that. */
enum { W, DW, Y, DY };

static float *of_layer(int l, int what, int samples)
{
    size_t entries = (size_t)set.size[l] * (size_t)(what == W || what == DW ? set.size[l - 1] : samples);
    return matrix(4 * l + what, entries * sizeof(float));
}

static void use_layer(int l, int what, int samples)
{
    if (set.cpu)
        use(of_layer(l, what, samples), (size_t)set.size[l] * (size_t)samples * sizeof(float));
}

static void network(int samples)
{
    const float once = 1, zero = 0;
    if (set.layers < 2)
        die("virtual: network needs layers=IN,...,OUT");
    for (int l = 1; l < set.layers; l++) {
        int in = set.size[l - 1], out = set.size[l];
        sgemm_("N", "N", &out, &samples, &in, &once, of_layer(l, W, samples), &out, of_layer(l - 1, Y, samples), &in, &zero,
               of_layer(l, Y, samples), &out);
        use_layer(l, Y, samples);
        called();
    }
    for (int l = set.layers - 1; l > 0; l--) {
        int in = set.size[l - 1], out = set.size[l];
        use_layer(l, DY, samples);
        sgemm_("N", "T", &out, &in, &samples, &once, of_layer(l, DY, samples), &out, of_layer(l - 1, Y, samples), &in, &zero,
               of_layer(l, DW, samples), &out);
        matrices[4 * l + DW].result = 1;
        called();
        if (l > 1) {
            sgemm_("T", "N", &in, &samples, &out, &once, of_layer(l, W, samples), &out, of_layer(l, DY, samples), &out, &zero,
                   of_layer(l - 1, DY, samples), &in);
            called();
        }
    }
}

static void option(char *word)
{
    if (!strncmp(word, "place=", 6))
        word += 6;
    if (!strcmp(word, "again"))
        set.place = AGAIN;
    else if (!strcmp(word, "host"))
        set.place = HOST;
    else if (!strncmp(word, "beta=", 5))
        set.beta = atof(word + 5);
    else if (!strncmp(word, "read=", 5))
        set.read = atoi(word + 5);
    else if (!strncmp(word, "cpu=", 4))
        set.cpu = atoi(word + 4);
    else if (!strncmp(word, "layers=", 7))
        for (char *at = word + 6; at && set.layers < MOST_LAYERS; at = strchr(at + 1, ','))
            set.size[set.layers++] = atoi(at + 1);
    else
        die("virtual: no option %s", word);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: virtual PROGRAM N CALLS [again|host] [beta=1] [read=1] [cpu=1] [layers=IN,...,OUT]");
    const char *name = argv[1];
    int n = atoi(argv[2]), calls = atoi(argv[3]);
    for (int i = 4; i < argc; i++)
        option(argv[i]);
    for (int i = 0; i < calls; i++) {
        if (!strcmp(name, "abac")) {
            product(n, 1, 0, 1, set.beta, 2);
            product(n, 1, 0, 2, set.beta, 1);
        } else if (!strcmp(name, "abac-daxpy")) {
            abac_daxpy(n);
        } else if (!strcmp(name, "jacobi")) {
            jacobi(n);
        } else if (!strcmp(name, "cg")) {
            cg(n);
        } else if (!strcmp(name, "trsm-gemm")) {
            trsm_gemm(n);
        } else if (!strcmp(name, "network")) {
            network(n);
        } else {
            routine(name, n);
        }
    }
    /* Results go back to the host when the process ends, if not before. */
    read_results();
    unmap(0);
    return 0;
}
