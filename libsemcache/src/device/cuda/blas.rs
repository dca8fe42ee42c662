//! cuBLAS: the kernels of [`Kernel`], queued on the compute stream of one device.
//!
//! Results of reductions are written to device addresses; scalars are read during the call. Sizes, leading dimensions
//! and increments beyond 32 bits are refused, and such calls run on the host BLAS.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use core::ffi::{c_int, c_void};
use core::ptr;

use cudarc::cublas::sys::{
    self, cublasDiagType_t, cublasFillMode_t, cublasHandle_t, cublasOperation_t,
    cublasPointerMode_t, cublasSideMode_t, cublasStatus_t,
};

use super::driver::{self, CUstream, Status};
use crate::base::{Diag, Form, Op, Side, Uplo, Value};
use crate::device::api::{Kernel, Operand};

/// A handle, bound to one stream of the context that was current when it was made.
#[derive(Debug)]
pub(super) struct Blas {
    handle: cublasHandle_t,
    stream: CUstream,
    /// Whether the handle reads and writes scalars in device memory.
    on_device: bool,
    aside: aside::Aside,
}

// SAFETY: cuBLAS handles may be used by any thread, one at a time: every use takes `&mut self`.
unsafe impl Send for Blas {}

/// Added to cuBLAS's statuses, so that they differ from the driver's.
const CUBLAS: i32 = 10_000;
/// `CUBLAS_STATUS_INVALID_VALUE`
const INVALID: Status = Status(CUBLAS + 7);

/// The functions of cuBLAS that are called in this file.
const OWN: &[&str] = &[
    "cublasCreate_v2",
    "cublasGetVersion_v2",
    "cublasSetStream_v2",
    "cublasSetPointerMode_v2",
];

/// The functions that cuBLAS must export: all that this file and those below it call.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    let lists = [OWN, geam::FUNCTIONS, level1::FUNCTIONS, level2::FUNCTIONS];
    let all = lists.into_iter().chain(level3::FUNCTIONS.iter().copied());
    all.flatten().copied()
}

type Result = core::result::Result<(), Status>;

fn check(r: cublasStatus_t) -> Result {
    match r {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(Status(CUBLAS + other as i32)),
    }
}

fn int(n: impl TryInto<c_int>) -> core::result::Result<c_int, Status> {
    n.try_into().map_err(|_| INVALID)
}

fn ptr_of(addr: u64) -> *mut c_void {
    // This code never dereferences the pointer.
    ptr::without_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

/// A scalar in the form that the functions of one element type take.
trait Element {
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

/// A kernel's arguments as cuBLAS takes them.
struct Args {
    side: cublasSideMode_t,
    fill: cublasFillMode_t,
    diag: cublasDiagType_t,
    op_a: cublasOperation_t,
    op_b: cublasOperation_t,
    m: c_int,
    n: c_int,
    k: c_int,
    /// Address, and leading dimension or increment, of each operand.
    at: [(*mut c_void, c_int); 3],
}

impl Args {
    /// # Errors
    /// A size, leading dimension or increment of more than 32 bits.
    fn of(kernel: &Kernel) -> core::result::Result<Args, Status> {
        let Form { side, uplo, diag } = kernel.form;
        let [a, b, c] = kernel.at;
        Ok(Args {
            side: match side {
                Side::Left => cublasSideMode_t::CUBLAS_SIDE_LEFT,
                Side::Right => cublasSideMode_t::CUBLAS_SIDE_RIGHT,
            },
            fill: match uplo {
                Uplo::Lower => cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
                Uplo::Upper => cublasFillMode_t::CUBLAS_FILL_MODE_UPPER,
            },
            diag: match diag {
                Diag::NonUnit => cublasDiagType_t::CUBLAS_DIAG_NON_UNIT,
                Diag::Unit => cublasDiagType_t::CUBLAS_DIAG_UNIT,
            },
            op_a: turn(kernel.op_a),
            op_b: turn(kernel.op_b),
            m: int(kernel.m)?,
            n: int(kernel.n)?,
            k: int(kernel.k)?,
            at: [at(a)?, at(b)?, at(c)?],
        })
    }
}

fn turn(op: Op) -> cublasOperation_t {
    match op {
        Op::None => cublasOperation_t::CUBLAS_OP_N,
        Op::Trans => cublasOperation_t::CUBLAS_OP_T,
        Op::ConjTrans => cublasOperation_t::CUBLAS_OP_C,
    }
}

/// Address, and leading dimension or increment, of an operand.
fn at(operand: Operand) -> core::result::Result<(*mut c_void, c_int), Status> {
    Ok((ptr_of(operand.addr), int(operand.step)?))
}

/// Calls the function of an element type: `by_type!(dtype, [S, D, C, Z functions] => (arguments))`. The type of each
/// function decides what pointers are cast to (`cast`) and scalars are converted to (`Element::of`).
macro_rules! by_type {
    ($dtype:expr, [$s:ident, $d:ident, $c:ident, $z:ident] => $args:tt) => {
        match $dtype {
            Dtype::S => call!($s => $args),
            Dtype::D => call!($d => $args),
            Dtype::C => call!($c => $args),
            Dtype::Z => call!($z => $args),
        }
    };
}

/// Calls one function of cuBLAS.
macro_rules! call {
    ($f:ident => $args:tt) => {
        // SAFETY: cuBLAS is loaded and exports the function; device addresses are those of the kernel, which the caller
        // of `launch` vouches for, or lie in scratch memory; scalars live until the call returns, and cuBLAS reads them
        // before that.
        check(unsafe { sys::$f $args })
    };
}

mod aside;
mod geam;
mod level1;
mod level2;
mod level3;

impl Blas {
    /// A handle on a stream of the current context, on a device of which semcache may use `memory` bytes.
    ///
    /// # Errors
    /// cuBLAS's status.
    pub(super) fn new(stream: CUstream, memory: usize) -> core::result::Result<Blas, Status> {
        let mut handle = ptr::null_mut();
        // SAFETY: cuBLAS is loaded; the handle is a live local.
        check(unsafe { sys::cublasCreate_v2(&mut handle) })?;
        // SAFETY: handle and stream belong to one context; the two stream types are the same type in CUDA.
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
    /// Refused; no operation that changes an operand was queued.
    ///
    /// # Safety
    /// As `Backend::launch`.
    pub(super) unsafe fn launch(&mut self, kernel: &Kernel) -> Result {
        self.results_on_device(kernel.routine.reduces())?;
        let args = Args::of(kernel)?;
        match kernel.routine.level() {
            3 => self.level3(kernel, &args),
            2 => self.level2(kernel, &args),
            _ => self.level1(kernel, &args),
        }
    }
}

/// Checks at compile time that the stream types of the driver's and of cuBLAS's bindings have the same size.
const _: () = assert!(size_of::<CUstream>() == size_of::<*mut c_void>());

#[cfg(test)]
mod tests;
