//! cuSOLVER: factorizations and solutions of dense systems, queued on the compute stream of one device.
//!
//! The library, of 140 MB, is loaded when a program first calls a solver that devices would compute sooner. Its functions with 64-bit
//! integers serve all element types; products with Q, exchanges of rows and factorizations of symmetric matrices it has by element type,
//! with 32-bit integers.
#![expect(unsafe_code, reason = "calls cuSOLVER")]

use core::ffi::{c_int, c_void};
use core::ptr;

use cudarc::cusolver::sys::{
    self, cublasFillMode_t, cublasOperation_t, cublasSideMode_t, cudaDataType, cusolverDnHandle_t,
    cusolverDnParams_t, cusolverStatus_t,
};

use super::driver::{self, CUstream, End, Status};
use crate::base::dense::{DenseKernel, Step};
use crate::base::{Dtype, Op, Side, Uplo};
use crate::device::api::Shape;

/// The functions that cuSOLVER must export.
pub(super) const FUNCTIONS: &[&str] = &[
    "cusolverDnCreate",
    "cusolverDnSetStream",
    "cusolverDnCreateParams",
    "cusolverDnXgetrf_bufferSize",
    "cusolverDnXgetrf",
    "cusolverDnXgetrs",
    "cusolverDnXpotrf_bufferSize",
    "cusolverDnXpotrf",
    "cusolverDnXpotrs",
    "cusolverDnXgeqrf_bufferSize",
    "cusolverDnXgeqrf",
    "cusolverDnSormqr_bufferSize",
    "cusolverDnDormqr_bufferSize",
    "cusolverDnCunmqr_bufferSize",
    "cusolverDnZunmqr_bufferSize",
    "cusolverDnSormqr",
    "cusolverDnDormqr",
    "cusolverDnCunmqr",
    "cusolverDnZunmqr",
    "cusolverDnSlaswp",
    "cusolverDnDlaswp",
    "cusolverDnClaswp",
    "cusolverDnZlaswp",
    "cusolverDnSsytrf_bufferSize",
    "cusolverDnDsytrf_bufferSize",
    "cusolverDnCsytrf_bufferSize",
    "cusolverDnZsytrf_bufferSize",
    "cusolverDnSsytrf",
    "cusolverDnDsytrf",
    "cusolverDnCsytrf",
    "cusolverDnZsytrf",
    "cusolverDnXsytrs_bufferSize",
    "cusolverDnXsytrs",
];

/// Added to cuSOLVER's statuses, so that they differ from the driver's, cuBLAS's and cuSPARSE's.
const CUSOLVER: i32 = 30_000;
/// `CUSOLVER_STATUS_INVALID_VALUE`
pub(super) const INVALID: Status = Status(CUSOLVER + 3);

fn check(r: cusolverStatus_t) -> Result<(), Status> {
    match r {
        cusolverStatus_t::CUSOLVER_STATUS_SUCCESS => Ok(()),
        other => Err(Status(CUSOLVER + other as i32)),
    }
}

