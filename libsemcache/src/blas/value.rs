//! The value of a reduction (dot, nrm2, asum, iamax): how many bytes a kernel writes for it, how to read them, and how the
//! values of the pieces of long vectors make one.

use super::call::Outcome;
use crate::base::{Dtype, Routine, Value};
use crate::plan::Problem;

/// The outcome of a call; if its routine returns a value, the kernel of each task has written one to its slot. Iamax has
/// one task.
pub(super) fn outcome(routine: Routine, dtype: Dtype, slots: &[[u8; 16]]) -> Outcome {
    let values = slots.iter().map(|slot| value(routine, dtype, slot));
    match (routine, slots) {
        (Routine::Iamax, [slot, ..]) => Outcome::Index(i64::from_ne_bytes(first8(slot))),
        (_, [slot]) if routine.reduces() => Outcome::Done(value(routine, dtype, slot)),
        (Routine::Nrm2, _) => Outcome::Done(norm(values.map(|v| v.re))),
        (Routine::Dot | Routine::Dotc | Routine::Asum, _) => {
            Outcome::Done(values.fold(Value::ZERO, |sum, v| Value {
                re: sum.re + v.re,
                im: sum.im + v.im,
            }))
        }
        _ => Outcome::Done(Value::ZERO),
    }
}

/// The norm of a vector from the norms of its pieces, scaled by the largest, so that no square overflows or underflows. A
/// NaN counts more than an infinite norm, as in the reference.
fn norm(of_pieces: impl Iterator<Item = f64> + Clone) -> Value {
    // Of two numbers of which one is NaN, `max` returns the other.
    let nan = of_pieces.clone().find(|v| v.is_nan());
    let largest = nan.unwrap_or_else(|| of_pieces.clone().fold(0.0, f64::max));
    let re = if largest > 0.0 && largest.is_finite() {
        let squares: f64 = of_pieces.map(|v| (v / largest) * (v / largest)).sum();
        largest * squares.sqrt()
    } else {
        largest
    };
    Value { re, im: 0.0 }
}

/// The size of a reduction's value, in bytes.
pub(super) fn size_of(p: &Problem) -> usize {
    match p.routine {
        Routine::Iamax => 8,
        Routine::Dot | Routine::Dotc => p.dtype.size(),
        _ => p.dtype.real().size(),
    }
}

fn first8(slot: &[u8; 16]) -> [u8; 8] {
    let mut b = [0; 8];
    b.copy_from_slice(&slot[..8]);
    b
}

fn value(routine: Routine, dtype: Dtype, slot: &[u8; 16]) -> Value {
    let f = |i: usize| f32::from_ne_bytes([slot[i], slot[i + 1], slot[i + 2], slot[i + 3]]);
    let mut high = [0; 8];
    high.copy_from_slice(&slot[8..]);
    let complex = matches!(routine, Routine::Dot | Routine::Dotc) && dtype.is_complex();
    match (dtype.real(), complex) {
        (Dtype::S, false) => Value {
            re: f(0).into(),
            im: 0.0,
        },
        (Dtype::S, true) => Value {
            re: f(0).into(),
            im: f(4).into(),
        },
        (_, false) => Value {
            re: f64::from_ne_bytes(first8(slot)),
            im: 0.0,
        },
        (_, true) => Value {
            re: f64::from_ne_bytes(first8(slot)),
            im: f64::from_ne_bytes(high),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(re: f64, im: f64) -> [u8; 16] {
        let mut slot = [0; 16];
        slot[..8].copy_from_slice(&re.to_ne_bytes());
        slot[8..].copy_from_slice(&im.to_ne_bytes());
        slot
    }

    fn of(routine: Routine, dtype: Dtype, values: &[(f64, f64)]) -> Value {
        let slots: Vec<[u8; 16]> = values.iter().map(|&(re, im)| slot(re, im)).collect();
        match outcome(routine, dtype, &slots) {
            Outcome::Done(value) => value,
            other => panic!("{other:?}"),
        }
    }

    fn nrm2(values: &[f64]) -> f64 {
        let values: Vec<(f64, f64)> = values.iter().map(|&re| (re, 0.0)).collect();
        of(Routine::Nrm2, Dtype::D, &values).re
    }

    #[test]
    fn sums_of_pieces() {
        let found = of(
            Routine::Dot,
            Dtype::Z,
            &[(1.0, 2.0), (3.0, -5.0), (-8.0, 1.0)],
        );
        assert_eq!(found, Value { re: -4.0, im: -2.0 });
        let found = of(Routine::Asum, Dtype::Z, &[(1.5, 9.0), (3.0, 9.0)]);
        assert_eq!(found, Value { re: 4.5, im: 0.0 });
        let infinite = [(f64::INFINITY, 0.0), (f64::NEG_INFINITY, 0.0)];
        assert!(of(Routine::Dot, Dtype::D, &infinite).re.is_nan());
        assert_eq!(of(Routine::Dot, Dtype::D, &infinite[..1]).re, f64::INFINITY);
        // A single value is returned as it is.
        let found = of(Routine::Dotc, Dtype::Z, &[(-0.0, -0.0)]);
        assert!(found.re.is_sign_negative() && found.im.is_sign_negative());
    }

    #[test]
    fn norms_of_pieces() {
        assert_eq!(nrm2(&[3.0, 4.0]), 5.0);
        assert_eq!(nrm2(&[0.0, 0.0, 0.0]), 0.0);
        assert_eq!(nrm2(&[0.0, 7.0]), 7.0);
        // Neither the squares of large numbers nor those of small ones are numbers.
        assert_eq!(nrm2(&[3e300, 4e300]), 5e300);
        assert_eq!(nrm2(&[3e-320, 4e-320]), 5e-320);
        assert_eq!(nrm2(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(nrm2(&[1.0, f64::INFINITY, 2.0]), f64::INFINITY);
        for place in 0..3 {
            let mut values = [f64::INFINITY; 3];
            values[place] = f64::NAN;
            assert!(nrm2(&values).is_nan());
        }
    }

    #[test]
    fn an_index_is_that_of_the_only_task() {
        let mut slot = [0; 16];
        slot[..8].copy_from_slice(&17_i64.to_ne_bytes());
        assert_eq!(
            outcome(Routine::Iamax, Dtype::C, &[slot]),
            Outcome::Index(17)
        );
    }
}
