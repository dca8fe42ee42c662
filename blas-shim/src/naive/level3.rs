//! Symmetric, Hermitian and triangular matrices, by their definitions.

use semcache::base::{Diag, Op, Routine, Scalar, Side, Uplo, Value};
use semcache::blas::{Args, Call, Outcome};

use super::{at, scaled, zero};

/// Whether `(i, j)` is in the triangle.
pub(super) fn stored(uplo: Uplo, i: i64, j: i64) -> bool {
    match uplo {
        Uplo::Lower => i >= j,
        Uplo::Upper => i <= j,
    }
}

/// Without its imaginary part.
pub(super) fn real<T: Scalar>(value: T) -> T {
    T::from_value(Value {
        im: 0.0,
        ..value.to_value()
    })
}

/// Element `(i, j)` of the whole symmetric or Hermitian matrix of which a triangle is stored.
///
/// # Safety
/// The triangle must be stored at `a`.
pub(super) unsafe fn mirrored<T: Scalar>(
    a: usize,
    ld: i64,
    uplo: Uplo,
    hermitian: bool,
    i: i64,
    j: i64,
) -> T {
    // SAFETY: an element of the triangle.
    let value = unsafe {
        if stored(uplo, i, j) {
            at::<T>(a, ld, i, j, Op::None)
        } else if hermitian {
            at(a, ld, i, j, Op::ConjTrans)
        } else {
            at(a, ld, i, j, Op::Trans)
        }
    };
    if hermitian && i == j {
        real(value)
    } else {
        value
    }
}

/// Element `(i, j)` of `op` of the triangular matrix of which only the triangle is stored.
///
/// # Safety
/// The triangle must be stored at `a`, without its diagonal if that is of ones.
pub(super) unsafe fn triangular<T: Scalar>(
    a: usize,
    ld: i64,
    (uplo, diag, op): (Uplo, Diag, Op),
    i: i64,
    j: i64,
) -> T {
    let (row, column) = if op == Op::None { (i, j) } else { (j, i) };
    if i == j && diag == Diag::Unit {
        T::from_value(Value::ONE)
    } else if stored(uplo, row, column) {
        // SAFETY: an element of the triangle.
        unsafe { at(a, ld, i, j, op) }
    } else {
        zero()
    }
}

