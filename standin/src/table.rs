//! The table of the exported functions of libcuda, libcublas, libcusparse and libcusolver: their names and counters are made from its
//! rows here, and the symbols in `exports`. A row is the library, the symbols (with a tag that distinguishes them), the arguments,
//! and the function that does the work.

use core::sync::atomic::AtomicU64;

// Arguments that C declares as pointers and that are never dereferenced here are integers: handles, device addresses,
// and addresses of results that may be in device memory.
/// Passes all rows to another macro.
macro_rules! functions {
    ($each:ident) => {
        $each! {
            Driver [cuInit] (flags: c_uint) => platform::init;
            Driver [cuDriverGetVersion] (version: *mut c_int) => platform::driver_version;
            Driver [cuGetErrorName] (code: c_int, name: *mut *const c_char) => platform::error_name;
            Driver [cuGetErrorString] (code: c_int, text: *mut *const c_char) => platform::error_text;

            Driver [cuGetProcAddress_v2] (symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, result: *mut c_uint) => platform::by_name;

            Driver [cuDeviceGetCount] (count: *mut c_int) => platform::device_count;
            Driver [cuDeviceGet] (device: *mut c_int, ordinal: c_int) => platform::device_get;
            Driver [cuDeviceGetName] (name: *mut c_char, len: c_int, device: c_int) => platform::device_name;
            Driver [cuDeviceGetPCIBusId] (name: *mut c_char, len: c_int, device: c_int) => platform::device_bus;
            Driver [cuDeviceTotalMem_v2] (bytes: *mut usize, device: c_int) => platform::device_memory;
            Driver [cuDeviceGetAttribute] (value: *mut c_int, which: c_int, device: c_int) => platform::device_attribute;
            Driver [cuDeviceCanAccessPeer] (value: *mut c_int, device: c_int, peer: c_int) => platform::can_access_peer;
            Driver [cuDeviceGetP2PAttribute] (value: *mut c_int, which: c_int, device: c_int, peer: c_int) => platform::peer_attribute;

            Driver [cuCtxCreate_v2] (context: *mut usize, flags: c_uint, device: c_int) => context::context_create;
            Driver [cuCtxCreate_v4] (context: *mut usize, parameters: *mut c_void, flags: c_uint, device: c_int) => context::context_create_v4;
            Driver [cuDevicePrimaryCtxRetain] (context: *mut usize, device: c_int) => context::primary_retain;
            Driver [cuDevicePrimaryCtxRelease_v2] (device: c_int) => context::primary_release;
            Driver [cuCtxDestroy_v2] (context: usize) => context::context_destroy;
            Driver [cuCtxPushCurrent_v2] (context: usize) => context::context_push;
            Driver [cuCtxPopCurrent_v2] (context: *mut usize) => context::context_pop;
            Driver [cuCtxGetCurrent] (context: *mut usize) => context::context_current;
            Driver [cuCtxGetDevice] (device: *mut c_int) => context::context_device;
            Driver [cuCtxSetCurrent] (context: usize) => context::context_set;
            Driver [cuCtxSynchronize] () => context::context_synchronize;
            Driver [cuCtxEnablePeerAccess] (peer: usize, flags: c_uint) => context::enable_peer;

            Driver [cuMemGetInfo_v2] (free: *mut usize, total: *mut usize) => allocate::memory_info;
            Driver [cuMemAlloc_v2] (address: *mut u64, bytes: usize) => allocate::memory_alloc;
            Driver [cuMemFree_v2] (address: u64) => allocate::memory_free;
            Driver [cuMemHostAlloc] (memory: *mut *mut c_void, bytes: usize, flags: c_uint) => allocate::host_alloc;
            Driver [cuMemFreeHost] (memory: *mut c_void) => allocate::host_free;
            Driver [cuMemHostGetDevicePointer_v2] (address: *mut u64, memory: *mut c_void, flags: c_uint) => allocate::host_device_pointer;
            Driver [cuMemHostRegister_v2] (memory: *mut c_void, bytes: usize, flags: c_uint) => allocate::host_register;
            Driver [cuMemHostUnregister] (memory: *mut c_void) => allocate::host_unregister;

            Driver [cuStreamCreate] (stream: *mut usize, flags: c_uint) => order::stream_create;
            Driver [cuStreamDestroy_v2] (stream: usize) => order::stream_destroy;
            Driver [cuStreamWaitEvent] (stream: usize, event: usize, flags: c_uint) => order::stream_wait;
            Driver [cuStreamSynchronize] (stream: usize) => order::stream_synchronize;
            Driver [cuStreamQuery] (stream: usize) => order::stream_query;
            Driver [cuEventCreate] (event: *mut usize, flags: c_uint) => order::event_create;
            Driver [cuEventDestroy_v2] (event: usize) => order::event_destroy;
            Driver [cuEventRecord] (event: usize, stream: usize) => order::event_record;
            Driver [cuEventQuery] (event: usize) => order::event_query;
            Driver [cuEventSynchronize] (event: usize) => order::event_synchronize;
            Driver [cuEventElapsedTime, cuEventElapsedTime_v2] (milliseconds: *mut f32, from: usize, to: usize) => order::event_elapsed;

            Driver [cuMemcpyHtoD_v2] (dst: u64, src: *const c_void, bytes: usize) => transfer::copy_in_now;
            Driver [cuMemcpyDtoH_v2] (dst: *mut c_void, src: u64, bytes: usize) => transfer::copy_out_now;
            Driver [cuMemcpyHtoDAsync_v2] (dst: u64, src: *const c_void, bytes: usize, stream: usize) => transfer::copy_in;
            Driver [cuMemcpyDtoHAsync_v2] (dst: *mut c_void, src: u64, bytes: usize, stream: usize) => transfer::copy_out;
            Driver [cuMemcpyDtoDAsync_v2] (dst: u64, src: u64, bytes: usize, stream: usize) => transfer::copy_piece;
            Driver [cuMemcpy2DAsync_v2] (copy: *const Copy2, stream: usize) => transfer::copy_rows;
            Driver [cuMemcpyPeerAsync] (dst: u64, dst_context: usize, src: u64, src_context: usize, bytes: usize, stream: usize) => transfer::copy_peer;
            Driver [cuMemcpy3DPeerAsync] (copy: *const Copy3, stream: usize) => transfer::copy_peer_rows;
            Driver [cuMemsetD8Async] (dst: u64, value: u8, n: usize, stream: usize) => transfer::fill_bytes;
            Driver [cuMemsetD32Async] (dst: u64, value: c_uint, n: usize, stream: usize) => transfer::fill_words;
            Driver [cuMemsetD2D8Async] (dst: u64, pitch: usize, value: u8, width: usize, height: usize, stream: usize) => transfer::fill_rows;

            Blas [cublasCreate_v2] (handle: *mut usize) => blas::create;
            Blas [cublasDestroy_v2] (handle: usize) => blas::destroy;
            Blas [cublasSetStream_v2] (handle: usize, stream: usize) => blas::set_stream;
            Blas [cublasSetPointerMode_v2] (handle: usize, mode: c_int) => blas::set_pointer_mode;
            Blas [cublasSetWorkspace_v2] (handle: usize, workspace: u64, bytes: usize) => blas::set_workspace;
            Blas [cublasSetMathMode, cublasSetAtomicsMode] (handle: usize, mode: c_int) => blas::set_mode;
            Blas [cublasGetVersion_v2] (handle: usize, version: *mut c_int) => blas::version;
            Blas [cublasGetProperty] (which: c_int, value: *mut c_int) => blas::property;

            Blas [cublasSgemm_v2: S, cublasDgemm_v2: D, cublasCgemm_v2: C, cublasZgemm_v2: Z]
                (handle: usize, op_a: c_int, op_b: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: u64, lda: c_int,
                 b: u64, ldb: c_int, beta: *const c_void, c: u64, ldc: c_int) => level3::gemm;
            Blas [cublasSsymm_v2: (S, Symm), cublasDsymm_v2: (D, Symm), cublasCsymm_v2: (C, Symm), cublasZsymm_v2: (Z, Symm),
                  cublasChemm_v2: (C, Hemm), cublasZhemm_v2: (Z, Hemm)]
                (handle: usize, side: c_int, uplo: c_int, m: c_int, n: c_int, alpha: *const c_void, a: u64, lda: c_int,
                 b: u64, ldb: c_int, beta: *const c_void, c: u64, ldc: c_int) => level3::symm;
            Blas [cublasSsyrk_v2: (S, Syrk), cublasDsyrk_v2: (D, Syrk), cublasCsyrk_v2: (C, Syrk), cublasZsyrk_v2: (Z, Syrk),
                  cublasCherk_v2: (C, Herk), cublasZherk_v2: (Z, Herk)]
                (handle: usize, uplo: c_int, op: c_int, n: c_int, k: c_int, alpha: *const c_void, a: u64, lda: c_int,
                 beta: *const c_void, c: u64, ldc: c_int) => level3::syrk;
            Blas [cublasSsyr2k_v2: (S, Syr2k), cublasDsyr2k_v2: (D, Syr2k), cublasCsyr2k_v2: (C, Syr2k),
                  cublasZsyr2k_v2: (Z, Syr2k), cublasCher2k_v2: (C, Her2k), cublasZher2k_v2: (Z, Her2k)]
                (handle: usize, uplo: c_int, op: c_int, n: c_int, k: c_int, alpha: *const c_void, a: u64, lda: c_int,
                 b: u64, ldb: c_int, beta: *const c_void, c: u64, ldc: c_int) => level3::syr2k;
            Blas [cublasStrttp: S, cublasDtrttp: D, cublasCtrttp: C, cublasZtrttp: Z]
                (handle: usize, uplo: c_int, n: c_int, a: u64, lda: c_int, packed: u64) => packed::pack;
            Blas [cublasStpttr: S, cublasDtpttr: D, cublasCtpttr: C, cublasZtpttr: Z]
                (handle: usize, uplo: c_int, n: c_int, packed: u64, a: u64, lda: c_int) => packed::unpack;
            Blas [cublasSgeam: S, cublasDgeam: D, cublasCgeam: C, cublasZgeam: Z]
                (handle: usize, op_a: c_int, op_b: c_int, m: c_int, n: c_int, alpha: *const c_void, a: u64, lda: c_int,
                 beta: *const c_void, b: u64, ldb: c_int, c: u64, ldc: c_int) => matrices::geam;
            Blas [cublasStrmm_v2: S, cublasDtrmm_v2: D, cublasCtrmm_v2: C, cublasZtrmm_v2: Z]
                (handle: usize, side: c_int, uplo: c_int, op: c_int, diag: c_int, m: c_int, n: c_int, alpha: *const c_void,
                 a: u64, lda: c_int, b: u64, ldb: c_int, c: u64, ldc: c_int) => level3::trmm;
            Blas [cublasStrsm_v2: (S, Trsm), cublasDtrsm_v2: (D, Trsm), cublasCtrsm_v2: (C, Trsm), cublasZtrsm_v2: (Z, Trsm)]
                (handle: usize, side: c_int, uplo: c_int, op: c_int, diag: c_int, m: c_int, n: c_int, alpha: *const c_void,
                 a: u64, lda: c_int, b: u64, ldb: c_int) => level3::triangular;
            Blas [cublasSgemv_v2: S, cublasDgemv_v2: D, cublasCgemv_v2: C, cublasZgemv_v2: Z]
                (handle: usize, op: c_int, m: c_int, n: c_int, alpha: *const c_void, a: u64, lda: c_int, x: u64, incx: c_int,
                 beta: *const c_void, y: u64, incy: c_int) => blas::gemv;
            Blas [cublasSger_v2: (S, Ger), cublasDger_v2: (D, Ger), cublasCgeru_v2: (C, Ger), cublasCgerc_v2: (C, Gerc),
                  cublasZgeru_v2: (Z, Ger), cublasZgerc_v2: (Z, Gerc)]
                (handle: usize, m: c_int, n: c_int, alpha: *const c_void, x: u64, incx: c_int, y: u64, incy: c_int, a: u64,
                 lda: c_int) => blas::ger;
            Blas [cublasSsymv_v2: (S, Symv), cublasDsymv_v2: (D, Symv), cublasCsymv_v2: (C, Symv), cublasZsymv_v2: (Z, Symv),
                  cublasChemv_v2: (C, Hemv), cublasZhemv_v2: (Z, Hemv)]
                (handle: usize, uplo: c_int, n: c_int, alpha: *const c_void, a: u64, lda: c_int, x: u64, incx: c_int,
                 beta: *const c_void, y: u64, incy: c_int) => level2::symv;
            Blas [cublasStrmv_v2: (S, Trmv), cublasDtrmv_v2: (D, Trmv), cublasCtrmv_v2: (C, Trmv), cublasZtrmv_v2: (Z, Trmv),
                  cublasStrsv_v2: (S, Trsv), cublasDtrsv_v2: (D, Trsv), cublasCtrsv_v2: (C, Trsv), cublasZtrsv_v2: (Z, Trsv)]
                (handle: usize, uplo: c_int, op: c_int, diag: c_int, n: c_int, a: u64, lda: c_int, x: u64, incx: c_int)
                => level2::triangular;
            Blas [cublasSsyr_v2: (S, Syr), cublasDsyr_v2: (D, Syr), cublasCsyr_v2: (C, Syr), cublasZsyr_v2: (Z, Syr),
                  cublasCher_v2: (C, Her), cublasZher_v2: (Z, Her)]
                (handle: usize, uplo: c_int, n: c_int, alpha: *const c_void, x: u64, incx: c_int, a: u64, lda: c_int)
                => level2::syr;
            Blas [cublasSsyr2_v2: (S, Syr2), cublasDsyr2_v2: (D, Syr2), cublasCsyr2_v2: (C, Syr2), cublasZsyr2_v2: (Z, Syr2),
                  cublasCher2_v2: (C, Her2), cublasZher2_v2: (Z, Her2)]
                (handle: usize, uplo: c_int, n: c_int, alpha: *const c_void, x: u64, incx: c_int, y: u64, incy: c_int, a: u64,
                 lda: c_int) => level2::syr2;
            Blas [cublasSrot_v2: S, cublasDrot_v2: D, cublasCsrot_v2: C, cublasZdrot_v2: Z]
                (handle: usize, n: c_int, x: u64, incx: c_int, y: u64, incy: c_int, c: *const c_void, s: *const c_void)
                => level2::rot;
            Blas [cublasSrotm_v2: S, cublasDrotm_v2: D]
                (handle: usize, n: c_int, x: u64, incx: c_int, y: u64, incy: c_int, param: *const c_void) => level2::rotm;
            Blas [cublasSaxpy_v2: S, cublasDaxpy_v2: D, cublasCaxpy_v2: C, cublasZaxpy_v2: Z]
                (handle: usize, n: c_int, alpha: *const c_void, x: u64, incx: c_int, y: u64, incy: c_int) => blas::axpy;
            Blas [cublasSscal_v2: (S, S), cublasDscal_v2: (D, D), cublasCscal_v2: (C, C), cublasZscal_v2: (Z, Z),
                  cublasCsscal_v2: (C, S), cublasZdscal_v2: (Z, D)]
                (handle: usize, n: c_int, alpha: *const c_void, x: u64, incx: c_int) => blas::scal;
            Blas [cublasScopy_v2: (S, Copy), cublasDcopy_v2: (D, Copy), cublasCcopy_v2: (C, Copy), cublasZcopy_v2: (Z, Copy),
                  cublasSswap_v2: (S, Swap), cublasDswap_v2: (D, Swap), cublasCswap_v2: (C, Swap), cublasZswap_v2: (Z, Swap)]
                (handle: usize, n: c_int, x: u64, incx: c_int, y: u64, incy: c_int) => blas::two_vectors;
            Blas [cublasSdot_v2: (S, Dot), cublasDdot_v2: (D, Dot), cublasCdotu_v2: (C, Dot), cublasCdotc_v2: (C, Dotc),
                  cublasZdotu_v2: (Z, Dot), cublasZdotc_v2: (Z, Dotc)]
                (handle: usize, n: c_int, x: u64, incx: c_int, y: u64, incy: c_int, result: u64) => blas::dot;
            Blas [cublasSnrm2_v2: (S, Nrm2), cublasDnrm2_v2: (D, Nrm2), cublasScnrm2_v2: (C, Nrm2), cublasDznrm2_v2: (Z, Nrm2),
                  cublasSasum_v2: (S, Asum), cublasDasum_v2: (D, Asum), cublasScasum_v2: (C, Asum), cublasDzasum_v2: (Z, Asum),
                  cublasIsamax_v2: (S, Iamax), cublasIdamax_v2: (D, Iamax), cublasIcamax_v2: (C, Iamax), cublasIzamax_v2: (Z, Iamax)]
                (handle: usize, n: c_int, x: u64, incx: c_int, result: u64) => blas::reduction;

            Sparse [cusparseCreate] (handle: *mut usize) => sparse::create;
            Sparse [cusparseSetStream] (handle: usize, stream: usize) => sparse::set_stream;
            Sparse [cusparseCreateCsr]
                (matrix: *mut usize, rows: i64, cols: i64, nnz: i64, offsets: u64, columns: u64, values: u64, offset_type: c_int,
                 column_type: c_int, base: c_int, value_type: c_int) => sparse::create_csr;
            Sparse [cusparseCreateDnVec] (vector: *mut usize, length: i64, values: u64, value_type: c_int) => sparse::create_vector;
            Sparse [cusparseCreateDnMat]
                (matrix: *mut usize, rows: i64, cols: i64, ld: i64, values: u64, value_type: c_int, order: c_int)
                => sparse::create_dense;
            Sparse [cusparseDestroySpMat: Kind::Sparse, cusparseDestroyDnVec: Kind::Vector, cusparseDestroyDnMat: Kind::Dense]
                (descriptor: usize) => sparse::destroy;
            Sparse [cusparseSpMV_bufferSize]
                (handle: usize, op: c_int, alpha: *const c_void, matrix: usize, x: usize, beta: *const c_void, y: usize,
                 compute: c_int, algorithm: c_int, bytes: *mut usize) => sparse::vector_scratch;
            Sparse [cusparseSpMV_preprocess]
                (handle: usize, op: c_int, alpha: *const c_void, matrix: usize, x: usize, beta: *const c_void, y: usize,
                 compute: c_int, algorithm: c_int, scratch: u64) => sparse::prepare;
            Sparse [cusparseSpMV]
                (handle: usize, op: c_int, alpha: *const c_void, matrix: usize, x: usize, beta: *const c_void, y: usize,
                 compute: c_int, algorithm: c_int, scratch: u64) => sparse::multiply_vector;
            Sparse [cusparseSpMM_bufferSize]
                (handle: usize, op: c_int, op_x: c_int, alpha: *const c_void, matrix: usize, x: usize, beta: *const c_void, y: usize,
                 compute: c_int, algorithm: c_int, bytes: *mut usize) => sparse::vectors_scratch;
            Sparse [cusparseSpMM]
                (handle: usize, op: c_int, op_x: c_int, alpha: *const c_void, matrix: usize, x: usize, beta: *const c_void, y: usize,
                 compute: c_int, algorithm: c_int, scratch: u64) => sparse::multiply_vectors;

            Solver [cusolverDnCreate] (handle: *mut usize) => solver::create;
            Solver [cusolverDnSetStream] (handle: usize, stream: usize) => solver::set_stream;
            Solver [cusolverDnCreateParams] (params: *mut usize) => solver::create_params;
            Solver [cusolverDnXgetrf_bufferSize]
                (handle: usize, params: usize, m: i64, n: i64, type_a: c_int, a: u64, lda: i64, compute: c_int, device: *mut usize,
                 host: *mut usize) => solver::lu_space;
            Solver [cusolverDnXgetrf]
                (handle: usize, params: usize, m: i64, n: i64, type_a: c_int, a: u64, lda: i64, pivots: u64, compute: c_int,
                 device: u64, device_bytes: usize, host: *mut c_void, host_bytes: usize, info: u64) => solver::lu;
            Solver [cusolverDnXgetrs]
                (handle: usize, params: usize, op: c_int, n: i64, sides: i64, type_a: c_int, a: u64, lda: i64, pivots: u64,
                 type_b: c_int, b: u64, ldb: i64, info: u64) => solver::lu_solve;
            Solver [cusolverDnXpotrf_bufferSize]
                (handle: usize, params: usize, uplo: c_int, n: i64, type_a: c_int, a: u64, lda: i64, compute: c_int,
                 device: *mut usize, host: *mut usize) => solver::cholesky_space;
            Solver [cusolverDnXpotrf]
                (handle: usize, params: usize, uplo: c_int, n: i64, type_a: c_int, a: u64, lda: i64, compute: c_int, device: u64,
                 device_bytes: usize, host: *mut c_void, host_bytes: usize, info: u64) => solver::cholesky;
            Solver [cusolverDnXpotrs]
                (handle: usize, params: usize, uplo: c_int, n: i64, sides: i64, type_a: c_int, a: u64, lda: i64, type_b: c_int,
                 b: u64, ldb: i64, info: u64) => solver::cholesky_solve;
            Solver [cusolverDnXgeqrf_bufferSize]
                (handle: usize, params: usize, m: i64, n: i64, type_a: c_int, a: u64, lda: i64, type_tau: c_int, tau: u64,
                 compute: c_int, device: *mut usize, host: *mut usize) => qr::factor_space;
            Solver [cusolverDnXgeqrf]
                (handle: usize, params: usize, m: i64, n: i64, type_a: c_int, a: u64, lda: i64, type_tau: c_int, tau: u64,
                 compute: c_int, device: u64, device_bytes: usize, host: *mut c_void, host_bytes: usize, info: u64) => qr::factor;
            Solver [cusolverDnSormqr_bufferSize: S, cusolverDnDormqr_bufferSize: D, cusolverDnCunmqr_bufferSize: C,
                    cusolverDnZunmqr_bufferSize: Z]
                (handle: usize, side: c_int, op: c_int, m: c_int, n: c_int, k: c_int, a: u64, lda: c_int, tau: u64, c: u64,
                 ldc: c_int, elements: *mut c_int) => qr::product_space;
            Solver [cusolverDnSormqr: S, cusolverDnDormqr: D, cusolverDnCunmqr: C, cusolverDnZunmqr: Z]
                (handle: usize, side: c_int, op: c_int, m: c_int, n: c_int, k: c_int, a: u64, lda: c_int, tau: u64, c: u64,
                 ldc: c_int, work: u64, elements: c_int, info: u64) => qr::product;
            Solver [cusolverDnSlaswp: S, cusolverDnDlaswp: D, cusolverDnClaswp: C, cusolverDnZlaswp: Z]
                (handle: usize, n: c_int, a: u64, lda: c_int, k1: c_int, k2: c_int, pivots: u64, increment: c_int)
                => exchange::exchange;
            Solver [cusolverDnSsytrf_bufferSize: S, cusolverDnDsytrf_bufferSize: D, cusolverDnCsytrf_bufferSize: C,
                    cusolverDnZsytrf_bufferSize: Z]
                (handle: usize, n: c_int, a: u64, lda: c_int, elements: *mut c_int) => indefinite::factor_space;
            Solver [cusolverDnSsytrf: S, cusolverDnDsytrf: D, cusolverDnCsytrf: C, cusolverDnZsytrf: Z]
                (handle: usize, uplo: c_int, n: c_int, a: u64, lda: c_int, pivots: u64, work: u64, elements: c_int, info: u64)
                => indefinite::factor;
            Solver [cusolverDnXsytrs_bufferSize]
                (handle: usize, uplo: c_int, n: i64, sides: i64, type_a: c_int, a: u64, lda: i64, pivots: u64, type_b: c_int, b: u64,
                 ldb: i64, device: *mut usize, host: *mut usize) => indefinite::solve_space;
            Solver [cusolverDnXsytrs]
                (handle: usize, uplo: c_int, n: i64, sides: i64, type_a: c_int, a: u64, lda: i64, pivots: u64, type_b: c_int, b: u64,
                 ldb: i64, device: u64, device_bytes: usize, host: *mut c_void, host_bytes: usize, info: u64) => indefinite::solve;
        }
    };
}
pub(crate) use functions;

macro_rules! names {
    ($($family:ident [$($name:ident $(: $tag:expr)?),+ $(,)?] $args:tt => $body:path;)+) => {
        /// The positions of the functions in the table.
        #[derive(Clone, Copy)]
        #[expect(non_camel_case_types, reason = "the names of C functions")]
        #[repr(usize)]
        pub(crate) enum Entry { $($($name,)+)+ }

        /// The names of all functions.
        pub(crate) static NAMES: &[&str] = &[$($(stringify!($name),)+)+];

        /// The number of calls of each function.
        pub(crate) static COUNTS: [AtomicU64; NAMES_LEN] = [const { AtomicU64::new(0) }; NAMES_LEN];

        const NAMES_LEN: usize = [$($(stringify!($name),)+)+].len();
    };
}

functions! { names }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_twice() {
        let unique: std::collections::BTreeSet<_> = NAMES.iter().collect();
        assert_eq!(unique.len(), NAMES.len());
        assert_eq!(NAMES[Entry::cublasIzamax_v2 as usize], "cublasIzamax_v2");
    }
}
