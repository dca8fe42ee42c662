//! Stand-in for the `cusolverDn` functions with 64-bit integers that factor by LU and Cholesky and solve by these factors, and for those
//! that make the handles and parameters of all `cusolverDn` functions.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::dense::{DenseKernel, Step};

use crate::blas;
use crate::dense::{Space, call_with, common, launch, launch_in, matrix, put_space, step};
use crate::level3;
use crate::names::{Outcome, Status};
use crate::platform::put;
use crate::state::{Handle, lock};

pub(crate) unsafe fn create(handle: *mut usize) -> Outcome {
    let mut state = lock()?;
    let context = state.current()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(handle, number)? };
    let fresh = Handle {
        context,
        stream: 0,
        device_pointers: false,
    };
    state.solver_handles.insert(number, fresh);
    Ok(())
}

pub(crate) fn set_stream(handle: usize, stream: usize) -> Outcome {
    let mut state = lock()?;
    let known = state.solver_handles.get_mut(&handle);
    known.ok_or(Status::InvalidHandle)?.stream = stream;
    Ok(())
}

/// Parameters belong to no context.
pub(crate) unsafe fn create_params(params: *mut usize) -> Outcome {
    let mut state = lock()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(params, number)? };
    state.solver_params.insert(number);
    Ok(())
}

/// A factorization by LU, without its work space and what else it writes.
fn lu_of(m: i64, n: i64, types: &[c_int]) -> Outcome<DenseKernel> {
    step(Step::Lu, common(types)?, [m, n, 0])
}

/// As [`lu_of`], by Cholesky.
fn cholesky_of(uplo: c_int, n: i64, types: &[c_int]) -> Outcome<DenseKernel> {
    Ok(DenseKernel {
        uplo: level3::uplo(uplo)?,
        ..step(Step::Cholesky, common(types)?, [n, n, 0])?
    })
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn lu_space(
    handle: usize,
    params: usize,
    m: i64,
    n: i64,
    type_a: c_int,
    _a: u64,
    lda: i64,
    compute: c_int,
    device: *mut usize,
    host: *mut usize,
) -> Outcome {
    call_with(handle, params)?;
    let kernel = lu_of(m, n, &[type_a, compute])?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_space(&kernel, lda, [device, host]) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn cholesky_space(
    handle: usize,
    params: usize,
    uplo: c_int,
    n: i64,
    type_a: c_int,
    _a: u64,
    lda: i64,
    compute: c_int,
    device: *mut usize,
    host: *mut usize,
) -> Outcome {
    call_with(handle, params)?;
    let kernel = cholesky_of(uplo, n, &[type_a, compute])?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_space(&kernel, lda, [device, host]) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn lu(
    handle: usize,
    params: usize,
    m: i64,
    n: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    pivots: u64,
    compute: c_int,
    device: u64,
    device_bytes: usize,
    host: *mut c_void,
    host_bytes: usize,
    info: u64,
) -> Outcome {
    let call = call_with(handle, params)?;
    let kernel = lu_of(m, n, &[type_a, compute])?;
    let kernel = DenseKernel {
        a: matrix(a, lda, (kernel.m, kernel.n))?,
        pivots,
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

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn cholesky(
    handle: usize,
    params: usize,
    uplo: c_int,
    n: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    compute: c_int,
    device: u64,
    device_bytes: usize,
    host: *mut c_void,
    host_bytes: usize,
    info: u64,
) -> Outcome {
    let call = call_with(handle, params)?;
    let kernel = cholesky_of(uplo, n, &[type_a, compute])?;
    let kernel = DenseKernel {
        a: matrix(a, lda, (kernel.n, kernel.n))?,
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

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn lu_solve(
    handle: usize,
    params: usize,
    op: c_int,
    n: i64,
    sides: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    pivots: u64,
    type_b: c_int,
    b: u64,
    ldb: i64,
    info: u64,
) -> Outcome {
    let call = call_with(handle, params)?;
    let kernel = step(Step::LuSolve, common(&[type_a, type_b])?, [n, n, sides])?;
    let kernel = DenseKernel {
        op: blas::op(op)?,
        a: matrix(a, lda, (kernel.n, kernel.n))?,
        b: matrix(b, ldb, (kernel.n, kernel.sides))?,
        pivots,
        info,
        ..kernel
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { launch(call, &kernel) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn cholesky_solve(
    handle: usize,
    params: usize,
    uplo: c_int,
    n: i64,
    sides: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    type_b: c_int,
    b: u64,
    ldb: i64,
    info: u64,
) -> Outcome {
    let call = call_with(handle, params)?;
    let kernel = step(
        Step::CholeskySolve,
        common(&[type_a, type_b])?,
        [n, n, sides],
    )?;
    let kernel = DenseKernel {
        uplo: level3::uplo(uplo)?,
        a: matrix(a, lda, (kernel.n, kernel.n))?,
        b: matrix(b, ldb, (kernel.n, kernel.sides))?,
        info,
        ..kernel
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { launch(call, &kernel) }
}
