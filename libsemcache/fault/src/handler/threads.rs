//! The runtime's own threads, known by thread id in a fixed array, not by TLS (H3).

use crate::sync::current_tid;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// More runtime threads than any number of devices needs.
const CAPACITY: usize = 256;

static TIDS: [AtomicU32; CAPACITY] = [const { AtomicU32::new(0) }; CAPACITY];
/// No entry at or above this was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Registers the calling thread as a runtime thread: it must never touch an inaccessible page, and its faults are
/// reported and chained, since it would wait for itself. False if the array is full; then only the report of such a
/// fault is lost.
pub fn register_runtime_thread() -> bool {
    let tid = current_tid();
    for (index, entry) in TIDS.iter().enumerate() {
        if entry
            .compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            USED.fetch_max(index + 1, Ordering::AcqRel);
            return true;
        }
    }
    false
}

/// Removes the calling thread from the list, before it ends: the kernel reuses thread ids.
pub fn unregister_runtime_thread() {
    let tid = current_tid();
    for entry in &TIDS {
        let _ = entry.compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Whether a thread of this process exists; true if that cannot be known.
#[must_use]
pub fn exists(tid: u32) -> bool {
    crate::sys::thread_exists(tid)
}

pub(crate) fn is_runtime(tid: u32) -> bool {
    TIDS.iter()
        .take(USED.load(Ordering::Acquire))
        .any(|entry| entry.load(Ordering::Relaxed) == tid)
}

pub(super) fn reset_after_fork() {
    for entry in &TIDS {
        entry.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_ours_between_register_and_unregister() {
        assert!(!is_runtime(current_tid()));
        assert!(register_runtime_thread());
        assert!(is_runtime(current_tid()));
        unregister_runtime_thread();
        assert!(!is_runtime(current_tid()));
    }
}
