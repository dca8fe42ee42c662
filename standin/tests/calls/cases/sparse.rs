//! cuSPARSE: products of a small matrix, and what they rely on.

use std::ptr::{null, null_mut};

use cudarc::cusparse::sys::{
    self, cudaDataType_t as Data, cusparseIndexBase_t as Base, cusparseIndexType_t as Index,
    cusparseOperation_t as Op, cusparseOrder_t as Order, cusparseSpMMAlg_t as MmAlg,
    cusparseSpMVAlg_t as MvAlg,
};

use crate::gpu::*;

macro_rules! sparse {
    ($name:ident($($arg:expr),* $(,)?)) => { sys::$name($($arg),*) as i32 };
}

const INVALID: i32 = 3;
const UNSUPPORTED: i32 = 10;

const N: Op = Op::CUSPARSE_OPERATION_NON_TRANSPOSE;
const T: Op = Op::CUSPARSE_OPERATION_TRANSPOSE;
const MV: MvAlg = MvAlg::CUSPARSE_SPMV_ALG_DEFAULT;
const MM: MmAlg = MmAlg::CUSPARSE_SPMM_ALG_DEFAULT;
const REAL: Data = Data::CUDA_R_64F;

/// 3 rows, 4 columns: 1 2 . . / . . . . / . 3 . 4, and a column twice.
const OFFSETS: [i32; 4] = [0, 2, 2, 5];
const COLUMNS: [i32; 5] = [0, 1, 1, 3, 3];
const VALUES: [f64; 5] = [1.0, 2.0, 3.0, 1.0, 3.0];

/// Everything that a product needs, in device memory.
struct Setting {
    stream: Stream,
    handle: sys::cusparseHandle_t,
    matrix: sys::cusparseSpMatDescr_t,
    offsets: u64,
    /// X of two vectors of 4, at 0; Y of two vectors of 4, behind it.
    dense: u64,
    scratch: u64,
    bytes: usize,
}

impl Setting {
    unsafe fn new() -> Setting {
        unsafe {
            context(0);
            let stream = stream();
            let mut handle = null_mut();
            ok!(sparse cusparseCreate(&raw mut handle));
            ok!(sparse cusparseSetStream(handle, stream.cast()));
            let (offsets, columns, values) = (alloc(64), alloc(64), alloc(64));
            upload(offsets, &OFFSETS, stream);
            upload(columns, &COLUMNS, stream);
            upload(values, &VALUES, stream);
            let dense = alloc(128);
            upload(
                dense,
                &[1.0, 10.0, 100.0, 1000.0, 2.0, 20.0, 200.0, 2000.0],
                stream,
            );
            let matrix = csr(offsets, columns, values);
            let mut setting = Setting {
                stream,
                handle,
                matrix,
                offsets,
                dense,
                scratch: 0,
                bytes: 0,
            };
            let (one, (x, y)) = (1.0, setting.vectors(N));
            ok!(sparse cusparseSpMV_bufferSize(
                handle, N, (&raw const one).cast(), matrix, x, (&raw const one).cast(), y, REAL, MV, &raw mut setting.bytes
            ));
            assert!(setting.bytes > 0);
            setting.scratch = alloc(setting.bytes);
            setting
        }
    }

    unsafe fn vectors(&self, op: Op) -> (sys::cusparseDnVecDescr_t, sys::cusparseDnVecDescr_t) {
        let (mut x, mut y) = (null_mut(), null_mut());
        let (from, to) = if op == N { (4, 3) } else { (3, 4) };
        unsafe {
            ok!(sparse cusparseCreateDnVec(&raw mut x, from, pointer(self.dense), REAL));
            ok!(sparse cusparseCreateDnVec(&raw mut y, to, pointer(self.dense + 64), REAL));
        }
        (x, y)
    }

