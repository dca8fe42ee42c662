//! Stand-in for the `cusolverDn` functions that factor symmetric matrices which need not be definite, by element type and with 32-bit
//! integers, and solve by these factors, with 64-bit integers: a program has to widen the pivots between the two.
//! Without pivots the real functions exchange nothing; here they are refused.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::Dtype;
use semcache::base::dense::{DenseKernel, Step};

use crate::dense::{Space, call, common, launch_in, matrix, put_elements, put_space, step};
use crate::level3;
use crate::names::Outcome;

/// A factorization without its triangle, its work space and what else it writes.
fn factor_of(dtype: Dtype, n: c_int) -> Outcome<DenseKernel> {
    let n = i64::from(n);
    step(Step::Symmetric, dtype, [n, n, 0])
}

/// Stores the size of the work space, in elements; the matrix may be null, as nothing is read.
pub(crate) unsafe fn factor_space(
    dtype: Dtype,
    handle: usize,
    n: c_int,
    _a: u64,
    lda: c_int,
    elements: *mut c_int,
) -> Outcome {
    call(handle)?;
    let kernel = factor_of(dtype, n)?;
    matrix(0, lda.into(), (kernel.n, 0))?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_elements(&kernel, elements) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn factor(
    dtype: Dtype,
    handle: usize,
    uplo: c_int,
    n: c_int,
    a: u64,
    lda: c_int,
    pivots: u64,
    work: u64,
    elements: c_int,
    info: u64,
) -> Outcome {
    let call = call(handle)?;
    let kernel = factor_of(dtype, n)?;
    let kernel = DenseKernel {
        uplo: level3::uplo(uplo)?,
        a: matrix(a, lda.into(), (kernel.n, kernel.n))?,
        pivots,
        info,
        ..kernel
    };
    let space = Space::of(work, elements, dtype)?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { launch_in(call, kernel, &space) }
}

/// A solution without addresses, of that many equations and right-hand sides.
fn solution_of(uplo: c_int, sizes: [i64; 2], types: &[c_int]) -> Outcome<DenseKernel> {
    let [n, sides] = sizes;
    Ok(DenseKernel {
        uplo: level3::uplo(uplo)?,
        ..step(Step::SymmetricSolve, common(types)?, [n, n, sides])?
    })
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn solve_space(
    handle: usize,
    uplo: c_int,
    n: i64,
    sides: i64,
    type_a: c_int,
    _a: u64,
    lda: i64,
    _pivots: u64,
    type_b: c_int,
    _b: u64,
    ldb: i64,
    device: *mut usize,
    host: *mut usize,
) -> Outcome {
    call(handle)?;
    let kernel = solution_of(uplo, [n, sides], &[type_a, type_b])?;
    matrix(0, ldb, (kernel.n, 0))?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put_space(&kernel, lda, [device, host]) }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn solve(
    handle: usize,
    uplo: c_int,
    n: i64,
    sides: i64,
    type_a: c_int,
    a: u64,
    lda: i64,
    pivots: u64,
    type_b: c_int,
    b: u64,
    ldb: i64,
    device: u64,
    device_bytes: usize,
    host: *mut c_void,
    host_bytes: usize,
    info: u64,
) -> Outcome {
    let call = call(handle)?;
    let kernel = solution_of(uplo, [n, sides], &[type_a, type_b])?;
    let kernel = DenseKernel {
        a: matrix(a, lda, (kernel.n, kernel.n))?,
        b: matrix(b, ldb, (kernel.n, kernel.sides))?,
        pivots,
        info,
        ..kernel
    };
    let space = Space {
        device: (device, device_bytes),
        host: (host, host_bytes),
    };
    // SAFETY: the program's arguments, which keep the contract of the C function; the step takes any pivots.
    unsafe { launch_in(call, kernel, &space) }
}
