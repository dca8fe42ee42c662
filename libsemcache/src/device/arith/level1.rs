//! Vector operations (axpy, scal, dot, nrm2 and so on). The loops over contiguous vectors are ones that the compiler
//! vectorises.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use super::vector::{Vector, single, zero};
use crate::base::{Scalar, Value};

/// Partial sums of a reduction: independent chains that fit vector registers.
const LANES: usize = 8;

/// `y := y + alpha x`
///
/// # Safety
/// `x` is readable, `y` is writable, and they are the same vector or do not overlap.
pub(super) unsafe fn axpy<T: Scalar>(alpha: T, x: Vector<T>, y: Vector<T>) {
    if alpha == zero() {
        return;
    }
    // SAFETY: every index is below `n`.
    unsafe {
        if x.contiguous() && y.contiguous() {
            axpy_runs(x.n, alpha, x.first, y.first);
        } else {
            for i in 0..x.n {
                y.set(i, y.get(i) + alpha * x.get(i));
            }
        }
    }
}

/// `y := y + alpha x` of contiguous runs, for any `alpha`.
///
/// # Safety
/// As [`axpy`], for `n` elements.
pub(super) unsafe fn axpy_runs<T: Scalar>(n: usize, alpha: T, x: *const T, y: *mut T) {
    for i in 0..n {
        // SAFETY: `i < n`.
        unsafe {
            let v = y.add(i).read_unaligned() + alpha * x.add(i).read_unaligned();
            y.add(i).write_unaligned(v);
        }
    }
}

/// `y := alpha x + beta y`. A vector whose factor is zero is not read.
///
/// # Safety
/// `x` is readable, `y` is writable, and they are the same vector or do not overlap.
pub(super) unsafe fn axpby<T: Scalar>(alpha: Value, x: Vector<T>, beta: Value, y: Vector<T>) {
    let (a, b) = (T::from_value(alpha), T::from_value(beta));
    for i in 0..x.n {
        // SAFETY: `i < n`.
        unsafe {
            y.set(
                i,
                match (alpha.is_zero(), beta.is_zero()) {
                    (true, true) => zero(),
                    (true, false) => b * y.get(i),
                    (false, true) => a * x.get(i),
                    (false, false) => a * x.get(i) + b * y.get(i),
                },
            );
        }
    }
}

/// `x := alpha x`
///
/// # Safety
/// `x` is writable.
pub(super) unsafe fn scal<T: Scalar>(alpha: Value, x: Vector<T>) {
    if x.inc <= 0 || alpha.is_one() {
        return;
    }
    // A scalar without imaginary part scales real and imaginary parts separately: a zero imaginary part times Inf would
    // give NaN.
    let by_parts = T::DTYPE.is_complex() && alpha.im == 0.0;
    let a = T::from_value(alpha);
    for i in 0..x.n {
        // SAFETY: `i < n`.
        unsafe {
            let v = x.get(i);
            x.set(i, if by_parts { scale_parts(a, v) } else { a * v });
        }
    }
}

/// Both parts of `v` times the real part of `a`, rounded once as the element type does.
pub(super) fn scale_parts<T: Scalar>(a: T, v: T) -> T {
    // The f64 product of two f32 is exact, so narrowing rounds once; of two f64 it is the product itself.
    let (a, v) = (a.to_value(), v.to_value());
    T::from_value(Value {
        re: a.re * v.re,
        im: a.re * v.im,
    })
}

/// `y := x`
///
/// # Safety
/// `x` is readable, `y` is writable, and they are the same vector or do not overlap.
pub(super) unsafe fn copy<T: Scalar>(x: Vector<T>, y: Vector<T>) {
    // SAFETY: every index is below `n`; `copy` allows overlap.
    unsafe {
        if x.contiguous() && y.contiguous() {
            core::ptr::copy(x.first.cast::<u8>(), y.first.cast(), x.n * size_of::<T>());
        } else {
            for i in 0..x.n {
                y.set(i, x.get(i));
            }
        }
    }
}

/// `x <-> y`
///
/// # Safety
/// Both are writable, and they are the same vector or do not overlap.
pub(super) unsafe fn swap<T: Scalar>(x: Vector<T>, y: Vector<T>) {
    for i in 0..x.n {
        // SAFETY: `i < n`.
        unsafe {
            let (a, b) = (x.get(i), y.get(i));
            x.set(i, b);
            y.set(i, a);
        }
    }
}

/// `x^T y`, or `x^H y`.
///
/// # Safety
/// Both are readable.
pub(super) unsafe fn dot<T: Scalar>(conj: bool, x: Vector<T>, y: Vector<T>) -> T {
    // SAFETY: every index is below `n`.
    unsafe {
        if x.contiguous() && y.contiguous() {
            return dot_runs(conj, x.n, x.first, y.first);
        }
        let mut sum = zero::<T>();
        for i in 0..x.n {
            let a = x.get(i);
            sum = sum + if conj { a.conj() } else { a } * y.get(i);
        }
        sum
    }
}

