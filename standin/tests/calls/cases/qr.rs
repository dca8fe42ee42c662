//! cuSOLVER: factorizations of small matrices by QR, products with Q, and what the functions refuse.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use cudarc::cusolver::sys::{
    self, cublasOperation_t as Op, cublasSideMode_t as At, cudaDataType as Data,
};

use crate::gpu::solver_status::*;
use crate::gpu::*;

const SINGLE: Data = Data::CUDA_R_32F;
const REAL: Data = Data::CUDA_R_64F;
const N: Op = Op::CUBLAS_OP_N;
const T: Op = Op::CUBLAS_OP_T;
const C: Op = Op::CUBLAS_OP_C;
const LEFT: At = At::CUBLAS_SIDE_LEFT;
const RIGHT: At = At::CUBLAS_SIDE_RIGHT;

/// Rows and columns of A, the other dimension of B, and the leading dimensions.
const ORDER: i64 = 4;
const COUNT: i64 = 3;
const SIDES: i64 = 2;
const LD: i64 = 5;
/// What lies between the columns.
const GAP: f64 = 77.0;

/// Columns of a matrix, and of its factors: each reflector makes a column with 3 and 4 in it one with 5 or -5.
const A: [f64; 15] = [
    3.0, 0.0, 4.0, 0.0, GAP, -3.0, -3.0, -4.0, 4.0, GAP, -5.0, 0.0, 0.0, 5.0, GAP,
];
const QR: [f64; 15] = [
    -5.0,
    0.0,
    0.5,
    0.0,
    GAP,
    5.0,
    5.0,
    0.0,
    -0.5,
    GAP,
    3.0,
    4.0,
    -5.0,
    1.0 / 3.0,
    GAP,
];
const TAU: [f64; 3] = [1.6, 1.6, 1.8];

/// The first columns of A and of R, and the same as rows.
const B: [f64; 10] = [3.0, 0.0, 4.0, 0.0, GAP, -3.0, -3.0, -4.0, 4.0, GAP];
const R: [f64; 10] = [-5.0, 0.0, 0.0, 0.0, GAP, 5.0, 5.0, 0.0, 0.0, GAP];
const B_ROWS: [f64; 12] = [
    3.0, -3.0, GAP, 0.0, -3.0, GAP, 4.0, -4.0, GAP, 0.0, 4.0, GAP,
];
const R_ROWS: [f64; 12] = [-5.0, 5.0, GAP, 0.0, 5.0, GAP, 0.0, 0.0, GAP, 0.0, 0.0, GAP];

/// Handle, stream and all memory that the functions need, as their arguments.
#[derive(Clone, Copy)]
struct Setting {
    stream: Stream,
    handle: sys::cusolverDnHandle_t,
    params: sys::cusolverDnParams_t,
    order: i64,
    count: i64,
    sides: i64,
    a: u64,
    lda: i64,
    tau: u64,
    b: u64,
    ldb: i64,
    /// The element type of A, which B has, too; of tau; and of the computation.
    types: [Data; 3],
    device: u64,
    device_bytes: usize,
    host: *mut u8,
    host_bytes: usize,
    work: u64,
    elements: c_int,
    info: u64,
}

