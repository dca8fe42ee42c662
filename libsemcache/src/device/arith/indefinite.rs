//! The factorization of symmetric matrices that need not be definite, and solutions by it, column by column as LAPACK's sytf2 and sytrs
//! compute them: J. R. Bunch and L. Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems", Math.
//! Comp. 31 (1977). Complex matrices are symmetric here, too, not Hermitian.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::by_column::{Matrix, size};
use super::triangular::divide;
use super::vector::{pointer, zero};
use crate::base::dense::DenseKernel;
use crate::base::{Scalar, Uplo, Value};

/// The lower triangle of a symmetric matrix. An upper one is a lower one whose rows and columns are numbered from the last to the first:
/// LAPACK's algorithm for it goes that way.
#[derive(Clone, Copy)]
struct Triangle<T> {
    of: Matrix<T>,
    uplo: Uplo,
    order: usize,
}

impl<T: Scalar> Triangle<T> {
    fn of(kernel: &DenseKernel) -> Self {
        Triangle {
            of: Matrix::new(kernel.a),
            uplo: kernel.uplo,
            order: kernel.n,
        }
    }

    /// The number that a row or column has in the program's matrix.
    const fn place(&self, i: usize) -> usize {
        match self.uplo {
            Uplo::Lower => i,
            Uplo::Upper => self.order - 1 - i,
        }
    }

    /// # Safety
    /// The element exists.
    unsafe fn get(self, i: usize, j: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.of.get(self.place(i.max(j)), self.place(i.min(j))) }
    }

    /// # Safety
    /// The element exists.
    unsafe fn set(self, i: usize, j: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe {
            self.of
                .set(self.place(i.max(j)), self.place(i.min(j)), value)
        };
    }

    /// Exchanges two elements.
    ///
    /// # Safety
    /// They exist.
    unsafe fn exchange(self, one: (usize, usize), other: (usize, usize)) {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (self.get(one.0, one.1), self.get(other.0, other.1));
            self.set(one.0, one.1, b);
            self.set(other.0, other.1, a);
        }
    }

    /// The pivot of column `k`: which column takes its place, or that of the next one if they form a block of order two. `None` if the
    /// column is zero or begins with no number.
    ///
    /// # Safety
    /// The elements of the rest of the matrix exist.
    unsafe fn pivot(self, k: usize) -> Option<(usize, usize)> {
        let alpha = (1.0 + 17f64.sqrt()) / 8.0;
        // SAFETY: the caller's promise.
        let at = |i, j| size(unsafe { self.get(i, j) });
        let diagonal = at(k, k);
        let (mut largest, mut row) = (0.0, k);
        for i in k + 1..self.order {
            // The first one in the program's numbering.
            let takes = match self.uplo {
                Uplo::Lower => row == k || at(i, k) > largest,
                Uplo::Upper => row == k || at(i, k) >= largest,
            };
            if takes {
                (largest, row) = (at(i, k), i);
            }
        }
        if diagonal.max(largest) == 0.0 || diagonal.is_nan() {
            return None;
        }
        if diagonal >= alpha * largest {
            return Some((k, 1));
        }
        let others = (k..self.order).filter(|i| *i != row);
        let in_row = others.map(|i| at(row, i)).fold(0.0, f64::max);
        if diagonal >= alpha * largest * (largest / in_row) {
            Some((k, 1))
        } else if at(row, row) >= alpha * in_row {
            Some((row, 1))
        } else {
            Some((row, 2))
        }
    }
}

