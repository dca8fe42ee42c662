//! Products of a sparse matrix in compressed rows, row by row as a plain loop computes them.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::vector::{pointer, zero};
use crate::base::sparse::{CsrKernel, Index};
use crate::base::{Op, Scalar};
use crate::with_dtype;

/// Executes `kernel`, taking its addresses as addresses of this process.
///
/// # Safety
/// The operands are memory of the extents that [`CsrKernel::spans`] says, offsets ascend from `first` to `first + nnz`, columns lie
/// within the matrix, no other thread writes any of it meanwhile, and Y overlaps no other operand.
pub unsafe fn multiply(kernel: &CsrKernel) {
    with_dtype!(kernel.dtype, T => {
        let of_index = match kernel.index {
            Index::I32 => products::<T, i32>,
            Index::I64 => products::<T, i64>,
        };
        // SAFETY: the caller's promise; `T` and the integer are the types that the kernel names.
        unsafe { of_index(kernel) }
    });
}

/// A row offset or a column index.
trait Whole: Copy {
    fn at(self) -> usize;
}

impl Whole for i32 {
    fn at(self) -> usize {
        usize::try_from(self).unwrap_or(0)
    }
}

impl Whole for i64 {
    fn at(self) -> usize {
        usize::try_from(self).unwrap_or(0)
    }
}

/// # Safety
/// As [`multiply`].
unsafe fn products<T: Scalar, I: Whole>(kernel: &CsrKernel) {
    let (_, length) = kernel.lengths();
    for v in 0..kernel.vectors {
        let x = pointer::<T>(kernel.x_row_0()).wrapping_add(v * kernel.x.ld());
        let y = pointer::<T>(kernel.y.addr).wrapping_add(v * kernel.y.ld());
        // SAFETY: column `v` of X and Y.
        unsafe {
            match kernel.op {
                _ if kernel.alpha.is_zero() => scale(kernel, y, length),
                Op::None => rows::<T, I>(kernel, x, y),
                Op::Trans | Op::ConjTrans => {
                    scale(kernel, y, length);
                    scatter::<T, I>(kernel, x, y);
                }
            }
        }
    }
}

/// `y := beta y`
///
/// # Safety
/// `y` has `length` elements.
unsafe fn scale<T: Scalar>(kernel: &CsrKernel, y: *mut T, length: usize) {
    if kernel.beta.is_one() {
        return;
    }
    let beta = T::from_value(kernel.beta);
    for i in 0..length {
        let at = y.wrapping_add(i);
        // SAFETY: within `y`.
        unsafe {
            let new = if kernel.beta.is_zero() {
                zero()
            } else {
                beta * at.read_unaligned()
            };
            at.write_unaligned(new);
        }
    }
}

/// The entries of a row: column and value.
///
/// # Safety
/// As [`multiply`]; `row < rows`.
unsafe fn entries<T: Scalar, I: Whole>(
    kernel: &CsrKernel,
    row: usize,
) -> impl Iterator<Item = (usize, T)> {
    let first = usize::from(kernel.first);
    let offset = |i: usize| {
        let at = pointer::<I>(kernel.offsets).wrapping_add(i);
        // SAFETY: `i <= rows`.
        unsafe { at.read_unaligned() }.at() - first
    };
    let (columns, values) = (pointer::<I>(kernel.columns), pointer::<T>(kernel.values));
    (offset(row)..offset(row + 1)).map(move |k| {
        // SAFETY: `k < nnz`.
        unsafe {
            let column = columns.wrapping_add(k).read_unaligned().at() - first;
            (column, values.wrapping_add(k).read_unaligned())
        }
    })
}

/// # Safety
/// As [`multiply`]; `x` has the touched ones of `cols` elements, `y` has `rows`.
unsafe fn rows<T: Scalar, I: Whole>(kernel: &CsrKernel, x: *mut T, y: *mut T) {
    let (alpha, beta) = (T::from_value(kernel.alpha), T::from_value(kernel.beta));
    for row in 0..kernel.rows {
        let mut sum = zero::<T>();
        let at = y.wrapping_add(row);
        // SAFETY: columns lie within `x`.
        unsafe {
            for (column, value) in entries::<T, I>(kernel, row) {
                sum = sum + value * x.wrapping_add(column).read_unaligned();
            }
            let new = match kernel.beta.is_zero() {
                true => alpha * sum,
                false => alpha * sum + beta * at.read_unaligned(),
            };
            at.write_unaligned(new);
        }
    }
}

/// # Safety
/// As [`multiply`]; `x` has `rows` elements, `y` has `cols`.
unsafe fn scatter<T: Scalar, I: Whole>(kernel: &CsrKernel, x: *mut T, y: *mut T) {
    let alpha = T::from_value(kernel.alpha);
    let conjugated = kernel.op == Op::ConjTrans;
    for row in 0..kernel.rows {
        // SAFETY: rows lie within `x`, columns within `y`.
        unsafe {
            let of_row = alpha * x.wrapping_add(row).read_unaligned();
            for (column, value) in entries::<T, I>(kernel, row) {
                let value = if conjugated { value.conj() } else { value };
                let at = y.wrapping_add(column);
                at.write_unaligned(at.read_unaligned() + value * of_row);
            }
        }
    }
}
