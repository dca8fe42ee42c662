//! Matrix-vector operations with a matrix of which one triangle is stored (symv, trmv, trsv, syr, syr2), by columns.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use core::ops::Range;

use super::level1::{axpy_runs, dot_runs, scale_parts};
use super::level2::{gather, scale};
use super::triangular;
use super::vector::{Vector, pointer, real_part};
use crate::base::{Form, Routine, Scalar, Side, Uplo, Value};
use crate::device::api::{Kernel, Operand};

/// `y := alpha A x + beta y`
///
/// # Safety
/// `kernel` is a symv of `T` and satisfies [`super::run`].
pub(super) unsafe fn symv<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        n,
        alpha,
        beta,
        at: [a, x, y],
        ..
    } = kernel;
    if n == 0 || (alpha.is_zero() && beta.is_one()) {
        return;
    }
    let y = Vector::<T>::new(y, n);
    let half = Half::<T>::new(kernel, a);
    // SAFETY: the vectors have `n` elements, and the triangle is readable.
    unsafe {
        scale(y, T::from_value(beta), beta.is_zero(), beta.is_one());
        if alpha.is_zero() {
            return;
        }
        let alpha = T::from_value(alpha);
        let x = gather(Vector::<T>::new(x, n));
        let mut sums = gather(y);
        for (j, &xj) in x.iter().enumerate() {
            let beside = half.beside(j);
            let (column, diagonal) = (half.at(beside.start, j), half.diagonal(j));
            // Column `j` is used twice: as a column, and as the row that mirrors it.
            let row = dot_runs(
                half.hermitian,
                beside.len(),
                column,
                x[beside.clone()].as_ptr(),
            );
            let scaled = alpha * xj;
            axpy_runs(
                beside.len(),
                scaled,
                column,
                sums[beside.clone()].as_mut_ptr(),
            );
            sums[j] = sums[j] + scaled * diagonal + alpha * row;
        }
        for (i, v) in sums.into_iter().enumerate() {
            y.set(i, v);
        }
    }
}

/// `x := op(A) x`, or `op(A)^-1 x`: a triangular product or solution of one column.
///
/// # Safety
/// `kernel` is a trmv or trsv of `T` and satisfies [`super::run`].
pub(super) unsafe fn triangular<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        routine,
        form,
        n,
        at: [a, x, _],
        ..
    } = kernel;
    let x = Vector::<T>::new(x, n);
    // SAFETY: the caller vouches for x.
    let mut column = unsafe { gather(x) };
    let b = Operand::matrix(column.as_mut_ptr().expose_provenance() as u64, n.max(1));
    let side = Side::Left;
    let as_matrix = Kernel {
        routine: if routine == Routine::Trsv {
            Routine::Trsm
        } else {
            Routine::Trmm
        },
        form: Form { side, ..form },
        m: n,
        n: 1,
        k: n,
        alpha: Value::ONE,
        at: [a, b, Operand::default()],
        ..*kernel
    };
    // SAFETY: the caller vouches for the triangle; the column is a local copy.
    unsafe {
        triangular::triangular::<T>(&as_matrix);
        for (i, v) in column.into_iter().enumerate() {
            x.set(i, v);
        }
    }
}

/// `A := A + alpha x x^T`, or `x^H`.
///
/// # Safety
/// `kernel` is a syr of `T` and satisfies [`super::run`].
pub(super) unsafe fn syr<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        n,
        alpha,
        at: [x, a, _],
        ..
    } = kernel;
    if alpha.is_zero() {
        return;
    }
    let alpha = T::from_value(alpha);
    let half = Half::<T>::new(kernel, a);
    // SAFETY: x has `n` elements, and the triangle is writable.
    unsafe {
        let x = Gathered::new(x, n);
        for j in 0..n {
            let right = half.other(x.at(j));
            let factor = if half.hermitian {
                scale_parts(alpha, right)
            } else {
                alpha * right
            };
            half.add(j, factor, &x);
            half.make_real(j);
        }
    }
}

/// `A := A + alpha x y^T + alpha y x^T`, or `alpha x y^H + conj(alpha) y x^H`.
///
/// # Safety
/// `kernel` is a syr2 of `T` and satisfies [`super::run`].
pub(super) unsafe fn syr2<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        n,
        alpha,
        at: [x, y, a],
        ..
    } = kernel;
    if alpha.is_zero() {
        return;
    }
    let alpha = T::from_value(alpha);
    let half = Half::<T>::new(kernel, a);
    // SAFETY: the vectors have `n` elements, and the triangle is writable.
    unsafe {
        let (x, y) = (Gathered::new(x, n), Gathered::new(y, n));
        for j in 0..n {
            half.add(j, alpha * half.other(y.at(j)), &x);
            half.add(j, half.other(alpha * x.at(j)), &y);
            half.make_real(j);
        }
    }
}

/// A vector as a contiguous copy.
struct Gathered<T>(Vec<T>);

impl<T: Scalar> Gathered<T> {
    /// # Safety
    /// The vector has `n` elements and is readable.
    unsafe fn new(v: Operand, n: usize) -> Self {
        // SAFETY: the caller vouches for the vector.
        Gathered(unsafe { gather(Vector::new(v, n)) })
    }

    fn at(&self, i: usize) -> T {
        self.0[i]
    }
}

/// A symmetric or Hermitian matrix of which one triangle is stored.
struct Half<T> {
    first: *mut T,
    ld: usize,
    n: usize,
    upper: bool,
    hermitian: bool,
}

impl<T: Scalar> Half<T> {
    fn new(kernel: &Kernel, a: Operand) -> Self {
        Half {
            first: pointer(a.addr),
            ld: a.ld(),
            n: kernel.n,
            upper: kernel.form.uplo == Uplo::Upper,
            hermitian: kernel.routine.hermitian() && T::DTYPE.is_complex(),
        }
    }

    fn at(&self, i: usize, j: usize) -> *mut T {
        self.first.wrapping_add(i + j * self.ld)
    }

    /// The rows of column `j` that are stored, without the diagonal.
    fn beside(&self, j: usize) -> Range<usize> {
        if self.upper { 0..j } else { j + 1..self.n }
    }

    /// The element as the right factor of a product: conjugated if the matrix is Hermitian.
    fn other(&self, v: T) -> T {
        if self.hermitian { v.conj() } else { v }
    }

    /// # Safety
    /// The diagonal is readable, and `j` below the order.
    unsafe fn diagonal(&self, j: usize) -> T {
        // SAFETY: the caller vouches for the diagonal.
        let v = unsafe { self.at(j, j).read_unaligned() };
        if self.hermitian { real_part(v) } else { v }
    }

    /// Adds `factor` times a vector to column `j`.
    ///
    /// # Safety
    /// The triangle is writable; the vector is of its order, and `j` below it.
    unsafe fn add(&self, j: usize, factor: T, v: &Gathered<T>) {
        let rows = if self.upper { 0..j + 1 } else { j..self.n };
        // SAFETY: rows of the triangle. A zero factor is not skipped: NaN and Inf spread, as in OpenBLAS.
        unsafe {
            axpy_runs(
                rows.len(),
                factor,
                v.0[rows.clone()].as_ptr(),
                self.at(rows.start, j),
            );
        }
    }

    /// # Safety
    /// The diagonal is writable, and `j` below the order.
    unsafe fn make_real(&self, j: usize) {
        if self.hermitian {
            // SAFETY: the caller vouches for the diagonal.
            unsafe { self.at(j, j).write_unaligned(self.diagonal(j)) };
        }
    }
}
