//! Sums, copies and transpositions of matrices.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::level1;
use super::product::Strided;
use super::vector::{Vector, zero};
use crate::base::{Op, Scalar, Value};
use crate::device::api::{Kernel, Operand};

/// A column of a matrix.
fn column<T: Scalar>(m: Operand, rows: usize, j: usize) -> Vector<T> {
    let first = m.addr + (j * m.ld() * size_of::<T>()) as u64;
    Vector::new(Operand::vector(first, 1), rows)
}

/// `C := alpha A + beta C`. A matrix whose factor is zero is not read.
///
/// # Safety
/// `kernel` is a geadd of `T` and satisfies [`super::run`].
pub(super) unsafe fn geadd<T: Scalar>(kernel: &Kernel) {
    let [a, c, _] = kernel.at;
    for j in 0..kernel.n {
        let (x, y) = (column::<T>(a, kernel.m, j), column(c, kernel.m, j));
        // SAFETY: the caller vouches for the matrices.
        unsafe { level1::axpby(kernel.alpha, x, kernel.beta, y) };
    }
}

/// An element of `alpha op(A)`; A is not read if `alpha` is zero.
///
/// # Safety
/// The element is readable.
unsafe fn element<T: Scalar>(op: Op, alpha: Value, a: Strided<T>, i: usize, j: usize) -> T {
    if alpha.is_zero() {
        return zero();
    }
    // SAFETY: the caller vouches for the element.
    let v = unsafe { a.get(i, j) };
    let v = if op == Op::ConjTrans { v.conj() } else { v };
    if alpha.is_one() {
        v
    } else {
        T::from_value(alpha) * v
    }
}

/// `B := alpha op(A)`
///
/// # Safety
/// `kernel` is an omatcopy of `T` and satisfies [`super::run`].
pub(super) unsafe fn omatcopy<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        op_a: op,
        alpha,
        at: [a, b, _],
        ..
    } = kernel;
    let from = Strided::<T>::new(a, false);
    let to = Strided::<T>::new(b, op != Op::None);
    for j in 0..kernel.n {
        for i in 0..kernel.m {
            // SAFETY: the caller vouches for the matrices.
            unsafe { to.set(i, j, element(op, alpha, from, i, j)) };
        }
    }
}

/// `A := alpha op(A)`; A is square if `op` transposes.
///
/// # Safety
/// `kernel` is an imatcopy of `T` and satisfies [`super::run`].
pub(super) unsafe fn imatcopy<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        op_a: op,
        alpha,
        m,
        at: [a, ..],
        ..
    } = kernel;
    let all = Strided::<T>::new(a, false);
    for j in 0..kernel.n {
        // Elements are exchanged in pairs; the loop visits the one on or above the diagonal.
        for i in 0..if op == Op::None { m } else { m.min(j + 1) } {
            // SAFETY: the caller vouches for the matrix.
            unsafe {
                let new = element(op, alpha, all, i, j);
                if op == Op::None {
                    all.set(i, j, new);
                    continue;
                }
                let other = element(op, alpha, all, j, i);
                all.set(i, j, other);
                all.set(j, i, new);
            }
        }
    }
}
