//! Which threads are the runtime's own. By thread id in a fixed array, not by TLS (H3).

use crate::sync::current_tid;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// More runtime threads than devices could ever want.
const CAPACITY: usize = 256;

static TIDS: [AtomicU32; CAPACITY] = [const { AtomicU32::new(0) }; CAPACITY];
/// No entry at or above this was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Registers the calling thread as one of ours: it must never touch a closed page, and a fault of it is
/// reported and chained instead of waiting for itself. False if there is no room, which only loses the
/// report.
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

/// Takes the calling thread off the list, before it ends: thread ids are used again.
pub fn unregister_runtime_thread() {
    let tid = current_tid();
    for entry in &TIDS {
        let _ = entry.compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
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
