//! cuSOLVER: factorizations of small matrices by LU and Cholesky, solutions by them, and what the functions refuse.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use cudarc::cusolver::sys::{
    self, cublasFillMode_t as Uplo, cublasOperation_t as Op, cudaDataType as Data,
};

use crate::gpu::solver_status::*;
use crate::gpu::*;

const REAL: Data = Data::CUDA_R_64F;
const N: Op = Op::CUBLAS_OP_N;
const T: Op = Op::CUBLAS_OP_T;
const LOWER: Uplo = Uplo::CUBLAS_FILL_MODE_LOWER;
const UPPER: Uplo = Uplo::CUBLAS_FILL_MODE_UPPER;

/// Rows and columns, and the leading dimension.
const ORDER: i64 = 3;
const LD: i64 = 4;
/// What lies between the columns.
const GAP: f64 = 77.0;

/// Columns of a matrix, of its factors by LU, and the rows that are exchanged.
const A: [f64; 12] = [1.0, -1.0, 2.0, GAP, 4.5, 1.5, 1.0, GAP, 1.5, 2.0, 1.0, GAP];
const LU: [f64; 12] = [2.0, 0.5, -0.5, GAP, 1.0, 4.0, 0.5, GAP, 1.0, 1.0, 2.0, GAP];
const PIVOTS: [i64; 3] = [3, 3, 3];

/// Columns of a positive definite matrix, and of its factor and what stays of the other triangle.
const POSITIVE: [f64; 12] = [
    4.0, 2.0, -2.0, GAP, 2.0, 5.0, 1.0, GAP, -2.0, 1.0, 18.0, GAP,
];
const ROOT: [f64; 12] = [2.0, 1.0, -1.0, GAP, 2.0, 2.0, 1.0, GAP, -2.0, 1.0, 4.0, GAP];

/// The solution of all systems.
const X: [f64; 3] = [1.0, 2.0, 3.0];

/// Handle, stream and all memory that the functions need, as their arguments.
#[derive(Clone, Copy)]
struct Setting {
    stream: Stream,
    handle: sys::cusolverDnHandle_t,
    params: sys::cusolverDnParams_t,
    order: i64,
    a: u64,
    lda: i64,
    pivots: u64,
    b: u64,
    ldb: i64,
    data: Data,
    compute: Data,
    device: u64,
    device_bytes: usize,
    host: *mut u8,
    host_bytes: usize,
    info: u64,
}

impl Setting {
    /// With this matrix, and work space for its factorization by LU.
    unsafe fn new(a: &[f64; 12]) -> Setting {
        unsafe {
            context(0);
            let stream = stream();
            let (mut handle, mut params) = (null_mut(), null_mut());
            ok!(solver cusolverDnCreate(&raw mut handle));
            ok!(solver cusolverDnSetStream(handle, stream.cast()));
            ok!(solver cusolverDnCreateParams(&raw mut params));
            let mut setting = Setting {
                stream,
                handle,
                params,
                order: ORDER,
                a: alloc(96),
                lda: LD,
                pivots: alloc(24),
                b: alloc(24),
                ldb: ORDER,
                data: REAL,
                compute: REAL,
                device: 0,
                device_bytes: 0,
                host: null_mut(),
                host_bytes: 0,
                info: alloc(4),
            };
            upload(setting.a, a, stream);
            let (device, host) = setting.space();
            setting.device_bytes = device;
            setting.device = alloc(device);
            setting.host_bytes = host;
            setting.host = Vec::leak(vec![1; host]).as_mut_ptr();
            setting
        }
    }

    /// The sizes of the work space for a factorization by LU.
    unsafe fn space(&self) -> (usize, usize) {
        let (mut device, mut host) = (0, 0);
        unsafe {
            assert_eq!(self.lu_space(&raw mut device, &raw mut host), 0);
        }
        (device, host)
    }

    unsafe fn lu_space(&self, device: *mut usize, host: *mut usize) -> i32 {
        unsafe {
            solver!(cusolverDnXgetrf_bufferSize(
                self.handle,
                self.params,
                self.order,
                self.order,
                self.data,
                pointer(self.a),
                self.lda,
                self.compute,
                device,
                host
            ))
        }
    }

    unsafe fn lu(&self) -> i32 {
        unsafe {
            solver!(cusolverDnXgetrf(
                self.handle,
                self.params,
                self.order,
                self.order,
                self.data,
                pointer(self.a),
                self.lda,
                pointer(self.pivots),
                self.compute,
                pointer(self.device),
                self.device_bytes,
                self.host.cast::<c_void>(),
                self.host_bytes,
                pointer(self.info)
            ))
        }
    }

    unsafe fn lu_solve(&self, op: Op) -> i32 {
        unsafe {
            solver!(cusolverDnXgetrs(
                self.handle,
                self.params,
                op,
                self.order,
                1,
                self.data,
                pointer(self.a),
                self.lda,
                pointer(self.pivots),
                self.compute,
                pointer(self.b),
                self.ldb,
                pointer(self.info)
            ))
        }
    }

