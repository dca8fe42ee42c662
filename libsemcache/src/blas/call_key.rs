//! The key by which a call is found again ([`crate::policy::call_sites`]).
//!
//! Two calls have the same key if they differ in the values of alpha and beta only, and not in whether these are zero or
//! one: that changes what is read and written, and what is computed at all.

use core::hash::Hasher as _;

use rustc_hash::FxHasher;

use super::call::Call;
use crate::base::Value;

/// The key of a call; its lowest bit is always set.
#[must_use]
pub fn of(call: &Call) -> u64 {
    let flags = [
        call.form.side as u64,
        call.form.uplo as u64,
        call.form.diag as u64,
        call.op_a as u64,
        call.op_b as u64,
    ];
    let flags = flags.into_iter().fold(0, |all, flag| all << 2 | flag);
    let like = |v: Value| u64::from(v.is_zero()) + 2 * u64::from(v.is_one());
    let scalars = like(call.alpha) << 2 | like(call.beta);
    let mut hash = FxHasher::default();
    hash.write_u64(call.routine as u64 | (call.dtype as u64) << 8 | scalars << 16 | flags << 24);
    for size in [call.m, call.n, call.k] {
        hash.write_u64(size.cast_unsigned());
    }
    for operand in call.operands() {
        hash.write_u64(operand.addr as u64);
        hash.write_u64(operand.ld.cast_unsigned());
    }
    hash.finish() | 1
}

/// The call as a user of its operands: the same for calls that differ in flags, scalars, leading dimensions or the order of their
/// operands only, as the calls of an iteration that exchanges two vectors do.
#[must_use]
pub fn user(call: &Call) -> u64 {
    let mut hash = FxHasher::default();
    hash.write_u64(call.routine as u64 | (call.dtype as u64) << 8);
    for size in [call.m, call.n, call.k] {
        hash.write_u64(size.cast_unsigned());
    }
    let operand = |addr: usize| {
        let mut hash = FxHasher::default();
        hash.write_usize(addr);
        hash.finish()
    };
    let operands = call.operands().iter();
    operands.fold(hash.finish(), |all, at| all.wrapping_add(operand(at.addr)))
}

/// The key of a batch of calls: from the first call, the last one and their number.
#[must_use]
pub fn of_batch(calls: &[Call]) -> u64 {
    let mut hash = FxHasher::default();
    hash.write_usize(calls.len());
    for call in [calls.first(), calls.last()].into_iter().flatten() {
        hash.write_u64(of(call));
    }
    hash.finish() | 1
}

#[cfg(test)]
mod tests;
