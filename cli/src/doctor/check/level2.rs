//! Checks of the routines of level 2 (a matrix and vectors), for full, band and packed matrices.

use num_complex::Complex64;

use super::call::{Call, Wrong};
use super::data::{Layout, Matrix, Shape};
use super::trial::Trial;

/// How a matrix is stored: the first letters of the routines' names, `ge`, `gb`; `sy`, `sb`, `sp`; `tr`, `tb`, `tp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    Full,
    Band,
    Packed,
}

const INCREMENTS: [(i64, i64); 4] = [(1, 1), (2, 1), (-1, 2), (1, -3)];

/// Orders and increments of the calls: every order up to 36, for which kernels may have special code, some that kernels
/// cut into blocks, and one for which OpenBLAS uses several threads.
pub(super) fn cases() -> impl Iterator<Item = (usize, (i64, i64))> {
    let few = (0..=36).chain([47, 48, 63, 64, 65, 70]);
    few.flat_map(|n| INCREMENTS.map(|inc| (n, inc)))
        .chain([(129, INCREMENTS[0])])
}

/// A matrix of the trial's type in this storage.
pub(super) fn matrix(
    t: &mut Trial<'_>,
    storage: Storage,
    rows: usize,
    cols: usize,
    shape: Shape,
    units: bool,
) -> Matrix {
    let (mut below, mut above) = (t.draw.below(5) as usize, t.draw.below(5) as usize);
    match shape {
        Shape::General => {}
        Shape::Symmetric(uplo) | Shape::Hermitian(uplo) | Shape::Triangular(uplo, _) => {
            if uplo == b'U' { below = 0 } else { above = 0 }
        }
    }
    let gap = t.draw.below(3) as usize;
    let layout = match storage {
        Storage::Full => Layout::Full {
            ld: rows.max(1) + gap,
        },
        Storage::Band => Layout::Band {
            below,
            above,
            ld: below + above + 1 + gap,
        },
        Storage::Packed => Layout::Packed,
    };
    t.draw.matrix(t.dtype, rows, cols, layout, shape, units)
}

/// The arguments kl and ku of a general band matrix, or k of a triangle; none for other layouts.
fn diagonals(call: &mut Call<'_>, a: &Matrix) {
    if let Layout::Band { below, above, .. } = a.layout {
        if a.shape == Shape::General {
            call.int(below as i64).int(above as i64);
        } else {
            call.int((below + above) as i64);
        }
    }
}

/// gemv and gbmv.
pub(super) fn general(t: &mut Trial<'_>, storage: Storage) -> Result<(), Wrong> {
    for (order, (incx, incy)) in cases() {
        let other = order + t.draw.below(7) as usize;
        let (m, n) = t.draw.one_of(&[(order, other), (other, order)]);
        let op = t.draw.one_of(b"NTC");
        let a = matrix(t, storage, m, n, Shape::General, false);
        let (of_x, of_y) = if op == b'N' { (n, m) } else { (m, n) };
        let x = t.draw.vector(t.dtype, of_x, incx);
        let y = t.draw.vector(t.dtype, of_y, incy);
        let (alpha, beta) = t.scalars();
        let mut call = t.call();
        call.letter(op).int(m as i64).int(n as i64);
        diagonals(&mut call, &a);
        call.scalar(alpha).matrix(&a).vector(&x).scalar(beta);
        let at = call.count();
        call.vector(&y).run();
        if m == 0 || n == 0 {
            // The routine must return at once, without scaling y.
            call.must_hold(at, &y.v)?;
            continue;
        }
        let new = a
            .dense()
            .op(op)
            .times(&x.dense())
            .plus(alpha, beta, &y.dense());
        call.must_hold(at, &y.holding(&new).v)?;
    }
    Ok(())
}

