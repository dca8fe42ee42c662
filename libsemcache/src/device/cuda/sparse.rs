//! cuSPARSE: products of sparse matrices, queued on the compute stream of one device.
//!
//! The library is loaded when a program first multiplies a sparse matrix. Of each pattern the descriptor is kept, and whether
//! `cusparseSpMV_preprocess` has filled its scratch memory.
#![expect(unsafe_code, reason = "calls cuSPARSE")]

use core::ffi::c_void;
use core::ptr;

use cudarc::cusparse::sys::{
    self, cudaDataType_t, cusparseDnMatDescr_t, cusparseDnVecDescr_t, cusparseHandle_t,
    cusparseIndexBase_t, cusparseIndexType_t, cusparseOperation_t, cusparseOrder_t,
    cusparseSpMMAlg_t, cusparseSpMVAlg_t, cusparseSpMatDescr_t, cusparseStatus_t,
};
use rustc_hash::FxHashMap;

use super::driver::{CUstream, Status};
use crate::base::sparse::{CsrKernel, Index};
use crate::base::{Dtype, Op, Value};

/// The functions that cuSPARSE must export.
pub(super) const FUNCTIONS: &[&str] = &[
    "cusparseCreate",
    "cusparseSetStream",
    "cusparseCreateCsr",
    "cusparseDestroySpMat",
    "cusparseCreateDnVec",
    "cusparseDestroyDnVec",
    "cusparseCreateDnMat",
    "cusparseDestroyDnMat",
    "cusparseSpMV_bufferSize",
    "cusparseSpMV_preprocess",
    "cusparseSpMV",
    "cusparseSpMM_bufferSize",
    "cusparseSpMM",
];

/// Added to cuSPARSE's statuses, so that they differ from the driver's and cuBLAS's.
const CUSPARSE: i32 = 20_000;
/// `CUSPARSE_STATUS_INVALID_VALUE`
const INVALID: Status = Status(CUSPARSE + 3);
/// Patterns whose descriptors are kept.
const MOST: usize = 256;

fn check(r: cusparseStatus_t) -> Result<(), Status> {
    match r {
        cusparseStatus_t::CUSPARSE_STATUS_SUCCESS => Ok(()),
        other => Err(Status(CUSPARSE + other as i32)),
    }
}

fn pointer(addr: u64) -> *mut c_void {
    // This code never dereferences the pointer.
    ptr::without_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

fn count(n: usize) -> Result<i64, Status> {
    i64::try_from(n).map_err(|_| INVALID)
}

/// A scalar in host memory, in the form of one element type. Its alignment is that of CUDA's `double2`: cuSPARSE reads it by aligned
/// vector instructions.
#[repr(C, align(16))]
union Scalar {
    s: f32,
    d: f64,
    c: [f32; 2],
    z: [f64; 2],
}

impl Scalar {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a single-precision scalar came from one"
    )]
    fn of(dtype: Dtype, Value { re, im }: Value) -> Scalar {
        match dtype {
            Dtype::S => Scalar { s: re as f32 },
            Dtype::D => Scalar { d: re },
            Dtype::C => Scalar {
                c: [re as f32, im as f32],
            },
            Dtype::Z => Scalar { z: [re, im] },
        }
    }
}

fn data_type(dtype: Dtype) -> cudaDataType_t {
    match dtype {
        Dtype::S => cudaDataType_t::CUDA_R_32F,
        Dtype::D => cudaDataType_t::CUDA_R_64F,
        Dtype::C => cudaDataType_t::CUDA_C_32F,
        Dtype::Z => cudaDataType_t::CUDA_C_64F,
    }
}

fn operation(kernel: &CsrKernel) -> cusparseOperation_t {
    match kernel.op {
        Op::None => cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE,
        // cuSPARSE has no conjugate transpose of real matrices.
        Op::ConjTrans if kernel.dtype.is_complex() => {
            cusparseOperation_t::CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE
        }
        Op::Trans | Op::ConjTrans => cusparseOperation_t::CUSPARSE_OPERATION_TRANSPOSE,
    }
}

/// A matrix as cuSPARSE describes it.
#[derive(Debug)]
struct Described(cusparseSpMatDescr_t);

