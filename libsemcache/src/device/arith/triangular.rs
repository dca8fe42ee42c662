//! Triangular products and solutions (trmm, trsm), in place. B is cut into blocks of rows (A on the left) or of
//! columns. To each block, the blocks on one side of it are added by a product, and its own part is computed by loops
//! over the block of A on the diagonal: no element of the other triangle, not even a zero, is multiplied.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::level1::axpy_runs;
use super::product::{Product, Strided, pieces};
use super::vector::zero;
use crate::base::{Diag, Form, Op, Routine, Scalar, Side, Uplo, Value};
use crate::device::api::Kernel;

/// Order of the blocks on the diagonal.
const DIAGONAL: usize = 32;

const MINUS_ONE: Value = Value { re: -1.0, im: 0.0 };

/// `B := alpha op(A) B` or `alpha B op(A)`; with the inverse of `op(A)` for trsm.
///
/// # Safety
/// `kernel` is a trmm or trsm of `T` and satisfies [`super::run`].
pub(super) unsafe fn triangular<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        form: Form { side, uplo, diag },
        op_a: op,
        m,
        n,
        k: order,
        alpha,
        at: [a, b, _],
        ..
    } = kernel;
    let solve = kernel.routine == Routine::Trsm;
    let b = Strided::<T>::new(b, false);
    let scaled = Product {
        m,
        n,
        k: 0,
        alpha: Value::ZERO,
        a: b,
        b,
        beta: alpha,
        c: b,
    };
    // SAFETY: the caller vouches for B; a product of inner dimension zero touches nothing but B.
    unsafe { scaled.run(false, false) };
    if alpha.is_zero() || m == 0 || n == 0 {
        return;
    }
    let left = side == Side::Left;
    let t = Triangle {
        of: Strided::<T>::new(a, op != Op::None),
        conj: op == Op::ConjTrans && T::DTYPE.is_complex(),
        upper: (uplo == Uplo::Upper) == (op == Op::None),
        unit: diag == Diag::Unit,
    };
    // To a block, the blocks behind it or before it are added: for a product their old values, for a solution their new
    // ones.
    let behind = left == t.upper;
    let mut room = vec![zero::<T>(); order.min(DIAGONAL).pow(2)];
    let mut step = |(at, len): (usize, usize)| {
        let (from, k) = if behind {
            (at + len, order - at - len)
        } else {
            (0, at)
        };
        let mut others = Product {
            k,
            alpha: if solve { MINUS_ONE } else { Value::ONE },
            beta: Value::ONE,
            ..scaled
        };
        if left {
            others.m = len;
            (others.a, others.b, others.c) = (t.of.at(at, from), b.at(from, 0), b.at(at, 0));
        } else {
            others.n = len;
            (others.a, others.b, others.c) = (b.at(0, from), t.of.at(from, at), b.at(0, at));
        }
        // SAFETY: the blocks lie within their operands; those of B that are read and written are different rows or
        // columns, and the block of A on the diagonal is a copy.
        unsafe {
            let own = t.block(at, len, &mut room);
            if solve {
                others.run(left && t.conj, !left && t.conj);
            }
            if left {
                for j in 0..n {
                    own.on_the_left(solve, others.c.at(0, j).first);
                }
            } else {
                own.on_the_right(solve, m, others.c);
            }
            if !solve {
                others.run(left && t.conj, !left && t.conj);
            }
        }
    };
    if behind == solve {
        pieces(order, DIAGONAL).rev().for_each(&mut step);
    } else {
        pieces(order, DIAGONAL).for_each(&mut step);
    }
}

/// `op(A)`: the stored elements in this order, or their conjugates.
struct Triangle<T> {
    of: Strided<T>,
    conj: bool,
    upper: bool,
    unit: bool,
}

