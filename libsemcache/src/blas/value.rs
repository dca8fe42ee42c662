//! The value of a reduction (dot, nrm2, asum, iamax): how many bytes a kernel writes for it, and how to read them.

use super::call::Outcome;
use crate::base::{Dtype, Routine, Value};
use crate::plan::Problem;

/// The outcome of a call; if its routine returns a value, a kernel has written that to `slot`.
pub(super) fn outcome(routine: Routine, dtype: Dtype, slot: &[u8; 16]) -> Outcome {
    match routine {
        Routine::Iamax => Outcome::Index(i64::from_ne_bytes(first8(slot))),
        _ if routine.reduces() => Outcome::Done(value(routine, dtype, slot)),
        _ => Outcome::Done(Value::ZERO),
    }
}

/// The size of a reduction's value, in bytes.
pub(super) fn size_of(p: &Problem) -> usize {
    match p.routine {
        Routine::Iamax => 8,
        Routine::Dot | Routine::Dotc => p.dtype.size(),
        _ => real(p.dtype).size(),
    }
}

fn real(d: Dtype) -> Dtype {
    match d {
        Dtype::S | Dtype::C => Dtype::S,
        Dtype::D | Dtype::Z => Dtype::D,
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
    match (real(dtype), complex) {
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
