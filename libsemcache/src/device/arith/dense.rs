//! Factorizations and solutions of dense systems, column by column as LAPACK's unblocked routines compute them.

#![expect(
    unsafe_code,
    reason = "works on raw memory that the caller vouches for"
)]

use num_complex::Complex64;

use super::by_column::{Matrix, size};
use super::indefinite;
use super::triangular::divide;
use super::vector::{pointer, real_part, zero};
use crate::base::dense::{DenseKernel, Step};
use crate::base::{Op, Scalar, Side, Uplo, Value};
use crate::with_dtype;

/// Executes `kernel`, taking its addresses as addresses of this process.
///
/// # Safety
/// The operands are memory of the extents that [`DenseKernel::spans`] says, pivots that are read lie within the matrix, no other thread
/// writes any of it meanwhile, and no two operands overlap.
pub unsafe fn solve(kernel: &DenseKernel) {
    with_dtype!(kernel.dtype, T => {
        // SAFETY: the caller's promise; `T` is the type that the kernel names.
        let info = unsafe {
            match kernel.step {
                Step::Lu => lu::<T>(kernel),
                Step::Cholesky => cholesky::<T>(kernel),
                Step::LuSolve => lu_solve::<T>(kernel),
                Step::CholeskySolve => cholesky_solve::<T>(kernel),
                Step::Qr => qr::<T>(kernel),
                Step::ApplyQ => apply_q::<T>(kernel),
                Step::Exchange => return exchange::<T>(kernel),
                Step::Symmetric => indefinite::factor::<T>(kernel),
                Step::SymmetricSolve => indefinite::solve::<T>(kernel),
            }
        };
        // SAFETY: as above.
        unsafe { pointer::<i32>(kernel.info).write_unaligned(i32::try_from(info).unwrap_or(i32::MAX)) };
    });
}

/// # Safety
/// As [`solve`].
unsafe fn lu<T: Scalar>(kernel: &DenseKernel) -> usize {
    let (a, pivots) = (Matrix::<T>::new(kernel.a), pointer::<i64>(kernel.pivots));
    let (m, n) = (kernel.m, kernel.n);
    let mut info = 0;
    for j in 0..m.min(n) {
        // SAFETY: rows and columns of A, and a pivot for each of the lesser number.
        unsafe {
            let mut pivot = j;
            for i in j + 1..m {
                if size(a.get(i, j)) > size(a.get(pivot, j)) {
                    pivot = i;
                }
            }
            pivots
                .wrapping_add(j)
                .write_unaligned(i64::try_from(pivot + 1).unwrap_or(0));
            let of = a.get(pivot, j);
            if of == zero() {
                if info == 0 {
                    info = j + 1;
                }
                continue;
            }
            if pivot != j {
                a.exchange((j, pivot), n);
            }
            for i in j + 1..m {
                a.set(i, j, divide(a.get(i, j), of));
            }
            for c in j + 1..n {
                let factor = a.get(j, c);
                if factor == zero() {
                    continue;
                }
                for i in j + 1..m {
                    a.set(i, c, a.get(i, c) - a.get(i, j) * factor);
                }
            }
        }
    }
    info
}

/// # Safety
/// As [`solve`].
unsafe fn exchange<T: Scalar>(kernel: &DenseKernel) {
    let (b, pivots) = (Matrix::<T>::new(kernel.b), pointer::<i64>(kernel.pivots));
    for i in 0..kernel.m.min(kernel.n) {
        // SAFETY: pivots of which each is a row of B, from 1.
        unsafe {
            let pivot = pivots.wrapping_add(i).read_unaligned();
            let pivot = usize::try_from(pivot - 1).unwrap_or(i);
            if pivot != i {
                b.exchange((i, pivot), kernel.sides);
            }
        }
    }
}

/// A Cholesky factor as a lower triangle: the upper one is its conjugate transpose.
#[derive(Clone, Copy)]
struct Lower<T>(Matrix<T>, Uplo);

impl<T: Scalar> Lower<T> {
    /// # Safety
    /// As [`Matrix::get`]; `i >= j`.
    unsafe fn get(self, i: usize, j: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe {
            match self.1 {
                Uplo::Lower => self.0.get(i, j),
                Uplo::Upper => self.0.get(j, i).conj(),
            }
        }
    }

