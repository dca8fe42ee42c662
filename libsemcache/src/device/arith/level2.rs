//! Matrix-vector operations (gemv, ger), by columns: an axpy per column or a dot per column. Strided vectors are
//! gathered once, so that the inner loops are contiguous.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::level1::{axpy_runs, dot_runs};
use super::vector::{Vector, pointer, zero};
use crate::base::{Op, Routine, Scalar};
use crate::device::api::Kernel;

/// `y := alpha op(A) x + beta y`
///
/// # Safety
/// `kernel` is a gemv of `T` and satisfies [`super::run`].
pub(super) unsafe fn gemv<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        op_a: op,
        m,
        n,
        alpha,
        beta,
        at: [a, x, y],
        ..
    } = kernel;
    if m == 0 || n == 0 || (alpha.is_zero() && beta.is_one()) {
        return;
    }
    let (rows, cols) = if op == Op::None { (m, n) } else { (n, m) };
    let y = Vector::<T>::new(y, rows);
    // SAFETY: `y` has `rows` elements, `x` has `cols`, column `j < n` of A has `m` elements.
    unsafe {
        scale(y, T::from_value(beta), beta.is_zero(), beta.is_one());
        if alpha.is_zero() {
            return;
        }
        let alpha = T::from_value(alpha);
        let x = Contiguous::gather(Vector::<T>::new(x, cols));
        let column = |j: usize| pointer::<T>(a.addr).wrapping_add(j * a.ld()).cast_const();
        if op == Op::None {
            let mut work = if y.contiguous() {
                Vec::new()
            } else {
                gather(y)
            };
            let out = if y.contiguous() {
                y.first
            } else {
                work.as_mut_ptr()
            };
            for j in 0..n {
                axpy_runs(m, alpha * x.at(j), column(j), out);
            }
            for (i, v) in work.into_iter().enumerate() {
                y.set(i, v);
            }
        } else {
            let conj = op == Op::ConjTrans;
            for j in 0..n {
                let sum = dot_runs(conj, m, column(j), x.first());
                y.set(j, y.get(j) + alpha * sum);
            }
        }
    }
}

/// `A := A + alpha x y^T`, or `y^H`.
///
/// # Safety
/// `kernel` is a ger of `T` and satisfies [`super::run`].
pub(super) unsafe fn ger<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        routine,
        m,
        n,
        alpha,
        at: [x, y, a],
        ..
    } = kernel;
    if m == 0 || n == 0 || alpha.is_zero() {
        return;
    }
    let conj = routine == Routine::Gerc;
    let alpha = T::from_value(alpha);
    let y = Vector::<T>::new(y, n);
    // SAFETY: `x` has `m` elements, `y` has `n`, column `j < n` of A has `m` elements.
    unsafe {
        let x = Contiguous::gather(Vector::<T>::new(x, m));
        for j in 0..n {
            let v = y.get(j);
            let v = if conj { v.conj() } else { v };
            // A zero in `y` is not skipped: NaN and Inf in `x` spread, as in OpenBLAS.
            axpy_runs(
                m,
                alpha * v,
                x.first(),
                pointer::<T>(a.addr).wrapping_add(j * a.ld()),
            );
        }
    }
}

/// `y := beta y`; y is not read if `beta` is zero.
///
/// # Safety
/// `y` is writable.
pub(super) unsafe fn scale<T: Scalar>(y: Vector<T>, beta: T, is_zero: bool, is_one: bool) {
    if is_one {
        return;
    }
    for i in 0..y.n {
        // SAFETY: `i < n`.
        unsafe { y.set(i, if is_zero { zero() } else { beta * y.get(i) }) };
    }
}

/// # Safety
/// `v` is readable.
pub(super) unsafe fn gather<T: Scalar>(v: Vector<T>) -> Vec<T> {
    // SAFETY: `i < n`.
    (0..v.n).map(|i| unsafe { v.get(i) }).collect()
}

/// A vector that is contiguous already, or a contiguous copy of it.
enum Contiguous<T> {
    Here(*const T),
    Copy(Vec<T>),
}

impl<T: Scalar> Contiguous<T> {
    /// # Safety
    /// `v` is readable for as long as the result is used.
    unsafe fn gather(v: Vector<T>) -> Self {
        if v.contiguous() {
            Contiguous::Here(v.first)
        } else {
            // SAFETY: the caller vouches for `v`.
            Contiguous::Copy(unsafe { gather(v) })
        }
    }

    fn first(&self) -> *const T {
        match self {
            Contiguous::Here(p) => *p,
            Contiguous::Copy(v) => v.as_ptr(),
        }
    }

    /// # Safety
    /// `i` is below the length of the vector.
    unsafe fn at(&self, i: usize) -> T {
        // SAFETY: the caller vouches for `i`.
        unsafe { self.first().add(i).read_unaligned() }
    }
}
