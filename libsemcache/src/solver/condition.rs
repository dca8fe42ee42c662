//! The one-norm of an inverse, estimated by few solutions: N. J. Higham, "FORTRAN codes for estimating the one-norm of a real or complex
//! matrix, with applications to condition estimation", ACM Trans. Math. Softw. 14 (1988), algorithms 2.4 and 5.1, as LAPACK's lacn2 has
//! them, in the same order of steps.

use crate::base::Value;

/// Which product with a vector is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Apply {
    /// With the matrix whose norm is estimated.
    Itself,
    /// With its conjugate transpose.
    Adjoint,
}

/// The iterations at most.
const MOST: usize = 5;

/// Estimates the one-norm of a matrix of this order, at least 1, of which only products with vectors are known; `real`: its elements are;
/// `tiny`: the least normal number of their precision.
///
/// # Errors
/// Those of `apply`.
pub(super) fn one_norm<E>(
    order: usize,
    (real, tiny): (bool, f64),
    mut apply: impl FnMut(Apply, Vec<Value>) -> Result<Vec<Value>, E>,
) -> Result<f64, E> {
    let number = |re| Value { re, im: 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "an order of a matrix")]
    let n = order as f64;
    let mut x = apply(Apply::Itself, vec![number(1.0 / n); order])?;
    if order == 1 {
        return Ok(size(x[0]));
    }
    let mut estimate = sum(&x);
    let mut signs: Vec<Value> = x.iter().map(|x| sign(*x, real, tiny)).collect();
    x = apply(Apply::Adjoint, signs.clone())?;
    let mut largest = position(&x);
    for iteration in 2..=MOST {
        let mut unit = vec![number(0.0); order];
        unit[largest] = number(1.0);
        x = apply(Apply::Itself, unit)?;
        let before = estimate;
        estimate = sum(&x);
        let new: Vec<Value> = x.iter().map(|x| sign(*x, real, tiny)).collect();
        // The same signs come again and again; or there is no progress.
        if real && new == signs || estimate <= before {
            break;
        }
        signs.clone_from(&new);
        x = apply(Apply::Adjoint, new)?;
        let last = largest;
        largest = position(&x);
        let before = if real { x[last].re } else { size(x[last]) };
        let cycles = before == size(x[largest]);
        if cycles || iteration == MOST {
            break;
        }
    }
    // A vector that many matrices do not cancel.
    let alternating = (0..order).map(|i| {
        #[expect(clippy::cast_precision_loss, reason = "a row of a matrix")]
        let value = 1.0 + i as f64 / (n - 1.0);
        number(if i % 2 == 0 { value } else { -value })
    });
    let other = 2.0 * (sum(&apply(Apply::Itself, alternating.collect())?) / (3.0 * n));
    Ok(estimate.max(other))
}

fn size(x: Value) -> f64 {
    x.re.hypot(x.im)
}

fn sum(x: &[Value]) -> f64 {
    x.iter().map(|x| size(*x)).sum()
}

/// A number of size 1 in the direction of `x`.
fn sign(x: Value, real: bool, tiny: f64) -> Value {
    let size = size(x);
    match real {
        true => Value {
            re: if x.re >= 0.0 { 1.0 } else { -1.0 },
            im: 0.0,
        },
        false if size > tiny => Value {
            re: x.re / size,
            im: x.im / size,
        },
        false => Value::ONE,
    }
}

/// The first of the largest elements.
fn position(x: &[Value]) -> usize {
    let mut largest = 0;
    for (i, element) in x.iter().enumerate() {
        if size(*element) > size(x[largest]) {
            largest = i;
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    /// The estimate for a matrix of this order, and its norm.
    fn estimated(order: usize, real: bool, of: impl Fn(usize, usize) -> Value) -> (f64, f64) {
        let product = |apply: Apply, x: Vec<Value>| {
            let row = |i: usize| {
                let mut sum = Value::ZERO;
                for (j, x) in x.iter().enumerate() {
                    let Value { re, im } = match apply {
                        Apply::Itself => of(i, j),
                        Apply::Adjoint => Value {
                            im: -of(j, i).im,
                            ..of(j, i)
                        },
                    };
                    sum.re += re * x.re - im * x.im;
                    sum.im += re * x.im + im * x.re;
                }
                sum
            };
            Ok::<_, Infallible>((0..order).map(row).collect())
        };
        let column = |j| (0..order).map(|i| size(of(i, j))).sum::<f64>();
        let norm = (0..order).map(column).fold(0.0, f64::max);
        let Ok(estimate) = one_norm(order, (real, f64::MIN_POSITIVE), product);
        (estimate, norm)
    }

    #[test]
    fn an_estimate_is_at_most_the_norm_and_near_it() {
        for order in [1, 2, 3, 10, 60] {
            for real in [true, false] {
                for seed in 0..40 {
                    let of = |i: usize, j: usize| {
                        let h = (i * 131 + j * 61 + seed * 17 + 1).wrapping_mul(2_654_435_761) >> 7;
                        #[expect(clippy::cast_precision_loss, reason = "small")]
                        let part = |h: usize| (h % 101) as f64 - 50.0;
                        Value {
                            re: part(h),
                            im: if real { 0.0 } else { part(h / 101) },
                        }
                    };
                    let (estimate, norm) = estimated(order, real, of);
                    assert!(
                        estimate <= norm * (1.0 + 1e-12) && estimate >= norm / 3.0,
                        "order {order}, seed {seed}: {estimate} of {norm}"
                    );
                }
            }
        }
    }

    #[test]
    fn of_a_diagonal_it_is_the_norm() {
        let of = |i: usize, j: usize| {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let re = if i == j { (i % 7) as f64 - 9.0 } else { 0.0 };
            Value { re, im: 0.0 }
        };
        let (estimate, norm) = estimated(30, true, of);
        assert!((estimate - norm).abs() < 1e-12);
    }
}