impl Described {
    fn new(kernel: &CsrKernel) -> Result<Described, Status> {
        let index = match kernel.index {
            Index::I32 => cusparseIndexType_t::CUSPARSE_INDEX_32I,
            Index::I64 => cusparseIndexType_t::CUSPARSE_INDEX_64I,
        };
        let base = match kernel.first {
            0 => cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO,
            _ => cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ONE,
        };
        let mut made = ptr::null_mut();
        // SAFETY: cuSPARSE is loaded; it keeps the addresses and reads nothing.
        check(unsafe {
            sys::cusparseCreateCsr(
                &mut made,
                count(kernel.rows)?,
                count(kernel.cols)?,
                count(kernel.nnz)?,
                pointer(kernel.offsets),
                pointer(kernel.columns),
                pointer(kernel.values),
                index,
                index,
                base,
                data_type(kernel.dtype),
            )
        })?;
        Ok(Described(made))
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: made by `new`; what was queued with it has read it.
        let _ = unsafe { sys::cusparseDestroySpMat(self.0) };
    }
}

/// X or Y as cuSPARSE describes it.
enum Dense {
    Vector(cusparseDnVecDescr_t),
    Matrix(cusparseDnMatDescr_t),
}

impl Dense {
    fn new(kernel: &CsrKernel, of_x: bool) -> Result<Dense, Status> {
        let (x, y) = kernel.lengths();
        // cuSPARSE reads those elements of X only that columns of A name.
        let (at, addr, length) = match of_x {
            true => (kernel.x, kernel.x_row_0(), x),
            false => (kernel.y, kernel.y.addr, y),
        };
        let (length, data) = (count(length)?, data_type(kernel.dtype));
        if kernel.vectors == 1 {
            let mut made = ptr::null_mut();
            // SAFETY: as in `Described::new`.
            check(unsafe { sys::cusparseCreateDnVec(&mut made, length, pointer(addr), data) })?;
            return Ok(Dense::Vector(made));
        }
        let mut made = ptr::null_mut();
        let (cols, ld) = (count(kernel.vectors)?, count(at.ld())?);
        let order = cusparseOrder_t::CUSPARSE_ORDER_COL;
        // SAFETY: as in `Described::new`.
        check(unsafe {
            sys::cusparseCreateDnMat(&mut made, length, cols, ld, pointer(addr), data, order)
        })?;
        Ok(Dense::Matrix(made))
    }
}

impl Drop for Dense {
    fn drop(&mut self) {
        // SAFETY: made by `new`; what was queued with it has read it.
        let _ = unsafe {
            match self {
                Dense::Vector(made) => sys::cusparseDestroyDnVec(*made),
                Dense::Matrix(made) => sys::cusparseDestroyDnMat(*made),
            }
        };
    }
}

/// What is kept of a pattern.
#[derive(Debug)]
struct Known {
    matrix: Described,
    /// Offsets, columns, entries and scratch memory.
    at: [u64; 4],
    /// The scratch memory has been filled.
    prepared: bool,
}

/// A handle, bound to the compute stream of the context that was current when it was made.
#[derive(Debug)]
pub(super) struct Sparse {
    handle: cusparseHandle_t,
    known: FxHashMap<u64, Known>,
}

// SAFETY: cuSPARSE's handles and descriptors may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Sparse {}

impl Sparse {
    /// A handle on a stream of the current context.
    ///
    /// # Errors
    /// cuSPARSE's status.
    pub(super) fn new(stream: CUstream) -> Result<Sparse, Status> {
        let mut handle = ptr::null_mut();
        // SAFETY: cuSPARSE is loaded; the handle is a live local.
        check(unsafe { sys::cusparseCreate(&mut handle) })?;
        // SAFETY: handle and stream belong to one context; the two stream types are the same type in CUDA.
        check(unsafe { sys::cusparseSetStream(handle, stream.cast()) })?;
        Ok(Sparse {
            handle,
            known: FxHashMap::default(),
        })
    }

