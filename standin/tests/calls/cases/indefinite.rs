//! cuSOLVER: factorizations of small symmetric matrices that are not definite, solutions by them, and what the functions refuse.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use cudarc::cusolver::sys::{self, cublasFillMode_t as Uplo, cudaDataType as Data};

use crate::gpu::solver_status::*;
use crate::gpu::*;

const SINGLE: Data = Data::CUDA_R_32F;
const REAL: Data = Data::CUDA_R_64F;
const LOWER: Uplo = Uplo::CUBLAS_FILL_MODE_LOWER;
const UPPER: Uplo = Uplo::CUBLAS_FILL_MODE_UPPER;
const FULL: Uplo = Uplo::CUBLAS_FILL_MODE_FULL;

/// Rows and columns, right-hand sides, and the leading dimension.
const ORDER: i64 = 3;
const SIDES: i64 = 2;
const LD: i64 = 4;
/// What lies between the columns.
const GAP: f64 = 77.0;
/// What lies in the other triangle.
const O: f64 = 55.0;

/// Columns of one triangle of a matrix and of its factors, and the pivots.
type Example = (Uplo, [f64; 12], [f64; 12], [i32; 3]);

/// A matrix with a block of order two, for which two rows are exchanged, and one whose greatest element of the diagonal is the last one:
/// its lower triangle exchanges two rows for it, the upper one none.
const EXAMPLES: [Example; 4] = [
    (
        LOWER,
        [2.0, 2.0, 4.0, GAP, O, 3.5, 2.0, GAP, O, O, 0.0, GAP],
        [2.0, 4.0, 0.5, GAP, O, 0.0, 0.25, GAP, O, O, 2.0, GAP],
        [-3, -3, 3],
    ),
    (
        UPPER,
        [2.0, O, O, GAP, 2.0, 3.5, O, GAP, 4.0, 2.0, 0.0, GAP],
        [2.0, O, O, GAP, 0.5, 2.0, O, GAP, 0.25, 4.0, 0.0, GAP],
        [1, -1, -1],
    ),
    (
        LOWER,
        [1.0, 3.0, 4.0, GAP, O, 4.5, 2.0, GAP, O, O, 8.0, GAP],
        [8.0, 0.25, 0.5, GAP, O, 4.0, 0.5, GAP, O, O, -2.0, GAP],
        [3, 2, 3],
    ),
    (
        UPPER,
        [1.0, O, O, GAP, 3.0, 4.5, O, GAP, 4.0, 2.0, 8.0, GAP],
        [-2.0, O, O, GAP, 0.5, 4.0, O, GAP, 0.5, 0.25, 8.0, GAP],
        [1, 2, 3],
    ),
];

/// The solutions of all systems, and the right-hand sides of the two matrices.
const X: [f64; 8] = [1.0, 2.0, 3.0, GAP, 0.0, 1.0, 0.0, GAP];
const B: [[f64; 8]; 2] = [
    [18.0, 15.0, 8.0, GAP, 2.0, 3.5, 2.0, GAP],
    [19.0, 18.0, 32.0, GAP, 3.0, 4.5, 2.0, GAP],
];

/// Handle, stream and all memory that the functions need, as their arguments.
#[derive(Clone, Copy)]
struct Setting {
    stream: Stream,
    handle: sys::cusolverDnHandle_t,
    order: i64,
    sides: i64,
    a: u64,
    lda: i64,
    /// The pivots as the factorization writes them, and as the solution reads them.
    pivots: u64,
    wide: u64,
    b: u64,
    ldb: i64,
    /// The element types of A and of B.
    types: [Data; 2],
    work: u64,
    elements: c_int,
    device: u64,
    device_bytes: usize,
    host: *mut u8,
    host_bytes: usize,
    info: u64,
}

impl Setting {
    /// With the first matrix, pivots that exchange nothing, and work space for a factorization and a solution.
    unsafe fn new() -> Setting {
        unsafe {
            context(0);
            let stream = stream();
            let mut handle = null_mut();
            ok!(solver cusolverDnCreate(&raw mut handle));
            ok!(solver cusolverDnSetStream(handle, stream.cast()));
            let mut setting = Setting {
                stream,
                handle,
                order: ORDER,
                sides: SIDES,
                a: alloc(256),
                lda: LD,
                pivots: alloc(12),
                wide: alloc(24),
                b: alloc(64),
                ldb: LD,
                types: [REAL; 2],
                work: 0,
                elements: 0,
                device: 0,
                device_bytes: 0,
                host: null_mut(),
                host_bytes: 0,
                info: alloc(4),
            };
            upload(setting.a, &EXAMPLES[0].1, stream);
            upload(setting.wide, &[1i64, 2, 3], stream);
            upload(setting.b, &B[0], stream);
            setting.elements = setting.work();
            setting.work = alloc(setting.elements as usize * F64);
            let (device, host) = setting.space();
            setting.device_bytes = device;
            setting.device = alloc(device);
            setting.host_bytes = host;
            setting.host = Vec::leak(vec![1; host]).as_mut_ptr();
            setting
        }
    }

