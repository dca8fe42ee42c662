//! Matrix multiplication, by the `matrixmultiply` crate. The crate supports neither conjugation nor unaligned operands:
//! operands that need either are multiplied block by block from packed copies. The other level-3 routines are made of
//! such products.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::vector::pointer;
use crate::base::{Dtype, Op, Scalar, Value};
use crate::device::api::{Kernel, Operand};

/// Rows, columns and depth of a packed block: 4 MiB of the widest type each.
pub(super) const BLOCK: usize = 512;

/// A matrix with arbitrary strides, in elements.
#[derive(Clone, Copy)]
pub(super) struct Strided<T> {
    pub(super) first: *mut T,
    row: usize,
    col: usize,
}

impl<T: Scalar> Strided<T> {
    pub(super) fn new(m: Operand, transposed: bool) -> Self {
        let (first, ld) = (pointer(m.addr), m.ld());
        let (row, col) = if transposed { (ld, 1) } else { (1, ld) };
        Strided { first, row, col }
    }

    /// A packed column-major matrix of `rows` rows.
    pub(super) fn packed(of: &mut [T], rows: usize) -> Self {
        Strided {
            first: of.as_mut_ptr(),
            row: 1,
            col: rows,
        }
    }

    pub(super) fn transposed(self) -> Self {
        Strided {
            row: self.col,
            col: self.row,
            ..self
        }
    }

    pub(super) fn at(self, i: usize, j: usize) -> Self {
        let first = self.first.wrapping_add(i * self.row + j * self.col);
        Strided { first, ..self }
    }

    /// # Safety
    /// The element is readable.
    pub(super) unsafe fn get(self, i: usize, j: usize) -> T {
        // SAFETY: the caller vouches for the element.
        unsafe { self.at(i, j).first.read_unaligned() }
    }

    /// # Safety
    /// The element is writable.
    pub(super) unsafe fn set(self, i: usize, j: usize, v: T) {
        // SAFETY: the caller vouches for the element.
        unsafe { self.at(i, j).first.write_unaligned(v) }
    }

    fn aligned(self) -> bool {
        self.first.is_aligned()
    }

    /// A column-major copy of the leading `rows` x `cols` into `to`.
    ///
    /// # Safety
    /// The part is readable.
    unsafe fn pack(self, rows: usize, cols: usize, conj: bool, to: &mut Vec<T>) -> Self {
        to.clear();
        for j in 0..cols {
            for i in 0..rows {
                // SAFETY: the caller vouches for the part.
                let v = unsafe { self.get(i, j) };
                to.push(if conj { v.conj() } else { v });
            }
        }
        Strided::packed(to, rows)
    }
}

/// `C := alpha A B + beta C` with the operands already transposed by their strides.
#[derive(Clone, Copy)]
pub(super) struct Product<T> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) alpha: Value,
    pub(super) a: Strided<T>,
    pub(super) b: Strided<T>,
    pub(super) beta: Value,
    pub(super) c: Strided<T>,
}

/// `C := alpha op(A) op(B) + beta C`
///
/// # Safety
/// `kernel` is a gemm of `T` and satisfies [`super::run`].
pub(super) unsafe fn gemm<T: Scalar>(kernel: &Kernel) {
    let &Kernel {
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        beta,
        at: [a, b, c],
        ..
    } = kernel;
    let product = Product::<T> {
        m,
        n,
        k,
        alpha,
        a: Strided::new(a, op_a != Op::None),
        b: Strided::new(b, op_b != Op::None),
        beta,
        c: Strided::new(c, false),
    };
    // SAFETY: the caller vouches for the operands.
    unsafe { product.run(op_a == Op::ConjTrans, op_b == Op::ConjTrans) };
}

impl<T: Scalar> Product<T> {
    /// Multiplies, with the conjugates of A and B where `conj_a` and `conj_b` ask for them.
    ///
    /// # Safety
    /// A and B are readable, C is writable and shares no element with either.
    pub(super) unsafe fn run(&self, conj_a: bool, conj_b: bool) {
        let idle = self.alpha.is_zero() || self.k == 0;
        if self.m == 0 || self.n == 0 || (idle && self.beta.is_one()) {
            return;
        }
        let complex = T::DTYPE.is_complex();
        let (conj_a, conj_b) = (conj_a && complex, conj_b && complex);
        let pack_a = conj_a || !self.a.aligned();
        let pack_b = conj_b || !self.b.aligned();
        // SAFETY: the caller vouches for the operands.
        unsafe {
            if idle {
                scale(self);
            } else if pack_a || pack_b || !self.c.aligned() {
                multiply_packed(self, (pack_a, conj_a), (pack_b, conj_b));
            } else {
                multiply(T::DTYPE, self);
            }
        }
    }
}

