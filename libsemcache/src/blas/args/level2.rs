//! A matrix and vectors.

use super::{Found, Stop, leading, place, plain, size, vector};
use crate::base::{Dtype, Form, Op, Routine};
use crate::blas::call::Args;
use crate::plan::{Operand, Problem};

pub(super) fn gemv(dtype: Dtype, args: Args) -> Found {
    let Args::Gemv {
        op,
        m,
        n,
        alpha,
        a,
        lda,
        x,
        incx,
        beta,
        y,
        incy,
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n) = (size(m)?, size(n)?);
    let lda = leading(lda, m)?;
    if incx == 0 || incy == 0 {
        return Err(Stop::Bad);
    }
    if m == 0 || n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let (len_x, len_y) = if op == Op::None { (n, m) } else { (m, n) };
    let operands = vec![
        Operand::matrix(m, n, lda),
        vector(len_x, incx)?,
        vector(len_y, incy)?,
    ];
    let placed = place(dtype, &operands, &[a, x, y])?;
    let problem = Problem {
        routine: Routine::Gemv,
        dtype,
        form: Form::default(),
        op_a: op,
        op_b: Op::None,
        m,
        n,
        k: 1,
        alpha,
        beta,
        operands,
    };
    Ok((problem, placed))
}

pub(super) fn ger(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Ger {
        m,
        n,
        alpha,
        x,
        incx,
        y,
        incy,
        a,
        lda,
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n) = (size(m)?, size(n)?);
    let lda = leading(lda, m)?;
    if incx == 0 || incy == 0 {
        return Err(Stop::Bad);
    }
    if m == 0 || n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        vector(m, incx)?,
        vector(n, incy)?,
        Operand::matrix(m, n, lda),
    ];
    let placed = place(dtype, &operands, &[x, y, a])?;
    let problem = Problem {
        m,
        n,
        ..plain(routine, dtype, alpha, operands)
    };
    Ok((problem, placed))
}
