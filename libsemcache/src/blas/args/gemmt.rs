//! One triangle of a product.

use super::{Found, Stop, level3};
use crate::base::{Dtype, Form, Routine};
use crate::blas::call::Args;
use crate::plan::Problem;

/// The rules are those of a product whose result is square.
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
    let whole = Args::Gemm {
        op_a,
        op_b,
        m: n,
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
    };
    let (problem, placed) = level3::gemm(dtype, whole)?;
    let form = Form {
        uplo,
        ..Form::default()
    };
    let routine = Routine::Gemmt;
    let problem = Problem {
        routine,
        form,
        ..problem
    };
    Ok((problem, placed))
}