    /// Both functions of a product of a vector have the same arguments.
    unsafe fn vector(
        &self,
        prepare: bool,
        matrix: sys::cusparseSpMatDescr_t,
        op: Op,
        scratch: u64,
    ) -> i32 {
        let (alpha, beta) = (2.0, 0.0);
        let (alpha, beta): (*const f64, *const f64) = (&raw const alpha, &raw const beta);
        let scratch = pointer(scratch);
        unsafe {
            let (x, y) = self.vectors(op);
            let status = match prepare {
                true => sparse!(cusparseSpMV_preprocess(
                    self.handle,
                    op,
                    alpha.cast(),
                    matrix,
                    x,
                    beta.cast(),
                    y,
                    REAL,
                    MV,
                    scratch
                )),
                false => sparse!(cusparseSpMV(
                    self.handle,
                    op,
                    alpha.cast(),
                    matrix,
                    x,
                    beta.cast(),
                    y,
                    REAL,
                    MV,
                    scratch
                )),
            };
            ok!(sparse cusparseDestroyDnVec(x));
            ok!(sparse cusparseDestroyDnVec(y));
            status
        }
    }

    unsafe fn prepare(&self) {
        assert_eq!(
            unsafe { self.vector(true, self.matrix, N, self.scratch) },
            0
        );
    }

    /// Y of a product.
    unsafe fn product(&self, op: Op) -> Vec<f64> {
        unsafe {
            assert_eq!(self.vector(false, self.matrix, op, self.scratch), 0);
            self.result(if op == N { 3 } else { 4 })
        }
    }

    unsafe fn result(&self, n: usize) -> Vec<f64> {
        let home = unsafe { pinned::<f64>(n) };
        unsafe {
            download(home, self.dense + 64, self.stream);
            synchronize(self.stream);
        }
        home.to_vec()
    }
}

unsafe fn csr(offsets: u64, columns: u64, values: u64) -> sys::cusparseSpMatDescr_t {
    let index = Index::CUSPARSE_INDEX_32I;
    let mut made = null_mut();
    unsafe {
        ok!(sparse cusparseCreateCsr(
            &raw mut made, 3, 4, 5, pointer(offsets), pointer(columns), pointer(values), index, index,
            Base::CUSPARSE_INDEX_BASE_ZERO, REAL
        ));
    }
    made
}

const PRODUCT: [f64; 3] = [42.0, 0.0, 8060.0];

/// With and without a preprocess, transposed, and of two vectors.
pub(super) unsafe fn products() {
    unsafe {
        let s = Setting::new();
        assert_eq!(s.product(N), PRODUCT);
        assert_eq!(s.product(T), [2.0, 604.0, 0.0, 800.0]);
        s.prepare();
        assert_eq!(s.product(N), PRODUCT);
        assert_eq!(s.product(N), PRODUCT);
        let (mut x, mut y) = (null_mut(), null_mut());
        let order = Order::CUSPARSE_ORDER_COL;
        ok!(sparse cusparseCreateDnMat(&raw mut x, 4, 2, 4, pointer(s.dense), REAL, order));
        ok!(sparse cusparseCreateDnMat(&raw mut y, 3, 2, 4, pointer(s.dense + 64), REAL, order));
        let (one, zero, mut bytes) = (1.0, 0.0, 0);
        let (one, zero): (*const f64, *const f64) = (&raw const one, &raw const zero);
        ok!(sparse cusparseSpMM_bufferSize(
            s.handle, N, N, one.cast(), s.matrix, x, zero.cast(), y, REAL, MM, &raw mut bytes
        ));
        let scratch = alloc(bytes);
        let multiply = |op, alpha: *const f64, compute, scratch| {
            sparse!(cusparseSpMM(
                s.handle,
                N,
                op,
                alpha.cast(),
                s.matrix,
                x,
                zero.cast(),
                y,
                compute,
                MM,
                pointer(scratch)
            ))
        };
        assert_eq!(multiply(N, one, REAL, scratch), 0);
        let found = s.result(7);
        assert_eq!(found[..3], [21.0, 0.0, 4030.0]);
        assert_eq!(found[4..], [42.0, 0.0, 8060.0]);
        assert_eq!(multiply(T, one, REAL, scratch), UNSUPPORTED);
        assert_eq!(multiply(N, null(), REAL, scratch), INVALID);
        assert_eq!(multiply(N, one, Data::CUDA_R_32F, scratch), UNSUPPORTED);
        assert_eq!(multiply(N, one, REAL, 0), INVALID);
        ok!(sparse cusparseDestroyDnMat(x));
        ok!(sparse cusparseDestroyDnMat(y));
        ok!(sparse cusparseDestroySpMat(s.matrix));
    }
}

