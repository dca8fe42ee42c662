/* Calls of one routine of level 3 on matrices that nobody has written, for simulated devices that compute nothing
 * (SEMCACHE_SIM=hollow): orders of 100,000 take address space only. What the calls take is in the report.
 *
 *   virtual ROUTINE N CALLS [PLACE]      dgemm, dsymm, dsyrk, dsyr2k, dtrmm or dtrsm of order N
 *   virtual abac N CALLS                 C = A B, then D = A C, with A, B and C of order N: SemCache++'s AB + AC by products
 *
 * PLACE: "host", each call has matrices of its own; "again" (unless said), all calls have the same ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "blas.h"
#include "common.h"

/* More than the machine has memory, since no page of it is written. */
static double *matrix(size_t n)
{
    void *found = mmap(NULL, n * n * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
        die("virtual: no address space for a matrix of order %zu", n);
    return found;
}

static void unmap(double *matrix, size_t n)
{
    munmap(matrix, n * n * sizeof(double));
}

static void call(const char *routine, int n, double *A, double *B, double *C)
{
    const double one = 1, zero = 0;
    if (!strcmp(routine, "dgemm"))
        dgemm_("N", "N", &n, &n, &n, &one, A, &n, B, &n, &zero, C, &n);
    else if (!strcmp(routine, "dsymm"))
        dsymm_("L", "L", &n, &n, &one, A, &n, B, &n, &zero, C, &n);
    else if (!strcmp(routine, "dsyrk"))
        dsyrk_("L", "N", &n, &n, &one, A, &n, &zero, C, &n);
    else if (!strcmp(routine, "dsyr2k"))
        dsyr2k_("L", "N", &n, &n, &one, A, &n, B, &n, &zero, C, &n);
    else if (!strcmp(routine, "dtrmm"))
        dtrmm_("L", "L", "N", "N", &n, &n, &one, A, &n, B, &n);
    else if (!strcmp(routine, "dtrsm"))
        dtrsm_("L", "L", "N", "N", &n, &n, &one, A, &n, B, &n);
    else
        die("virtual: no routine %s", routine);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: virtual ROUTINE|abac N CALLS [host|again]");
    size_t n = strtoul(argv[2], NULL, 10);
    int calls = atoi(argv[3]), afresh = argc > 4 && !strcmp(argv[4], "host");
    double *A = matrix(n), *B = matrix(n), *C = matrix(n);
    for (int i = 0; i < calls; i++) {
        if (afresh && i > 0) {
            unmap(A, n), unmap(B, n), unmap(C, n);
            A = matrix(n), B = matrix(n), C = matrix(n);
        }
        if (!strcmp(argv[1], "abac")) {
            call("dgemm", (int)n, A, B, C);
            call("dgemm", (int)n, A, C, B);
        } else {
            call(argv[1], (int)n, A, B, C);
        }
    }
    return 0;
}