    /// The elements of the work space of a factorization.
    unsafe fn work(&self) -> c_int {
        let mut elements = 0;
        unsafe { assert_eq!(self.factor_space(&raw mut elements), 0) };
        elements
    }

    /// The sizes of the work space of a solution.
    unsafe fn space(&self) -> (usize, usize) {
        let (mut device, mut host) = (0, 0);
        unsafe { assert_eq!(self.solve_space(LOWER, &raw mut device, &raw mut host), 0) };
        (device, host)
    }

    unsafe fn factor_space(&self, elements: *mut c_int) -> i32 {
        let (order, lda) = (self.order as c_int, self.lda as c_int);
        unsafe {
            by_type!(self.types[0], [
                cusolverDnSsytrf_bufferSize,
                cusolverDnDsytrf_bufferSize,
                cusolverDnCsytrf_bufferSize,
                cusolverDnZsytrf_bufferSize
            ] => (self.handle, order, pointer(self.a), lda, elements))
        }
    }

    unsafe fn factor(&self, uplo: Uplo) -> i32 {
        let (order, lda) = (self.order as c_int, self.lda as c_int);
        unsafe {
            by_type!(self.types[0], [cusolverDnSsytrf, cusolverDnDsytrf, cusolverDnCsytrf, cusolverDnZsytrf] => (
                self.handle, uplo, order, pointer(self.a), lda, pointer(self.pivots), pointer(self.work), self.elements,
                pointer(self.info)
            ))
        }
    }

    unsafe fn solve_space(&self, uplo: Uplo, device: *mut usize, host: *mut usize) -> i32 {
        unsafe {
            solver!(cusolverDnXsytrs_bufferSize(
                self.handle,
                uplo,
                self.order,
                self.sides,
                self.types[0],
                pointer(self.a),
                self.lda,
                pointer(self.wide),
                self.types[1],
                pointer(self.b),
                self.ldb,
                device,
                host
            ))
        }
    }

    unsafe fn solve(&self, uplo: Uplo) -> i32 {
        unsafe {
            solver!(cusolverDnXsytrs(
                self.handle,
                uplo,
                self.order,
                self.sides,
                self.types[0],
                pointer(self.a),
                self.lda,
                pointer(self.wide),
                self.types[1],
                pointer(self.b),
                self.ldb,
                pointer(self.device),
                self.device_bytes,
                self.host.cast::<c_void>(),
                self.host_bytes,
                pointer(self.info)
            ))
        }
    }

    /// The same with a change.
    fn with(mut self, change: impl FnOnce(&mut Setting)) -> Setting {
        change(&mut self);
        self
    }

    /// Factorizations of both triangles have this status.
    unsafe fn factors(&self, status: i32) {
        unsafe {
            assert_eq!(self.factor(LOWER), status);
            assert_eq!(self.factor(UPPER), status);
        }
    }

