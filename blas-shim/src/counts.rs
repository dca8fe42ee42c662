//! Counters of BLAS calls that the shim passes to the host BLAS without asking the runtime.
//!
//! A counter that all threads share costs more than a small call. Each thread owns a slot of counters; when all slots
//! are taken, further threads share the last slot and add atomically. A slot is not reused after its thread has ended,
//! so that the sums keep what the thread counted.

#![expect(
    unsafe_code,
    reason = "a thread finds its slot through a pointer in its thread-local block"
)]

mod slot;

use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use semcache::base::counters::WhyHost;

use crate::symbols::COUNTED;
use crate::thread::State;
pub(crate) use slot::{REASONS, Slot, place, small_offset};

const OWNED: usize = 64;
static SLOTS: [Slot; OWNED + 1] =
    [const { Slot([const { [const { AtomicU64::new(0) }; REASONS.len()] }; COUNTED.len()]) };
        OWNED + 1];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Gives the calling thread a slot of its own, as long as slots are left.
#[cold]
fn take(thread: &State) -> Option<&'static Slot> {
    // The number of taken slots stops at the limit, so that it cannot wrap.
    let index = TAKEN
        .fetch_update(Relaxed, Relaxed, |n| (n < OWNED).then_some(n + 1))
        .ok()?;
    let slot = &SLOTS[index];
    thread.slot.set(ptr::from_ref(slot));
    Some(slot)
}

/// Counts one call of a routine.
pub(crate) fn count(thread: &State, counter: u8, reason: WhyHost) {
    if count_owned(thread, counter, reason) {
        return;
    }
    match take(thread) {
        Some(_) => {
            count_owned(thread, counter, reason);
        }
        None => {
            SLOTS[OWNED].0[usize::from(counter)][place(reason)].fetch_add(1, Relaxed);
        }
    }
}

/// Counts one call if the calling thread has a slot of its own.
fn count_owned(thread: &State, counter: u8, reason: WhyHost) -> bool {
    // SAFETY: null, or set by `take` to an element of `SLOTS` that no other thread writes.
    let cell = unsafe { thread.slot.get().as_ref() }
        .and_then(|slot| slot.0.get(usize::from(counter)))
        .map(|cells| &cells[place(reason)]);
    if let Some(cell) = cell {
        cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
    }
    cell.is_some()
}

fn sum(routine: usize, reason: WhyHost) -> u64 {
    SLOTS
        .iter()
        .map(|slot| slot.0[routine][place(reason)].load(Relaxed))
        .sum()
}

/// The numbers of calls that the shim passed to the host BLAS, by routine and reason; only numbers above zero.
#[must_use]
pub fn all() -> Vec<(String, WhyHost, u64)> {
    let routines = COUNTED.iter().enumerate();
    routines
        .flat_map(|(index, name)| REASONS.map(|why| ((*name).to_owned(), why, sum(index, why))))
        .filter(|(_, _, calls)| *calls > 0)
        .collect()
}