/// After a preprocess a product depends on the scratch memory, and on the row offsets and column indices of that moment; not so if it
/// has other scratch memory.
pub(super) unsafe fn relies() {
    unsafe {
        let s = Setting::new();
        s.prepare();
        let other = csr(s.offsets, s.dense, s.dense);
        let spoil: [&dyn Fn(); 3] = [
            &|| ok!(cu cuMemsetD8Async(s.scratch, 0, s.bytes, s.stream)),
            &|| ok!(cu cuMemsetD8Async(s.scratch + s.bytes as u64 - 8, 0, 1 << 3, s.stream)),
            &|| assert_eq!(s.vector(true, other, N, s.scratch), 0),
        ];
        for spoil in spoil {
            s.prepare();
            spoil();
            assert_ne!(s.product(N), PRODUCT);
        }
        s.prepare();
        upload(s.offsets, &[0, 0, 2, 5], s.stream);
        assert_eq!(s.product(N), PRODUCT);
        let unused = alloc(s.bytes);
        assert_eq!(s.vector(false, s.matrix, N, unused), 0);
        assert_eq!(s.result(3), [0.0, 42.0, 8060.0]);
        assert_eq!(s.product(N), PRODUCT);
        s.prepare();
        assert_eq!(s.product(N), [0.0, 42.0, 8060.0]);
    }
}

/// What the library refuses.
pub(super) unsafe fn refused() {
    unsafe {
        let s = Setting::new();
        let at = pointer(s.dense);
        let mut made = null_mut();
        let mut create = |nnz, columns, index| {
            sparse!(cusparseCreateCsr(
                &raw mut made,
                3,
                4,
                nnz,
                at,
                columns,
                at,
                Index::CUSPARSE_INDEX_32I,
                index,
                Base::CUSPARSE_INDEX_BASE_ONE,
                REAL
            ))
        };
        assert_eq!(create(5, null_mut(), Index::CUSPARSE_INDEX_32I), INVALID);
        assert_eq!(create(0, null_mut(), Index::CUSPARSE_INDEX_32I), 0);
        assert_eq!(create(-1, at, Index::CUSPARSE_INDEX_32I), INVALID);
        assert_eq!(create(5, at, Index::CUSPARSE_INDEX_64I), UNSUPPORTED);
        let mut made = null_mut();
        assert_eq!(
            sparse!(cusparseCreateDnVec(&raw mut made, 1, null_mut(), REAL)),
            INVALID
        );
        let mut made = null_mut();
        let mut create = |ld, order| {
            sparse!(cusparseCreateDnMat(
                &raw mut made,
                3,
                2,
                ld,
                at,
                REAL,
                order
            ))
        };
        assert_eq!(create(2, Order::CUSPARSE_ORDER_COL), INVALID);
        assert_eq!(create(3, Order::CUSPARSE_ORDER_ROW), UNSUPPORTED);
        assert_eq!(s.vector(false, s.matrix, N, 0), INVALID);
        assert_eq!(s.vector(false, null_mut(), N, s.scratch), INVALID);
        let conjugate = Op::CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE;
        assert_eq!(s.vector(false, s.matrix, conjugate, s.scratch), UNSUPPORTED);
        let nobody = Setting {
            handle: null_mut(),
            ..s
        };
        assert_eq!(nobody.vector(false, nobody.matrix, N, nobody.scratch), 1);
    }
}

/// The real library would crash.
pub(super) unsafe fn destroyed() {
    unsafe {
        let s = Setting::new();
        let (x, _) = s.vectors(N);
        assert_eq!(sparse!(cusparseDestroyDnMat(x.cast())), INVALID);
        ok!(sparse cusparseDestroySpMat(s.matrix));
        assert_eq!(s.vector(false, s.matrix, N, s.scratch), INVALID);
    }
}

/// Scratch memory that is shorter than the library said.
pub(super) unsafe fn short_scratch() {
    unsafe {
        let s = Setting::new();
        let short = alloc(s.bytes - 1);
        assert_eq!(s.vector(true, s.matrix, N, short), 6);
    }
}
