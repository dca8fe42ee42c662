//! cuBLAS: the kernels of [`Kernel`], queued on the compute stream of one device.
//!
//! Results of reductions are written to device addresses, scalars are read at the call. Sizes, leading
//! dimensions and increments beyond 32 bits are refused, and so end on the host.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use core::ffi::{c_int, c_void};
use core::ptr;

use cudarc::cublas::sys::{
    self, cublasHandle_t, cublasOperation_t, cublasPointerMode_t, cublasStatus_t,
};

use super::driver::{self, CUstream, Status};
use crate::base::{Dtype, Op, Value};
use crate::device::api::{DevMat, DevVec, Kernel};

/// A handle, bound to one stream of the context that was current when it was made.
#[derive(Debug)]
pub(super) struct Blas {
    handle: cublasHandle_t,
    stream: CUstream,
    /// The handle reads and writes scalars on the device.
    on_device: bool,
    aside: aside::Aside,
}

// SAFETY: cuBLAS handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Blas {}

/// Calls within this module report cuBLAS's statuses above this, so that they do not meet the driver's.
const CUBLAS: i32 = 10_000;
/// `CUBLAS_STATUS_INVALID_VALUE`
const INVALID: Status = Status(CUBLAS + 7);

type Result = core::result::Result<(), Status>;

fn check(r: cublasStatus_t) -> Result {
    match r {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(Status(CUBLAS + other as i32)),
    }
}

fn int(n: usize) -> core::result::Result<c_int, Status> {
    c_int::try_from(n).map_err(|_| INVALID)
}

