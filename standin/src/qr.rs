//! Stand-in for the `cusolverDn` functions that factor by QR, with 64-bit integers, and multiply by the Q of such factors, by element
//! type and with 32-bit integers.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::dense::{DenseKernel, Step};
use semcache::base::{Dtype, Op, Side};

use crate::blas;
use crate::dense::{
    Space, call, call_with, common, launch_in, matrix, put_elements, put_space, step,
};
use crate::level3;
use crate::names::{Outcome, Status};

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn factor_space(
    handle: usize,
    params: usize,
    m: i64,
    n: i64,
    type_a: c_int,
    _a: u64,
    lda: i64,
    type_tau: c_int,
    _tau: u64,
    compute: c_int,
    device: *mut usize,
    host: *mut usize,
) -> Outcome {
    call_with(handle, params)?;
    let dtype = common(&[type_a, type_tau, compute])?;
    let kernel = step(Step::Qr, dtype, [m, n, 0])?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_space(&kernel, lda, [device, host]) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn factor(
    handle: usize,
    params: usize,
    m: i64,
    n: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    type_tau: c_int,
    tau: u64,
    compute: c_int,
    device: u64,
    device_bytes: usize,
    host: *mut c_void,
    host_bytes: usize,
    info: u64,
) -> Outcome {
    let call = call_with(handle, params)?;
    let dtype = common(&[type_a, type_tau, compute])?;
    let kernel = step(Step::Qr, dtype, [m, n, 0])?;
    let kernel = DenseKernel {
        a: matrix(a, lda, (kernel.m, kernel.n))?,
        tau,
        info,
        ..kernel
    };
    let space = Space {
        device: (device, device_bytes),
        host: (host, host_bytes),
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { launch_in(call, kernel, &space) }
}

/// The transposition of Q: real types know the transpose, complex ones the conjugate transpose.
fn turn(code: c_int, dtype: Dtype) -> Outcome<Op> {
    match (blas::op(code)?, dtype.is_complex()) {
        (Op::ConjTrans, false) | (Op::Trans, true) => Err(Status::InvalidValue),
        (op, _) => Ok(op),
    }
}

/// A product with Q without addresses: C has `m` rows and `n` columns, Q has `k` reflectors.
fn product_of(dtype: Dtype, flags: [c_int; 2], sizes: [c_int; 3]) -> Outcome<DenseKernel> {
    let (side, op) = (level3::side(flags[0])?, turn(flags[1], dtype)?);
    let [m, n, k] = sizes.map(i64::from);
    let (order, sides) = match side {
        Side::Left => (m, n),
        Side::Right => (n, m),
    };
    let kernel = DenseKernel {
        side,
        op,
        ..step(Step::ApplyQ, dtype, [order, k, sides])?
    };
    if kernel.n > kernel.m {
        return Err(Status::InvalidValue);
    }
    Ok(kernel)
}

/// Stores the size of the work space, in elements; the matrices may be null, as nothing is read.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn product_space(
    dtype: Dtype,
    handle: usize,
    side: c_int,
    op: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    _a: u64,
    lda: c_int,
    _tau: u64,
    _c: u64,
    ldc: c_int,
    elements: *mut c_int,
) -> Outcome {
    call(handle)?;
    let kernel = product_of(dtype, [side, op], [m, n, k])?;
    matrix(0, lda.into(), (kernel.m, 0))?;
    matrix(0, ldc.into(), (kernel.b_size().0, 0))?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_elements(&kernel, elements) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn product(
    dtype: Dtype,
    handle: usize,
    side: c_int,
    op: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    a: u64,
    lda: c_int,
    tau: u64,
    c: u64,
    ldc: c_int,
    work: u64,
    elements: c_int,
    info: u64,
) -> Outcome {
    let call = call(handle)?;
    let kernel = product_of(dtype, [side, op], [m, n, k])?;
    let kernel = DenseKernel {
        a: matrix(a, lda.into(), (kernel.m, kernel.n))?,
        b: matrix(c, ldc.into(), kernel.b_size())?,
        tau,
        info,
        ..kernel
    };
    let space = Space::of(work, elements, dtype)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { launch_in(call, kernel, &space) }
}
