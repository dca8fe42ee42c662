//! symm and hemm: products with blocks of A, completed from the triangle that is stored.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::product::{BLOCK, Product, Strided, pieces};
use super::vector::real_part;
use crate::base::{Form, Scalar, Side, Uplo, Value};
use crate::device::api::Kernel;

/// `C := alpha A B + beta C`, or `alpha B A + beta C`.
///
/// # Safety
/// `kernel` is a symm of `T` and satisfies [`super::run`].
pub(super) unsafe fn symm<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        form: Form { side, uplo, .. },
        m,
        n,
        k: order,
        alpha,
        beta,
        at: [a, b, c],
        ..
    } = kernel;
    let a = Symmetric {
        stored: Strided::<T>::new(a, false),
        upper: uplo == Uplo::Upper,
        hermitian: kernel.routine.hermitian() && T::DTYPE.is_complex(),
    };
    let whole = Product {
        m,
        n,
        // A zero `alpha` leaves a product of inner dimension zero.
        k: 0,
        alpha,
        a: Strided::<T>::new(b, false),
        b: Strided::new(b, false),
        beta,
        c: Strided::new(c, false),
    };
    if alpha.is_zero() {
        // SAFETY: the caller vouches for C; a product of inner dimension zero touches nothing but C.
        unsafe { whole.run(false, false) };
        return;
    }
    let mut room = Vec::new();
    for (l, k) in pieces(order, BLOCK) {
        let beta = if l == 0 { beta } else { Value::ONE };
        for (i, len) in pieces(order, BLOCK) {
            // SAFETY: the blocks lie within their operands; the block of A is a copy.
            unsafe {
                let part = if side == Side::Left {
                    Product {
                        m: len,
                        k,
                        a: a.block((i, len), (l, k), &mut room),
                        b: whole.b.at(l, 0),
                        beta,
                        c: whole.c.at(i, 0),
                        ..whole
                    }
                } else {
                    Product {
                        n: len,
                        k,
                        a: whole.a.at(0, l),
                        b: a.block((l, k), (i, len), &mut room),
                        beta,
                        c: whole.c.at(0, i),
                        ..whole
                    }
                };
                part.run(false, false);
            }
        }
    }
}

/// A symmetric or Hermitian matrix.
struct Symmetric<T> {
    stored: Strided<T>,
    upper: bool,
    hermitian: bool,
}

impl<T: Scalar> Symmetric<T> {
    /// The block at these rows and columns (first and number), completed in `to`.
    ///
    /// # Safety
    /// The block lies within the matrix, whose triangle is readable.
    unsafe fn block(
        &self,
        (top, rows): (usize, usize),
        (left, cols): (usize, usize),
        to: &mut Vec<T>,
    ) -> Strided<T> {
        to.clear();
        for j in left..left + cols {
            for i in top..top + rows {
                // SAFETY: within the matrix, and an element of the triangle that is stored.
                to.push(unsafe {
                    if i == j {
                        let v = self.stored.get(i, j);
                        if self.hermitian { real_part(v) } else { v }
                    } else if (i < j) == self.upper {
                        self.stored.get(i, j)
                    } else {
                        let v = self.stored.get(j, i);
                        if self.hermitian { v.conj() } else { v }
                    }
                });
            }
        }
        Strided::packed(to, rows)
    }
}