fn ptr_of<T>(addr: u64) -> *mut T {
    // Never dereferenced here.
    ptr::without_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

fn op(op: Op) -> cublasOperation_t {
    match op {
        Op::None => cublasOperation_t::CUBLAS_OP_N,
        Op::Trans => cublasOperation_t::CUBLAS_OP_T,
        Op::ConjTrans => cublasOperation_t::CUBLAS_OP_C,
    }
}

/// A scalar in the form that the functions of one element type take.
trait Element: Copy {
    fn of(v: Value) -> Self;
}
impl Element for f32 {
    fn of(v: Value) -> f32 {
        v.re as f32
    }
}
impl Element for f64 {
    fn of(v: Value) -> f64 {
        v.re
    }
}
impl Element for sys::cuComplex {
    fn of(v: Value) -> Self {
        Self {
            x: v.re as f32,
            y: v.im as f32,
        }
    }
}
impl Element for sys::cuDoubleComplex {
    fn of(v: Value) -> Self {
        Self { x: v.re, y: v.im }
    }
}

/// The arguments of a vector: address and increment.
fn vec<T>(v: DevVec) -> core::result::Result<(*mut T, c_int), Status> {
    Ok((ptr_of(v.addr), c_int::try_from(v.inc).map_err(|_| INVALID)?))
}

/// The arguments of a matrix: address and leading dimension.
fn mat<T>(m: DevMat) -> core::result::Result<(*mut T, c_int), Status> {
    Ok((ptr_of(m.addr), int(m.ld)?))
}

/// Calls the function of an element type: `by_type!(dtype, self, [S, D, C, Z functions], T => (arguments))`.
macro_rules! by_type {
    ($dtype:expr, [$s:ident, $d:ident, $c:ident, $z:ident], $t:ident => ($($arg:expr),* $(,)?)) => {
        match $dtype {
            Dtype::S => { type $t = f32; by_type!(@ $s($($arg),*)) }
            Dtype::D => { type $t = f64; by_type!(@ $d($($arg),*)) }
            Dtype::C => { type $t = sys::cuComplex; by_type!(@ $c($($arg),*)) }
            Dtype::Z => { type $t = sys::cuDoubleComplex; by_type!(@ $z($($arg),*)) }
        }
    };
    (@ $f:ident($($arg:expr),*)) => {
        // SAFETY: cuBLAS is loaded and exports the function; device addresses are those of the kernel, which the
        // caller of `launch` vouches for; scalars are live locals, read before the call returns.
        check(unsafe { sys::$f($($arg),*) })
    };
}

/// As `by_type`, for functions that take real scalars: `T` is the element type, `R` the real one. Of the real element
/// types, which have no Hermitian functions, the symmetric ones are the same.
macro_rules! with_reals {
    ($dtype:expr, [$s:ident, $d:ident, $c:ident, $z:ident], $t:ident, $r:ident => ($($arg:expr),* $(,)?)) => {
        match $dtype {
            Dtype::S => { type $t = f32; type $r = f32; by_type!(@ $s($($arg),*)) }
            Dtype::D => { type $t = f64; type $r = f64; by_type!(@ $d($($arg),*)) }
            Dtype::C => { type $t = sys::cuComplex; type $r = f32; by_type!(@ $c($($arg),*)) }
            Dtype::Z => { type $t = sys::cuDoubleComplex; type $r = f64; by_type!(@ $z($($arg),*)) }
        }
    };
}

mod aside;
mod gemmt;
mod level2;
mod level3;

impl Blas {
    /// A handle on a stream of the current context, on a device of which so much memory is ours to use.
    ///
    /// # Errors
    /// cuBLAS's status.
    pub(super) fn new(stream: CUstream, memory: usize) -> core::result::Result<Blas, Status> {
        let mut handle = ptr::null_mut();
        // SAFETY: loaded; the handle is a live local.
        check(unsafe { sys::cublasCreate_v2(&mut handle) })?;
        // SAFETY: a handle and a stream of one context; the two stream types are one in CUDA.
        check(unsafe { sys::cublasSetStream_v2(handle, stream.cast()) })?;
        Ok(Blas {
            handle,
            stream,
            on_device: false,
            aside: aside::Aside::new(memory),
        })
    }

    /// The version, e.g. 130002.
    pub(super) fn version(&self) -> i32 {
        let mut v: c_int = 0;
        // SAFETY: a live handle and a live local.
        match check(unsafe { sys::cublasGetVersion_v2(self.handle, &mut v) }) {
            Ok(()) => v,
            Err(_) => 0,
        }
    }

    fn results_on_device(&mut self, yes: bool) -> Result {
        if self.on_device != yes {
            let mode = if yes {
                cublasPointerMode_t::CUBLAS_POINTER_MODE_DEVICE
            } else {
                cublasPointerMode_t::CUBLAS_POINTER_MODE_HOST
            };
            // SAFETY: a live handle.
            check(unsafe { sys::cublasSetPointerMode_v2(self.handle, mode) })?;
            self.on_device = yes;
        }
        Ok(())
    }

    /// Queues a kernel. The context of the handle is current.
    ///
    /// # Errors
    /// Refused; nothing was queued that changes an operand.
    ///
    /// # Safety
    /// As `Backend::launch`.
    pub(super) unsafe fn launch(&mut self, kernel: &Kernel) -> Result {
        let reduces = matches!(
            kernel,
            Kernel::Dot { .. } | Kernel::Nrm2 { .. } | Kernel::Asum { .. } | Kernel::Iamax { .. }
        );
        self.results_on_device(reduces)?;
        match *kernel {
            Kernel::Gemm { .. } | Kernel::Gemv { .. } | Kernel::Ger { .. } => self.matrix(kernel),
            Kernel::Symm { .. }
            | Kernel::Syrk { .. }
            | Kernel::Syr2k { .. }
            | Kernel::Trmm { .. }
            | Kernel::Trsm { .. } => self.level3(kernel),
            Kernel::Symv { .. }
            | Kernel::Trmv { .. }
            | Kernel::Trsv { .. }
            | Kernel::Syr { .. }
            | Kernel::Syr2 { .. } => self.level2(kernel),
            Kernel::Rot { .. } | Kernel::Rotm { .. } => self.rotation(kernel),
            Kernel::Gemmt { .. } => self.gemmt(kernel),
            Kernel::Axpy { .. }
            | Kernel::Scal { .. }
            | Kernel::Copy { .. }
            | Kernel::Swap { .. } => self.vector(kernel),
            _ => self.reduction(kernel),
        }
    }

    fn matrix(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        match *kernel {
            Kernel::Gemm {
                dtype,
                op_a,
                op_b,
                m,
                n,
                k,
                alpha,
                a,
                b,
                beta,
                c,
            } => {
                let (m, n, k) = (int(m)?, int(n)?, int(k)?);
                by_type!(dtype, [cublasSgemm_v2, cublasDgemm_v2, cublasCgemm_v2, cublasZgemm_v2], T => (
                    h, op(op_a), op(op_b), m, n, k,
                    &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, mat::<T>(b)?.0, mat::<T>(b)?.1,
                    &T::of(beta), mat::<T>(c)?.0, mat::<T>(c)?.1,
                ))
            }
            Kernel::Gemv {
                dtype,
                op: trans,
                m,
                n,
                alpha,
                a,
                x,
                beta,
                y,
            } => {
                let (m, n) = (int(m)?, int(n)?);
                by_type!(dtype, [cublasSgemv_v2, cublasDgemv_v2, cublasCgemv_v2, cublasZgemv_v2], T => (
                    h, op(trans), m, n,
                    &T::of(alpha), mat::<T>(a)?.0, mat::<T>(a)?.1, vec::<T>(x)?.0, vec::<T>(x)?.1,
                    &T::of(beta), vec::<T>(y)?.0, vec::<T>(y)?.1,
                ))
            }
            Kernel::Ger {
                dtype,
                conj,
                m,
                n,
                alpha,
                x,
                y,
                a,
            } => {
                let (m, n) = (int(m)?, int(n)?);
                if conj {
                    by_type!(dtype, [cublasSger_v2, cublasDger_v2, cublasCgerc_v2, cublasZgerc_v2], T => (
                        h, m, n, &T::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1,
                        mat::<T>(a)?.0, mat::<T>(a)?.1,
                    ))
                } else {
                    by_type!(dtype, [cublasSger_v2, cublasDger_v2, cublasCgeru_v2, cublasZgeru_v2], T => (
                        h, m, n, &T::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1,
                        mat::<T>(a)?.0, mat::<T>(a)?.1,
                    ))
                }
            }
            _ => Err(INVALID),
        }
    }

    fn vector(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        match *kernel {
            Kernel::Axpy {
                dtype,
                n,
                alpha,
                x,
                y,
            } => {
                by_type!(dtype, [cublasSaxpy_v2, cublasDaxpy_v2, cublasCaxpy_v2, cublasZaxpy_v2], T => (
                    h, int(n)?, &T::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1,
                ))
            }
            // A scalar without imaginary part scales the components: Inf must not meet its zero.
            Kernel::Scal {
                dtype: Dtype::C,
                n,
                alpha,
                x,
            } if alpha.im == 0.0 => {
                let (x, inc) = vec::<sys::cuComplex>(x)?;
                by_type!(@ cublasCsscal_v2(h, int(n)?, &(alpha.re as f32), x, inc))
            }
            Kernel::Scal {
                dtype: Dtype::Z,
                n,
                alpha,
                x,
            } if alpha.im == 0.0 => {
                let (x, inc) = vec::<sys::cuDoubleComplex>(x)?;
                by_type!(@ cublasZdscal_v2(h, int(n)?, &alpha.re, x, inc))
            }
            Kernel::Scal { dtype, n, alpha, x } => {
                by_type!(dtype, [cublasSscal_v2, cublasDscal_v2, cublasCscal_v2, cublasZscal_v2], T => (
                    h, int(n)?, &T::of(alpha), vec::<T>(x)?.0, vec::<T>(x)?.1,
                ))
            }
            Kernel::Copy { dtype, n, x, y } => {
                by_type!(dtype, [cublasScopy_v2, cublasDcopy_v2, cublasCcopy_v2, cublasZcopy_v2], T => (
                    h, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1,
                ))
            }
            Kernel::Swap { dtype, n, x, y } => {
                by_type!(dtype, [cublasSswap_v2, cublasDswap_v2, cublasCswap_v2, cublasZswap_v2], T => (
                    h, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1,
                ))
            }
            _ => Err(INVALID),
        }
    }

    fn reduction(&mut self, kernel: &Kernel) -> Result {
        let h = self.handle;
        match *kernel {
            Kernel::Dot {
                dtype,
                conj: false,
                n,
                x,
                y,
                out,
            } => {
                by_type!(dtype, [cublasSdot_v2, cublasDdot_v2, cublasCdotu_v2, cublasZdotu_v2], T => (
                    h, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1, ptr_of(out),
                ))
            }
            Kernel::Dot {
                dtype,
                n,
                x,
                y,
                out,
                ..
            } => {
                by_type!(dtype, [cublasSdot_v2, cublasDdot_v2, cublasCdotc_v2, cublasZdotc_v2], T => (
                    h, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, vec::<T>(y)?.0, vec::<T>(y)?.1, ptr_of(out),
                ))
            }
            Kernel::Nrm2 { dtype, n, x, out } => {
                by_type!(dtype, [cublasSnrm2_v2, cublasDnrm2_v2, cublasScnrm2_v2, cublasDznrm2_v2], T => (
                    h, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, ptr_of(out),
                ))
            }
            Kernel::Asum { dtype, n, x, out } => {
                by_type!(dtype, [cublasSasum_v2, cublasDasum_v2, cublasScasum_v2, cublasDzasum_v2], T => (
                    h, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, ptr_of(out),
                ))
            }
            Kernel::Iamax { dtype, n, x, out } => {
                // cuBLAS writes 32 bits of the 64 that are wanted.
                // SAFETY: the caller vouches for the eight bytes at `out`.
                unsafe { driver::clear(out, size_of::<i64>(), self.stream) }?;
                by_type!(dtype, [cublasIsamax_v2, cublasIdamax_v2, cublasIcamax_v2, cublasIzamax_v2], T => (
                    h, int(n)?, vec::<T>(x)?.0, vec::<T>(x)?.1, ptr_of(out),
                ))
            }
            _ => Err(INVALID),
        }
    }
}

/// Keeps the pointer type of the stream and of cuBLAS's the same size.
const _: () = assert!(size_of::<CUstream>() == size_of::<*mut c_void>());
