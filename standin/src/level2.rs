//! Stand-in for the `cublas` functions of level 2 on one triangle of a matrix, and for rotations.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::{Dtype, Form, Routine, Value};
use semcache::device::api::Kernel;

use crate::blas::{Call, length, matrix, op, real, size, vector};
use crate::level3::{diag, half, uplo};
use crate::names::{Outcome, Status};

/// `symv` and `hemv`.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn symv(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    fill: c_int,
    n: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    x: u64,
    incx: c_int,
    beta: *const c_void,
    y: u64,
    incy: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (uplo, n) = (uplo(fill)?, size(n)?);
    let (a, x, y) = (matrix(a, lda, n)?, vector(x, incx)?, vector(y, incy)?);
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (alpha, beta) = (call.scalar(dtype, alpha)?, call.scalar(dtype, beta)?);
        call.launch(Kernel {
            form: half(uplo),
            m: n,
            n,
            alpha,
            beta,
            ..Kernel::of(routine, dtype, [a, x, y])
        })
    }
}

/// `trmv`, or `trsv`.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn triangular(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    fill: c_int,
    turn: c_int,
    ones: c_int,
    n: c_int,
    a: u64,
    lda: c_int,
    x: u64,
    incx: c_int,
) -> Outcome {
    let call = Call::new(handle)?;
    let (uplo, op_a, diag) = (uplo(fill)?, op(turn)?, diag(ones)?);
    let n = size(n)?;
    let (a, x) = (matrix(a, lda, n)?, vector(x, incx)?);
    if n == 0 {
        return Ok(());
    }
    let kernel = Kernel {
        form: Form { diag, ..half(uplo) },
        op_a,
        m: n,
        n,
        ..Kernel::of(routine, dtype, [a, x])
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { call.launch(kernel) }
}

/// `syr` and `her`; the scalar of `her` is real.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn syr(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    fill: c_int,
    n: c_int,
    alpha: *const c_void,
    x: u64,
    incx: c_int,
    a: u64,
    lda: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (uplo, n) = (uplo(fill)?, size(n)?);
    let (x, a) = (vector(x, incx)?, matrix(a, lda, n)?);
    if n == 0 {
        return Ok(());
    }
    let scalar = if routine.hermitian() {
        real(dtype)
    } else {
        dtype
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let alpha = call.scalar(scalar, alpha)?;
        call.launch(Kernel {
            form: half(uplo),
            m: n,
            n,
            alpha,
            ..Kernel::of(routine, dtype, [x, a])
        })
    }
}

/// `syr2` and `her2`.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn syr2(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    fill: c_int,
    n: c_int,
    alpha: *const c_void,
    x: u64,
    incx: c_int,
    y: u64,
    incy: c_int,
    a: u64,
    lda: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (uplo, n) = (uplo(fill)?, size(n)?);
    let (x, y, a) = (vector(x, incx)?, vector(y, incy)?, matrix(a, lda, n)?);
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let alpha = call.scalar(dtype, alpha)?;
        call.launch(Kernel {
            form: half(uplo),
            m: n,
            n,
            alpha,
            ..Kernel::of(routine, dtype, [x, y, a])
        })
    }
}

/// `rot` by real numbers.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn rot(
    dtype: Dtype,
    handle: usize,
    n: c_int,
    x: u64,
    incx: c_int,
    y: u64,
    incy: c_int,
    c: *const c_void,
    s: *const c_void,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (x, y, n) = (vector(x, incx)?, vector(y, incy)?, length(n));
    if n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (alpha, beta) = (call.scalar(real(dtype), c)?, call.scalar(real(dtype), s)?);
        call.launch(Kernel {
            m: n,
            alpha,
            beta,
            ..Kernel::of(Routine::Rot, dtype, [x, y])
        })
    }
}

/// `rotm`, for a matrix all of whose entries are given.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn rotm(
    dtype: Dtype,
    handle: usize,
    n: c_int,
    x: u64,
    incx: c_int,
    y: u64,
    incy: c_int,
    param: *const c_void,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (x, y, n) = (vector(x, incx)?, vector(y, incy)?, length(n));
    if n == 0 {
        return Ok(());
    }
    let mut all = [0.0; 5];
    for (i, v) in all.iter_mut().enumerate() {
        // SAFETY: the program's five numbers.
        *v = unsafe { call.scalar(dtype, param.wrapping_byte_add(i * dtype.size()))? }.re;
    }
    let [flag, h11, h21, h12, h22] = all;
    if flag != -1.0 {
        return Err(Status::NotSupported);
    }
    let kernel = Kernel {
        m: n,
        alpha: Value { re: h11, im: h21 },
        beta: Value { re: h12, im: h22 },
        ..Kernel::of(Routine::Rotm, dtype, [x, y])
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { call.launch(kernel) }
}