impl<T: Scalar> Triangle<T> {
    /// The block of order `n` on the diagonal, copied into `room`.
    ///
    /// # Safety
    /// The block lies within the matrix, whose triangle is readable.
    unsafe fn block<'a>(&self, at: usize, n: usize, room: &'a mut [T]) -> Block<'a, T> {
        for j in 0..n {
            for i in run_beside(self.upper, n, j).chain((!self.unit).then_some(j)) {
                // SAFETY: an element of the triangle.
                let v = unsafe { self.of.get(at + i, at + j) };
                room[i + j * n] = if self.conj { v.conj() } else { v };
            }
        }
        Block {
            of: room,
            n,
            upper: self.upper,
            unit: self.unit,
        }
    }
}

/// The rows of column `j` of a triangle of order `n`, without the diagonal.
fn run_beside(upper: bool, n: usize, j: usize) -> core::ops::Range<usize> {
    if upper { 0..j } else { j + 1..n }
}

/// A small triangular matrix, column-major and packed; elements outside of the triangle are undefined and not read.
struct Block<'a, T> {
    of: &'a [T],
    n: usize,
    upper: bool,
    unit: bool,
}

impl<T: Scalar> Block<'_, T> {
    fn at(&self, i: usize, j: usize) -> T {
        self.of[i + j * self.n]
    }

    /// The columns, from the first or from the last.
    fn columns(&self, forward: bool) -> impl Iterator<Item = usize> {
        let n = self.n;
        (0..n).map(move |i| if forward { i } else { n - 1 - i })
    }

    /// Multiplies an element by the `j`-th element of the diagonal, or divides it by that (`solve`).
    fn by_diagonal(&self, solve: bool, j: usize, v: T) -> T {
        match (self.unit, solve) {
            (true, _) => v,
            (false, false) => self.at(j, j) * v,
            (false, true) => divide(v, self.at(j, j)),
        }
    }

    /// The column `x := T x`, or the solution of `T y = x`.
    ///
    /// # Safety
    /// `x` is writable for the order of the block.
    unsafe fn on_the_left(&self, solve: bool, x: *mut T) {
        for j in self.columns(self.upper != solve) {
            let beside = run_beside(self.upper, self.n, j);
            let column = self.of[j * self.n + beside.start..].as_ptr();
            // SAFETY: `j` and `beside` are below the order.
            unsafe {
                let old = x.add(j).read_unaligned();
                let new = self.by_diagonal(solve, j, old);
                let factor = if solve { zero::<T>() - new } else { old };
                axpy_runs(beside.len(), factor, column, x.add(beside.start));
                x.add(j).write_unaligned(new);
            }
        }
    }

    /// `X := X T` for the `m` rows of X, or the solution of `Y T = X`.
    ///
    /// # Safety
    /// `x` is writable for `m` rows and as many columns as the block has.
    unsafe fn on_the_right(&self, solve: bool, m: usize, x: Strided<T>) {
        for j in self.columns(self.upper == solve) {
            let by_diagonal = || {
                for i in 0..if self.unit { 0 } else { m } {
                    // SAFETY: within X.
                    unsafe { x.set(i, j, self.by_diagonal(solve, j, x.get(i, j))) };
                }
            };
            if !solve {
                by_diagonal();
            }
            for k in run_beside(self.upper, self.n, j) {
                let v = self.at(k, j);
                let factor = if solve { zero::<T>() - v } else { v };
                // SAFETY: different columns of X.
                unsafe { axpy_runs(m, factor, x.at(0, k).first, x.at(0, j).first) };
            }
            if solve {
                by_diagonal();
            }
        }
    }
}

/// `a / b`, rounded once where `b` is real; a complex divisor is scaled by its larger part, so that only results out of
/// range overflow (Smith's method).
pub(super) fn divide<T: Scalar>(a: T, b: T) -> T {
    let (a, b) = (a.to_value(), b.to_value());
    // Single precision is divided in double precision and narrowed, which rounds as one division does.
    let (re, im) = if b.im == 0.0 {
        (a.re / b.re, a.im / b.re)
    } else if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let whole = b.re + b.im * ratio;
        ((a.re + a.im * ratio) / whole, (a.im - a.re * ratio) / whole)
    } else {
        let ratio = b.re / b.im;
        let whole = b.re * ratio + b.im;
        ((a.re * ratio + a.im) / whole, (a.im * ratio - a.re) / whole)
    };
    T::from_value(Value { re, im })
}
