//! Rank-k and rank-2k updates (syrk, herk, syr2k, her2k), and products of which one triangle is wanted (gemmt): C is
//! scaled, then products are added to it. Products are added in place to panels of C beside the diagonal, and by way of
//! a copy to blocks on the diagonal, of which only one triangle may be written.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::level1::scale_parts;
use super::product::{Product, Strided, pieces};
use super::vector::{real_part, zero};
use crate::base::{Op, Routine, Scalar, Uplo, Value};
use crate::device::api::{Kernel, Operand};

/// Order of the blocks on the diagonal.
const DIAGONAL: usize = 64;

/// A rank-k update, with one input or two, or one triangle of a product.
///
/// # Safety
/// `kernel` is such an update of `T` and satisfies [`super::run`].
pub(super) unsafe fn update<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        routine,
        op_a,
        op_b,
        k,
        alpha,
        beta,
        at: [a, b, last],
        ..
    } = kernel;
    let one = matches!(routine, Routine::Syrk | Routine::Herk);
    let c = Triangle::<T>::new(kernel, if one { b } else { last });
    let idle = alpha.is_zero() || k == 0;
    if idle && beta.is_one() {
        return;
    }
    // SAFETY: the caller vouches for the inputs and the triangle of C.
    unsafe {
        c.scale(beta);
        if idle {
            return;
        }
        if routine.has_op_b() {
            let a = Factor {
                of: Strided::new(a, op_a != Op::None),
                conj: op_a == Op::ConjTrans,
            };
            // The transpose of op(B), which is n x k like op(A).
            let b = Factor {
                of: Strided::new(b, op_b == Op::None),
                conj: op_b == Op::ConjTrans,
            };
            c.add(k, alpha, a, b);
            return;
        }
        let a = Factor::new(a, op_a, c.hermitian);
        if one {
            c.add(k, alpha, a, a);
        } else {
            let b = Factor::new(b, op_a, c.hermitian);
            let mirrored = Value {
                im: if c.hermitian { -alpha.im } else { alpha.im },
                ..alpha
            };
            c.add(k, alpha, a, b);
            c.add(k, mirrored, b, a);
        }
    }
}

/// `op` of an input, n x k: the stored elements in this order, or their conjugates.
#[derive(Clone, Copy)]
struct Factor<T> {
    of: Strided<T>,
    conj: bool,
}

impl<T: Scalar> Factor<T> {
    fn new(m: Operand, op: Op, hermitian: bool) -> Self {
        Factor {
            of: Strided::new(m, op != Op::None),
            conj: hermitian && op != Op::None,
        }
    }
}

/// The triangle of C that is updated.
struct Triangle<T> {
    of: Strided<T>,
    n: usize,
    upper: bool,
    hermitian: bool,
}

impl<T: Scalar> Triangle<T> {
    fn new(kernel: &Kernel, c: Operand) -> Self {
        Triangle {
            of: Strided::new(c, false),
            n: kernel.n,
            upper: kernel.form.uplo == Uplo::Upper,
            hermitian: kernel.routine.hermitian() && T::DTYPE.is_complex(),
        }
    }

    /// Sets each element of the triangle between `first` and `first + len` on the diagonal to what `f` returns for its
    /// row, column and value.
    ///
    /// # Safety
    /// The elements belong to the triangle, which is writable; where `read` is false, none is read.
    unsafe fn each(&self, first: usize, len: usize, read: bool, f: impl Fn(usize, usize, T) -> T) {
        let end = first + len;
        for j in first..end {
            for i in if self.upper { first..j + 1 } else { j..end } {
                // SAFETY: an element of the triangle.
                unsafe {
                    let old = if read { self.of.get(i, j) } else { zero() };
                    let new = f(i, j, old);
                    let real = self.hermitian && i == j;
                    self.of.set(i, j, if real { real_part(new) } else { new });
                }
            }
        }
    }

    /// Multiplies the triangle by `beta`, which is real for a Hermitian one. A zero `beta` does not read the triangle;
    /// a `beta` of one leaves it unchanged until a product is added.
    ///
    /// # Safety
    /// The triangle is writable.
    unsafe fn scale(&self, beta: Value) {
        if beta.is_one() {
            return;
        }
        let factor = T::from_value(beta);
        // SAFETY: the caller vouches for the triangle.
        unsafe {
            if beta.is_zero() {
                self.each(0, self.n, false, |_, _, _| zero());
            } else if self.hermitian {
                self.each(0, self.n, true, |_, _, v| scale_parts(factor, v));
            } else {
                self.each(0, self.n, true, |_, _, v| factor * v);
            }
        }
    }

    /// Adds the triangle of `alpha a b^T`, or `b^H`.
    ///
    /// # Safety
    /// `a` and `b` are n x k and readable, the triangle is writable.
    unsafe fn add(&self, k: usize, alpha: Value, a: Factor<T>, b: Factor<T>) {
        let other = b.of.transposed();
        let conj = b.conj != self.hermitian;
        let mut room = vec![zero::<T>(); self.n.min(DIAGONAL).pow(2)];
        for (j, len) in pieces(self.n, DIAGONAL) {
            let block = Strided::packed(&mut room, len);
            let on = Product {
                m: len,
                n: len,
                k,
                alpha,
                a: a.of.at(j, 0),
                b: other.at(0, j),
                beta: Value::ZERO,
                c: block,
            };
            let (first, rows) = if self.upper {
                (0, j)
            } else {
                (j + len, self.n - j - len)
            };
            let beside = Product {
                m: rows,
                a: a.of.at(first, 0),
                beta: Value::ONE,
                c: self.of.at(first, j),
                ..on
            };
            // SAFETY: the parts lie within their operands; `block` holds `len` x `len`.
            unsafe {
                on.run(a.conj, conj);
                self.each(j, len, true, |r, c, old| old + block.get(r - j, c - j));
                beside.run(a.conj, conj);
            }
        }
    }
}
