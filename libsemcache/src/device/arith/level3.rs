//! Matrix multiplication, by the `matrixmultiply` crate. It knows neither conjugation nor unaligned
//! operands: what needs those is multiplied block by block from packed copies.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::pointer;
use crate::base::{Dtype, Scalar, Value};
use crate::device::api::{DevMat, Kernel, Op};
use crate::with_dtype;

/// Rows, columns and depth of a packed block: 4 MiB of the widest type each.
const BLOCK: usize = 512;

/// A matrix with arbitrary strides, in elements.
#[derive(Clone, Copy)]
struct Strided<T> {
    first: *mut T,
    row: usize,
    col: usize,
}

impl<T: Scalar> Strided<T> {
    fn new(m: DevMat, transposed: bool) -> Self {
        let first = pointer(m.addr);
        let (row, col) = if transposed { (m.ld, 1) } else { (1, m.ld) };
        Strided { first, row, col }
    }

    fn at(self, i: usize, j: usize) -> Self {
        let first = self.first.wrapping_add(i * self.row + j * self.col);
        Strided { first, ..self }
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
                let v = unsafe { self.at(i, j).first.read_unaligned() };
                to.push(if conj { v.conj() } else { v });
            }
        }
        Strided {
            first: to.as_mut_ptr(),
            row: 1,
            col: rows,
        }
    }
}

/// `C := alpha A B + beta C` with the operands already transposed by their strides.
#[derive(Clone, Copy)]
struct Product<T> {
    m: usize,
    n: usize,
    k: usize,
    alpha: Value,
    a: Strided<T>,
    b: Strided<T>,
    beta: Value,
    c: Strided<T>,
}

/// `C := alpha op(A) op(B) + beta C`
///
/// # Safety
/// `kernel` is a gemm and satisfies [`super::run`].
pub(super) unsafe fn gemm(kernel: &Kernel) {
    let &Kernel::Gemm {
        dtype,
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        a,
        b,
        beta,
        c,
    } = kernel
    else {
        return;
    };
    let idle = alpha.is_zero() || k == 0;
    if m == 0 || n == 0 || (idle && beta.is_one()) {
        return;
    }
    with_dtype!(dtype, T => {
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
        let conj = |op| op == Op::ConjTrans && dtype.is_complex();
        let pack_a = conj(op_a) || !product.a.aligned();
        let pack_b = conj(op_b) || !product.b.aligned();
        // SAFETY: the caller vouches for the operands.
        unsafe {
            if idle {
                scale(&product);
            } else if pack_a || pack_b || !product.c.aligned() {
                multiply_packed(&product, (pack_a, conj(op_a)), (pack_b, conj(op_b)));
            } else {
                multiply(dtype, &product);
            }
        }
    });
}

/// `C := beta C`; a zero `beta` does not read.
///
/// # Safety
/// C is writable.
unsafe fn scale<T: Scalar>(p: &Product<T>) {
    let beta = T::from_value(p.beta);
    for j in 0..p.n {
        for i in 0..p.m {
            let at = p.c.at(i, j).first;
            // SAFETY: the element is of C.
            unsafe {
                at.write_unaligned(if p.beta.is_zero() {
                    T::from_value(Value::ZERO)
                } else {
                    beta * at.read_unaligned()
                });
            }
        }
    }
}

/// The product block by block, from packed copies where `(pack, conjugate)` says so.
///
/// # Safety
/// As [`gemm`].
unsafe fn multiply_packed<T: Scalar>(p: &Product<T>, a: (bool, bool), b: (bool, bool)) {
    let (mut room_a, mut room_b, mut room_c) = (Vec::new(), Vec::new(), Vec::new());
    let starts = |total: usize| {
        (0..total)
            .step_by(BLOCK)
            .map(move |s| (s, BLOCK.min(total - s)))
    };
    for (j, n) in starts(p.n) {
        for (i, m) in starts(p.m) {
            for (l, k) in starts(p.k) {
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
                        home.at(at % m, at / m).first.write_unaligned(*v);
                    }
                }
            }
        }
    }
}

/// The product by the crate. A zero `beta` is passed on: the crate does not read C then.
///
/// # Safety
/// As [`gemm`]; the operands are aligned, `T` is the type of `dtype`.
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
