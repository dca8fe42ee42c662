//! Host-decision cache: the calls for which a recent decision chose the host.
//!
//! A decision takes microseconds, and a call that is just not worth a device takes tens of them. So after a decision
//! for the host, the same call runs there again without a decision, as many times as makes the decision a hundredth of
//! the time that these calls take together. Correctness does not depend on this cache: at worst, that number of calls
//! run on the slower side.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::call::Call;
use crate::base::{Dtype, Routine};

/// Calls in the cache at once. A collision replaces the older call.
const ENTRIES: usize = 512;
/// The low bits of an entry count the calls that still go to the host without a decision, the high bits are those of
/// the call's key.
const LEFT: u64 = 0xFFFF;

/// Seconds of one decision, from the stub in the shim to the answer.
const DECISION_S: f64 = 5e-6;
/// Seconds that a batch adds to its decision for each product after the first, because its operands are looked up.
const LOOK_S: f64 = 2e-6;
/// The share of the calls' time that decisions may take.
const SHARE: f64 = 0.01;

/// The host-decision cache. Any thread may use it at any time; counts are approximate.
#[derive(Debug)]
pub struct HostDecisions([AtomicU64; ENTRIES]);

impl Default for HostDecisions {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }
}

impl HostDecisions {
    /// Whether the call runs on the host once more without a decision; if so, counts it.
    pub fn take(&self, key: u64) -> bool {
        let entry = &self.0[slot(key)];
        let now = entry.load(Relaxed);
        if (now ^ key) & !LEFT != 0 || now & LEFT == 0 {
            return false;
        }
        // If another thread changes the entry first, this call is not counted, but the entry stays that of one call.
        let _ = entry.compare_exchange(now, now - 1, Relaxed, Relaxed);
        true
    }

    /// Notes that a group of calls runs on the host, and returns how many times it does so again without a decision;
    /// `host_s` is the time of the group there.
    pub fn put(&self, key: u64, calls: usize, host_s: f64) -> u64 {
        let decision_s = DECISION_S + LOOK_S * calls.saturating_sub(1) as f64;
        let times = (decision_s / (SHARE * host_s)).clamp(0.0, LEFT as f64) as u64;
        self.0[slot(key)].store(key & !LEFT | times, Relaxed);
        times
    }

    /// How many times the call still runs on the host without a decision; `None` if a collision replaced its entry.
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

/// The key of a call: its sizes (of vectors, only the first) and the addresses of its operands in any order.
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

/// The key of a group of calls: from the first call, the last one and their number.
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
