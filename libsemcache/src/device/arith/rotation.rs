//! Plane rotations of two vectors (rot, rotm).

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::level1::scale_parts;
use super::vector::Vector;
use crate::base::{Scalar, Value};

/// `(x, y) := (h[0] x + h[2] y, h[1] x + h[3] y)`; real and imaginary parts of complex numbers are rotated separately.
///
/// # Safety
/// Both are writable, and they do not overlap.
pub(super) unsafe fn rotate<T: Scalar>(h: [f64; 4], x: Vector<T>, y: Vector<T>) {
    let h = h.map(|re| T::from_value(Value { re, im: 0.0 }));
    for i in 0..x.n {
        // SAFETY: `i < n`.
        unsafe {
            let (a, b) = (x.get(i), y.get(i));
            x.set(i, scale_parts(h[0], a) + scale_parts(h[2], b));
            y.set(i, scale_parts(h[1], a) + scale_parts(h[3], b));
        }
    }
}