/// [`dot`] of contiguous runs.
///
/// # Safety
/// Both are readable for `n` elements.
pub(super) unsafe fn dot_runs<T: Scalar>(conj: bool, n: usize, x: *const T, y: *const T) -> T {
    // SAFETY: every index is below `n`.
    let at = |i: usize| unsafe { (x.add(i).read_unaligned(), y.add(i).read_unaligned()) };
    let term = |i: usize| {
        let (a, b) = at(i);
        if conj { a.conj() * b } else { a * b }
    };
    let mut sums = [zero::<T>(); LANES];
    let whole = n - n % LANES;
    for i in (0..whole).step_by(LANES) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum = *sum + term(i + lane);
        }
    }
    for i in whole..n {
        sums[i % LANES] = sums[i % LANES] + term(i);
    }
    sums.into_iter().fold(zero(), |a, b| a + b)
}

/// Sum of |re| + |im|.
///
/// # Safety
/// `x` is readable.
pub(super) unsafe fn asum<T: Scalar>(x: Vector<T>) -> f64 {
    if x.inc <= 0 {
        return 0.0;
    }
    let mut sums = [0.0; LANES];
    for i in 0..x.n {
        // SAFETY: `i < n`.
        let v = unsafe { x.get(i) }.to_value();
        sums[i % LANES] += v.re.abs() + v.im.abs();
    }
    sums.into_iter().sum()
}

/// 1-based index of the first largest |re| + |im|; 0 of an empty vector.
///
/// # Safety
/// `x` is readable.
pub(super) unsafe fn iamax<T: Scalar>(x: Vector<T>) -> i64 {
    if x.n == 0 || x.inc <= 0 {
        return 0;
    }
    // SAFETY: `n` is not zero.
    let mut largest = unsafe { abs1(x.get(0)) };
    let mut index = 0;
    for i in 1..x.n {
        // SAFETY: `i < n`.
        let v = unsafe { abs1(x.get(i)) };
        if v > largest {
            (largest, index) = (v, i);
        }
    }
    i64::try_from(index + 1).unwrap_or(i64::MAX)
}

/// |re| + |im| rounded to the element's precision, so that equal values are ties as in the reference.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is the point; an f64 sum of two f32 rounds to the f32 sum"
)]
fn abs1<T: Scalar>(v: T) -> f64 {
    let v = v.to_value();
    let sum = v.re.abs() + v.im.abs();
    if single::<T>() {
        f64::from(sum as f32)
    } else {
        sum
    }
}

/// Euclidean norm.
///
/// # Safety
/// `x` is readable.
pub(super) unsafe fn nrm2<T: Scalar>(x: Vector<T>) -> f64 {
    let mut sums = [0.0; LANES];
    for i in 0..x.n {
        // SAFETY: `i < n`.
        let v = unsafe { x.get(i) }.to_value();
        sums[i % LANES] += v.re * v.re + v.im * v.im;
    }
    let plain: f64 = sums.into_iter().sum();
    // In the middle of the range no square has overflowed, and squares that underflowed are too small to change the
    // sum.
    if (1e-270..1e300).contains(&plain) {
        return plain.sqrt();
    }
    let mut blue = Blue::default();
    for i in 0..x.n {
        // SAFETY: `i < n`.
        let v = unsafe { x.get(i) }.to_value();
        blue.add(v.re);
        blue.add(v.im);
    }
    blue.norm()
}

/// Blue's accumulators, as in the reference `dnrm2` since LAPACK 3.10: squares of small, medium and large values are
/// summed separately, small and large ones scaled.
#[derive(Default)]
struct Blue {
    small: f64,
    medium: f64,
    big: f64,
}

impl Blue {
    /// Below `SMALL` a square is scaled up by `SCALE_UP` squared; above `BIG` down by `SCALE_DOWN` squared.
    const SMALL: f64 = f64::from_bits((1023 - 511) << 52); // 2^-511
    const BIG: f64 = f64::from_bits((1023 + 486) << 52); // 2^486
    const SCALE_UP: f64 = f64::from_bits((1023 + 537) << 52); // 2^537
    const SCALE_DOWN: f64 = f64::from_bits((1023 - 538) << 52); // 2^-538

    fn add(&mut self, v: f64) {
        let a = v.abs();
        if a > Self::BIG {
            self.big += (a * Self::SCALE_DOWN).powi(2);
        } else if a < Self::SMALL {
            self.small += (a * Self::SCALE_UP).powi(2);
        } else {
            self.medium += a * a; // a NaN is added here
        }
    }

    fn norm(self) -> f64 {
        if self.big > 0.0 {
            let medium = (self.medium.sqrt() * Self::SCALE_DOWN).powi(2);
            let medium = if self.medium.is_nan() {
                f64::NAN
            } else {
                medium
            };
            (self.big + medium).sqrt() / Self::SCALE_DOWN
        } else if self.small > 0.0 && (self.medium > 0.0 || self.medium.is_nan()) {
            let small = self.small.sqrt() / Self::SCALE_UP;
            small.hypot(self.medium.sqrt())
        } else if self.small > 0.0 {
            self.small.sqrt() / Self::SCALE_UP
        } else {
            self.medium.sqrt()
        }
    }
}
