//! The routines of level 2, for full, band and packed matrices; and sums, copies and transpositions of matrices.

use num_complex::Complex64;

use super::Trial;
use super::call::{Call, Wrong};
use super::data::{Dense, Layout, Matrix, Shape};

/// How a matrix is stored: the second letters of the names, `ge`, `gb`; `sy`, `sb`, `sp`; `tr`, `tb`, `tp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    Full,
    Band,
    Packed,
}

const INCREMENTS: [(i64, i64); 4] = [(1, 1), (2, 1), (-1, 2), (1, -3)];

/// Orders and increments of the calls: every order up to 36, for which kernels may have code of their own, some that
/// kernels cut into blocks, and one that is computed by several threads.
fn cases() -> impl Iterator<Item = (usize, (i64, i64))> {
    let few = (0..=36).chain([47, 48, 63, 64, 65, 70]);
    few.flat_map(|n| INCREMENTS.map(|inc| (n, inc)))
        .chain([(129, INCREMENTS[0])])
}

/// A matrix of the trial's type in this storage.
fn matrix(
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

/// geadd, an extension of OpenBLAS.
pub(super) fn geadd(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (order, _) in cases() {
        let other = order + t.draw.below(7) as usize;
        let (m, n) = t.draw.one_of(&[(order, other), (other, order)]);
        let a = matrix(t, Storage::Full, m, n, Shape::General, false);
        let c = matrix(t, Storage::Full, m, n, Shape::General, false);
        let (alpha, beta) = t.scalars();
        let mut call = t.call();
        call.int(m as i64).int(n as i64).scalar(alpha);
        call.matrix(&a).scalar(beta);
        let at = call.count();
        call.matrix(&c).run();
        let new = a.dense().plus(alpha, beta, &c.dense());
        call.must_hold(at, &c.holding(&new).v)?;
    }
    Ok(())
}

/// A matrix whose leading dimension is not below the number of its columns.
fn wide(t: &mut Trial<'_>, rows: usize, cols: usize) -> Matrix {
    let ld = rows.max(cols) + t.draw.below(3) as usize;
    t.draw.matrix(
        t.dtype,
        rows,
        cols,
        Layout::Full { ld },
        Shape::General,
        false,
    )
}

/// A copy of a matrix: by columns or by rows (`C`, `R`), as it is, transposed, or either of them conjugated (`N`, `T`, `C`,
/// `R`), times a number. What is stored by rows is taken for its transpose, stored by columns.
struct Copied {
    a: Matrix,
    scale: Complex64,
    letters: [u8; 2],
    /// As the call has them.
    size: (usize, usize),
    /// Of the result by columns.
    result: (usize, usize),
    new: Dense,
}

impl Copied {
    fn draw(t: &mut Trial<'_>, order: usize, in_place: bool) -> Copied {
        // Libraries do not agree on whether an empty matrix is an error.
        let order = order.max(1);
        let other = order + t.draw.below(3) as usize;
        let (m, n) = t.draw.one_of(&[(order, other), (other, order)]);
        let letters = [t.draw.one_of(b"CR"), t.draw.one_of(b"NTCR")];
        let a = if in_place {
            wide(t, m, n)
        } else {
            matrix(t, Storage::Full, m, n, Shape::General, false)
        };
        let (scale, _) = t.scalars();
        let turned = matches!(letters[1], b'T' | b'C');
        let dense = match letters[1] {
            b'R' => a.dense().op(b'C').op(b'T'),
            op => a.dense().op(op),
        };
        Copied {
            a,
            scale,
            letters,
            size: if letters[0] == b'C' { (m, n) } else { (n, m) },
            result: if turned { (n, m) } else { (m, n) },
            new: dense.plus(scale, Complex64::ZERO, &dense),
        }
    }

    fn begin<'a>(&self, t: &Trial<'a>) -> Call<'a> {
        let mut call = t.call();
        call.letter(self.letters[0]).letter(self.letters[1]);
        call.int(self.size.0 as i64).int(self.size.1 as i64);
        call.scalar(self.scale);
        call
    }
}

/// omatcopy, an extension of OpenBLAS.
pub(super) fn omatcopy(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (order, _) in cases() {
        let copied = Copied::draw(t, order, false);
        let (rows, cols) = copied.result;
        let b = matrix(t, Storage::Full, rows, cols, Shape::General, false);
        let mut call = copied.begin(t);
        call.matrix(&copied.a);
        let at = call.count();
        call.matrix(&b).run();
        call.must_hold(at, &b.holding(&copied.new).v)?;
    }
    Ok(())
}

/// imatcopy, an extension of OpenBLAS: the result lies where the matrix does, with a leading dimension of its own. Neither
/// is below the number of columns: then OpenBLAS 0.3.21 writes beyond a buffer of its own, and may end the process.
pub(super) fn imatcopy(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for (order, _) in cases() {
        let copied = Copied::draw(t, order, true);
        let (rows, cols) = copied.result;
        let mut result = wide(t, rows, cols);
        let mut room = copied.a.v.clone();
        room.resize(room.len().max(result.v.len()), Complex64::ZERO);
        let mut call = copied.begin(t);
        let at = call.count();
        call.array(&room);
        for layout in [copied.a.layout, result.layout] {
            if let Layout::Full { ld } = layout {
                call.int(ld as i64);
            }
        }
        call.run();
        result.v = room;
        call.must_hold(at, &result.holding(&copied.new).v)?;
    }
    Ok(())
}