/// # Safety
/// As [`super::run`].
pub(super) unsafe fn run<T: Scalar>(call: &Call) -> Outcome {
    let hermitian = matches!(call.routine, Routine::Hemm | Routine::Herk | Routine::Her2k);
    // SAFETY: all accesses are inside the operands that the call describes.
    unsafe {
        match call.args {
            Args::Symm {
                form,
                m,
                n,
                alpha,
                a,
                lda,
                b,
                ldb,
                beta,
                c,
                ldc,
            } => {
                let left = form.side == Side::Left;
                let order = if left { m } else { n };
                if m < 0 || n < 0 || lda < order || ldb < m || ldc < m {
                    return Outcome::Host;
                }
                for j in 0..n {
                    for i in 0..m {
                        let mut sum: T = zero();
                        for p in 0..order {
                            sum = sum
                                + if left {
                                    mirrored::<T>(a, lda, form.uplo, hermitian, i, p)
                                        * at(b, ldb, p, j, Op::None)
                                } else {
                                    at::<T>(b, ldb, i, p, Op::None)
                                        * mirrored(a, lda, form.uplo, hermitian, p, j)
                                };
                        }
                        let to = (c as *mut T).offset((i + j * ldc) as isize);
                        to.write(T::from_value(alpha) * sum + scaled(beta, to));
                    }
                }
            }
            Args::RankK {
                uplo,
                op,
                n,
                k,
                alpha,
                a,
                lda,
                b,
                ldb,
                beta,
                c,
                ldc,
            } => {
                let two = matches!(call.routine, Routine::Syr2k | Routine::Her2k);
                let rows = if op == Op::None { n } else { k };
                if n < 0 || k < 0 || lda < rows || (two && ldb < rows) || ldc < n {
                    return Outcome::Host;
                }
                // Element (i, p) of the left factor, and (p, j) of the right one.
                let left = |x, ld, i, p| at::<T>(x, ld, i, p, op);
                let right = |x, ld, p, j| {
                    let value = at::<T>(x, ld, j, p, op);
                    if hermitian { value.conj() } else { value }
                };
                let alpha = T::from_value(alpha);
                let second = if hermitian { alpha.conj() } else { alpha };
                for j in 0..n {
                    for i in (0..n).filter(|&i| stored(uplo, i, j)) {
                        let mut sum: T = zero();
                        for p in 0..k {
                            sum = sum
                                + if two {
                                    alpha * left(a, lda, i, p) * right(b, ldb, p, j)
                                        + second * left(b, ldb, i, p) * right(a, lda, p, j)
                                } else {
                                    alpha * left(a, lda, i, p) * right(a, lda, p, j)
                                };
                        }
                        let to = (c as *mut T).offset((i + j * ldc) as isize);
                        let value = sum + scaled(beta, to);
                        to.write(if hermitian && i == j {
                            real(value)
                        } else {
                            value
                        });
                    }
                }
            }
            Args::Gemmt {
                uplo,
                op_a,
                op_b,
                n,
                k,
                alpha,
                a,
                lda,
                b,
                ldb,
                beta,
                c,
                ldc,
            } => {
                let rows_a = if op_a == Op::None { n } else { k };
                let rows_b = if op_b == Op::None { k } else { n };
                if n < 0 || k < 0 || lda < rows_a || ldb < rows_b || ldc < n {
                    return Outcome::Host;
                }
                for j in 0..n {
                    for i in (0..n).filter(|&i| stored(uplo, i, j)) {
                        let mut sum: T = zero();
                        for p in 0..k {
                            sum = sum + at::<T>(a, lda, i, p, op_a) * at(b, ldb, p, j, op_b);
                        }
                        let to = (c as *mut T).offset((i + j * ldc) as isize);
                        to.write(T::from_value(alpha) * sum + scaled(beta, to));
                    }
                }
            }
            Args::Triangular {
                form,
                op,
                m,
                n,
                alpha,
                a,
                lda,
                b,
                ldb,
            } => {
                let left = form.side == Side::Left;
                let order = if left { m } else { n };
                if m < 0 || n < 0 || lda < order || ldb < m {
                    return Outcome::Host;
                }
                let element = |i, j| triangular::<T>(a, lda, (form.uplo, form.diag, op), i, j);
                // A row or column of B at a time: the vector x of op(A) x, or of x op(A).
                for line in 0..if left { n } else { m } {
                    let place = |i: i64| {
                        let at = if left { i + line * ldb } else { line + i * ldb };
                        (b as *mut T).offset(at as isize)
                    };
                    let factor = |i, j| if left { element(i, j) } else { element(j, i) };
                    let alpha = T::from_value(alpha);
                    let x: Vec<T> = (0..order).map(|i| alpha * place(i).read()).collect();
                    let result = if call.routine == Routine::Trsm {
                        solve(&x, factor)
                    } else {
                        let row = |i| {
                            let terms = (0..order).zip(&x).map(|(j, x)| factor(i, j) * *x);
                            terms.fold(zero(), |sum: T, term| sum + term)
                        };
                        (0..order).map(row).collect()
                    };
                    for (i, value) in (0..order).zip(result) {
                        place(i).write(value);
                    }
                }
            }
            _ => return Outcome::Host,
        }
    }
    Outcome::Done(Value::ZERO)
}

/// The solution of a triangular system, whichever triangle it is.
pub(super) fn solve<T: Scalar>(right: &[T], factor: impl Fn(i64, i64) -> T) -> Vec<T> {
    let n = right.len();
    let at = |i: usize, j: usize| factor(i as i64, j as i64);
    let lower = (0..n).all(|j| (0..j).all(|i| is_zero(at(i, j))));
    let mut x = right.to_vec();
    for step in 0..n {
        let i = if lower { step } else { n - 1 - step };
        x[i] = quotient(x[i], at(i, i));
        let others = if lower { i + 1..n } else { 0..i };
        for j in others {
            x[j] = x[j] + T::from_value(Value { re: -1.0, im: 0.0 }) * at(j, i) * x[i];
        }
    }
    x
}

fn is_zero<T: Scalar>(value: T) -> bool {
    value.to_value().is_zero()
}

fn quotient<T: Scalar>(x: T, y: T) -> T {
    let (re, im) = (y.to_value().re, y.to_value().im);
    let square = re * re + im * im;
    x * T::from_value(Value {
        re: re / square,
        im: -im / square,
    })
}
