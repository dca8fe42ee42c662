//! Calls that are passed to the host BLAS without a decision, by routine and reason.
//!
//! A counter that all threads share costs more than a small call. Each thread owns a [`Passed`]; further threads share the last
//! one. It is not reused after its thread has ended, so that the sums keep what the thread counted.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::reasons::WhyHost;
use super::sites::NUMBERED;
use crate::base::routine::MAX_ROUTINES;

/// How many threads have counters of their own.
pub const OWNED: usize = 64;

/// The reasons for which calls are passed on without a decision, in the order of the counters.
pub const PASSED: [WhyHost; 7] = [
    WhyHost::Small,
    WhyHost::Nested,
    WhyHost::Convention,
    WhyHost::Providers,
    WhyHost::BadArgument,
    WhyHost::Unsupported,
    WhyHost::Solver,
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
pub struct Passed {
    by_routine: [[AtomicU64; PASSED.len()]; MAX_ROUTINES],
    /// The small calls of the call sites that have a number.
    small: [AtomicU64; NUMBERED],
}

impl Passed {
    pub(super) const fn new() -> Passed {
        Passed {
            by_routine: [const { [const { AtomicU64::new(0) }; PASSED.len()] }; MAX_ROUTINES],
            small: [const { AtomicU64::new(0) }; NUMBERED],
        }
    }

    /// Counts a call, if only the calling thread writes these counters. `site` is the number of the call site.
    #[inline]
    pub fn count_alone(&self, routine: usize, site: Option<usize>, why: WhyHost) {
        if let Some(count) = self.count_of(routine, site, why) {
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Counts a call, whatever other threads count here.
    pub fn count(&self, routine: usize, site: Option<usize>, why: WhyHost) {
        if let Some(count) = self.count_of(routine, site, why) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// The number of calls of a routine, without small ones of sites that have a number.
    pub(super) fn get(&self, routine: usize, why: WhyHost) -> u64 {
        let counts = self.by_routine.get(routine);
        counts.map_or(0, |counts| counts[place(why)].load(Relaxed))
    }

    /// The small calls of a site that has a number.
    pub(super) fn small(&self, site: usize) -> u64 {
        self.small.get(site).map_or(0, |n| n.load(Relaxed))
    }

    fn count_of(&self, routine: usize, site: Option<usize>, why: WhyHost) -> Option<&AtomicU64> {
        match site.and_then(|site| self.small.get(site)) {
            Some(count) if why as u8 == WhyHost::Small as u8 => Some(count),
            _ => self
                .by_routine
                .get(routine)
                .map(|counts| &counts[place(why)]),
        }
    }

    /// The offset in bytes of the counter of small calls, to which assembly adds: of a routine, or of a site that has a number.
    #[must_use]
    pub const fn small_offset(routine: usize, site: Option<usize>) -> usize {
        match site {
            Some(site) => offset_of!(Passed, small) + site * size_of::<AtomicU64>(),
            None => {
                let row = size_of::<[AtomicU64; PASSED.len()]>();
                routine * row + place(WhyHost::Small) * size_of::<AtomicU64>()
            }
        }
    }
}
