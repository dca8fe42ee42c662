/* Factorizations and solutions of dense systems by LAPACK, of matrices whose factors have few digits: so all results are exact, and the
 * same in any order of operations.
 *
 *   solvers [ORDER [REPETITIONS [TYPES]]]       TYPES: of sdcz; with -DWIDE: 64-bit integers, double precision only
 */
#include <complex.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef WIDE
typedef int64_t INT;
#else
typedef int INT;
#endif

#define JOIN3(a, b) a##b
#define JOIN2(a, b) JOIN3(a, b)
#define JOIN(a, b) JOIN2(a, b)

/* Least squares by singular values, those by divide and conquer, and least squares by QR with column pivoting. */
enum way { BY_VALUES, BY_DIVIDING, BY_PIVOTING };

static void failed(const char *what, INT i, INT j)
{
    printf("%s is wrong at %ld, %ld\n", what, (long)i, (long)j);
    fflush(stdout);
    _exit(1);
}

#ifndef WIDE
/* An argument that is not legal: LAPACK's own routine may end the program. */
void xerbla_(const char *name, const INT *argument, size_t length)
{
    printf("%.*s: argument %ld\n", (int)length, name, (long)*argument);
}

#define T float
#define R float
#define P s
#define COMPLEX 0
#include "solvers_typed.h"
#define T float complex
#define R float
#define P c
#define COMPLEX 1
#define SUFFIX f
#include "solvers_typed.h"
#define T double complex
#define R double
#define P z
#define COMPLEX 1
#define SUFFIX
#include "solvers_typed.h"
#endif
#define T double
#define R double
#define P d
#define COMPLEX 0
#include "solvers_typed.h"

int main(int argc, char **argv)
{
    INT n = argc > 1 ? atoi(argv[1]) : 230;
    const char *types = argc > 3 ? argv[3] : "dscz";
    for (int turn = 0; turn < (argc > 2 ? atoi(argv[2]) : 2); turn++, n += 3) {
        if (strchr(types, 'd'))
            d_run(n);
#ifndef WIDE
        if (strchr(types, 's'))
            s_run(n);
        if (strchr(types, 'c'))
            c_run(n);
        if (strchr(types, 'z'))
            z_run(n);
#endif
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        d_run(n);
        fflush(stdout);
        _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    return 0;
}
