//! Checks of the routines of level 3 (matrix products).

use num_complex::Complex64;
use testkit::oracle::Dense;

use super::call::{Call, Wrong};
use super::data::{Layout, Matrix, Shape};
use super::trial::Trial;

/// The orders of the matrices, one for each call: all small orders, several times, since kernels may have special code
/// for each, and some that kernels cut into blocks.
pub(super) fn orders() -> impl Iterator<Item = usize> {
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

    /// A general matrix A such that op(A), for `op` of `N`, `T` or `C`, has `rows` rows and `cols` columns.
    fn operand(&mut self, op: u8, rows: usize, cols: usize) -> Matrix {
        let (rows, cols) = if op == b'N' {
            (rows, cols)
        } else {
            (cols, rows)
        };
        self.full(rows, cols, Shape::General, false)
    }

    /// A size that differs by a few from `n`, never zero.
    fn near(&mut self, n: usize) -> usize {
        if n == 0 {
            3
        } else {
            n + self.draw.below(6) as usize - 2.min(n - 1)
        }
    }
}

/// The operands and scalars of a call that writes `alpha op(A) op(B) + beta C` to C, or to a part of it.
pub(super) struct Product {
    /// The letters of both `op`s.
    pub(super) ops: [u8; 2],
    k: usize,
    alpha: Complex64,
    beta: Complex64,
    a: Matrix,
    b: Matrix,
    c: Matrix,
}

impl Product {
    /// Draws the operands of a call with a C of this size, of which the call uses the part that the shape names.
    pub(super) fn draw(t: &mut Trial<'_>, (m, n): (usize, usize), shape: Shape) -> Product {
        let k = t.near(m);
        let ops = [t.draw.one_of(b"NTC"), t.draw.one_of(b"NTC")];
        let a = t.operand(ops[0], m, k);
        let b = t.operand(ops[1], k, n);
        let c = t.full(m, n, shape, false);
        let (alpha, beta) = t.scalars();
        Product {
            ops,
            k,
            alpha,
            beta,
            a,
            b,
            c,
        }
    }

    /// Makes the call, whose flags and size of C are added already.
    pub(super) fn run(&self, call: &mut Call<'_>) -> Result<(), Wrong> {
        call.int(self.k as i64)
            .scalar(self.alpha)
            .matrix(&self.a)
            .matrix(&self.b)
            .scalar(self.beta);
        let at = call.count();
        call.matrix(&self.c).run();
        let [a, b] =
            [(&self.a, self.ops[0]), (&self.b, self.ops[1])].map(|(m, op)| m.dense().op(op));
        let new = a.times(&b).plus(self.alpha, self.beta, &self.c.dense());
        call.must_hold(at, &self.c.holding(&new).v)
    }
}

/// gemm and gemm3m.
pub(super) fn gemm(t: &mut Trial<'_>) -> Result<(), Wrong> {
    for m in orders() {
        let n = t.near(m);
        let product = Product::draw(t, (m, n), Shape::General);
        let mut call = t.call();
        let [ta, tb] = product.ops;
        call.letter(ta).letter(tb).int(m as i64).int(n as i64);
        product.run(&mut call)?;
    }
    Ok(())
}

/// symm and hemm.
pub(super) fn symm(t: &mut Trial<'_>, hermitian: bool) -> Result<(), Wrong> {
    for m in orders() {
        let n = t.near(m);
        let (side, uplo) = (t.draw.one_of(b"LR"), t.draw.one_of(b"UL"));
        let shape = Shape::triangle(uplo, hermitian);
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
        call.matrix(&a).matrix(&b).scalar(beta);
        let at = call.count();
        call.matrix(&c).run();
        let new = sided(side, &a.dense(), &b.dense()).plus(alpha, beta, &c.dense());
        call.must_hold(at, &c.holding(&new).v)?;
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
        let shape = Shape::triangle(uplo, hermitian);
        let c = t.full(n, n, shape, false);
        let (a, b) = (t.operand(op, n, k), t.operand(op, n, k));
        let (mut alpha, mut beta) = t.scalars();
        let mut call = t.call();
        call.letter(uplo).letter(op).int(n as i64).int(k as i64);
        call.scalar_or_real(&mut alpha, hermitian && rank == 1);
        call.matrix(&a);
        if rank == 2 {
            call.matrix(&b);
        }
        call.scalar_or_real(&mut beta, hermitian);
        let at = call.count();
        call.matrix(&c).run();
        let second = (rank == 2).then(|| b.dense().op(op));
        let first = a.dense().op(op);
        let new = c
            .dense()
            .updated(&first, second.as_ref(), hermitian, (alpha, beta));
        call.must_hold(at, &c.holding(&new).v)?;
    }
    Ok(())
}

/// trmm; and trsm (`solve`), which must turn the product back into the matrix.
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
            (b.clone(), scaled(&product))
        };
        let mut call = t.call();
        call.letter(side).letter(uplo).letter(op).letter(diag);
        call.int(m as i64).int(n as i64).scalar(alpha).matrix(&a);
        let at = call.count();
        call.matrix(&given).run();
        call.must_hold(at, &expected.v)?;
    }
    Ok(())
}
