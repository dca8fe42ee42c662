//! Elements and vectors in raw memory.

#![expect(
    unsafe_code,
    reason = "reads and writes elements at addresses that the caller vouches for"
)]

use crate::base::{Scalar, Value};
use crate::device::api::Operand;

/// A device or host address as a pointer.
pub(super) fn pointer<T>(addr: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

/// The real part, as an element.
pub(super) fn real_part<T: Scalar>(v: T) -> T {
    let Value { re, .. } = v.to_value();
    T::from_value(Value { re, im: 0.0 })
}

/// Whether `T` is of single precision.
pub(super) const fn single<T: Scalar>() -> bool {
    T::DTYPE.size() == if T::DTYPE.is_complex() { 8 } else { 4 }
}

pub(super) fn zero<T: Scalar>() -> T {
    T::from_value(Value::ZERO)
}

/// A vector in logical order: element `i` is `inc` elements after element `i - 1`, `first` is element 0.
#[derive(Clone, Copy)]
pub(super) struct Vector<T> {
    pub(super) first: *mut T,
    pub(super) inc: isize,
    pub(super) n: usize,
}

impl<T: Scalar> Vector<T> {
    pub(super) fn new(Operand { addr, step }: Operand, n: usize) -> Self {
        let low = pointer::<T>(addr);
        let first = if step < 0 && n > 0 {
            low.wrapping_add((n - 1).wrapping_mul(step.unsigned_abs()))
        } else {
            low
        };
        Vector {
            first,
            inc: step,
            n,
        }
    }

    pub(super) fn contiguous(self) -> bool {
        self.inc == 1
    }

    pub(super) fn at(self, i: usize) -> *mut T {
        self.first.wrapping_offset(self.inc * i.cast_signed())
    }

    /// # Safety
    /// `i < n`, and the vector is readable.
    pub(super) unsafe fn get(self, i: usize) -> T {
        // SAFETY: the caller vouches for the element.
        unsafe { self.at(i).read_unaligned() }
    }

    /// # Safety
    /// `i < n`, and the vector is writable.
    pub(super) unsafe fn set(self, i: usize, v: T) {
        // SAFETY: the caller vouches for the element.
        unsafe { self.at(i).write_unaligned(v) }
    }
}