    unsafe fn cholesky_space(&self, device: *mut usize, host: *mut usize) -> i32 {
        unsafe {
            solver!(cusolverDnXpotrf_bufferSize(
                self.handle,
                self.params,
                UPPER,
                self.order,
                self.data,
                pointer(self.a),
                self.lda,
                self.compute,
                device,
                host
            ))
        }
    }

    unsafe fn cholesky(&self, uplo: Uplo) -> i32 {
        unsafe {
            solver!(cusolverDnXpotrf(
                self.handle,
                self.params,
                uplo,
                self.order,
                self.data,
                pointer(self.a),
                self.lda,
                self.compute,
                pointer(self.device),
                self.device_bytes,
                self.host.cast::<c_void>(),
                self.host_bytes,
                pointer(self.info)
            ))
        }
    }

    unsafe fn cholesky_solve(&self, uplo: Uplo) -> i32 {
        unsafe {
            solver!(cusolverDnXpotrs(
                self.handle,
                self.params,
                uplo,
                self.order,
                1,
                self.data,
                pointer(self.a),
                self.lda,
                self.compute,
                pointer(self.b),
                self.ldb,
                pointer(self.info)
            ))
        }
    }

    /// The same with a change.
    fn with(mut self, change: impl FnOnce(&mut Setting)) -> Setting {
        change(&mut self);
        self
    }

    /// Both factorizations have this status.
    unsafe fn factors(&self, status: i32) {
        unsafe {
            assert_eq!(self.lu(), status);
            assert_eq!(self.cholesky(LOWER), status);
        }
    }

    /// As [`Setting::factors`], of the solutions.
    unsafe fn solutions(&self, status: i32) {
        unsafe {
            assert_eq!(self.lu_solve(N), status);
            assert_eq!(self.cholesky_solve(LOWER), status);
        }
    }

    unsafe fn all(&self, status: i32) {
        unsafe {
            self.factors(status);
            self.solutions(status);
        }
    }

    unsafe fn read<E: Copy + Default>(&self, at: u64, n: usize) -> Vec<E> {
        unsafe { read(at, n, self.stream) }
    }

    unsafe fn info(&self) -> c_int {
        unsafe { self.read(self.info, 1)[0] }
    }
}

/// Factors with their INFO, and solutions under both operations and of both triangles.
pub(super) unsafe fn solutions() {
    unsafe {
        let s = Setting::new(&A);
        assert_eq!(s.lu(), 0);
        for (op, b) in [(N, [14.5, 8.0, 7.0]), (T, [5.0, 10.5, 8.5])] {
            upload(s.b, &b, s.stream);
            assert_eq!(s.lu_solve(op), 0);
            assert_eq!(s.read::<f64>(s.b, 3), X);
            assert_eq!(s.info(), 0);
        }
        assert_eq!(s.read::<f64>(s.a, 12), LU);
        assert_eq!(s.read::<i64>(s.pivots, 3), PIVOTS);
        upload(s.a, &POSITIVE, s.stream);
        assert_eq!(s.cholesky(LOWER), 0);
        upload(s.b, &[2.0, 15.0, 54.0], s.stream);
        assert_eq!(s.cholesky_solve(LOWER), 0);
        assert_eq!(s.read::<f64>(s.b, 3), X);
        assert_eq!(s.info(), 0);
        assert_eq!(s.read::<f64>(s.a, 12), ROOT);
        // As an upper triangle, which is 2, 2, -2 above 2, 1 above 4, its second column gives 2 * 2 - 2 = 2 before the root.
        upload(s.a, &[4.0, GAP, GAP, GAP, 2.0, 1.0], s.stream);
        assert_eq!(s.cholesky(UPPER), 0);
        assert_eq!(s.info(), 2);
    }
}

/// All of the work space is overwritten: in host memory inside the call and again when the factorization is complete.
pub(super) unsafe fn space() {
    unsafe {
        let s = Setting::new(&A);
        assert!(s.device_bytes.is_power_of_two() && s.device_bytes >= 4096 && s.host_bytes > 0);
        let large = s.with(|s| (s.order, s.lda) = (10_000, 10_000));
        let (device, host) = large.space();
        assert!(device.is_power_of_two() && device > s.device_bytes);
        assert_eq!(host, 0);
        assert_eq!(s.lu(), 0);
        let overwritten = || (0..s.host_bytes).all(|i| s.host.add(i).read_volatile() == 0xff);
        assert!(overwritten());
        s.host.write_bytes(1, s.host_bytes);
        assert!(!overwritten());
        synchronize(s.stream);
        assert!(overwritten());
        let device = s.read::<u8>(s.device, s.device_bytes);
        assert!(device.iter().all(|byte| *byte == 0xff));
        // Cholesky's takes none in host memory.
        let (mut device, mut host) = (0, 1);
        assert_eq!(s.cholesky_space(&raw mut device, &raw mut host), 0);
        assert_eq!((device, host), (s.device_bytes, 0));
    }
}