impl Setting {
    /// With A, its first columns as B, and work space for a factorization and a product from the left.
    unsafe fn new() -> Setting {
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
                count: COUNT,
                sides: SIDES,
                a: alloc(256),
                lda: LD,
                tau: alloc(24),
                b: alloc(256),
                ldb: LD,
                types: [REAL; 3],
                device: 0,
                device_bytes: 0,
                host: null_mut(),
                host_bytes: 0,
                work: 0,
                elements: 0,
                info: alloc(4),
            };
            upload(setting.a, &A, stream);
            upload(setting.b, &B, stream);
            let (device, host) = setting.space();
            setting.device_bytes = device;
            setting.device = alloc(device);
            setting.host_bytes = host;
            setting.host = Vec::leak(vec![1; host]).as_mut_ptr();
            setting.elements = setting.work(LEFT);
            setting.work = alloc(setting.elements as usize * F64);
            setting
        }
    }

    /// The sizes of the work space of a factorization.
    unsafe fn space(&self) -> (usize, usize) {
        let (mut device, mut host) = (0, 0);
        unsafe { assert_eq!(self.factor_space(&raw mut device, &raw mut host), 0) };
        (device, host)
    }

    /// The elements of the work space of a product.
    unsafe fn work(&self, side: At) -> c_int {
        let mut elements = 0;
        unsafe { assert_eq!(self.product_space(side, N, &raw mut elements), 0) };
        elements
    }

    unsafe fn factor_space(&self, device: *mut usize, host: *mut usize) -> i32 {
        unsafe {
            solver!(cusolverDnXgeqrf_bufferSize(
                self.handle,
                self.params,
                self.order,
                self.count,
                self.types[0],
                pointer(self.a),
                self.lda,
                self.types[1],
                pointer(self.tau),
                self.types[2],
                device,
                host
            ))
        }
    }

    unsafe fn factor(&self) -> i32 {
        unsafe {
            solver!(cusolverDnXgeqrf(
                self.handle,
                self.params,
                self.order,
                self.count,
                self.types[0],
                pointer(self.a),
                self.lda,
                self.types[1],
                pointer(self.tau),
                self.types[2],
                pointer(self.device),
                self.device_bytes,
                self.host.cast::<c_void>(),
                self.host_bytes,
                pointer(self.info)
            ))
        }
    }

    /// Rows and columns of B, and reflectors.
    fn sizes(&self, side: At) -> [c_int; 3] {
        let [rows, cols] = match side {
            LEFT => [self.order, self.sides],
            RIGHT => [self.sides, self.order],
        };
        [rows, cols, self.count].map(|size| size as c_int)
    }

    unsafe fn product_space(&self, side: At, op: Op, elements: *mut c_int) -> i32 {
        let [m, n, k] = self.sizes(side);
        let (lda, ldb) = (self.lda as c_int, self.ldb as c_int);
        unsafe {
            by_type!(self.types[0], [
                cusolverDnSormqr_bufferSize,
                cusolverDnDormqr_bufferSize,
                cusolverDnCunmqr_bufferSize,
                cusolverDnZunmqr_bufferSize
            ] => (
                self.handle, side, op, m, n, k, pointer(self.a), lda, pointer(self.tau), pointer(self.b), ldb, elements
            ))
        }
    }

    unsafe fn product(&self, side: At, op: Op) -> i32 {
        let [m, n, k] = self.sizes(side);
        let (lda, ldb) = (self.lda as c_int, self.ldb as c_int);
        unsafe {
            by_type!(self.types[0], [cusolverDnSormqr, cusolverDnDormqr, cusolverDnCunmqr, cusolverDnZunmqr] => (
                self.handle, side, op, m, n, k, pointer(self.a), lda, pointer(self.tau), pointer(self.b), ldb,
                pointer(self.work), self.elements, pointer(self.info)
            ))
        }
    }

    /// The same with a change.
    fn with(mut self, change: impl FnOnce(&mut Setting)) -> Setting {
        change(&mut self);
        self
    }

    /// Products from both sides have this status.
    unsafe fn products(&self, status: i32) {
        unsafe {
            assert_eq!(self.product(LEFT, N), status);
            assert_eq!(self.product(RIGHT, T), status);
        }
    }

    unsafe fn all(&self, status: i32) {
        unsafe {
            assert_eq!(self.factor(), status);
            self.products(status);
        }
    }

    unsafe fn read<E: Copy + Default>(&self, at: u64, n: usize) -> Vec<E> {
        unsafe { read(at, n, self.stream) }
    }

    unsafe fn info(&self) -> c_int {
        unsafe { self.read(self.info, 1)[0] }
    }

    /// A product of this factor takes it to that one.
    unsafe fn leads(&self, (side, op): (At, Op), from: &[f64], to: &[f64]) {
        unsafe {
            upload(self.b, from, self.stream);
            assert_eq!(self.product(side, op), 0);
            assert_near(&self.read(self.b, to.len()), to, 1e-12);
            assert_eq!(self.info(), 0);
        }
    }
}

