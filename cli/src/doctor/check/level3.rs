//! The routines of matrices.

use num_complex::Complex64;

use super::Trial;
use super::call::Wrong;
use super::data::{Dense, Layout, Matrix, Shape};

/// Orders, with how many calls of each: all that kernels may treat by themselves, and some of several blocks.
fn orders() -> impl Iterator<Item = usize> {
    let small = (0..=20).flat_map(|n| [n; 6]);
    let medium = [23, 24, 25, 31, 32, 33, 36, 40, 47, 48];
    let large = [63, 64, 65, 70];
    small
        .chain(medium.into_iter().flat_map(|n| [n; 3]))
        .chain(large)
}

impl Trial<'_> {
    fn full(&mut self, rows: usize, cols: usize, shape: Shape, units: bool) -> Matrix {
        let ld = rows.max(1) + self.draw.below(3) as usize;
        self.draw
            .matrix(self.dtype, rows, cols, Layout::Full { ld }, shape, units)
    }

    /// A general matrix of which `op` has so many rows and columns.
    fn operand(&mut self, op: u8, rows: usize, cols: usize) -> Matrix {
        let (rows, cols) = if op == b'N' {
            (rows, cols)
        } else {
            (cols, rows)
        };
        self.full(rows, cols, Shape::General, false)
    }

    /// A size near another one.
    fn near(&mut self, n: usize) -> usize {
        if n == 0 {
            3
        } else {
            n + self.draw.below(6) as usize - 2.min(n - 1)
        }
    }
}

fn ld(a: &Matrix) -> i64 {
    match a.layout {
        Layout::Full { ld } | Layout::Band { ld, .. } => ld as i64,
        Layout::Packed => 0,
    }
}

/// gemm and gemm3m; gemmt, which makes one triangle.
pub(super) fn gemm(t: &mut Trial<'_>, half: bool) -> Result<(), Wrong> {
    for m in orders() {
        let (n, k) = (if half { m } else { t.near(m) }, t.near(m));
        let (ta, tb) = (t.draw.one_of(b"NTC"), t.draw.one_of(b"NTC"));
        let a = t.operand(ta, m, k);
        let b = t.operand(tb, k, n);
        let uplo = t.draw.one_of(b"UL");
        let shape = if half {
            Shape::Symmetric(uplo)
        } else {
            Shape::General
        };
        let c = t.full(m, n, shape, false);
        let (alpha, beta) = t.scalars();
        let mut call = t.call();
        if half {
            call.letter(uplo).letter(ta).letter(tb).int(m as i64);
        } else {
            call.letter(ta).letter(tb).int(m as i64).int(n as i64);
        }
        call.int(k as i64).scalar(alpha).array(&a.v).int(ld(&a));
        call.array(&b.v).int(ld(&b)).scalar(beta);
        let at = call.count();
        call.array(&c.v).int(ld(&c)).run();
        let new = a
            .dense()
            .op(ta)
            .times(&b.dense().op(tb))
            .plus(alpha, beta, &c.dense());
        call.must_hold(at, &c.holding(&new))?;
    }
    Ok(())
}

/// symm and hemm.
pub(super) fn symm(t: &mut Trial<'_>, hermitian: bool) -> Result<(), Wrong> {
    for m in orders() {
        let n = t.near(m);
        let (side, uplo) = (t.draw.one_of(b"LR"), t.draw.one_of(b"UL"));
        let shape = if hermitian {
            Shape::Hermitian(uplo)
        } else {
            Shape::Symmetric(uplo)
        };
        let order = if side == b'L' { m } else { n };
        let a = t.full(order, order, shape, false);
        let b = t.full(m, n, Shape::General, false);
        let c = t.full(m, n, Shape::General, false);
        let (alpha, beta) = t.scalars();
        let mut call = t.call();
        call.letter(side)
            .letter(uplo)
            .int(m as i64)
            .int(n as i64)
            .scalar(alpha);
        call.array(&a.v)
            .int(ld(&a))
            .array(&b.v)
            .int(ld(&b))
            .scalar(beta);
        let at = call.count();
        call.array(&c.v).int(ld(&c)).run();
        let product = sided(side, &a.dense(), &b.dense());
        call.must_hold(at, &c.holding(&product.plus(alpha, beta, &c.dense())))?;
    }
    Ok(())
}

/// A times B, or B times A.
fn sided(side: u8, a: &Dense, b: &Dense) -> Dense {
    if side == b'L' { a.times(b) } else { b.times(a) }
}

/// syrk, herk, syr2k and her2k.
pub(super) fn rank_k(t: &mut Trial<'_>, hermitian: bool, rank: u8) -> Result<(), Wrong> {
    for n in orders() {
        let k = t.near(n);
        let uplo = t.draw.one_of(b"UL");
        let other = if hermitian { b'C' } else { b'T' };
        let op = t.draw.one_of(&[b'N', other]);
        let shape = if hermitian {
            Shape::Hermitian(uplo)
        } else {
            Shape::Symmetric(uplo)
        };
        let c = t.full(n, n, shape, false);
        let (a, b) = (t.operand(op, n, k), t.operand(op, n, k));
        let (mut alpha, mut beta) = t.scalars();
        let mut call = t.call();
        call.letter(uplo).letter(op).int(n as i64).int(k as i64);
        if hermitian && rank == 1 {
            alpha.im = 0.0;
            call.real(alpha.re);
        } else {
            call.scalar(alpha);
        }
        call.array(&a.v).int(ld(&a));
        if rank == 2 {
            call.array(&b.v).int(ld(&b));
        }
        if hermitian {
            beta.im = 0.0;
            call.real(beta.re);
        } else {
            call.scalar(beta);
        }
        let at = call.count();
        call.array(&c.v).int(ld(&c)).run();
        let a = a.dense().op(op);
        let b = if rank == 2 {
            b.dense().op(op)
        } else {
            a.clone()
        };
        let mut new = a.times(&b.op(other)).plus(alpha, beta, &c.dense());
        if rank == 2 {
            let alpha = if hermitian { alpha.conj() } else { alpha };
            new = b.times(&a.op(other)).plus(alpha, Complex64::ONE, &new);
        }
        call.must_hold(at, &c.holding(&new))?;
    }
    Ok(())
}

/// trmm; and trsm, which must give back the matrix that a product was made of.
pub(super) fn triangular(t: &mut Trial<'_>, solve: bool) -> Result<(), Wrong> {
    for m in orders() {
        let n = t.near(m);
        let (side, uplo) = (t.draw.one_of(b"LR"), t.draw.one_of(b"UL"));
        let (op, diag) = (t.draw.one_of(b"NTC"), t.draw.one_of(b"NU"));
        let order = if side == b'L' { m } else { n };
        let a = t.full(order, order, Shape::Triangular(uplo, diag == b'U'), solve);
        let b = t.full(m, n, Shape::General, false);
        let (alpha, _) = t.scalars();
        let product = sided(side, &a.dense().op(op), &b.dense());
        let scaled = |by: &Dense| b.holding(&by.plus(alpha, Complex64::ZERO, by));
        let (given, expected) = if solve {
            (b.holding(&product), scaled(&b.dense()))
        } else {
            (b.v.clone(), scaled(&product))
        };
        let mut call = t.call();
        call.letter(side).letter(uplo).letter(op).letter(diag);
        call.int(m as i64)
            .int(n as i64)
            .scalar(alpha)
            .array(&a.v)
            .int(ld(&a));
        let at = call.count();
        call.array(&given).int(ld(&b)).run();
        call.must_hold(at, &expected)?;
    }
    Ok(())
}