/// Factors A, and writes pivots of 32 bits.
///
/// # Safety
/// As [`super::dense::solve`].
pub(super) unsafe fn factor<T: Scalar>(kernel: &DenseKernel) -> usize {
    let (a, n) = (Triangle::<T>::of(kernel), kernel.n);
    let one = T::from_value(Value::ONE);
    let mut info = 0;
    let mut k = 0;
    while k < n {
        // SAFETY: elements of the triangle.
        let chosen = unsafe { a.pivot(k) };
        if chosen.is_none() && info == 0 {
            info = a.place(k) + 1;
        }
        let (with, order) = chosen.unwrap_or((k, 1));
        let last = k + order - 1;
        // SAFETY: elements of the triangle.
        unsafe {
            if with != last {
                for i in (last + 1..n).filter(|i| *i != with) {
                    a.exchange((i, last), (i, with));
                }
                a.exchange((last, last), (with, with));
                if order == 2 {
                    a.exchange((last, k), (with, k));
                }
            }
            match (chosen, order) {
                (None, _) => {}
                (_, 1) => {
                    let scale = divide(one, a.get(k, k));
                    for j in k + 1..n {
                        let factor = scale * a.get(j, k);
                        for i in j..n {
                            a.set(i, j, a.get(i, j) - a.get(i, k) * factor);
                        }
                    }
                    for i in k + 1..n {
                        a.set(i, k, a.get(i, k) * scale);
                    }
                }
                _ => {
                    let beside = a.get(last, k);
                    let (next, this) = (
                        divide(a.get(last, last), beside),
                        divide(a.get(k, k), beside),
                    );
                    let scale = divide(divide(one, next * this - one), beside);
                    for j in last + 1..n {
                        let (x, y) = (a.get(j, k), a.get(j, last));
                        let (x, y) = (scale * (next * x - y), scale * (this * y - x));
                        for i in j..n {
                            let less = a.get(i, k) * x + a.get(i, last) * y;
                            a.set(i, j, a.get(i, j) - less);
                        }
                        a.set(j, k, x);
                        a.set(j, last, y);
                    }
                }
            }
            for column in k..=last {
                let pivot = i32::try_from(a.place(with) + 1).unwrap_or(i32::MAX);
                pointer::<i32>(kernel.pivots)
                    .wrapping_add(a.place(column))
                    .write_unaligned(if order == 1 { pivot } else { -pivot });
            }
        }
        k += order;
    }
    info
}

/// Solves by the factor, with pivots of 64 bits.
///
/// # Safety
/// As [`super::dense::solve`].
pub(super) unsafe fn solve<T: Scalar>(kernel: &DenseKernel) -> usize {
    let (a, n) = (Triangle::<T>::of(kernel), kernel.n);
    let of_b = Matrix::<T>::new(kernel.b);
    // The column that takes the place of column `i`, or of the second one of its block, and whether it is in a block of order two.
    let pivot = |i: usize| {
        // SAFETY: a pivot of each column.
        let pivot = unsafe {
            pointer::<i64>(kernel.pivots)
                .wrapping_add(a.place(i))
                .read_unaligned()
        };
        let with = usize::try_from(pivot.unsigned_abs().saturating_sub(1)).unwrap_or(0);
        (a.place(with.min(n - 1)), pivot < 0)
    };
    // The columns at which blocks begin, with their orders.
    let mut blocks = Vec::new();
    let mut k = 0;
    while k < n {
        let order = if pivot(k).1 && k + 1 < n { 2 } else { 1 };
        blocks.push((k, order));
        k += order;
    }
    for side in 0..kernel.sides {
        // SAFETY: elements of B.
        let get = |i| unsafe { of_b.get(a.place(i), side) };
        // SAFETY: as above.
        let set = |i, value| unsafe { of_b.set(a.place(i), side, value) };
        let exchange = |i: usize, with: usize| {
            let (x, y) = (get(i), get(with));
            set(i, y);
            set(with, x);
        };
        // SAFETY: elements of the triangle.
        let l = |i, j| unsafe { a.get(i, j) };
        for &(k, order) in &blocks {
            let last = k + order - 1;
            exchange(last, pivot(k).0);
            for column in k..=last {
                let x = get(column);
                for i in last + 1..n {
                    set(i, get(i) - l(i, column) * x);
                }
            }
            match order {
                1 => set(k, divide(get(k), l(k, k))),
                _ => {
                    let beside = l(last, k);
                    let one = T::from_value(Value::ONE);
                    let (this, next) = (divide(l(k, k), beside), divide(l(last, last), beside));
                    let (x, y) = (divide(get(k), beside), divide(get(last), beside));
                    let of = this * next - one;
                    set(k, divide(next * x - y, of));
                    set(last, divide(this * y - x, of));
                }
            }
        }
        for &(k, order) in blocks.iter().rev() {
            let last = k + order - 1;
            for column in k..=last {
                let mut sum = zero();
                for i in last + 1..n {
                    sum = sum + l(i, column) * get(i);
                }
                set(column, get(column) - sum);
            }
            exchange(last, pivot(k).0);
        }
    }
    0
}
