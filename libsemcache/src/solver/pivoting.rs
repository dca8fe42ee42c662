//! QR with column pivoting: which column is next, and the scalars of its reflector.

use super::system::{precision, range};
use crate::base::{Dtype, Value};

/// Columns of a panel at most, as in LAPACK.
pub(super) const WIDTH: usize = 32;

/// `I - tau v v^H` that makes a column `beta` and zeros below.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Reflector {
    /// What becomes of the first element.
    pub(super) beta: f64,
    /// The scalar factor.
    pub(super) tau: Value,
    /// By what the column below its first element is multiplied for v, whose first element is 1.
    pub(super) scale: Value,
}

impl Reflector {
    /// Its numbers, in order to look whether they are finite.
    pub(super) fn parts(&self) -> [f64; 5] {
        let Reflector { beta, tau, scale } = self;
        [*beta, tau.re, tau.im, scale.re, scale.im]
    }
}

/// The least norm of a column that LAPACK does not scale before it makes the reflector.
pub(super) fn least(dtype: Dtype) -> f64 {
    2.0 * range(dtype).0 / precision(dtype)
}

/// The reflector of a column with this first element and this norm below (LAPACK's larfg). `None` if LAPACK would scale the column, or if
/// the scalars could overflow or underflow.
pub(super) fn reflector(alpha: Value, norm: f64, dtype: Dtype) -> Option<Reflector> {
    if norm == 0.0 && alpha.im == 0.0 {
        return Some(Reflector {
            beta: alpha.re,
            tau: Value::ZERO,
            scale: Value::ONE,
        });
    }
    let size = alpha.re.hypot(alpha.im).hypot(norm);
    let beta = -size.copysign(alpha.re);
    // The inverse of a larger number may be subnormal.
    if size < least(dtype) || size > range(dtype).1 / 8.0 {
        return None;
    }
    let (re, im) = (alpha.re - beta, alpha.im);
    // The inverse, without squares that overflow.
    let largest = re.abs().max(im.abs());
    let parts = (re / largest, im / largest);
    let squares = parts.0 * parts.0 + parts.1 * parts.1;
    Some(Reflector {
        beta,
        tau: Value {
            re: (beta - alpha.re) / beta,
            im: -alpha.im / beta,
        },
        scale: Value {
            re: parts.0 / squares / largest,
            im: -parts.1 / squares / largest,
        },
    })
}

/// Norms of the columns below the rows that are done: Z. Drmac, Z. Bujanovic, "On the failure of rank-revealing QR factorization software - a
/// case study", ACM Trans. Math. Softw. 35 (2008), as in LAPACK's laqps.
pub(super) struct Norms {
    now: Vec<f64>,
    /// As they were computed last.
    last: Vec<f64>,
    /// Below this share of it a norm that was updated is not accurate.
    least: f64,
}

impl Norms {
    /// Of norms that were computed of all rows.
    pub(super) fn of(computed: Vec<f64>, dtype: Dtype) -> Norms {
        Norms {
            last: computed.clone(),
            now: computed,
            least: (precision(dtype) / 2.0).sqrt(),
        }
    }

    /// The first of the columns from `done` on that have the largest norm.
    pub(super) fn largest(&self, done: usize) -> usize {
        let mut largest = done;
        for (col, norm) in self.now.iter().enumerate().skip(done) {
            if *norm > self.now[largest] {
                largest = col;
            }
        }
        largest
    }

    /// The norm of a column.
    pub(super) fn norm(&self, col: usize) -> f64 {
        self.now[col]
    }

    /// The next column takes the place of another one; its own norms are not needed any more.
    pub(super) fn exchange(&mut self, done: usize, other: usize) {
        self.now[other] = self.now[done];
        self.last[other] = self.last[done];
    }

    /// A row with elements of these sizes, in the columns from `done` on, is taken away. Returns the columns whose norms are to be computed.
    pub(super) fn without_row(&mut self, done: usize, row: &[f64]) -> Vec<usize> {
        let mut inaccurate = Vec::new();
        for (col, size) in (done..).zip(row) {
            let (now, last) = (&mut self.now[col], self.last[col]);
            if *now == 0.0 {
                continue;
            }
            let share = size / *now;
            let left = ((1.0 + share) * (1.0 - share)).max(0.0);
            let since = *now / last;
            if left * since * since <= self.least {
                inaccurate.push(col);
            } else {
                *now *= left.sqrt();
            }
        }
        inaccurate
    }

    /// The norms of these columns were computed anew.
    pub(super) fn computed(&mut self, columns: &[usize], norms: &[f64]) {
        for (col, norm) in columns.iter().zip(norms) {
            self.now[*col] = *norm;
            self.last[*col] = *norm;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `H^H x` for the first element and one below.
    fn applied(made: &Reflector, x: [Value; 2]) -> [Value; 2] {
        let times = |a: Value, b: Value| Value {
            re: a.re * b.re - a.im * b.im,
            im: a.re * b.im + a.im * b.re,
        };
        let conj = |a: Value| Value { im: -a.im, ..a };
        let sum = |a: Value, b: Value| Value {
            re: a.re + b.re,
            im: a.im + b.im,
        };
        let v = times(x[1], made.scale);
        let product = times(conj(made.tau), sum(x[0], times(conj(v), x[1])));
        let minus = Value {
            re: -product.re,
            im: -product.im,
        };
        [sum(x[0], minus), sum(x[1], times(v, minus))]
    }

    #[test]
    fn a_reflector_leaves_the_first_element() {
        let number = |re, im| Value { re, im };
        for (alpha, below) in [
            (number(3.0, 0.0), number(4.0, 0.0)),
            (number(-3.0, 0.0), number(0.0, 4.0)),
            (number(0.0, 0.0), number(2.0, 0.0)),
            (number(1.0, 2.0), number(0.0, 0.0)),
            (number(1e200, -1e200), number(1e200, 1e199)),
            (number(0.0, 1e307), number(1e307, 0.0)),
        ] {
            let norm = below.re.hypot(below.im);
            let made = reflector(alpha, norm, Dtype::Z).unwrap();
            let size = made.beta.abs();
            let [first, rest] = applied(&made, [alpha, below]);
            let zeros = [first.re - made.beta, first.im, rest.re, rest.im];
            assert!(zeros.iter().all(|x| x.abs() <= size * 1e-15), "{alpha:?}");
        }
        let real = reflector(number(-2.0, 0.0), 0.0, Dtype::D).unwrap();
        assert_eq!((real.tau, real.beta), (Value::ZERO, -2.0));
        assert_eq!(reflector(number(1e-300, 0.0), 1e-300, Dtype::D), None);
        assert_eq!(reflector(number(0.0, 1e308), 5e307, Dtype::Z), None);
        assert_eq!(reflector(number(1e38, 0.0), 1e38, Dtype::S), None);
    }

    #[test]
    fn norms_follow_the_rows_or_are_computed() {
        let mut norms = Norms::of(vec![5.0, 13.0, 13.0, 0.0], Dtype::D);
        assert_eq!(norms.largest(0), 1);
        norms.exchange(0, 1);
        assert_eq!(norms.now[1], 5.0);
        // Of 5, 13 and 0 the rows' elements leave 4, next to nothing, and 0.
        let inaccurate = norms.without_row(1, &[3.0, 13.0, 0.0]);
        assert_eq!(inaccurate, [2]);
        assert!((norms.now[1] - 4.0).abs() < 1e-14);
        norms.computed(&[2], &[1e-9]);
        assert_eq!(norms.largest(1), 1);
        assert_eq!(norms.largest(2), 2);
    }
}