fn assert_near(found: &[f64], right: &[f64], within: f64) {
    let near = found.len() == right.len()
        && (found.iter().zip(right)).all(|(a, b)| (a - b).abs() <= within);
    assert!(near, "{found:?}, not {right:?}");
}

/// Factors, and products with both operations from both sides.
pub(super) unsafe fn products() {
    unsafe {
        let s = Setting::new();
        upload(s.info, &[7i32], s.stream);
        assert_eq!(s.factor(), 0);
        assert_eq!(s.info(), 0);
        assert_near(&s.read(s.a, 15), &QR, 1e-12);
        assert_near(&s.read(s.tau, 3), &TAU, 1e-12);
        s.leads((LEFT, T), &B, &R);
        s.leads((LEFT, N), &R, &B);
        let rows = s.with(|s| s.ldb = 3);
        rows.leads((RIGHT, N), &B_ROWS, &R_ROWS);
        rows.leads((RIGHT, T), &R_ROWS, &B_ROWS);
        // The factor stays as it is; without a reflector Q is an identity.
        assert_near(&s.read(s.a, 15), &QR, 1e-12);
        let none = s.with(|s| (s.count, s.a, s.tau) = (0, 0, 0));
        none.leads((LEFT, N), &B, &B);
    }
}

/// Factors and products of all element types, with Q that are not their own conjugates where these are complex.
pub(super) unsafe fn types() {
    unsafe {
        let s = Setting::new();
        for data in TYPES {
            let s = s.with(|s| {
                (s.types, s.order, s.count, s.sides) = ([data; 3], 2, 1, 1);
                (s.lda, s.ldb) = (2, 2);
                // As many bytes are more elements of a smaller type.
                s.elements = s.work(LEFT);
            });
            let put = |to: u64, numbers: &[[f64; 2]]| {
                upload(to, &elements(data, numbers), s.stream);
            };
            let is = |at: u64, numbers: &[[f64; 2]]| {
                let right = elements(data, numbers);
                assert_eq!(s.read::<u8>(at, right.len()), right, "{data:?}");
            };
            put(s.a, &[[3.0, 0.0], [4.0, 0.0]]);
            assert_eq!(s.factor(), 0);
            is(s.a, &[[-5.0, 0.0], [0.5, 0.0]]);
            is(s.tau, &[[1.6, 0.0]]);

            // I - v v^T, or I - tau v v^H with (1, i) as v.
            let complex = is_complex(data);
            let (v, tau) = match complex {
                true => ([0.0, 1.0], [0.5, 0.5]),
                false => ([1.0, 0.0], [1.0, 0.0]),
            };
            put(s.a, &[[GAP, GAP], v]);
            put(s.tau, &[tau]);
            let (op, wrong) = if complex { (C, T) } else { (T, C) };
            let row = s.with(|s| s.ldb = 1);
            for (s, side, op, product) in [
                (s, LEFT, N, [[0.5, -0.5], [0.5, -0.5]]),
                (s, LEFT, op, [[0.5, 0.5], [-0.5, -0.5]]),
                (row, RIGHT, N, [[0.5, -0.5], [-0.5, 0.5]]),
                (row, RIGHT, op, [[0.5, 0.5], [0.5, 0.5]]),
            ] {
                put(s.b, &[[1.0, 0.0], [0.0, 0.0]]);
                assert_eq!(s.product(side, op), 0);
                match complex {
                    true => is(s.b, &product),
                    false => is(s.b, &[[0.0, 0.0], [-1.0, 0.0]]),
                }
            }
            for op in [wrong, Op::CUBLAS_OP_CONJG] {
                let mut elements = 0;
                assert_eq!(s.product_space(LEFT, op, &raw mut elements), INVALID);
                assert_eq!(s.product(LEFT, op), INVALID);
            }
        }
    }
}

