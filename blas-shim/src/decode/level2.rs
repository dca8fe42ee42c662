//! The routines of level 2 with one triangle of a matrix.
//!
//! Of a row-major call the matrix in memory is `M = A'`, the transpose of A, and its upper triangle is the lower one of
//! A (see `level3`). What a vector would have to be conjugated for is the host's: of the complex routines that are called
//! by rows all of hemv, her and her2, for which the reference and OpenBLAS make copies of the vectors, and trmv and trsv
//! with the conjugate transpose, which is `conj(M)` without a transposition.

use semcache::base::{Form, Op, Side, Value};
use semcache::blas::Args;

use super::Reader;
use super::level3::{Rank, other_triangle};

/// symv and hemv.
pub(super) fn symv(r: &mut Reader<'_>, hermitian: bool) -> Option<Args> {
    let row_major = r.row_major()?;
    if row_major && hermitian {
        // A x = conj(M) x
        return r.unsupported();
    }
    let uplo = r.uplo()?;
    let n = r.int()?;
    let alpha = r.scalar()?;
    let (a, lda) = (r.address(), r.int()?);
    let (x, incx) = (r.address(), r.int()?);
    let beta = r.scalar()?;
    let (y, incy) = (r.address(), r.int()?);
    Some(Args::Symv {
        uplo: if row_major {
            other_triangle(uplo)
        } else {
            uplo
        },
        n,
        alpha,
        a,
        lda,
        x,
        incx,
        beta,
        y,
        incy,
    })
}

/// trmv and trsv.
pub(super) fn triangular(r: &mut Reader<'_>) -> Option<Args> {
    let row_major = r.row_major()?;
    let uplo = r.uplo()?;
    let op = r.op()?;
    let diag = r.diag()?;
    let n = r.int()?;
    let (a, lda) = (r.address(), r.int()?);
    let (x, incx) = (r.address(), r.int()?);
    let (uplo, op) = if row_major {
        let op = match op {
            Op::None => Op::Trans,
            Op::Trans => Op::None,
            // A* = conj(M)
            Op::ConjTrans => return r.unsupported(),
        };
        (other_triangle(uplo), op)
    } else {
        (uplo, op)
    };
    Some(Args::Trmv {
        form: Form {
            side: Side::Left,
            uplo,
            diag,
        },
        op,
        n,
        a,
        lda,
        x,
        incx,
    })
}

/// syr, her, syr2 and her2.
pub(super) fn update(r: &mut Reader<'_>, rank: Rank, hermitian: bool) -> Option<Args> {
    let row_major = r.row_major()?;
    if row_major && hermitian {
        // (x y*)' = conj(y) x'
        return r.unsupported();
    }
    let uplo = r.uplo()?;
    let n = r.int()?;
    let alpha = if hermitian && rank == Rank::One {
        r.real_scalar()?
    } else {
        r.scalar()?
    };
    let (x, incx) = (r.address(), r.int()?);
    let (y, incy) = match rank {
        Rank::One => (0, 1),
        Rank::Two => (r.address(), r.int()?),
    };
    let (a, lda) = (r.address(), r.int()?);
    // OpenBLAS, whose own csyr2 and zsyr2 are, finds the first element elsewhere then.
    let symmetric = rank == Rank::Two && !hermitian && r.dtype.is_complex();
    if symmetric && (incx < 0 || incy < 0) {
        return r.unsupported();
    }
    Some(Args::Syr {
        uplo: if row_major {
            other_triangle(uplo)
        } else {
            uplo
        },
        n,
        alpha,
        x,
        incx,
        y,
        incy,
        a,
        lda,
    })
}

/// rot by real numbers.
pub(super) fn rot(r: &mut Reader<'_>) -> Option<Args> {
    let n = r.int()?;
    let (x, incx) = (r.address(), r.int()?);
    let (y, incy) = (r.address(), r.int()?);
    let (alpha, beta) = (r.real_scalar()?, r.real_scalar()?);
    Some(Args::Rotation {
        n,
        alpha,
        beta,
        x,
        incx,
        y,
        incy,
    })
}

/// rotm. The first of its five numbers says which of the others mean something, and what the rest is; what is none of
/// the known forms is the host's.
pub(super) fn rotm(r: &mut Reader<'_>) -> Option<Args> {
    let n = r.int()?;
    let (x, incx) = (r.address(), r.int()?);
    let (y, incy) = (r.address(), r.int()?);
    let param = r.readable()?;
    let flag = r.element(param, 0);
    let given = |i| r.element(param, i);
    let (h11, h21, h12, h22) = if flag == -1.0 {
        (given(1), given(2), given(3), given(4))
    } else if flag == 0.0 {
        (1.0, given(2), given(3), 1.0)
    } else if flag == 1.0 {
        (given(1), -1.0, 1.0, given(4))
    } else if flag == -2.0 {
        // The identity: nothing is rotated.
        return Some(Args::Rotation {
            n: 0,
            alpha: Value::ONE,
            beta: Value::ONE,
            x,
            incx,
            y,
            incy,
        });
    } else {
        return r.unsupported();
    };
    Some(Args::Rotation {
        n,
        alpha: Value { re: h11, im: h21 },
        beta: Value { re: h12, im: h22 },
        x,
        incx,
        y,
        incy,
    })
}
