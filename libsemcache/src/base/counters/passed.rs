//! Calls that are passed to the host BLAS without a decision, by routine and reason.
//!
//! A counter that all threads share costs more than a small call. Each thread owns a [`Passed`]; further threads share the last
//! one. It is not reused after its thread has ended, so that the sums keep what the thread counted.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::calls::MAX_ROUTINES;
use super::reasons::WhyHost;

/// How many threads have counters of their own.
pub const OWNED: usize = 64;

/// The reasons for which calls are passed on without a decision, in the order of the counters.
pub const PASSED: [WhyHost; 6] = [
    WhyHost::Small,
    WhyHost::Nested,
    WhyHost::Convention,
    WhyHost::Providers,
    WhyHost::BadArgument,
    WhyHost::Unsupported,
];

/// The position of a reason's counter among the counters of a routine; that of [`WhyHost::Small`] for a reason that
/// only a decision gives.
const fn place(why: WhyHost) -> usize {
    let mut i = PASSED.len() - 1;
    while i > 0 && PASSED[i] as u8 != why as u8 {
        i -= 1;
    }
    i
}

/// The counters of one thread.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Passed([[AtomicU64; PASSED.len()]; MAX_ROUTINES]);

impl Passed {
    pub(super) const fn new() -> Passed {
        Passed([const { [const { AtomicU64::new(0) }; PASSED.len()] }; MAX_ROUTINES])
    }

    /// Counts a call, if only the calling thread writes these counters.
    #[inline]
    pub fn count_alone(&self, routine: usize, why: WhyHost) {
        if let Some(count) = self.count_of(routine, why) {
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Counts a call, whatever other threads count here.
    pub fn count(&self, routine: usize, why: WhyHost) {
        if let Some(count) = self.count_of(routine, why) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// The number of calls.
    #[must_use]
    pub fn get(&self, routine: usize, why: WhyHost) -> u64 {
        self.count_of(routine, why).map_or(0, |n| n.load(Relaxed))
    }

    fn count_of(&self, routine: usize, why: WhyHost) -> Option<&AtomicU64> {
        self.0.get(routine).map(|counts| &counts[place(why)])
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter().flatten()
    }

    /// The offset in bytes of the counter of a routine's small calls, to which assembly adds.
    #[must_use]
    pub const fn small_offset(routine: usize) -> usize {
        let row = size_of::<[AtomicU64; PASSED.len()]>();
        routine * row + place(WhyHost::Small) * size_of::<AtomicU64>()
    }
}
