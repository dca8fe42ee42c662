//! Vectors.

use super::{Found, Stop, place, plain, size, vector};
use crate::base::{Dtype, Routine, Value};
use crate::blas::call::Args;
use crate::plan::Problem;

pub(super) fn one(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::One { n, alpha, x, incx } = args else {
        return Err(Stop::Host);
    };
    // The level-1 routines report nothing: a size of zero or less is an empty vector.
    if n <= 0 {
        return Err(Stop::Nothing);
    }
    if incx <= 0 {
        return Err(Stop::Host);
    }
    let scaling = matches!(routine, Routine::Scal | Routine::RealScal);
    if scaling && alpha.is_one() {
        return Err(Stop::Nothing);
    }
    let operands = vec![vector(size(n)?, incx)?];
    let placed = place(dtype, &operands, &[x])?;
    let alpha = if scaling { alpha } else { Value::ONE };
    Ok((plain(routine, dtype, alpha, operands), placed))
}

pub(super) fn two(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Two {
        n,
        alpha,
        x,
        incx,
        y,
        incy,
    } = args
    else {
        return Err(Stop::Host);
    };
    if n <= 0 || (routine == Routine::Axpy && alpha.is_zero()) {
        return Err(Stop::Nothing);
    }
    if incx == 0 || incy == 0 {
        return Err(Stop::Host);
    }
    let n = size(n)?;
    let operands = vec![vector(n, incx)?, vector(n, incy)?];
    let placed = place(dtype, &operands, &[x, y])?;
    let alpha = if routine == Routine::Axpy {
        alpha
    } else {
        Value::ONE
    };
    Ok((plain(routine, dtype, alpha, operands), placed))
}

/// rot and rotm.
pub(super) fn rotation(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Rotation {
        n,
        alpha,
        beta,
        x,
        incx,
        y,
        incy,
    } = args
    else {
        return Err(Stop::Host);
    };
    if n <= 0 {
        return Err(Stop::Nothing);
    }
    if incx == 0 || incy == 0 || (routine == Routine::Rotm && dtype.is_complex()) {
        return Err(Stop::Host);
    }
    let n = size(n)?;
    let operands = vec![vector(n, incx)?, vector(n, incy)?];
    let placed = place(dtype, &operands, &[x, y])?;
    let problem = Problem {
        beta,
        ..plain(routine, dtype, alpha, operands)
    };
    Ok((problem, placed))
}
