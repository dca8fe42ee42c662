//! Counters of the fault path. The report reads them; nothing resets them.

use core::sync::atomic::{AtomicU64, Ordering};

/// Read faults that the service thread served.
pub static SERVED_READS: Counter = Counter::new();
/// Write faults that the service thread served.
pub static SERVED_WRITES: Counter = Counter::new();
/// Faults on pages that were accessible again when the handler looked: retried.
pub static RETRIED: Counter = Counter::new();
/// Signals chained to the program's own disposition.
pub static CHAINED: Counter = Counter::new();

/// An event count that may be bumped in a signal handler.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    pub(crate) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
