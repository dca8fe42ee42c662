//! Products of matrices, and triangular systems.

use super::{Found, Stop, leading, place, size};
use crate::base::{Dtype, Form, Op, Routine, Side, Value};
use crate::blas::call::Args;
use crate::plan::{Operand, Problem};

pub(super) fn gemm(dtype: Dtype, args: Args) -> Found {
    let Args::Gemm {
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n, k) = (size(m)?, size(n)?, size(k)?);
    let (rows_a, cols_a) = if op_a == Op::None { (m, k) } else { (k, m) };
    let (rows_b, cols_b) = if op_b == Op::None { (k, n) } else { (n, k) };
    let lda = leading(lda, rows_a)?;
    let ldb = leading(ldb, rows_b)?;
    let ldc = leading(ldc, m)?;
    // With nothing to multiply the reference returns or scales C: the host does that in no time.
    if m == 0 || n == 0 || k == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        Operand::matrix(rows_a, cols_a, lda),
        Operand::matrix(rows_b, cols_b, ldb),
        Operand::matrix(m, n, ldc),
    ];
    let placed = place(dtype, &operands, &[a, b, c])?;
    let problem = Problem {
        routine: Routine::Gemm,
        dtype,
        form: Form::default(),
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        beta,
        operands,
    };
    Ok((problem, placed))
}

pub(super) fn symm(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Symm {
        form,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n) = (size(m)?, size(n)?);
    let order = order(form, m, n);
    let lda = leading(lda, order)?;
    let (ldb, ldc) = (leading(ldb, m)?, leading(ldc, m)?);
    if m == 0 || n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        Operand::matrix(order, order, lda),
        Operand::matrix(m, n, ldb),
        Operand::matrix(m, n, ldc),
    ];
    let placed = place(dtype, &operands, &[a, b, c])?;
    let problem = Problem {
        routine,
        dtype,
        form,
        op_a: Op::None,
        op_b: Op::None,
        m,
        n,
        k: order,
        alpha,
        beta,
        operands,
    };
    Ok((problem, placed))
}

pub(super) fn rank_k(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::RankK {
        uplo,
        op,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    } = args
    else {
        return Err(Stop::Host);
    };
    let hermitian = matches!(routine, Routine::Herk | Routine::Her2k);
    let two = matches!(routine, Routine::Syr2k | Routine::Her2k);
    let op = match (op, dtype.is_complex()) {
        (Op::None, _) => Op::None,
        (Op::Trans | Op::ConjTrans, false) => Op::Trans,
        (Op::Trans, true) if !hermitian => Op::Trans,
        (Op::ConjTrans, true) if hermitian => Op::ConjTrans,
        _ => return Err(Stop::Bad),
    };
    let (n, k) = (size(n)?, size(k)?);
    let (rows, cols) = if op == Op::None { (n, k) } else { (k, n) };
    let lda = leading(lda, rows)?;
    let ldb = if two { leading(ldb, rows)? } else { 0 };
    let ldc = leading(ldc, n)?;
    if n == 0 || k == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let input = Operand::matrix(rows, cols, lda);
    let output = Operand::matrix(n, n, ldc);
    let (operands, addrs) = if two {
        let second = Operand::matrix(rows, cols, ldb);
        (vec![input, second, output], vec![a, b, c])
    } else {
        (vec![input, output], vec![a, c])
    };
    let placed = place(dtype, &operands, &addrs)?;
    // Scalars that the routine takes as real numbers have no other part, whatever the caller left there.
    let real = |value: Value| Value { im: 0.0, ..value };
    let problem = Problem {
        routine,
        dtype,
        form: Form {
            uplo,
            ..Form::default()
        },
        op_a: op,
        op_b: Op::None,
        m: n,
        n,
        k,
        alpha: if hermitian && !two {
            real(alpha)
        } else {
            alpha
        },
        beta: if hermitian { real(beta) } else { beta },
        operands,
    };
    Ok((problem, placed))
}

pub(super) fn triangular(routine: Routine, dtype: Dtype, args: Args) -> Found {
    let Args::Triangular {
        form,
        op,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
    } = args
    else {
        return Err(Stop::Host);
    };
    let (m, n) = (size(m)?, size(n)?);
    let order = order(form, m, n);
    let (lda, ldb) = (leading(lda, order)?, leading(ldb, m)?);
    // With a zero alpha the reference writes zeros, which the host does.
    if m == 0 || n == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        Operand::matrix(order, order, lda),
        Operand::matrix(m, n, ldb),
    ];
    let placed = place(dtype, &operands, &[a, b])?;
    let problem = Problem {
        routine,
        dtype,
        form,
        op_a: op,
        op_b: Op::None,
        m,
        n,
        k: order,
        alpha,
        // What is written depends on what was there.
        beta: Value::ONE,
        operands,
    };
    Ok((problem, placed))
}

/// The order of a square matrix that multiplies one of m rows and n columns.
pub(super) fn order(form: Form, m: usize, n: usize) -> usize {
    match form.side {
        Side::Left => m,
        Side::Right => n,
    }
}