/// All of the work space is overwritten, and its size depends on the sizes of the matrices.
pub(super) unsafe fn space() {
    unsafe {
        let s = Setting::new();
        assert!(s.device_bytes.is_power_of_two() && s.device_bytes >= 4096 && s.host_bytes > 0);
        for large in [
            s.with(|s| (s.order, s.lda, s.ldb) = (10_000, 10_000, 10_000)),
            s.with(|s| s.sides = 10_000),
        ] {
            assert!(large.work(LEFT) > s.elements);
        }
        let (device, host) = s.with(|s| s.count = 10_000).space();
        assert!(device > s.device_bytes && host == 0);
        // As many bytes are fewer elements of a larger type.
        let complex = s.with(|s| s.types = [Data::CUDA_C_64F; 3]);
        assert_eq!(complex.work(LEFT), s.elements / 2);

        assert_eq!(s.factor(), 0);
        let overwritten = || (0..s.host_bytes).all(|i| s.host.add(i).read_volatile() == 0xff);
        assert!(overwritten());
        s.host.write_bytes(1, s.host_bytes);
        assert!(!overwritten());
        synchronize(s.stream);
        assert!(overwritten());
        assert_eq!(s.product(LEFT, N), 0);
        for (at, bytes) in [
            (s.device, s.device_bytes),
            (s.work, s.elements as usize * F64),
        ] {
            let space = s.read::<u8>(at, bytes);
            assert!(space.iter().all(|byte| *byte == 0xff));
        }
    }
}

/// What the functions refuse.
pub(super) unsafe fn refused() {
    unsafe {
        let s = Setting::new();
        let (mut bytes, mut elements) = (0, 0);
        let (bytes, elements) = (&raw mut bytes, &raw mut elements);
        // What all functions take.
        for (status, s) in [
            (0, s),
            (UNKNOWN, s.with(|s| s.handle = null_mut())),
            (INVALID, s.with(|s| s.order = -1)),
            (INVALID, s.with(|s| s.count = -1)),
            (INVALID, s.with(|s| s.lda = ORDER - 1)),
            (INVALID, s.with(|s| (s.order, s.count, s.lda) = (0, 0, 0))),
        ] {
            assert_eq!(s.factor_space(bytes, bytes), status);
            assert_eq!(s.product_space(LEFT, N, elements), status);
            assert_eq!(s.product_space(RIGHT, T, elements), status);
            s.all(status);
        }
        // What factorizations take, and products.
        for (status, s) in [
            (INVALID, s.with(|s| s.params = null_mut())),
            (UNSUPPORTED, s.with(|s| s.types[0] = SINGLE)),
            (UNSUPPORTED, s.with(|s| s.types[1] = SINGLE)),
            (UNSUPPORTED, s.with(|s| s.types[2] = SINGLE)),
            (UNSUPPORTED, s.with(|s| s.types = [Data::CUDA_R_16F; 3])),
        ] {
            assert_eq!(s.factor_space(bytes, bytes), status);
            assert_eq!(s.factor(), status);
        }
        for (side, s) in [
            (LEFT, s.with(|s| s.sides = -1)),
            (RIGHT, s.with(|s| s.sides = -1)),
            (LEFT, s.with(|s| s.count = ORDER + 1)),
            (RIGHT, s.with(|s| s.count = ORDER + 1)),
            (LEFT, s.with(|s| s.ldb = ORDER - 1)),
            (RIGHT, s.with(|s| s.ldb = SIDES - 1)),
        ] {
            assert_eq!(s.product_space(side, N, elements), INVALID);
            assert_eq!(s.product(side, N), INVALID);
        }
        assert_eq!(s.factor_space(null_mut(), bytes), INVALID);
        assert_eq!(s.factor_space(bytes, null_mut()), INVALID);
        assert_eq!(s.product_space(LEFT, N, null_mut()), INVALID);

        // The sizes of the work space do not depend on where the operands are.
        let nowhere = s.with(|s| (s.a, s.tau, s.b) = (0, 0, 0));
        assert_eq!(nowhere.space(), (s.device_bytes, s.host_bytes));
        assert_eq!(nowhere.work(LEFT), s.elements);
        s.with(|s| s.a = 0).all(INVALID);
        s.with(|s| s.tau = 0).all(INVALID);
        s.with(|s| s.info = 0).all(INVALID);
        s.with(|s| s.b = 0).products(INVALID);
        s.with(|s| s.work = 0).products(INVALID);
        s.with(|s| s.elements -= 1).products(INVALID);
        s.with(|s| s.elements = -1).products(INVALID);
        assert_eq!(s.with(|s| s.device = 0).factor(), INVALID);
        assert_eq!(s.with(|s| s.device_bytes -= 1).factor(), INVALID);
        for s in [
            s.with(|s| s.host = null_mut()),
            s.with(|s| s.host_bytes -= 1),
        ] {
            assert_eq!(s.factor(), INVALID);
            assert_eq!(s.with(|s| s.count = 2).factor(), 0);
        }

        // Of no elements there is no matrix.
        let empty = s.with(|s| {
            (s.order, s.count, s.sides) = (0, 0, 0);
            (s.a, s.tau, s.b) = (0, 0, 0);
        });
        empty.all(0);
        assert_eq!(empty.info(), 0);
    }
}

