//! Translates row-major calls of the C interface into column-major calls.
//!
//! A matrix that is stored by rows is its transpose stored by columns. So a row-major call is the column-major one that
//! computes the transpose of the result from the transposes of the operands. `A'` is the transpose of A below, `A*` its
//! conjugate transpose, `M = A'` the matrix that lies in memory, and the upper triangle of A is the lower one of `M`.
//!
//! Some complex calls by rows have no column-major equivalent, and go to the host BLAS: gerc, hemv, her and her2, for which the
//! reference and OpenBLAS make conjugated copies of the vectors; and gemv, trmv and trsv with the conjugate transpose, which
//! would be products with `conj(M)`, not transposed.

use core::mem::swap;

use semcache::base::routine::{ByRows, Dim, Flag};
use semcache::base::{Op, Routine, Side, Uplo, Value};
use semcache::blas::Call;

/// The column-major call that computes the same as this row-major one; `None` if there is none.
pub(super) fn by_columns(call: &Call) -> Option<Call> {
    let mut call = *call;
    let signature = &call.routine.record().signature;
    if signature.flags.contains(&Flag::Uplo) {
        call.form.uplo = match call.form.uplo {
            Uplo::Lower => Uplo::Upper,
            Uplo::Upper => Uplo::Lower,
        };
    }
    let has = |dim| signature.sizes.contains(&dim);
    if has(Dim::M) && has(Dim::N) {
        swap(&mut call.m, &mut call.n);
    }
    if signature.flags.contains(&Flag::Side) {
        call.form.side = match call.form.side {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        };
    }
    match signature.by_rows {
        // A x = conj(M) x, and (x y*)' = conj(y) x'
        _ if call.routine.level() == 2 && conjugates(call.routine) => return None,
        // A symmetric or triangular matrix on one side: C' = (A B)' = B' A', and A' is symmetric (Hermitian) as A is: what lies
        // in memory is used as it is. B' = (op(A) B)' = B' op(A)': A' = M, (A')' = A = M', and (A*)' = conj(A) = M*, so `op` of
        // M is the same. Inverses likewise.
        // Sums and copies: C' = alpha A' + beta C', and B' = alpha op(A)' = alpha op(A') for every `op`.
        ByRows::Same => {}
        // C' = (op(A) op(B))' = op(B') op(A'), and (x y')' = y x'
        ByRows::Exchanged => {
            call.at.swap(0, 1);
            swap(&mut call.op_a, &mut call.op_b);
        }
        // With M = A' and N = B', as they lie in memory:
        // syrk   C' = (A A')' = A A' = M' M, so `op` is the other one; (A' A)' = M M' likewise
        // syr2k  C' = (A B' + B A')' = A B' + B A' = M' N + N' M
        // herk   C' = (A A*)' = conj(A) A' = M* M
        // her2k  C' = (alpha A B* + conj(alpha) B A*)' = alpha N* M + conj(alpha) M* N, where her2k of M and N, with
        //        a scalar gamma, is gamma M* N + conj(gamma) N* M: gamma = conj(alpha)
        ByRows::Other => {
            let hermitian = call.routine.hermitian();
            call.op_a = match call.op_a {
                Op::None if hermitian => Op::ConjTrans,
                Op::None => Op::Trans,
                Op::Trans | Op::ConjTrans => Op::None,
            };
            if hermitian {
                let Value { re, im } = call.alpha;
                call.alpha = Value { re, im: -im };
            }
        }
        ByRows::Turned => call.op_a = turned(call.op_a)?,
    }
    Some(call)
}

/// Whether a routine of level 2 conjugates a matrix or a vector.
const fn conjugates(routine: Routine) -> bool {
    routine.hermitian() || matches!(routine, Routine::Gerc)
}

/// `op` of a matrix in terms of its transpose.
const fn turned(op: Op) -> Option<Op> {
    match op {
        Op::None => Some(Op::Trans),
        Op::Trans => Some(Op::None),
        // A* = conj(M)
        Op::ConjTrans => None,
    }
}