/// What the functions refuse.
pub(super) unsafe fn refused() {
    unsafe {
        let s = Setting::new(&A);
        let (mut handle, mut params) = (null_mut(), null_mut());
        assert_eq!(solver!(cusolverDnCreate(null_mut())), INVALID);
        assert_eq!(solver!(cusolverDnCreateParams(null_mut())), INVALID);
        ok!(solver cusolverDnCreate(&raw mut handle));
        ok!(solver cusolverDnCreateParams(&raw mut params));
        assert!(handle != s.handle && params != s.params);
        let stream = s.stream.cast();
        assert_eq!(solver!(cusolverDnSetStream(null_mut(), stream)), UNKNOWN);

        // What all functions take.
        let mut bytes = 0;
        let bytes = &raw mut bytes;
        let half = |s: &mut Setting| (s.data, s.compute) = (Data::CUDA_R_16F, Data::CUDA_R_16F);
        for (status, s) in [
            (0, s),
            (UNKNOWN, s.with(|s| s.handle = null_mut())),
            (INVALID, s.with(|s| s.params = null_mut())),
            (INVALID, s.with(|s| s.order = -1)),
            (INVALID, s.with(|s| s.lda = ORDER - 1)),
            (INVALID, s.with(|s| (s.order, s.lda) = (0, 0))),
            (UNSUPPORTED, s.with(|s| s.compute = Data::CUDA_R_32F)),
            (UNSUPPORTED, s.with(half)),
        ] {
            assert_eq!(s.lu_space(bytes, bytes), status);
            assert_eq!(s.cholesky_space(bytes, bytes), status);
            s.all(status);
        }
        assert_eq!(s.lu_space(null_mut(), bytes), INVALID);
        assert_eq!(s.cholesky_space(bytes, null_mut()), INVALID);

        // The sizes of the work space do not depend on where the matrix is.
        assert_eq!(s.with(|s| s.a = 0).lu_space(bytes, bytes), 0);
        s.with(|s| s.a = 0).all(INVALID);
        s.with(|s| s.info = 0).all(INVALID);
        assert_eq!(s.with(|s| s.pivots = 0).lu(), INVALID);
        assert_eq!(s.with(|s| s.pivots = 0).lu_solve(N), INVALID);
        s.with(|s| s.b = 0).solutions(INVALID);
        s.with(|s| s.ldb = ORDER - 1).solutions(INVALID);
        s.with(|s| s.device = 0).factors(INVALID);
        s.with(|s| s.device_bytes -= 1).factors(INVALID);
        for s in [
            s.with(|s| s.host = null_mut()),
            s.with(|s| s.host_bytes -= 1),
        ] {
            assert_eq!(s.lu(), INVALID);
            assert_eq!(s.cholesky(LOWER), 0);
        }

        // Of no elements there is no matrix.
        let empty = s.with(|s| (s.order, s.a, s.pivots, s.b) = (0, 0, 0, 0));
        empty.all(0);
        assert_eq!(empty.info(), 0);
    }
}

/// Operands that overlap.
pub(super) unsafe fn overlap() {
    unsafe {
        let s = Setting::new(&A);
        // The last element ends here.
        let end = s.a + 88;
        assert_eq!(s.with(|s| s.pivots = end - 8).lu(), FAILED);
        s.with(|s| s.info = end - 4).all(FAILED);
        s.with(|s| s.info = s.device + s.device_bytes as u64 - 4)
            .factors(FAILED);
        s.with(|s| s.b = s.a).solutions(FAILED);
        s.with(|s| s.info = s.b).solutions(FAILED);
        let behind = s.with(|s| s.info = end);
        assert_eq!(behind.lu(), 0);
        assert_eq!(behind.info(), 0);
    }
}

/// Operands that are not device memory, or not all of them.
pub(super) unsafe fn elsewhere() {
    unsafe {
        let s = Setting::new(&A);
        let host = pinned::<u8>(256).as_ptr().expose_provenance() as u64;
        let short = (alloc(s.device_bytes - 1), alloc(16));
        s.with(|s| s.device = short.0).factors(FAILED);
        s.with(|s| s.a = host).all(FAILED);
        s.with(|s| s.info = host).all(FAILED);
        s.with(|s| s.b = host).solutions(FAILED);
        for pivots in [host, short.1] {
            let s = s.with(|s| s.pivots = pivots);
            assert_eq!(s.lu(), FAILED);
            assert_eq!(s.lu_solve(N), FAILED);
        }
    }
}

/// Addresses that the elements are not aligned to.
pub(super) unsafe fn unaligned() {
    unsafe {
        let s = Setting::new(&A);
        let room = alloc(2 * s.device_bytes);
        s.with(|s| s.a = room + 4).all(FAILED);
        s.with(|s| s.info = room + 2).all(FAILED);
        s.with(|s| s.device = room + 64).factors(FAILED);
        s.with(|s| s.b = room + 4).solutions(FAILED);
        assert_eq!(s.with(|s| s.pivots = room + 4).lu(), FAILED);
    }
}

/// A handle is no set of parameters, and device memory no host memory.
pub(super) unsafe fn confused() {
    unsafe {
        let s = Setting::new(&A);
        assert_eq!(s.with(|s| s.host = pointer(s.device)).lu(), INVALID);
        s.with(|s| s.params = s.handle.cast()).all(INVALID);
    }
}
