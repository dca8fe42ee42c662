//! Counts of the calls that the shim sends to the host without asking the runtime.
//!
//! A counter that all threads share costs more than a small call. Each thread owns a slot; when they are used
//! up, further threads share the last one and add atomically. Slots are never given back, so that the sums
//! stay when a thread ends.

#![expect(
    unsafe_code,
    reason = "a thread finds its slot through a pointer in its thread-local block"
)]

mod slot;

use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::symbols::COUNTED;
use crate::thread::State;
pub(crate) use slot::{REASONS, Reason, Slot, small_offset};

const OWNED: usize = 64;
static SLOTS: [Slot; OWNED + 1] =
    [const { Slot([const { [const { AtomicU64::new(0) }; REASONS.len()] }; COUNTED.len()]) };
        OWNED + 1];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Gives the thread a slot of its own, while there are some.
#[cold]
fn take(thread: &State) -> Option<&'static Slot> {
    // Stops at the limit, so that it cannot wrap.
    let index = TAKEN
        .fetch_update(Relaxed, Relaxed, |n| (n < OWNED).then_some(n + 1))
        .ok()?;
    let slot = &SLOTS[index];
    thread.slot.set(ptr::from_ref(slot));
    Some(slot)
}

/// Counts one call of the routine.
pub(crate) fn count(thread: &State, counter: u8, reason: Reason) {
    if count_owned(thread, counter, reason) {
        return;
    }
    match take(thread) {
        Some(_) => {
            count_owned(thread, counter, reason);
        }
        None => {
            SLOTS[OWNED].0[usize::from(counter)][reason as usize].fetch_add(1, Relaxed);
        }
    }
}

/// Counts one call if the thread has a slot of its own.
fn count_owned(thread: &State, counter: u8, reason: Reason) -> bool {
    // SAFETY: null, or set by `take` to an element of `SLOTS` that no other thread writes.
    let cell = unsafe { thread.slot.get().as_ref() }
        .and_then(|slot| slot.0.get(usize::from(counter)))
        .map(|cells| &cells[reason as usize]);
    if let Some(cell) = cell {
        cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
    }
    cell.is_some()
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
