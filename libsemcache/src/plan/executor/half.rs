//! Naive arithmetic of level-2 routines that use one triangle of the matrix, and of rotations.

use super::{Mat, all, dot, in_triangle, op_at, real};
use crate::base::kernel::Kernel;
use crate::base::{Diag, Op, Routine, Scalar, Uplo, Value};
use crate::plan::Problem;

/// Runs one kernel on its own operands; `pos` returns the position in memory order of a logical element of a vector
/// operand.
pub(super) fn kernel<T: Scalar>(
    p: &Problem,
    op: &Kernel,
    mats: &mut [Mat<T>],
    pos: &dyn Fn(usize, usize) -> usize,
) {
    let (alpha, beta) = (T::from_value(op.alpha), T::from_value(op.beta));
    let (zero, one) = (T::from_value(Value::ZERO), T::from_value(Value::ONE));
    let n = op.n;
    let (uplo, diag) = (p.form.uplo, p.form.diag);
    let hermitian = matches!(p.routine, Routine::Hemv | Routine::Her | Routine::Her2);
    let other = |x: T| if hermitian { x.conj() } else { x };
    match p.routine {
        Routine::Symv | Routine::Hemv => {
            let a = |i: usize, j: usize| {
                if i == j {
                    let x = mats[0].at(i, i);
                    if hermitian { real(x) } else { x }
                } else if in_triangle(uplo, i, j) {
                    mats[0].at(i, j)
                } else {
                    other(mats[0].at(j, i))
                }
            };
            let product: Vec<T> = (0..n)
                .map(|i| dot(n, |j| a(i, j) * mats[1].at(pos(1, j), 0)))
                .collect();
            for (i, sum) in product.into_iter().enumerate() {
                let at = pos(2, i);
                let y = if op.beta.is_zero() {
                    zero
                } else {
                    beta * mats[2].at(at, 0)
                };
                mats[2].set(at, 0, y + alpha * sum);
            }
        }
        Routine::Trmv | Routine::Trsv => {
            let old = mats[0].clone();
            let mut x: Vec<T> = (0..n).map(|i| mats[1].at(pos(1, i), 0)).collect();
            // Element (i, j) of op(A).
            let a = |i: usize, j: usize| {
                let (r, c) = if p.op_a == Op::None { (i, j) } else { (j, i) };
                if i == j && diag == Diag::Unit {
                    one
                } else if in_triangle(uplo, r, c) {
                    op_at(&old, p.op_a, i, j)
                } else {
                    zero
                }
            };
            if p.routine == Routine::Trmv {
                x = (0..n).map(|i| dot(n, |j| a(i, j) * x[j])).collect();
            } else {
                let lower = (uplo == Uplo::Lower) == (p.op_a == Op::None);
                for step in 0..n {
                    let i = if lower { step } else { n - 1 - step };
                    let known = if lower { 0..i } else { i + 1..n };
                    let sum = known.fold(zero, |sum, j| sum + a(i, j) * x[j]);
                    // The diagonals in the tests have modulus one, so the conjugate is the inverse.
                    x[i] = (x[i] - sum) * a(i, i).conj();
                }
            }
            for (i, v) in x.into_iter().enumerate() {
                mats[1].set(pos(1, i), 0, v);
            }
        }
        Routine::Syr | Routine::Her | Routine::Syr2 | Routine::Her2 => {
            let (a, vectors) = mats.split_last_mut().expect("a matrix");
            let v = |k: usize, i: usize| vectors[k].at(pos(k, i), 0);
            for (i, j) in all(n, n).filter(|&(i, j)| in_triangle(uplo, i, j)) {
                let sum = if vectors.len() == 1 {
                    alpha * v(0, i) * other(v(0, j))
                } else {
                    alpha * v(0, i) * other(v(1, j)) + other(alpha) * v(1, i) * other(v(0, j))
                };
                let value = a.at(i, j) + sum;
                a.set(
                    i,
                    j,
                    if hermitian && i == j {
                        real(value)
                    } else {
                        value
                    },
                );
            }
        }
        _ => rotation(p, op, mats, pos),
    }
}

fn rotation<T: Scalar>(
    p: &Problem,
    op: &Kernel,
    mats: &mut [Mat<T>],
    pos: &dyn Fn(usize, usize) -> usize,
) {
    let (a, b) = (op.alpha, op.beta);
    let h = match p.routine {
        Routine::Rot => [a.re, -b.re, b.re, a.re],
        Routine::Rotm => [a.re, a.im, b.re, b.im],
        other => unreachable!("{other:?}"),
    };
    let h = h.map(|re| T::from_value(Value { re, im: 0.0 }));
    for i in 0..op.m {
        let (ix, iy) = (pos(0, i), pos(1, i));
        let (x, y) = (mats[0].at(ix, 0), mats[1].at(iy, 0));
        mats[0].set(ix, 0, h[0] * x + h[2] * y);
        mats[1].set(iy, 0, h[1] * x + h[3] * y);
    }
}
