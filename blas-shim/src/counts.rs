//! Counts of the calls that the shim sends to the host without asking the runtime.
//!
//! A counter that all threads share costs more than a small call. Each thread owns a slot; when they are used
//! up, further threads share the last one and add atomically. Slots are never given back, so that the sums
//! stay when a thread ends.

#![expect(
    unsafe_code,
    reason = "a thread finds its slot through a pointer in its thread-local block"
)]

use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::symbols::COUNTED;
use crate::thread::State;

/// Why a call went to the host; the names of `why_host` in the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Below the fixed floor of work, and nothing it touches is on a device.
    Small = 0,
    /// A host BLAS called back.
    Nested = 1,
    /// Width of integers or return of values unknown.
    NoConvention = 2,
    /// Several libraries could be meant.
    ManyProviders = 3,
    /// Not a valid call: the host reports it.
    BadArgument = 4,
}

/// The reasons, with their names.
pub(crate) const REASONS: [(Reason, &str); 5] = [
    (Reason::Small, "small"),
    (Reason::Nested, "nested"),
    (Reason::NoConvention, "no_provider_convention"),
    (Reason::ManyProviders, "multiple_providers"),
    (Reason::BadArgument, "bad_argument"),
];

/// The counters of a thread.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot([[AtomicU64; REASONS.len()]; COUNTED.len()]);

const OWNED: usize = 64;
static SLOTS: [Slot; OWNED + 1] =
    [const { Slot([const { [const { AtomicU64::new(0) }; REASONS.len()] }; COUNTED.len()]) };
        OWNED + 1];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

#[cold]
fn take(thread: &State) -> &'static Slot {
    // Stops counting at the limit, so that it cannot wrap.
    let index = TAKEN
        .try_update(Relaxed, Relaxed, |n| (n < OWNED).then_some(n + 1))
        .unwrap_or(OWNED);
    let slot = &SLOTS[index];
    thread.slot.set(ptr::from_ref(slot));
    slot
}

/// Counts one call of the routine.
#[inline]
pub(crate) fn count(thread: &State, counter: u8, reason: Reason) {
    // SAFETY: null, or set by `take` to an element of `SLOTS`.
    let slot = match unsafe { thread.slot.get().as_ref() } {
        Some(slot) => slot,
        None => take(thread),
    };
    let Some(cell) = slot.0.get(counter as usize).map(|c| &c[reason as usize]) else {
        return;
    };
    if ptr::eq(slot, &raw const SLOTS[OWNED]) {
        cell.fetch_add(1, Relaxed);
    } else {
        cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

fn sum(routine: usize, reason: Reason) -> u64 {
    SLOTS
        .iter()
        .map(|slot| slot.0[routine][reason as usize].load(Relaxed))
        .sum()
}

/// Calls that went to the host because they were small, by routine; routines without any are left out.
#[must_use]
pub fn snapshot() -> Vec<(String, u64)> {
    snapshot_of(Reason::Small)
}

/// Calls that the shim sent to the host for one reason.
fn snapshot_of(reason: Reason) -> Vec<(String, u64)> {
    COUNTED
        .iter()
        .enumerate()
        .map(|(index, name)| ((*name).to_owned(), sum(index, reason)))
        .filter(|(_, calls)| *calls > 0)
        .collect()
}

/// All that was counted: routine, name of the reason, calls.
#[must_use]
pub fn snapshot_all() -> Vec<(String, &'static str, u64)> {
    REASONS
        .iter()
        .flat_map(|(reason, name)| {
            snapshot_of(*reason)
                .into_iter()
                .map(move |(routine, calls)| (routine, *name, calls))
        })
        .collect()
}