    /// Bytes of scratch memory that a product needs.
    pub(super) fn scratch(&self, kernel: &CsrKernel) -> Result<usize, Status> {
        let matrix = Described::new(kernel)?;
        let (x, y) = (Dense::new(kernel, true)?, Dense::new(kernel, false)?);
        let (one, data) = (
            Scalar::of(kernel.dtype, Value::ONE),
            data_type(kernel.dtype),
        );
        let one: *const c_void = (&raw const one).cast();
        let mut bytes = 0;
        // SAFETY: live descriptors, and scalars in host memory.
        check(unsafe {
            match (&x, &y) {
                (Dense::Matrix(x), Dense::Matrix(y)) => sys::cusparseSpMM_bufferSize(
                    self.handle,
                    operation(kernel),
                    cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE,
                    one,
                    matrix.0,
                    *x,
                    one,
                    *y,
                    data,
                    cusparseSpMMAlg_t::CUSPARSE_SPMM_ALG_DEFAULT,
                    &mut bytes,
                ),
                (Dense::Vector(x), Dense::Vector(y)) => sys::cusparseSpMV_bufferSize(
                    self.handle,
                    operation(kernel),
                    one,
                    matrix.0,
                    *x,
                    one,
                    *y,
                    data,
                    cusparseSpMVAlg_t::CUSPARSE_SPMV_ALG_DEFAULT,
                    &mut bytes,
                ),
                _ => return Err(INVALID),
            }
        })?;
        Ok(bytes)
    }

    /// Queues a product. The context of the handle is current.
    ///
    /// # Errors
    /// Refused; no operation that changes an operand was queued.
    ///
    /// # Safety
    /// As `Backend::multiply_csr`.
    pub(super) unsafe fn launch(&mut self, kernel: &CsrKernel) -> Result<(), Status> {
        let at = [
            kernel.offsets,
            kernel.columns,
            kernel.values,
            kernel.scratch,
        ];
        if self.known.len() >= MOST && !self.known.contains_key(&kernel.pattern) {
            self.known.clear();
        }
        let known = match self.known.remove(&kernel.pattern) {
            Some(known) if known.at == at => known,
            _ => Known {
                matrix: Described::new(kernel)?,
                at,
                prepared: false,
            },
        };
        let known = self.known.entry(kernel.pattern).or_insert(known);
        let (x, y) = (Dense::new(kernel, true)?, Dense::new(kernel, false)?);
        let (alpha, beta) = (
            Scalar::of(kernel.dtype, kernel.alpha),
            Scalar::of(kernel.dtype, kernel.beta),
        );
        let alpha: *const c_void = (&raw const alpha).cast();
        let beta: *const c_void = (&raw const beta).cast();
        let (op, data) = (operation(kernel), data_type(kernel.dtype));
        let scratch = pointer(kernel.scratch);
        let algorithm = cusparseSpMVAlg_t::CUSPARSE_SPMV_ALG_DEFAULT;
        // SAFETY: live descriptors of memory that the caller vouches for; scalars are read during the calls.
        unsafe {
            match (&x, &y) {
                (Dense::Matrix(x), Dense::Matrix(y)) => check(sys::cusparseSpMM(
                    self.handle,
                    op,
                    cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE,
                    alpha,
                    known.matrix.0,
                    *x,
                    beta,
                    *y,
                    data,
                    cusparseSpMMAlg_t::CUSPARSE_SPMM_ALG_DEFAULT,
                    scratch,
                )),
                (Dense::Vector(x), Dense::Vector(y)) => {
                    let matrix = known.matrix.0;
                    // After an error the caller takes the scratch memory for what it was before.
                    if !core::mem::take(&mut known.prepared) {
                        check(sys::cusparseSpMV_preprocess(
                            self.handle,
                            op,
                            alpha,
                            matrix,
                            *x,
                            beta,
                            *y,
                            data,
                            algorithm,
                            scratch,
                        ))?;
                    }
                    check(sys::cusparseSpMV(
                        self.handle,
                        op,
                        alpha,
                        matrix,
                        *x,
                        beta,
                        *y,
                        data,
                        algorithm,
                        scratch,
                    ))?;
                    known.prepared = true;
                    Ok(())
                }
                _ => Err(INVALID),
            }
        }
    }
}
