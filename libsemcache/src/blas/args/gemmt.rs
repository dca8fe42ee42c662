//! One triangle of a product.

use super::{Found, Stop, leading, place, size};
use crate::base::Dtype;
use crate::blas::call::Args;
use crate::device::api::Op;
use crate::plan::{Form, Operand, Problem, Routine};

pub(super) fn gemmt(dtype: Dtype, args: Args) -> Found {
    let Args::Gemmt {
        uplo,
        op_a,
        op_b,
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
    let (n, k) = (size(n)?, size(k)?);
    let (rows_a, cols_a) = if op_a == Op::None { (n, k) } else { (k, n) };
    let (rows_b, cols_b) = if op_b == Op::None { (k, n) } else { (n, k) };
    let lda = leading(lda, rows_a)?;
    let ldb = leading(ldb, rows_b)?;
    let ldc = leading(ldc, n)?;
    if n == 0 || k == 0 || alpha.is_zero() {
        return Err(Stop::Nothing);
    }
    let operands = vec![
        Operand::matrix(rows_a, cols_a, lda),
        Operand::matrix(rows_b, cols_b, ldb),
        Operand::matrix(n, n, ldc),
    ];
    let placed = place(dtype, &operands, &[a, b, c])?;
    let problem = Problem {
        routine: Routine::Gemmt,
        dtype,
        form: Form {
            uplo,
            ..Form::default()
        },
        op_a,
        op_b,
        m: n,
        n,
        k,
        alpha,
        beta,
        operands,
    };
    Ok((problem, placed))
}