/// Cuts a dimension into pieces of at most `most`: starts and lengths.
pub(super) fn pieces(total: usize, most: usize) -> impl DoubleEndedIterator<Item = (usize, usize)> {
    (0..total.div_ceil(most)).map(move |i| (i * most, most.min(total - i * most)))
}

/// `C := beta C`; C is not read if `beta` is zero.
///
/// # Safety
/// C is writable.
unsafe fn scale<T: Scalar>(p: &Product<T>) {
    let beta = T::from_value(p.beta);
    for j in 0..p.n {
        for i in 0..p.m {
            // SAFETY: an element of C.
            unsafe {
                let v = if p.beta.is_zero() {
                    T::from_value(Value::ZERO)
                } else {
                    beta * p.c.get(i, j)
                };
                p.c.set(i, j, v);
            }
        }
    }
}

/// Multiplies block by block, from packed copies of the operands whose `(pack, conjugate)` asks for them.
///
/// # Safety
/// As [`Product::run`].
unsafe fn multiply_packed<T: Scalar>(p: &Product<T>, a: (bool, bool), b: (bool, bool)) {
    let (mut room_a, mut room_b, mut room_c) = (Vec::new(), Vec::new(), Vec::new());
    for (j, n) in pieces(p.n, BLOCK) {
        for (i, m) in pieces(p.m, BLOCK) {
            for (l, k) in pieces(p.k, BLOCK) {
                let beta = if l == 0 { p.beta } else { Value::ONE };
                let mut block = Product {
                    m,
                    n,
                    k,
                    beta,
                    a: p.a.at(i, l),
                    b: p.b.at(l, j),
                    c: p.c.at(i, j),
                    ..*p
                };
                // SAFETY: the blocks lie within their operands.
                unsafe {
                    if a.0 {
                        block.a = block.a.pack(m, k, a.1, &mut room_a);
                    }
                    if b.0 {
                        block.b = block.b.pack(k, n, b.1, &mut room_b);
                    }
                    if block.c.aligned() {
                        multiply(T::DTYPE, &block);
                        continue;
                    }
                    let home = block.c;
                    if beta.is_zero() {
                        room_c.clear();
                        room_c.resize(m * n, T::from_value(Value::ZERO));
                        (block.c.first, block.c.col) = (room_c.as_mut_ptr(), m);
                    } else {
                        block.c = home.pack(m, n, false, &mut room_c);
                    }
                    multiply(T::DTYPE, &block);
                    for (at, v) in room_c.iter().enumerate() {
                        home.set(at % m, at / m, *v);
                    }
                }
            }
        }
    }
}

/// Multiplies by the crate, which does not read C if `beta` is zero.
///
/// # Safety
/// As [`Product::run`]; the operands are aligned, `T` is the type of `dtype`.
unsafe fn multiply<T: Scalar>(dtype: Dtype, p: &Product<T>) {
    use matrixmultiply::CGemmOption::Standard;
    macro_rules! call {
        ($f:ident, $t:ty, $alpha:expr, $beta:expr $(, $option:expr)*) => {
            // SAFETY: `$t` has the layout of `T`; the caller vouches for the operands.
            unsafe {
                matrixmultiply::$f(
                    $($option,)*
                    p.m,
                    p.k,
                    p.n,
                    $alpha,
                    p.a.first.cast::<$t>(),
                    p.a.row.cast_signed(),
                    p.a.col.cast_signed(),
                    p.b.first.cast::<$t>(),
                    p.b.row.cast_signed(),
                    p.b.col.cast_signed(),
                    $beta,
                    p.c.first.cast::<$t>(),
                    p.c.row.cast_signed(),
                    p.c.col.cast_signed(),
                )
            }
        };
    }
    let (alpha, beta) = (p.alpha, p.beta);
    match dtype {
        Dtype::S => call!(sgemm, f32, f32::from_value(alpha), f32::from_value(beta)),
        Dtype::D => call!(dgemm, f64, alpha.re, beta.re),
        Dtype::C => call!(
            cgemm,
            [f32; 2],
            [f32::from_value(alpha), f32::from_value(im(alpha))],
            [f32::from_value(beta), f32::from_value(im(beta))],
            Standard,
            Standard
        ),
        Dtype::Z => call!(
            zgemm,
            [f64; 2],
            [alpha.re, alpha.im],
            [beta.re, beta.im],
            Standard,
            Standard
        ),
    }
}

/// The imaginary part as a real value.
fn im(v: Value) -> Value {
    Value { re: v.im, im: 0.0 }
}