    /// # Safety
    /// As [`Lower::get`].
    unsafe fn set(self, i: usize, j: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.1 {
                Uplo::Lower => self.0.set(i, j, value),
                Uplo::Upper => self.0.set(j, i, value.conj()),
            }
        }
    }
}

/// # Safety
/// As [`solve`].
unsafe fn cholesky<T: Scalar>(kernel: &DenseKernel) -> usize {
    let a = Lower(Matrix::<T>::new(kernel.a), kernel.uplo);
    let n = kernel.n;
    for j in 0..n {
        // SAFETY: elements of the triangle.
        unsafe {
            let square = real_part(a.get(j, j)).to_value().re;
            if square <= 0.0 || square.is_nan() {
                return j + 1;
            }
            let root = T::from_value(Value {
                re: square.sqrt(),
                im: 0.0,
            });
            a.set(j, j, root);
            for i in j + 1..n {
                a.set(i, j, divide(a.get(i, j), root));
            }
            for c in j + 1..n {
                let factor = a.get(c, j).conj();
                for i in c..n {
                    a.set(i, c, a.get(i, c) - a.get(i, j) * factor);
                }
            }
        }
    }
    0
}

/// Solves with a triangle in place: `forward`, a lower one. `get` gives its elements.
///
/// # Safety
/// As [`solve`]; `get` may be called with rows and columns of the triangle.
unsafe fn triangular<T: Scalar>(
    kernel: &DenseKernel,
    forward: bool,
    unit: bool,
    get: impl Fn(usize, usize) -> T,
) {
    let (b, n) = (Matrix::<T>::new(kernel.b), kernel.n);
    for side in 0..kernel.sides {
        for step in 0..n {
            let j = if forward { step } else { n - 1 - step };
            // SAFETY: elements of B.
            unsafe {
                let x = match unit {
                    true => b.get(j, side),
                    false => divide(b.get(j, side), get(j, j)),
                };
                b.set(j, side, x);
                let others = if forward { j + 1..n } else { 0..j };
                for i in others {
                    b.set(i, side, b.get(i, side) - get(i, j) * x);
                }
            }
        }
    }
}

/// # Safety
/// As [`solve`].
unsafe fn lu_solve<T: Scalar>(kernel: &DenseKernel) -> usize {
    let (a, b, n) = (
        Matrix::<T>::new(kernel.a),
        Matrix::<T>::new(kernel.b),
        kernel.n,
    );
    let exchange = |i: usize| {
        // SAFETY: a pivot of row `i`, which names a row.
        unsafe {
            let with = pointer::<i64>(kernel.pivots)
                .wrapping_add(i)
                .read_unaligned();
            let with = usize::try_from(with).unwrap_or(1).saturating_sub(1);
            if with != i {
                b.exchange((i, with), kernel.sides);
            }
        }
    };
    let conjugated = kernel.op == Op::ConjTrans;
    // SAFETY: elements of A.
    let plain = |i, j| unsafe { a.get(i, j) };
    let transposed = |i: usize, j: usize| {
        let element = plain(j, i);
        if conjugated { element.conj() } else { element }
    };
    // SAFETY: as above.
    unsafe {
        match kernel.op {
            Op::None => {
                (0..n).for_each(exchange);
                triangular::<T>(kernel, true, true, plain);
                triangular::<T>(kernel, false, false, plain);
            }
            Op::Trans | Op::ConjTrans => {
                triangular::<T>(kernel, true, false, transposed);
                triangular::<T>(kernel, false, true, transposed);
                (0..n).rev().for_each(exchange);
            }
        }
    }
    0
}

/// # Safety
/// As [`solve`].
unsafe fn cholesky_solve<T: Scalar>(kernel: &DenseKernel) -> usize {
    let a = Lower(Matrix::<T>::new(kernel.a), kernel.uplo);
    // SAFETY: elements of the triangle.
    unsafe {
        triangular::<T>(kernel, true, false, |i, j| a.get(i, j));
        triangular::<T>(kernel, false, false, |i, j| a.get(j, i).conj());
    }
    0
}

/// A reflector `I - tau v v^H` on rows or columns `from` on: `v` is 1 there, and below it a column of A.
struct Reflector<T> {
    a: Matrix<T>,
    from: usize,
    order: usize,
    tau: T,
}

impl<T: Scalar> Reflector<T> {
    /// # Safety
    /// The element exists; `i >= from`.
    unsafe fn v(&self, i: usize) -> T {
        match i == self.from {
            true => T::from_value(Value::ONE),
            // SAFETY: the caller's promise.
            false => unsafe { self.a.get(i, self.from) },
        }
    }