/// Operands that overlap.
pub(super) unsafe fn overlap() {
    unsafe {
        let s = Setting::new();
        // The last element ends here.
        let end = s.a + 112;
        s.with(|s| s.tau = end - 8).all(FAILED);
        s.with(|s| s.info = end - 4).all(FAILED);
        s.with(|s| s.info = s.tau + 20).all(FAILED);
        s.with(|s| s.b = s.a).products(FAILED);
        s.with(|s| s.tau = s.b).products(FAILED);
        s.with(|s| s.info = s.b).products(FAILED);
        s.with(|s| s.info = s.work).products(FAILED);
        assert_eq!(s.with(|s| s.info = s.device).factor(), FAILED);
        let behind = s.with(|s| (s.tau, s.info) = (end, end + 24));
        behind.all(0);
        assert_eq!(behind.info(), 0);
    }
}

/// Operands that are not device memory, or not all of them.
pub(super) unsafe fn elsewhere() {
    unsafe {
        let s = Setting::new();
        let host = pinned::<u8>(256).as_ptr().expose_provenance() as u64;
        let (space, short) = (alloc(s.device_bytes - 1), alloc(16));
        assert_eq!(s.with(|s| s.device = space).factor(), FAILED);
        s.with(|s| s.work = space).products(FAILED);
        s.with(|s| s.a = host).all(FAILED);
        s.with(|s| s.info = host).all(FAILED);
        s.with(|s| s.tau = host).all(FAILED);
        s.with(|s| s.tau = short).all(FAILED);
        s.with(|s| s.b = host).products(FAILED);
        s.with(|s| s.b = short).products(FAILED);
    }
}

/// Addresses that the elements are not aligned to.
pub(super) unsafe fn unaligned() {
    unsafe {
        let s = Setting::new();
        let room = alloc(2 * s.device_bytes);
        s.with(|s| s.a = room + 4).all(FAILED);
        s.with(|s| s.tau = room + 4).all(FAILED);
        s.with(|s| s.info = room + 2).all(FAILED);
        s.with(|s| s.b = room + 4).products(FAILED);
        s.with(|s| s.work = room + 64).products(FAILED);
        assert_eq!(s.with(|s| s.device = room + 64).factor(), FAILED);
    }
}

/// A handle is no set of parameters, and device memory no host memory.
pub(super) unsafe fn confused() {
    unsafe {
        let s = Setting::new();
        assert_eq!(s.with(|s| s.params = s.handle.cast()).factor(), INVALID);
        assert_eq!(s.with(|s| s.host = pointer(s.device)).factor(), INVALID);
    }
}
