/* The part of cuSPARSE that the peers use, as cuda.h has that of the CUDA runtime and cuBLAS. Every call goes through SPARSE(). */
#ifndef BENCH_CUSPARSE_H
#define BENCH_CUSPARSE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

typedef void *sparse_t;
enum { INDEX_32 = 2, BASE_0 = 0, REAL_64 = 1, DEFAULT = 0, ALG2 = 3 };

#define CUSPARSE(F)                                                                                               \
    F(Create, (sparse_t *))                                                                                       \
    F(SetStream, (sparse_t, stream_t))                                                                            \
    F(CreateCsr, (void **, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int, int))                \
    F(CreateDnVec, (void **, int64_t, void *, int))                                                               \
    F(SpMV_bufferSize, (sparse_t, int, const void *, void *, void *, const void *, void *, int, int, size_t *))   \
    F(SpMV_preprocess, (sparse_t, int, const void *, void *, void *, const void *, void *, int, int, void *))     \
    F(SpMV, (sparse_t, int, const void *, void *, void *, const void *, void *, int, int, void *))

#define FIELD(name, arguments) int(*name) arguments;
struct cusparse_api {
    CUSPARSE(FIELD)
};
#undef FIELD
extern struct cusparse_api cusparse;

#define SPARSE(name, ...)                                    \
    do {                                                     \
        int status_ = cusparse.name(__VA_ARGS__);            \
        if (status_)                                         \
            cuda_failed("cusparse" #name, status_, 1);       \
    } while (0)

/* Loads the library, after cuda_start. Ends the program if there is none. */
void cusparse_start(void);

/* Memory of the current device with these bytes. */
void *on_device(const void *from, size_t bytes);

#endif
