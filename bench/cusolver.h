/* The part of cuSOLVER that the peers use, as cuda.h has that of the CUDA runtime and cuBLAS: its functions with integers of 64 bits,
 * and some of those with 32 bits.
 * Every call goes through SOLVE(). */
#ifndef BENCH_CUSOLVER_H
#define BENCH_CUSOLVER_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

typedef void *solver_t;
enum { DOUBLE_ = 1, LOWER_ = 0 };

#define CUSOLVER(F)                                                                                                                    \
    F(Create, (solver_t *))                                                                                                            \
    F(SetStream, (solver_t, stream_t))                                                                                                 \
    F(CreateParams, (void **))                                                                                                         \
    F(Xgetrf_bufferSize, (solver_t, void *, int64_t, int64_t, int, const void *, int64_t, int, size_t *, size_t *))                    \
    F(Xgetrf, (solver_t, void *, int64_t, int64_t, int, void *, int64_t, int64_t *, int, void *, size_t, void *, size_t, int *))       \
    F(Xgetrs, (solver_t, void *, int, int64_t, int64_t, int, const void *, int64_t, const int64_t *, int, void *, int64_t, int *))     \
    F(Xpotrf_bufferSize, (solver_t, void *, int, int64_t, int, const void *, int64_t, int, size_t *, size_t *))                        \
    F(Xpotrf, (solver_t, void *, int, int64_t, int, void *, int64_t, int, void *, size_t, void *, size_t, int *))                      \
    F(Xpotrs, (solver_t, void *, int, int64_t, int64_t, int, const void *, int64_t, int, void *, int64_t, int *))                      \
    F(Xgeqrf_bufferSize, (solver_t, void *, int64_t, int64_t, int, const void *, int64_t, int, const void *, int, size_t *, size_t *)) \
    F(Xgeqrf, (solver_t, void *, int64_t, int64_t, int, void *, int64_t, int, void *, int, void *, size_t, void *, size_t, int *))     \
    F(Dorgqr_bufferSize, (solver_t, int, int, int, const double *, int, const double *, int *))                                        \
    F(Dorgqr, (solver_t, int, int, int, double *, int, const double *, double *, int, int *))                                          \
    F(Dsytrf_bufferSize, (solver_t, int, double *, int, int *))                                                                        \
    F(Dsytrf, (solver_t, int, int, double *, int, int *, double *, int, int *))                                                        \
    F(Xsytrs_bufferSize,                                                                                                               \
      (solver_t, int, int64_t, int64_t, int, const void *, int64_t, const int64_t *, int, void *, int64_t, size_t *, size_t *))        \
    F(Xsytrs,                                                                                                                          \
      (solver_t, int, int64_t, int64_t, int, const void *, int64_t, const int64_t *, int, void *, int64_t, void *, size_t, void *,     \
       size_t, int *))

#define FIELD(name, arguments) int(*name) arguments;
struct cusolver_api {
    CUSOLVER(FIELD)
};
#undef FIELD
extern struct cusolver_api cusolver;

#define SOLVE(name, ...)                                       \
    do {                                                       \
        int status_ = cusolver.name(__VA_ARGS__);              \
        if (status_)                                           \
            cuda_failed("cusolverDn" #name, status_, 1);       \
    } while (0)

/* Loads the library, after cuda_start. Ends the program if there is none. */
void cusolver_start(void);

#endif
