//! Calls that went to the host a moment ago.
//!
//! A decision takes microseconds, and a call that is just not worth a device takes tens of them. So a call that
//! was sent to the host goes there again without being asked, as often as makes the decision a hundredth of the
//! time that the calls take together. Nothing here is needed for correctness: at worst, some calls run where
//! they are slower, for that long.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::call::Call;
use crate::base::{Dtype, Routine};

/// Calls remembered at once. A collision forgets the older one.
const ENTRIES: usize = 512;
/// The low bits of an entry count the calls that are left, the others tell calls apart.
const LEFT: u64 = 0xFFFF;

/// What a decision takes, from the stub to the answer.
const DECISION_S: f64 = 5e-6;
/// What it takes for each product of a batch after the first, which is looked at.
const LOOK_S: f64 = 2e-6;
/// The share of the calls' time that decisions may take.
const SHARE: f64 = 0.01;

/// The calls. Any thread may use it at any time; counts are approximate.
#[derive(Debug)]
pub struct Memo([AtomicU64; ENTRIES]);

impl Default for Memo {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }
}

impl Memo {
    /// Whether the call goes to the host once more.
    pub fn take(&self, key: u64) -> bool {
        let entry = &self.0[slot(key)];
        let now = entry.load(Relaxed);
        if (now ^ key) & !LEFT != 0 || now & LEFT == 0 {
            return false;
        }
        // Another thread's count may get lost, an entry never becomes another one.
        let _ = entry.compare_exchange(now, now - 1, Relaxed, Relaxed);
        true
    }

    /// Sends calls that are made together to the host for a while, and says how often; `host_s` is what they take there.
    pub fn put(&self, key: u64, calls: usize, host_s: f64) -> u64 {
        let decision_s = DECISION_S + LOOK_S * calls.saturating_sub(1) as f64;
        let times = (decision_s / (SHARE * host_s)).clamp(0.0, LEFT as f64) as u64;
        self.0[slot(key)].store(key & !LEFT | times, Relaxed);
        times
    }

    /// How often the call goes there still; nothing if that was forgotten for another call's sake.
    pub fn left(&self, key: u64) -> Option<u64> {
        let now = self.0[slot(key)].load(Relaxed);
        ((now ^ key) & !LEFT == 0).then_some(now & LEFT)
    }
}

fn slot(key: u64) -> usize {
    (key >> 48) as usize % ENTRIES
}

/// Mixes all bits into the upper ones.
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (word ^ word >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// The key of a call by sizes (of vectors, only the first) and operands in any order.
fn key(
    routine: Routine,
    dtype: Dtype,
    sizes: [u64; 3],
    operands: impl Iterator<Item = usize>,
) -> u64 {
    let mut key = mix(routine as u64 * 4 + dtype as u64 + 1);
    for size in sizes {
        key = mix(key ^ size);
    }
    operands.fold(key, |key, addr| key.wrapping_add(mix(addr as u64)))
}

/// The key of calls that are made together, by the first and last of them and their number.
#[must_use]
pub fn of(calls: &[Call]) -> u64 {
    let of_call = |call: &Call| {
        let sizes = call.sizes().map(|s| s as u64);
        let operands = call.operands().iter().map(|pointer| pointer.addr);
        key(call.routine, call.dtype, sizes, operands)
    };
    match calls {
        [call] => of_call(call),
        calls => {
            let ends = [calls.first(), calls.last()];
            let keys = ends.into_iter().flatten().map(of_call);
            keys.fold(calls.len() as u64, |all, key| mix(all ^ key))
        }
    }
}

#[cfg(test)]
mod tests;