    /// As [`Setting::factors`], of the solutions.
    unsafe fn solutions(&self, status: i32) {
        unsafe {
            assert_eq!(self.solve(LOWER), status);
            assert_eq!(self.solve(UPPER), status);
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

    /// The pivots of a factorization, which a solution gets.
    unsafe fn widen(&self) -> Vec<i32> {
        unsafe {
            let pivots = self.read::<i32>(self.pivots, self.order as usize);
            let wide: Vec<i64> = pivots.iter().map(|pivot| i64::from(*pivot)).collect();
            upload(self.wide, &wide, self.stream);
            pivots
        }
    }
}

/// Factors, pivots and solutions of both triangles, with their INFO.
pub(super) unsafe fn solutions() {
    unsafe {
        let s = Setting::new();
        for (i, (uplo, a, factors, pivots)) in EXAMPLES.into_iter().enumerate() {
            upload(s.a, &a, s.stream);
            upload(s.info, &[7i32], s.stream);
            assert_eq!(s.factor(uplo), 0);
            assert_eq!(s.info(), 0);
            assert_eq!(s.read::<f64>(s.a, 12), factors);
            assert_eq!(s.widen(), pivots);
            upload(s.b, &B[i / 2], s.stream);
            upload(s.info, &[7i32], s.stream);
            assert_eq!(s.solve(uplo), 0);
            assert_eq!(s.read::<f64>(s.b, 8), X);
            assert_eq!(s.info(), 0);
            // The factors stay as they are.
            assert_eq!(s.read::<f64>(s.a, 12), factors);
        }
        // Of a matrix of zeros, INFO is the column that comes first.
        for (uplo, info) in [(LOWER, 1), (UPPER, 3)] {
            upload(s.a, &[0.0; 12], s.stream);
            assert_eq!(s.factor(uplo), 0);
            assert_eq!(s.info(), info);
            assert_eq!(s.widen(), [1, 2, 3]);
        }
    }
}

/// Factors and solutions of all element types: complex matrices are symmetric, not Hermitian.
pub(super) unsafe fn types() {
    unsafe {
        let s = Setting::new();
        for data in TYPES {
            let s = s.with(|s| {
                (s.types, s.order, s.sides) = ([data; 2], 2, 1);
                (s.lda, s.ldb) = (2, 2);
                // As many bytes are more elements of a smaller type.
                s.elements = s.work();
            });
            let put = |to: u64, numbers: &[[f64; 2]]| {
                upload(to, &elements(data, numbers), s.stream);
            };
            let is = |at: u64, numbers: &[[f64; 2]]| {
                let right = elements(data, numbers);
                assert_eq!(s.read::<u8>(at, right.len()), right, "{data:?}");
            };
            // 4 and 3 on the diagonal, and 2 or 2i beside it.
            let (beside, factor, left, b) = match is_complex(data) {
                true => ([0.0, 2.0], [0.0, 0.5], 4.0, [[4.0, 4.0], [6.0, 2.0]]),
                false => ([2.0, 0.0], [0.5, 0.0], 2.0, [[8.0, 0.0], [8.0, 0.0]]),
            };
            let (four, three) = ([4.0, 0.0], [3.0, 0.0]);
            let (left, other) = ([left, 0.0], [O, O]);
            let (one, two) = ([1.0, 0.0], [2.0, 0.0]);
            put(s.a, &[four, beside, other, three]);
            assert_eq!(s.factor(LOWER), 0);
            is(s.a, &[four, factor, other, left]);
            assert_eq!(s.widen(), [1, 2]);
            put(s.b, &b);
            assert_eq!(s.solve(LOWER), 0);
            is(s.b, &[one, two]);

            put(s.a, &[three, other, beside, four]);
            assert_eq!(s.factor(UPPER), 0);
            is(s.a, &[left, other, factor, four]);
            assert_eq!(s.widen(), [1, 2]);
            put(s.b, &[b[1], b[0]]);
            assert_eq!(s.solve(UPPER), 0);
            is(s.b, &[two, one]);
        }
    }
}

/// All of the work space is overwritten, and its size depends on the sizes of the matrices.
pub(super) unsafe fn space() {
    unsafe {
        let s = Setting::new();
        assert!(s.device_bytes.is_power_of_two() && s.device_bytes >= 4096 && s.host_bytes > 0);
        let large = s.with(|s| (s.order, s.lda, s.ldb) = (10_000, 10_000, 10_000));
        assert!(large.work() > s.elements);
        let (device, host) = large.space();
        assert!(device > s.device_bytes && host == 0);
        assert!(s.with(|s| s.sides = 10_000).space().0 > s.device_bytes);
        // As many bytes are fewer elements of a larger type.
        let complex = s.with(|s| s.types = [Data::CUDA_C_64F; 2]);
        assert_eq!(complex.work(), s.elements / 2);

        assert_eq!(s.factor(LOWER), 0);
        assert_eq!(s.solve(LOWER), 0);
        let overwritten = || (0..s.host_bytes).all(|i| s.host.add(i).read_volatile() == 0xff);
        assert!(overwritten());
        s.host.write_bytes(1, s.host_bytes);
        assert!(!overwritten());
        synchronize(s.stream);
        assert!(overwritten());
        for (at, bytes) in [
            (s.work, s.elements as usize * F64),
            (s.device, s.device_bytes),
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
            (INVALID, s.with(|s| s.lda = ORDER - 1)),
            (INVALID, s.with(|s| (s.order, s.lda) = (0, 0))),
        ] {
            assert_eq!(s.factor_space(elements), status);
            assert_eq!(s.solve_space(LOWER, bytes, bytes), status);
            s.all(status);
        }
        assert_eq!(s.factor(FULL), INVALID);
        assert_eq!(s.solve_space(FULL, bytes, bytes), INVALID);
        assert_eq!(s.solve(FULL), INVALID);
        // What solutions take.
        for (status, s) in [
            (INVALID, s.with(|s| s.sides = -1)),
            (INVALID, s.with(|s| s.ldb = ORDER - 1)),
            (UNSUPPORTED, s.with(|s| s.types[0] = SINGLE)),
            (UNSUPPORTED, s.with(|s| s.types[1] = SINGLE)),
            (UNSUPPORTED, s.with(|s| s.types = [Data::CUDA_R_16F; 2])),
        ] {
            assert_eq!(s.solve_space(LOWER, bytes, bytes), status);
            s.solutions(status);
        }
        assert_eq!(s.factor_space(null_mut()), INVALID);
        assert_eq!(s.solve_space(LOWER, null_mut(), bytes), INVALID);
        assert_eq!(s.solve_space(LOWER, bytes, null_mut()), INVALID);

        // The sizes of the work space do not depend on where the operands are.
        let nowhere = s.with(|s| (s.a, s.wide, s.b) = (0, 0, 0));
        assert_eq!(nowhere.work(), s.elements);
        assert_eq!(nowhere.space(), (s.device_bytes, s.host_bytes));
        s.with(|s| s.a = 0).all(INVALID);
        s.with(|s| s.info = 0).all(INVALID);
        s.with(|s| s.pivots = 0).factors(INVALID);
        s.with(|s| s.work = 0).factors(INVALID);
        s.with(|s| s.elements -= 1).factors(INVALID);
        s.with(|s| s.elements = -1).factors(INVALID);
        s.with(|s| s.wide = 0).solutions(INVALID);
        s.with(|s| s.b = 0).solutions(INVALID);
        s.with(|s| s.device = 0).solutions(INVALID);
        s.with(|s| s.device_bytes -= 1).solutions(INVALID);
        for s in [
            s.with(|s| s.host = null_mut()),
            s.with(|s| s.host_bytes -= 1),
        ] {
            s.solutions(INVALID);
            s.with(|s| s.order = 2).solutions(0);
        }

        // Of no elements there is no matrix.
        let empty = s.with(|s| {
            (s.order, s.sides) = (0, 0);
            (s.a, s.pivots, s.wide, s.b) = (0, 0, 0, 0);
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
        let end = s.a + 88;
        s.with(|s| s.pivots = end - 4).factors(FAILED);
        s.with(|s| s.wide = end - 8).solutions(FAILED);
        s.with(|s| s.info = end - 4).all(FAILED);
        s.with(|s| s.info = s.pivots + 8).factors(FAILED);
        s.with(|s| s.info = s.wide + 20).solutions(FAILED);
        s.with(|s| s.info = s.work).factors(FAILED);
        s.with(|s| s.info = s.device).solutions(FAILED);
        s.with(|s| s.b = s.a).solutions(FAILED);
        s.with(|s| s.info = s.b).solutions(FAILED);
        let behind = s.with(|s| (s.pivots, s.wide) = (end, end));
        behind.with(|s| s.info = end + 12).factors(0);
        let behind = behind.with(|s| s.info = end + 24);
        behind.solutions(0);
        assert_eq!(behind.info(), 0);
    }
}

/// Operands that are not device memory, or not all of them.
pub(super) unsafe fn elsewhere() {
    unsafe {
        let s = Setting::new();
        let host = pinned::<u8>(256).as_ptr().expose_provenance() as u64;
        let (space, short) = (alloc(s.device_bytes - 1), alloc(8));
        s.with(|s| s.work = space).factors(FAILED);
        s.with(|s| s.device = space).solutions(FAILED);
        s.with(|s| s.a = host).all(FAILED);
        s.with(|s| s.info = host).all(FAILED);
        for pivots in [host, short] {
            s.with(|s| s.pivots = pivots).factors(FAILED);
        }
        // Pivots of a factorization are too few bytes for a solution.
        for pivots in [host, s.pivots] {
            s.with(|s| s.wide = pivots).solutions(FAILED);
        }
        s.with(|s| s.b = host).solutions(FAILED);
        s.with(|s| s.b = short).solutions(FAILED);
    }
}

/// Addresses that the elements are not aligned to.
pub(super) unsafe fn unaligned() {
    unsafe {
        let s = Setting::new();
        let room = alloc(2 * s.device_bytes);
        s.with(|s| s.a = room + 4).all(FAILED);
        s.with(|s| s.info = room + 2).all(FAILED);
        s.with(|s| s.pivots = room + 2).factors(FAILED);
        s.with(|s| s.pivots = room + 4).factors(0);
        s.with(|s| s.wide = room + 4).solutions(FAILED);
        s.with(|s| s.b = room + 4).solutions(FAILED);
        s.with(|s| s.work = room + 64).factors(FAILED);
        s.with(|s| s.device = room + 64).solutions(FAILED);
    }
}

/// Device memory is no host memory.
pub(super) unsafe fn confused() {
    unsafe {
        let s = Setting::new();
        s.with(|s| s.host = pointer(s.device)).solutions(INVALID);
    }
}