    /// Applies it to a vector, whose elements `get` and `set` reach: to a column from the left, to a row from the right.
    ///
    /// # Safety
    /// `get` and `set` may be called with numbers up to the order.
    unsafe fn apply(&self, row: bool, get: impl Fn(usize) -> T, set: impl Fn(usize, T)) {
        let turned = |x: T, turn: bool| if turn { x.conj() } else { x };
        let mut sum = zero();
        for i in self.from..self.order {
            // SAFETY: elements of the reflector.
            sum = sum + turned(unsafe { self.v(i) }, !row) * get(i);
        }
        let sum = self.tau * sum;
        for i in self.from..self.order {
            // SAFETY: as above.
            set(i, get(i) - sum * turned(unsafe { self.v(i) }, row));
        }
    }
}

/// # Safety
/// As [`solve`].
unsafe fn qr<T: Scalar>(kernel: &DenseKernel) -> usize {
    let (a, taus) = (Matrix::<T>::new(kernel.a), pointer::<T>(kernel.tau));
    let (m, n) = (kernel.m, kernel.n);
    for j in 0..m.min(n) {
        // SAFETY: rows and columns of A, and a scalar factor for each of the lesser number.
        unsafe {
            let alpha = a.get(j, j).to_value();
            let below = norm((j + 1..m).map(|i| a.get(i, j)));
            let mut tau = Value::ZERO;
            if below != 0.0 || alpha.im != 0.0 {
                let norm = alpha.re.hypot(alpha.im).hypot(below);
                let beta = -norm.copysign(alpha.re);
                tau = Value {
                    re: (beta - alpha.re) / beta,
                    im: -alpha.im / beta,
                };
                // Not as an element: the difference of very small ones has few digits.
                let first = Complex64::new(alpha.re - beta, alpha.im);
                for i in j + 1..m {
                    let below = Complex64::from_value(a.get(i, j).to_value());
                    a.set(i, j, T::from_value(divide(below, first).to_value()));
                }
                a.set(j, j, T::from_value(Value { re: beta, im: 0.0 }));
            }
            let tau = T::from_value(tau);
            taus.wrapping_add(j).write_unaligned(tau);
            let reflector = Reflector {
                a,
                from: j,
                order: m,
                tau: tau.conj(),
            };
            for c in j + 1..n {
                reflector.apply(false, |i| a.get(i, c), |i, value| a.set(i, c, value));
            }
        }
    }
    0
}

/// The Euclidean norm of a vector, whose squares may be too small for a number.
fn norm<T: Scalar>(of: impl Iterator<Item = T> + Clone) -> f64 {
    let parts = of.flat_map(|a| {
        let Value { re, im } = a.to_value();
        [re, im]
    });
    let largest = parts
        .clone()
        .fold(0.0, |most: f64, part| most.max(part.abs()));
    match largest > 0.0 {
        true => {
            largest
                * parts
                    .map(|part| (part / largest).powi(2))
                    .sum::<f64>()
                    .sqrt()
        }
        // Zeros, or numbers that are none.
        false => parts.sum(),
    }
}

/// # Safety
/// As [`solve`].
unsafe fn apply_q<T: Scalar>(kernel: &DenseKernel) -> usize {
    let (a, b) = (Matrix::<T>::new(kernel.a), Matrix::<T>::new(kernel.b));
    let (order, count, right) = (kernel.m, kernel.n, kernel.side == Side::Right);
    // Q is the product of the reflectors in their order, its conjugate transpose that of the conjugate transposes in the opposite one.
    let forward = right == (kernel.op == Op::None);
    for step in 0..count {
        let from = if forward { step } else { count - 1 - step };
        // SAFETY: a scalar factor of a reflector.
        let tau = unsafe { pointer::<T>(kernel.tau).wrapping_add(from).read_unaligned() };
        let reflector = Reflector {
            a,
            from,
            order,
            tau: if kernel.op == Op::None {
                tau
            } else {
                tau.conj()
            },
        };
        for side in 0..kernel.sides {
            let at = |i: usize| if right { (side, i) } else { (i, side) };
            // SAFETY: elements of A and of B.
            unsafe {
                reflector.apply(
                    right,
                    |i| b.get(at(i).0, at(i).1),
                    |i, value| b.set(at(i).0, at(i).1, value),
                );
            }
        }
    }
    0
}