fn pointer<T>(addr: u64) -> *mut T {
    // This code never dereferences the pointer.
    ptr::without_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

fn count(n: usize) -> Result<i64, Status> {
    i64::try_from(n).map_err(|_| INVALID)
}

fn narrow(n: usize) -> Result<c_int, Status> {
    c_int::try_from(n).map_err(|_| INVALID)
}

/// Calls the function of an element type.
macro_rules! by_type {
    ($dtype:expr, [$s:ident, $d:ident, $c:ident, $z:ident] => $arguments:tt) => {
        match $dtype {
            Dtype::S => sys::$s $arguments,
            Dtype::D => sys::$d $arguments,
            Dtype::C => sys::$c $arguments,
            Dtype::Z => sys::$z $arguments,
        }
    };
}

fn side(of: Side) -> cublasSideMode_t {
    match of {
        Side::Left => cublasSideMode_t::CUBLAS_SIDE_LEFT,
        Side::Right => cublasSideMode_t::CUBLAS_SIDE_RIGHT,
    }
}

fn data_type(dtype: Dtype) -> cudaDataType {
    match dtype {
        Dtype::S => cudaDataType::CUDA_R_32F,
        Dtype::D => cudaDataType::CUDA_R_64F,
        Dtype::C => cudaDataType::CUDA_C_32F,
        Dtype::Z => cudaDataType::CUDA_C_64F,
    }
}

fn triangle(uplo: Uplo) -> cublasFillMode_t {
    match uplo {
        Uplo::Lower => cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
        Uplo::Upper => cublasFillMode_t::CUBLAS_FILL_MODE_UPPER,
    }
}

fn operation(op: Op) -> cublasOperation_t {
    match op {
        Op::None => cublasOperation_t::CUBLAS_OP_N,
        Op::Trans => cublasOperation_t::CUBLAS_OP_T,
        Op::ConjTrans => cublasOperation_t::CUBLAS_OP_C,
    }
}

/// A handle, bound to the compute stream of the context that was current when it was made.
#[derive(Debug)]
pub(super) struct Solver {
    handle: cusolverDnHandle_t,
    stream: CUstream,
    params: cusolverDnParams_t,
    /// Work space in host memory, with the number of the operation in its stream that uses it.
    in_use: Vec<(u64, Box<[u64]>)>,
}

// SAFETY: cuSOLVER's handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Solver {}

impl Solver {
    /// A handle on a stream of the current context.
    ///
    /// # Errors
    /// cuSOLVER's status.
    pub(super) fn new(stream: CUstream) -> Result<Solver, Status> {
        let (mut handle, mut params) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: cuSOLVER is loaded; the handle and the parameters are live locals.
        unsafe {
            check(sys::cusolverDnCreate(&mut handle))?;
            // Handle and stream belong to one context; the two stream types are the same type in CUDA.
            check(sys::cusolverDnSetStream(handle, stream.cast()))?;
            check(sys::cusolverDnCreateParams(&mut params))?;
        }
        Ok(Solver {
            handle,
            stream,
            params,
            in_use: Vec::new(),
        })
    }

    /// Bytes of work space in device memory and in host memory.
    fn space(&self, kernel: &DenseKernel) -> Result<(usize, usize), Status> {
        let (mut device, mut host) = (0, 0);
        let (m, n, ld) = (count(kernel.m)?, count(kernel.n)?, count(kernel.a.ld())?);
        let (a, data) = (pointer::<c_void>(kernel.a.addr), data_type(kernel.dtype));
        // SAFETY: a live handle; cuSOLVER reads nothing at these addresses.
        check(unsafe {
            match kernel.step {
                Step::Lu => sys::cusolverDnXgetrf_bufferSize(
                    self.handle,
                    self.params,
                    m,
                    n,
                    data,
                    a,
                    ld,
                    data,
                    &mut device,
                    &mut host,
                ),
                Step::Cholesky => sys::cusolverDnXpotrf_bufferSize(
                    self.handle,
                    self.params,
                    triangle(kernel.uplo),
                    n,
                    data,
                    a,
                    ld,
                    data,
                    &mut device,
                    &mut host,
                ),
                Step::Qr => sys::cusolverDnXgeqrf_bufferSize(
                    self.handle,
                    self.params,
                    m,
                    n,
                    data,
                    a,
                    ld,
                    data,
                    pointer(kernel.tau),
                    data,
                    &mut device,
                    &mut host,
                ),
                Step::ApplyQ => return self.space_of_product(kernel),
                Step::Symmetric => return self.space_of_symmetric(kernel),
                Step::SymmetricSolve => sys::cusolverDnXsytrs_bufferSize(
                    self.handle,
                    triangle(kernel.uplo),
                    n,
                    count(kernel.sides)?,
                    data,
                    a,
                    ld,
                    pointer(kernel.pivots),
                    data,
                    pointer(kernel.b.addr),
                    count(kernel.b.ld())?,
                    &mut device,
                    &mut host,
                ),
                Step::Exchange => return Ok((kernel.m.min(kernel.n) * size_of::<c_int>(), 0)),
                Step::LuSolve | Step::CholeskySolve => return Ok((0, 0)),
            }
        })?;
        Ok((device, host))
    }

    /// As [`Solver::space`], of a product with Q.
    fn space_of_product(&self, kernel: &DenseKernel) -> Result<(usize, usize), Status> {
        let (rows, cols) = kernel.b_size();
        let (m, n, k) = (narrow(rows)?, narrow(cols)?, narrow(kernel.n)?);
        let (lda, ldb) = (narrow(kernel.a.ld())?, narrow(kernel.b.ld())?);
        let (a, b, tau) = (kernel.a.addr, kernel.b.addr, kernel.tau);
        let mut elements = 0;
        // SAFETY: a live handle; cuSOLVER reads nothing at these addresses.
        check(unsafe {
            by_type!(kernel.dtype, [
                cusolverDnSormqr_bufferSize,
                cusolverDnDormqr_bufferSize,
                cusolverDnCunmqr_bufferSize,
                cusolverDnZunmqr_bufferSize
            ] => (
                self.handle, side(kernel.side), operation(kernel.op), m, n, k, pointer(a), lda, pointer(tau), pointer(b), ldb,
                &mut elements
            ))
        })?;
        let elements = usize::try_from(elements).map_err(|_| INVALID)?;
        Ok((elements * kernel.dtype.size(), 0))
    }

    /// As [`Solver::space`], of the factorization of a symmetric matrix.
    fn space_of_symmetric(&self, kernel: &DenseKernel) -> Result<(usize, usize), Status> {
        let (n, ld, a) = (narrow(kernel.n)?, narrow(kernel.a.ld())?, kernel.a.addr);
        let mut elements = 0;
        // SAFETY: a live handle; cuSOLVER reads nothing at this address.
        check(unsafe {
            by_type!(kernel.dtype, [
                cusolverDnSsytrf_bufferSize,
                cusolverDnDsytrf_bufferSize,
                cusolverDnCsytrf_bufferSize,
                cusolverDnZsytrf_bufferSize
            ] => (self.handle, n, pointer(a), ld, &mut elements))
        })?;
        let elements = usize::try_from(elements).map_err(|_| INVALID)?;
        Ok((elements * kernel.dtype.size(), 0))
    }

    /// Bytes of device memory that a kernel needs beside its operands.
    pub(super) fn scratch(&self, kernel: &DenseKernel) -> Result<usize, Status> {
        self.space(kernel).map(|(device, _)| device)
    }

    /// Queues a kernel, which becomes the operation `seq` of its stream, of which those up to `completed` are complete. The context of
    /// the handle is current.
    ///
    /// # Errors
    /// Refused; parts of it may have been queued.
    ///
    /// # Safety
    /// As `Backend::solve`.
    pub(super) unsafe fn launch(
        &mut self,
        kernel: &DenseKernel,
        (completed, seq): (u64, u64),
    ) -> Result<(), Status> {
        let (device, bytes) = self.space(kernel)?;
        if device > kernel.scratch_bytes {
            return Err(INVALID);
        }
        self.in_use.retain(|(by, _)| *by > completed);
        let mut space = vec![0_u64; bytes.div_ceil(size_of::<u64>())].into_boxed_slice();
        let host = match bytes {
            0 => ptr::null_mut(),
            _ => space.as_mut_ptr().cast::<c_void>(),
        };
        if bytes > 0 {
            // Kept even if the launch fails: parts of it may run.
            self.in_use.push((seq, space));
        }
        let (m, n, lda) = (count(kernel.m)?, count(kernel.n)?, count(kernel.a.ld())?);
        let (sides, ldb) = (count(kernel.sides)?, count(kernel.b.ld())?);
        let (a, b) = (
            pointer::<c_void>(kernel.a.addr),
            pointer::<c_void>(kernel.b.addr),
        );
        let (pivots, info) = (pointer::<i64>(kernel.pivots), pointer::<c_int>(kernel.info));
        let (scratch, data) = (pointer::<c_void>(kernel.scratch), data_type(kernel.dtype));
        let (handle, params) = (self.handle, self.params);
        // SAFETY: a live handle, and memory that the caller vouches for.
        check(unsafe {
            match kernel.step {
                Step::Lu => sys::cusolverDnXgetrf(
                    handle, params, m, n, data, a, lda, pivots, data, scratch, device, host, bytes,
                    info,
                ),
                Step::Qr => sys::cusolverDnXgeqrf(
                    handle,
                    params,
                    m,
                    n,
                    data,
                    a,
                    lda,
                    data,
                    pointer(kernel.tau),
                    data,
                    scratch,
                    device,
                    host,
                    bytes,
                    info,
                ),
                Step::ApplyQ => {
                    let (rows, cols) = kernel.b_size();
                    let (a, b, tau) = (kernel.a, kernel.b, kernel.tau);
                    by_type!(kernel.dtype, [cusolverDnSormqr, cusolverDnDormqr, cusolverDnCunmqr, cusolverDnZunmqr] => (
                        handle, side(kernel.side), operation(kernel.op), narrow(rows)?, narrow(cols)?, narrow(kernel.n)?,
                        pointer(a.addr), narrow(a.ld())?, pointer(tau), pointer(b.addr), narrow(b.ld())?,
                        pointer(kernel.scratch), narrow(device / kernel.dtype.size())?, info
                    ))
                }
                Step::Exchange => return self.exchange(kernel),
                Step::Symmetric => {
                    by_type!(kernel.dtype, [cusolverDnSsytrf, cusolverDnDsytrf, cusolverDnCsytrf, cusolverDnZsytrf] => (
                        handle, triangle(kernel.uplo), narrow(kernel.n)?, pointer(kernel.a.addr), narrow(kernel.a.ld())?,
                        pointer(kernel.pivots), pointer(kernel.scratch), narrow(device / kernel.dtype.size())?, info
                    ))
                }
                Step::SymmetricSolve => sys::cusolverDnXsytrs(
                    handle,
                    triangle(kernel.uplo),
                    n,
                    sides,
                    data,
                    a,
                    lda,
                    pivots,
                    data,
                    b,
                    ldb,
                    scratch,
                    device,
                    host,
                    bytes,
                    info,
                ),
                Step::LuSolve => sys::cusolverDnXgetrs(
                    handle,
                    params,
                    operation(kernel.op),
                    n,
                    sides,
                    data,
                    a,
                    lda,
                    pivots,
                    data,
                    b,
                    ldb,
                    info,
                ),
                Step::Cholesky => sys::cusolverDnXpotrf(
                    handle,
                    params,
                    triangle(kernel.uplo),
                    n,
                    data,
                    a,
                    lda,
                    data,
                    scratch,
                    device,
                    host,
                    bytes,
                    info,
                ),
                Step::CholeskySolve => sys::cusolverDnXpotrs(
                    handle,
                    params,
                    triangle(kernel.uplo),
                    n,
                    sides,
                    data,
                    a,
                    lda,
                    data,
                    b,
                    ldb,
                    info,
                ),
            }
        })
    }

    /// Queues exchanges of rows by pivots with 64 bits, whose lower halves are copied side by side first.
    ///
    /// # Safety
    /// As [`Solver::launch`]; there is enough scratch memory.
    unsafe fn exchange(&self, kernel: &DenseKernel) -> Result<(), Status> {
        const HALF: usize = size_of::<c_int>();
        let pivots = kernel.m.min(kernel.n);
        let lower = kernel.pivots
            + if cfg!(target_endian = "big") {
                HALF as u64
            } else {
                0
            };
        let halves = Shape {
            width: HALF,
            count: pivots,
        };
        let (ld, last) = (narrow(kernel.b.ld())?, narrow(pivots)?);
        // As many columns at a time as have elements whose numbers have 31 bits.
        let most = (i32::MAX as usize / kernel.b.ld().max(1)).max(1);
        // SAFETY: a live handle and its stream, and memory that the caller vouches for: the pivots, which are rows of B and so have 32
        // bits, B, and as many integers of scratch memory as there are pivots.
        unsafe {
            driver::copy(
                (End::Device(kernel.scratch), HALF),
                (End::Device(lower), DenseKernel::PIVOT),
                halves,
                self.stream,
            )?;
            for first in (0..kernel.sides).step_by(most) {
                let cols = narrow(most.min(kernel.sides - first))?;
                let at = kernel.b.addr + (first * kernel.b.ld() * kernel.dtype.size()) as u64;
                check(
                    by_type!(kernel.dtype, [cusolverDnSlaswp, cusolverDnDlaswp, cusolverDnClaswp, cusolverDnZlaswp] => (
                        self.handle, cols, pointer(at), ld, 1, last, pointer(kernel.scratch), 1
                    )),
                )?;
            }
            Ok(())
        }
    }
}
