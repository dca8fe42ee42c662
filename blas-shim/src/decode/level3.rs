//! The routines of level 3.
//!
//! A matrix that is stored by rows is its transpose stored by columns. So a row-major call is the column-major one
//! that computes the transpose of the result from the transposes of the operands; `A'` is the transpose of A below,
//! `A*` its conjugate transpose, and the upper triangle of A in memory is the lower one of `A'`.

use semcache::base::{Diag, Form, Op, Side, Uplo, Value};
use semcache::blas::Args;

use super::Reader;

/// Whether an update is of rank k or 2k.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rank {
    One,
    Two,
}

fn other_side(side: Side) -> Side {
    match side {
        Side::Left => Side::Right,
        Side::Right => Side::Left,
    }
}

pub(super) fn other_triangle(uplo: Uplo) -> Uplo {
    match uplo {
        Uplo::Lower => Uplo::Upper,
        Uplo::Upper => Uplo::Lower,
    }
}

pub(super) fn gemm(r: &mut Reader<'_>) -> Option<Args> {
    let row_major = r.row_major()?;
    let (op_a, op_b) = (r.op()?, r.op()?);
    let (m, n, k) = (r.int()?, r.int()?, r.int()?);
    let alpha = r.scalar()?;
    let (a, lda) = (r.address(), r.int()?);
    let (b, ldb) = (r.address(), r.int()?);
    let beta = r.scalar()?;
    let (c, ldc) = (r.address(), r.int()?);
    let (a, b, c) = (
        Matrix { at: a, ld: lda },
        Matrix { at: b, ld: ldb },
        Matrix { at: c, ld: ldc },
    );
    Some(product(
        row_major,
        (op_a, op_b),
        (m, n, k),
        alpha,
        (a, b),
        beta,
        c,
    ))
}

/// A matrix and its leading dimension.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) at: usize,
    pub(super) ld: i64,
}

/// A gemm in column-major terms.
pub(super) fn product(
    row_major: bool,
    (op_a, op_b): (Op, Op),
    (m, n, k): (i64, i64, i64),
    alpha: Value,
    (a, b): (Matrix, Matrix),
    beta: Value,
    c: Matrix,
) -> Args {
    // C' = (op(A) op(B))' = op(B') op(A')
    let (op_a, op_b, m, n, a, b) = if row_major {
        (op_b, op_a, n, m, b, a)
    } else {
        (op_a, op_b, m, n, a, b)
    };
    Args::Gemm {
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        a: a.at,
        lda: a.ld,
        b: b.at,
        ldb: b.ld,
        beta,
        c: c.at,
        ldc: c.ld,
    }
}

/// gemmt (OpenBLAS, MKL) and gemmtr (the reference since 3.12.1, OpenBLAS), which take the same arguments.
pub(super) fn gemmt(r: &mut Reader<'_>) -> Option<Args> {
    let row_major = r.row_major()?;
    let uplo = r.uplo()?;
    let (op_a, op_b) = (r.op()?, r.op()?);
    let (n, k) = (r.int()?, r.int()?);
    let alpha = r.scalar()?;
    let (a, lda) = (r.address(), r.int()?);
    let (b, ldb) = (r.address(), r.int()?);
    let beta = r.scalar()?;
    let (c, ldc) = (r.address(), r.int()?);
    // As gemm; the upper triangle of C is the lower one of C'.
    Some(if row_major {
        Args::Gemmt {
            uplo: other_triangle(uplo),
            op_a: op_b,
            op_b: op_a,
            n,
            k,
            alpha,
            a: b,
            lda: ldb,
            b: a,
            ldb: lda,
            beta,
            c,
            ldc,
        }
    } else {
        Args::Gemmt {
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
        }
    })
}

pub(super) fn symm(r: &mut Reader<'_>) -> Option<Args> {
    let row_major = r.row_major()?;
    let (side, uplo) = (r.side()?, r.uplo()?);
    let (m, n) = (r.int()?, r.int()?);
    let alpha = r.scalar()?;
    let (a, lda) = (r.address(), r.int()?);
    let (b, ldb) = (r.address(), r.int()?);
    let beta = r.scalar()?;
    let (c, ldc) = (r.address(), r.int()?);
    // C' = (A B)' = B' A', and A' is symmetric (Hermitian) as A is: what lies in memory is used as it is.
    let (side, uplo, m, n) = if row_major {
        (other_side(side), other_triangle(uplo), n, m)
    } else {
        (side, uplo, m, n)
    };
    Some(Args::Symm {
        form: Form {
            side,
            uplo,
            diag: Diag::NonUnit,
        },
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
    })
}

/// syrk, syr2k, and herk, her2k.
pub(super) fn rank_k(r: &mut Reader<'_>, rank: Rank, hermitian: bool) -> Option<Args> {
    let row_major = r.row_major()?;
    let (uplo, op) = (r.uplo()?, r.op()?);
    // What else is there is no operation of the routine. (For real types the transpose has only one name.)
    let transposed = if hermitian { Op::ConjTrans } else { Op::Trans };
    if op != Op::None && op != transposed {
        return None;
    }
    let (n, k) = (r.int()?, r.int()?);
    let alpha = if hermitian && rank == Rank::One {
        r.real_scalar()?
    } else {
        r.scalar()?
    };
    let (a, lda) = (r.address(), r.int()?);
    let (b, ldb) = match rank {
        Rank::One => (0, 0),
        Rank::Two => (r.address(), r.int()?),
    };
    let beta = if hermitian {
        r.real_scalar()?
    } else {
        r.scalar()?
    };
    let (c, ldc) = (r.address(), r.int()?);
    // With M = A' and N = B', as they lie in memory:
    // syrk   C' = (A A')' = A A' = M' M, so `op` is the other one; (A' A)' = M M' likewise
    // syr2k  C' = (A B' + B A')' = A B' + B A' = M' N + N' M
    // herk   C' = (A A*)' = conj(A) A' = M* M
    // her2k  C' = (alpha A B* + conj(alpha) B A*)' = alpha N* M + conj(alpha) M* N, where her2k of M and N, with
    //        a scalar gamma, is gamma M* N + conj(gamma) N* M: gamma = conj(alpha)
    let (uplo, op, alpha) = if row_major {
        let op = if op == Op::None { transposed } else { Op::None };
        let alpha = if hermitian {
            Value {
                im: -alpha.im,
                ..alpha
            }
        } else {
            alpha
        };
        (other_triangle(uplo), op, alpha)
    } else {
        (uplo, op, alpha)
    };
    Some(Args::RankK {
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
    })
}

/// trmm and trsm.
pub(super) fn triangular(r: &mut Reader<'_>) -> Option<Args> {
    let row_major = r.row_major()?;
    let (side, uplo) = (r.side()?, r.uplo()?);
    let op = r.op()?;
    let diag = r.diag()?;
    let (m, n) = (r.int()?, r.int()?);
    let alpha = r.scalar()?;
    let (a, lda) = (r.address(), r.int()?);
    let (b, ldb) = (r.address(), r.int()?);
    // B' = (op(A) B)' = B' op(A)'. With M = A', as it lies in memory: A' = M, (A')' = A = M', and
    // (A*)' = conj(A) = M*: `op` of M is the same. Inverses likewise.
    let (side, uplo, m, n) = if row_major {
        (other_side(side), other_triangle(uplo), n, m)
    } else {
        (side, uplo, m, n)
    };
    Some(Args::Triangular {
        form: Form { side, uplo, diag },
        op,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
    })
}
