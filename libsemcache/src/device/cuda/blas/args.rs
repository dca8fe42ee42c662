//! The arguments of a kernel as cuBLAS takes them, and its answers.

use core::ffi::{c_int, c_void};
use core::ptr;

use cudarc::cublas::sys::{
    self, cublasDiagType_t, cublasFillMode_t, cublasOperation_t, cublasSideMode_t, cublasStatus_t,
};

use super::super::driver::Status;
use crate::base::{Diag, Form, Op, Side, Uplo, Value};
use crate::device::api::{Kernel, Operand};

/// Added to cuBLAS's statuses, so that they differ from the driver's.
const CUBLAS: i32 = 10_000;

/// `CUBLAS_STATUS_INVALID_VALUE`
pub(super) const INVALID: Status = Status(CUBLAS + 7);

pub(super) type Result = core::result::Result<(), Status>;

pub(super) fn check(r: cublasStatus_t) -> Result {
    match r {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(Status(CUBLAS + other as i32)),
    }
}

pub(super) fn int(n: impl TryInto<c_int>) -> core::result::Result<c_int, Status> {
    n.try_into().map_err(|_| INVALID)
}

pub(super) fn ptr_of(addr: u64) -> *mut c_void {
    // This code never dereferences the pointer.
    ptr::without_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

/// A scalar in the form that the functions of one element type take.
pub(super) trait Element {
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
pub(super) struct Args {
    pub(super) side: cublasSideMode_t,
    pub(super) fill: cublasFillMode_t,
    pub(super) diag: cublasDiagType_t,
    pub(super) op_a: cublasOperation_t,
    pub(super) op_b: cublasOperation_t,
    pub(super) m: c_int,
    pub(super) n: c_int,
    pub(super) k: c_int,
    /// Address, and leading dimension or increment, of each operand.
    pub(super) at: [(*mut c_void, c_int); 3],
}

impl Args {
    /// # Errors
    /// A size, leading dimension or increment of more than 32 bits.
    pub(super) fn of(kernel: &Kernel) -> core::result::Result<Args, Status> {
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

pub(super) fn turn(op: Op) -> cublasOperation_t {
    match op {
        Op::None => cublasOperation_t::CUBLAS_OP_N,
        Op::Trans => cublasOperation_t::CUBLAS_OP_T,
        Op::ConjTrans => cublasOperation_t::CUBLAS_OP_C,
    }
}

/// Address, and leading dimension or increment, of an operand.
pub(super) fn at(operand: Operand) -> core::result::Result<(*mut c_void, c_int), Status> {
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

pub(super) use {by_type, call};