/// symv, sbmv, spmv; hemv, hbmv, hpmv.
pub(super) fn symmetric(t: &mut Trial<'_>, storage: Storage, hermitian: bool) -> Result<(), Wrong> {
    for (n, (incx, incy)) in cases() {
        let uplo = t.draw.one_of(b"UL");
        let shape = Shape::triangle(uplo, hermitian);
        let a = matrix(t, storage, n, n, shape, false);
        let x = t.draw.vector(t.dtype, n, incx);
        let y = t.draw.vector(t.dtype, n, incy);
        let (alpha, beta) = t.scalars();
        let mut call = t.call();
        call.letter(uplo).int(n as i64);
        diagonals(&mut call, &a);
        call.scalar(alpha).matrix(&a).vector(&x).scalar(beta);
        let at = call.count();
        call.vector(&y).run();
        let new = a.dense().times(&x.dense()).plus(alpha, beta, &y.dense());
        call.must_hold(at, &y.holding(&new).v)?;
    }
    Ok(())
}

/// trmv, tbmv and tpmv; and trsv, tbsv and tpsv (`solve`), which must turn the product back into the vector.
pub(super) fn triangular(t: &mut Trial<'_>, storage: Storage, solve: bool) -> Result<(), Wrong> {
    for (n, (inc, _)) in cases() {
        let (uplo, op, diag) = (
            t.draw.one_of(b"UL"),
            t.draw.one_of(b"NTC"),
            t.draw.one_of(b"NU"),
        );
        let shape = Shape::Triangular(uplo, diag == b'U');
        let a = matrix(t, storage, n, n, shape, solve);
        let factor = t.draw.vector(t.dtype, n, inc);
        let product = factor.holding(&a.dense().op(op).times(&factor.dense()));
        let (given, expected) = if solve {
            (&product, &factor)
        } else {
            (&factor, &product)
        };
        let mut call = t.call();
        call.letter(uplo).letter(op).letter(diag).int(n as i64);
        diagonals(&mut call, &a);
        call.matrix(&a);
        let at = call.count();
        call.vector(given).run();
        call.must_hold(at, &expected.v)?;
    }
    Ok(())
}

/// ger, geru and gerc.
pub(super) fn ger(t: &mut Trial<'_>, conjugated: bool) -> Result<(), Wrong> {
    for (order, (incx, incy)) in cases() {
        let other = order + t.draw.below(7) as usize;
        let (m, n) = t.draw.one_of(&[(order, other), (other, order)]);
        let a = matrix(t, Storage::Full, m, n, Shape::General, false);
        let x = t.draw.vector(t.dtype, m, incx);
        let y = t.draw.vector(t.dtype, n, incy);
        let (alpha, _) = t.scalars();
        let mut call = t.call();
        call.int(m as i64).int(n as i64).scalar(alpha);
        call.vector(&x).vector(&y);
        let at = call.count();
        call.matrix(&a).run();
        let row = y.dense().op(if conjugated { b'C' } else { b'T' });
        let new = x
            .dense()
            .times(&row)
            .plus(alpha, Complex64::ONE, &a.dense());
        call.must_hold(at, &a.holding(&new).v)?;
    }
    Ok(())
}

/// syr, spr, syr2, spr2; her, hpr, her2, hpr2.
pub(super) fn update(
    t: &mut Trial<'_>,
    storage: Storage,
    hermitian: bool,
    rank: u8,
) -> Result<(), Wrong> {
    for (n, (incx, incy)) in cases() {
        let uplo = t.draw.one_of(b"UL");
        let shape = Shape::triangle(uplo, hermitian);
        let a = matrix(t, storage, n, n, shape, false);
        let x = t.draw.vector(t.dtype, n, incx);
        let y = t.draw.vector(t.dtype, n, incy);
        let (mut alpha, _) = t.scalars();
        let mut call = t.call();
        call.letter(uplo).int(n as i64);
        call.scalar_or_real(&mut alpha, hermitian && rank == 1);
        call.vector(&x);
        if rank == 2 {
            call.vector(&y);
        }
        let at = call.count();
        call.matrix(&a).run();
        let second = (rank == 2).then(|| y.dense());
        let scalars = (alpha, Complex64::ONE);
        let new = a
            .dense()
            .updated(&x.dense(), second.as_ref(), hermitian, scalars);
        call.must_hold(at, &a.holding(&new).v)?;
    }
    Ok(())
}
