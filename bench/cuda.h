/* The part of the CUDA runtime, cuBLAS and cuBLASXt that the peers use: prototypes written by hand, resolved by
 * dlopen at the start, for versions 12 and 13. Every call goes through CU() or BLAS(), which end the program with
 * one line when it fails. */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include <stddef.h>

typedef struct stream_type *stream_t;
typedef struct event_type *event_t;
typedef struct blas_type *blas_t;
typedef struct xt_type *xt_t;

enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3 };
enum { OP_N = 0, OP_T = 1 };

struct cuda_location {
    int type, id;
};

/* Functions of libcudart: name, arguments. */
#define CUDART(F)                                                                                             \
    F(GetDeviceCount, (int *))                                                                                \
    F(SetDevice, (int))                                                                                       \
    F(Free, (void *))                                                                                         \
    F(Malloc, (void **, size_t))                                                                              \
    F(MallocManaged, (void **, size_t, unsigned))                                                             \
    F(HostAlloc, (void **, size_t, unsigned))                                                                 \
    F(HostRegister, (void *, size_t, unsigned))                                                               \
    F(HostUnregister, (void *))                                                                               \
    F(HostGetDevicePointer, (void **, void *, unsigned))                                                      \
    F(Memset, (void *, int, size_t))                                                                          \
    F(Memcpy, (void *, const void *, size_t, int))                                                            \
    F(MemcpyAsync, (void *, const void *, size_t, int, stream_t))                                             \
    F(Memcpy2DAsync, (void *, size_t, const void *, size_t, size_t, size_t, int, stream_t))                   \
    F(MemcpyPeerAsync, (void *, int, const void *, int, size_t, stream_t))                                    \
    F(DeviceEnablePeerAccess, (int, unsigned))                                                                \
    F(StreamCreateWithFlags, (stream_t *, unsigned))                                                          \
    F(StreamSynchronize, (stream_t))                                                                          \
    F(StreamWaitEvent, (stream_t, event_t, unsigned))                                                         \
    F(EventCreateWithFlags, (event_t *, unsigned))                                                            \
    F(EventRecord, (event_t, stream_t))                                                                       \
    F(DeviceSynchronize, (void))

/* Arguments of level 3: sizes are int in cuBLAS and size_t in cuBLASXt; complex numbers are pairs of real ones. */
#define HALF(handle, size)                                                                                    \
    (handle, int, int, size, size, const double *, const double *, size, const double *, size, const double *, \
     double *, size)
#define RANK_K(handle, size)                                                                                  \
    (handle, int, int, size, size, const double *, const double *, size, const double *, double *, size)
#define RANK_2K(handle, size)                                                                                 \
    (handle, int, int, size, size, const double *, const double *, size, const double *, size, const double *, \
     double *, size)
#define TRMM_APART(handle, size)                                                                              \
    (handle, int, int, int, int, size, size, const double *, const double *, size, const double *, size,      \
     double *, size)
#define TRSM_HERE(handle, size)                                                                               \
    (handle, int, int, int, int, size, size, const double *, const double *, size, double *, size)

/* Functions of libcublas. */
#define CUBLAS(F)                                                                                             \
    F(Create_v2, (blas_t *))                                                                                  \
    F(SetStream_v2, (blas_t, stream_t))                                                                       \
    F(SetPointerMode_v2, (blas_t, int))                                                                       \
    F(Dgemm_v2, (blas_t, int, int, int, int, int, const double *, const double *, int, const double *, int,   \
                 const double *, double *, int))                                                              \
    F(Dgemv_v2, (blas_t, int, int, int, const double *, const double *, int, const double *, int,             \
                 const double *, double *, int))                                                              \
    F(Daxpy_v2, (blas_t, int, const double *, const double *, int, double *, int))                            \
    F(Dscal_v2, (blas_t, int, const double *, double *, int))                                                 \
    F(Ddot_v2, (blas_t, int, const double *, int, const double *, int, double *))                             \
    F(Dcopy_v2, (blas_t, int, const double *, int, double *, int))                                            \
    F(Dsymm_v2, HALF(blas_t, int))                                                                            \
    F(Zhemm_v2, HALF(blas_t, int))                                                                            \
    F(Dsyrk_v2, RANK_K(blas_t, int))                                                                          \
    F(Zherk_v2, RANK_K(blas_t, int))                                                                          \
    F(Dsyr2k_v2, RANK_2K(blas_t, int))                                                                        \
    F(Zher2k_v2, RANK_2K(blas_t, int))                                                                        \
    F(Dtrmm_v2, TRMM_APART(blas_t, int))                                                                      \
    F(Dtrsm_v2, TRSM_HERE(blas_t, int))                                                                       \
    F(XtCreate, (xt_t *))                                                                                     \
    F(XtDestroy, (xt_t))                                                                                      \
    F(XtDeviceSelect, (xt_t, int, int *))                                                                     \
    F(XtSetBlockDim, (xt_t, int))                                                                             \
    F(XtDgemm, (xt_t, int, int, size_t, size_t, size_t, const double *, const double *, size_t,               \
                const double *, size_t, const double *, double *, size_t))                                    \
    F(XtDsymm, HALF(xt_t, size_t))                                                                            \
    F(XtZhemm, HALF(xt_t, size_t))                                                                            \
    F(XtDsyrk, RANK_K(xt_t, size_t))                                                                          \
    F(XtZherk, RANK_K(xt_t, size_t))                                                                          \
    F(XtDsyr2k, RANK_2K(xt_t, size_t))                                                                        \
    F(XtZher2k, RANK_2K(xt_t, size_t))                                                                        \
    F(XtDtrmm, TRMM_APART(xt_t, size_t))                                                                      \
    F(XtDtrsm, TRSM_HERE(xt_t, size_t))

#define FIELD(name, arguments) int(*name) arguments;
struct cuda_api {
    CUDART(FIELD)
    const char *(*GetErrorString)(int);
    /* Version 13 and cudaMemPrefetchAsync_v2 of 12 take a location. */
    int (*Prefetch)(const void *, size_t, struct cuda_location, unsigned, stream_t);
};
struct cublas_api {
    CUBLAS(FIELD)
};
#undef FIELD
extern struct cuda_api cuda;
extern struct cublas_api cublas;

/* Loads the libraries and returns the number of GPUs, at least one. Ends the program if there is no GPU. GPUS in the
 * environment lowers the number. */
int cuda_start(void);

void cuda_failed(const char *what, int status, int blas) __attribute__((noreturn));
#define CU(name, ...)                                       \
    do {                                                    \
        int status_ = cuda.name(__VA_ARGS__);               \
        if (status_)                                        \
            cuda_failed("cuda" #name, status_, 0);          \
    } while (0)
#define BLAS(name, ...)                                     \
    do {                                                    \
        int status_ = cublas.name(__VA_ARGS__);             \
        if (status_)                                        \
            cuda_failed("cublas" #name, status_, 1);        \
    } while (0)

double *device_doubles(size_t n);
/* Page-locked host memory, which the GPUs copy at full speed: allocated by malloc, touched, then registered. */
double *pinned_doubles(size_t n);
/* The same for kernels that read and write it in place, by the address that goes to *on_device. */
double *mapped_doubles(size_t n, double **on_device);
stream_t new_stream(void);
event_t new_event(void);
/* A copy in either direction, finished on return. */
void copy(double *to, const double *from, size_t n, int kind);

#endif
