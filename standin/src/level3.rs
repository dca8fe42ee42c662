//! Stand-in for the `cublas` functions of level 3.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_void};

use semcache::base::{Diag, Dtype, Form, Op, Routine, Side, Uplo};
use semcache::device::api::{Kernel, Operand};

use crate::blas::{Call, matrix, op, real, size};
use crate::names::{Outcome, Status};

pub(crate) fn side(code: c_int) -> Outcome<Side> {
    match code {
        0 => Ok(Side::Left),
        1 => Ok(Side::Right),
        _ => Err(Status::InvalidValue),
    }
}

pub(crate) fn uplo(code: c_int) -> Outcome<Uplo> {
    match code {
        0 => Ok(Uplo::Lower),
        1 => Ok(Uplo::Upper),
        _ => Err(Status::InvalidValue),
    }
}

pub(crate) fn diag(code: c_int) -> Outcome<Diag> {
    match code {
        0 => Ok(Diag::NonUnit),
        1 => Ok(Diag::Unit),
        _ => Err(Status::InvalidValue),
    }
}

/// The form of a routine that has only the flag UPLO.
pub(crate) fn half(uplo: Uplo) -> Form {
    Form {
        uplo,
        ..Form::default()
    }
}

/// The transposition of a rank-k update: complex types allow only one besides "none".
fn turn(code: c_int, dtype: Dtype, hermitian: bool) -> Outcome<Op> {
    let wrong = if hermitian { Op::Trans } else { Op::ConjTrans };
    match op(code)? {
        op if op == wrong && dtype.is_complex() => Err(Status::InvalidValue),
        op => Ok(op),
    }
}

#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn gemm(
    dtype: Dtype,
    handle: usize,
    op_a: c_int,
    op_b: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    b: u64,
    ldb: c_int,
    beta: *const c_void,
    c: u64,
    ldc: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (op_a, op_b) = (op(op_a)?, op(op_b)?);
    let (m, n, k) = (size(m)?, size(n)?, size(k)?);
    let a = matrix(a, lda, if op_a == Op::None { m } else { k })?;
    let b = matrix(b, ldb, if op_b == Op::None { k } else { n })?;
    let c = matrix(c, ldc, m)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (alpha, beta) = (call.scalar(dtype, alpha)?, call.scalar(dtype, beta)?);
        call.launch(Kernel {
            op_a,
            op_b,
            m,
            n,
            k,
            alpha,
            beta,
            ..Kernel::of(Routine::Gemm, dtype, [a, b, c])
        })
    }
}

/// `symm` and `hemm`.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn symm(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    at: c_int,
    fill: c_int,
    m: c_int,
    n: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    b: u64,
    ldb: c_int,
    beta: *const c_void,
    c: u64,
    ldc: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (side, uplo) = (side(at)?, uplo(fill)?);
    let (m, n) = (size(m)?, size(n)?);
    let k = if side == Side::Left { m } else { n };
    let a = matrix(a, lda, k)?;
    let (b, c) = (matrix(b, ldb, m)?, matrix(c, ldc, m)?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let (alpha, beta) = (call.scalar(dtype, alpha)?, call.scalar(dtype, beta)?);
        call.launch(Kernel {
            form: Form { side, ..half(uplo) },
            m,
            n,
            k,
            alpha,
            beta,
            ..Kernel::of(routine, dtype, [a, b, c])
        })
    }
}

/// `syrk` and `herk`; the scalars of `herk` are real.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn syrk(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    fill: c_int,
    op: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    beta: *const c_void,
    c: u64,
    ldc: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (uplo, op_a) = (uplo(fill)?, turn(op, dtype, routine.hermitian())?);
    let (n, k) = (size(n)?, size(k)?);
    let a = matrix(a, lda, if op_a == Op::None { n } else { k })?;
    let c = matrix(c, ldc, n)?;
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
        let (alpha, beta) = (call.scalar(scalar, alpha)?, call.scalar(scalar, beta)?);
        call.launch(Kernel {
            form: half(uplo),
            op_a,
            m: n,
            n,
            k,
            alpha,
            beta,
            ..Kernel::of(routine, dtype, [a, c])
        })
    }
}

/// `syr2k` and `her2k`; the `beta` of `her2k` is real.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn syr2k(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    fill: c_int,
    op: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    b: u64,
    ldb: c_int,
    beta: *const c_void,
    c: u64,
    ldc: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (uplo, op_a) = (uplo(fill)?, turn(op, dtype, routine.hermitian())?);
    let (n, k) = (size(n)?, size(k)?);
    let rows = if op_a == Op::None { n } else { k };
    let (a, b, c) = (
        matrix(a, lda, rows)?,
        matrix(b, ldb, rows)?,
        matrix(c, ldc, n)?,
    );
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
        let (alpha, beta) = (call.scalar(dtype, alpha)?, call.scalar(scalar, beta)?);
        call.launch(Kernel {
            form: half(uplo),
            op_a,
            m: n,
            n,
            k,
            alpha,
            beta,
            ..Kernel::of(routine, dtype, [a, b, c])
        })
    }
}

/// cuBLAS's trmm writes its result to C: B is copied to C, column by column, then multiplied in place.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn trmm(
    dtype: Dtype,
    handle: usize,
    at: c_int,
    fill: c_int,
    turn: c_int,
    ones: c_int,
    m: c_int,
    n: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    b: u64,
    ldb: c_int,
    c: u64,
    ldc: c_int,
) -> Outcome {
    if (b, ldb) != (c, ldc) {
        let mut call = Call::new(handle)?;
        let (rows, columns) = (size(m)?, size(n)?);
        let (from, to) = (matrix(b, ldb, rows)?, matrix(c, ldc, rows)?);
        let column =
            |m: Operand, j: usize| Operand::vector(m.addr + (j * m.ld() * dtype.size()) as u64, 1);
        for j in 0..columns {
            // SAFETY: the program's arguments, which keep the contract of the C function.
            unsafe {
                call.launch_one(Kernel {
                    m: rows,
                    ..Kernel::of(Routine::Copy, dtype, [column(from, j), column(to, j)])
                })?;
            }
        }
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        triangular(
            (dtype, Routine::Trmm),
            handle,
            at,
            fill,
            turn,
            ones,
            m,
            n,
            alpha,
            a,
            lda,
            c,
            ldc,
        )
    }
}

/// `trsm`, or `trmm` in place.
#[expect(clippy::too_many_arguments, reason = "as in C")]
pub(crate) unsafe fn triangular(
    (dtype, routine): (Dtype, Routine),
    handle: usize,
    at: c_int,
    fill: c_int,
    turn: c_int,
    ones: c_int,
    m: c_int,
    n: c_int,
    alpha: *const c_void,
    a: u64,
    lda: c_int,
    b: u64,
    ldb: c_int,
) -> Outcome {
    let mut call = Call::new(handle)?;
    let (side, uplo, op_a, diag) = (side(at)?, uplo(fill)?, op(turn)?, diag(ones)?);
    let (m, n) = (size(m)?, size(n)?);
    let k = if side == Side::Left { m } else { n };
    let a = matrix(a, lda, k)?;
    let b = matrix(b, ldb, m)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let alpha = call.scalar(dtype, alpha)?;
        call.launch(Kernel {
            form: Form { side, uplo, diag },
            op_a,
            m,
            n,
            k,
            alpha,
            ..Kernel::of(routine, dtype, [a, b])
        })
    }
}
