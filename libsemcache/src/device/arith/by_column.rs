//! Elements of a matrix by row and column.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::vector::pointer;
use crate::base::{Scalar, Value};
use crate::device::api::Operand;

/// A column-major matrix.
#[derive(Clone, Copy)]
pub(super) struct Matrix<T> {
    first: *mut T,
    ld: usize,
}

impl<T: Scalar> Matrix<T> {
    pub(super) fn new(at: Operand) -> Self {
        Matrix {
            first: pointer(at.addr),
            ld: at.ld(),
        }
    }

    fn at(self, i: usize, j: usize) -> *mut T {
        self.first.wrapping_add(j * self.ld + i)
    }

    /// # Safety
    /// The element exists.
    pub(super) unsafe fn get(self, i: usize, j: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.at(i, j).read_unaligned() }
    }

    /// # Safety
    /// The element exists.
    pub(super) unsafe fn set(self, i: usize, j: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.at(i, j).write_unaligned(value) };
    }

    /// # Safety
    /// Both rows have this number of elements.
    pub(super) unsafe fn exchange(self, rows: (usize, usize), columns: usize) {
        for j in 0..columns {
            // SAFETY: the caller's promise.
            unsafe {
                let (a, b) = (self.get(rows.0, j), self.get(rows.1, j));
                self.set(rows.0, j, b);
                self.set(rows.1, j, a);
            }
        }
    }
}

/// The size by which LAPACK chooses pivots.
pub(super) fn size<T: Scalar>(a: T) -> f64 {
    let Value { re, im } = a.to_value();
    re.abs() + im.abs()
}
