//! A matrix of which one triangle is used, and vectors.

use super::{Found, Stop, leading, place, plain, size, vector};
use crate::base::{Dtype, Form, Routine, Uplo, Value};
use crate::blas::call::Args;
use crate::plan::{Operand, Problem};

fn with_triangle(uplo: Uplo) -> Form {
    Form {
        uplo,
        ..Form::default()
    }
}

pub(super) fn symv(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Symv {
        uplo,
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
    let n = size(n)?;
    let lda = leading(lda, n)?;
    if incx == 0 || incy == 0 {
        return Err(Stop::Bad);
    }
    if n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        Operand::matrix(n, n, lda),
        vector(n, incx)?,
        vector(n, incy)?,
    ];
    let placed = place(dtype, &operands, &[a, x, y])?;
    let problem = Problem {
        form: with_triangle(uplo),
        n,
        beta,
        ..plain(routine, dtype, alpha, operands)
    };
    Ok((problem, placed))
}

pub(super) fn trmv(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Trmv {
        form,
        op,
        n,
        a,
        lda,
        x,
        incx,
    } = args
    else {
        return Err(Stop::Host);
    };
    let n = size(n)?;
    let lda = leading(lda, n)?;
    if incx == 0 {
        return Err(Stop::Bad);
    }
    if n == 0 {
        return Err(Stop::Nothing);
    }
    let operands = vec![Operand::matrix(n, n, lda), vector(n, incx)?];
    let placed = place(dtype, &operands, &[a, x])?;
    let problem = Problem {
        form,
        op_a: op,
        n,
        // What is written depends on what was there.
        beta: Value::ONE,
        ..plain(routine, dtype, Value::ONE, operands)
    };
    Ok((problem, placed))
}

pub(super) fn syr(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Syr {
        uplo,
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
    let two = matches!(routine, Routine::Syr2 | Routine::Her2);
    let n = size(n)?;
    let lda = leading(lda, n)?;
    if incx == 0 || (two && incy == 0) {
        return Err(Stop::Bad);
    }
    // The scalar of her is a real number, whatever the caller left in the other part.
    let alpha = match routine {
        Routine::Her => Value { im: 0.0, ..alpha },
        _ => alpha,
    };
    if n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let matrix = Operand::matrix(n, n, lda);
    let (operands, addrs) = if two {
        let vectors = [vector(n, incx)?, vector(n, incy)?];
        (vec![vectors[0], vectors[1], matrix], vec![x, y, a])
    } else {
        (vec![vector(n, incx)?, matrix], vec![x, a])
    };
    let placed = place(dtype, &operands, &addrs)?;
    let problem = Problem {
        form: with_triangle(uplo),
        n,
        beta: Value::ONE,
        ..plain(routine, dtype, alpha, operands)
    };
    Ok((problem, placed))
}
