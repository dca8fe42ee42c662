//! What the program's threads spend on BLAS calls, in nanoseconds by routine, and what is known of the time of small calls, of which
//! only some are timed.
//!
//! A small call is passed to the host BLAS by a few instructions, which read no clock ([`Quick`]). Now and then these instructions
//! pass the next calls to the library instead, which times some of them ([`SmallTimes`]). The calls since the last time are
//! counted with the mean of these.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::table::Counter;
use crate::base::routine::MAX_ROUTINES;

/// The row of products of sparse matrices.
pub const SPARSE: usize = MAX_ROUTINES;
const ROWS: usize = MAX_ROUTINES + 1;

/// What the calls of one routine took. All are nanoseconds of the threads that made the calls.
#[derive(Debug)]
#[repr(align(128))]
pub struct RoutineTimes {
    /// The library's own work: decisions, plans, queueing tasks.
    pub deciding: Counter,
    /// Waits for kernels.
    pub kernels: Counter,
    /// Waits for copies.
    pub transfers: Counter,
    /// Waits for other threads' calls.
    pub turn: Counter,
    /// Page-locking.
    pub page_lock: Counter,
    /// Waits for devices to be started.
    pub starting: Counter,
    /// The host BLAS, of calls that were timed from their begin to their end.
    pub host: Counter,
    /// What the host BLAS would have taken for the calls that ran on devices, of calls whose kind was measured.
    pub plain: Counter,
    /// Of the other calls that ran on devices, as predicted.
    pub plain_predicted: Counter,
    /// Of calls that the host BLAS ran and that had a prediction: what it took.
    pub host_measured: Counter,
    /// What it was predicted to take for them.
    pub host_predicted: Counter,
    /// The small calls.
    pub small: SmallTimes,
}

/// What is known of the time of a routine's small calls.
#[derive(Debug)]
pub struct SmallTimes {
    /// The estimated nanoseconds of the first `told` calls.
    pub estimate: Counter,
    /// The calls that the estimate is of.
    pub told: Counter,
    /// The calls that were timed, and their nanoseconds.
    pub timed: Counter,
    /// See `timed`.
    pub timed_ns: Counter,
    /// Of these, the calls since `told`.
    window: Counter,
    window_ns: Counter,
}

impl SmallTimes {
    const fn new() -> SmallTimes {
        SmallTimes {
            estimate: Counter::new(),
            told: Counter::new(),
            timed: Counter::new(),
            timed_ns: Counter::new(),
            window: Counter::new(),
            window_ns: Counter::new(),
        }
    }

    /// Notes a call that was timed.
    pub fn took(&self, ns: u64) {
        self.window.add(1);
        self.window_ns.add(ns);
    }

    /// Whether calls were timed since [`SmallTimes::settle`].
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.window.get() > 0
    }

    /// The estimated nanoseconds of the calls since the last time; `calls` were made until now.
    #[must_use]
    pub fn since(&self, calls: u64) -> u64 {
        let new = calls.saturating_sub(self.told.get());
        mean_of(self.window_ns.get(), self.window.get(), new)
    }

    /// The calls since the last time, until there were `calls`, have taken `estimate`.
    pub fn settle(&self, calls: u64, estimate: u64) {
        let timed = self.window.get();
        if timed == 0 {
            return;
        }
        let new = calls.saturating_sub(self.told.get());
        self.estimate.add(estimate);
        self.timed.add(timed);
        self.timed_ns.add(mean_of(estimate, new, timed));
        self.told.set(calls);
        self.window.set(0);
        self.window_ns.set(0);
    }

    /// The estimated nanoseconds of all calls, of which there are `calls`; `None` if too few of them are known: those of the time in
    /// which none were timed count as the others, but not if they are the most.
    #[must_use]
    pub fn of(&self, calls: u64) -> Option<u64> {
        let (told, timed) = (self.told.get(), self.timed.get());
        let rest = calls.saturating_sub(told);
        if rest == 0 {
            return Some(self.estimate.get());
        }
        let known = timed > 0 && rest <= told;
        known.then(|| self.estimate.get() + mean_of(self.timed_ns.get(), timed, rest))
    }
}

/// `calls` times the mean of `timed` calls that took `ns`.
fn mean_of(ns: u64, timed: u64, calls: u64) -> u64 {
    let sum = u128::from(ns) * u128::from(calls) / u128::from(timed.max(1));
    u64::try_from(sum).unwrap_or(u64::MAX)
}

impl RoutineTimes {
    const fn new() -> RoutineTimes {
        RoutineTimes {
            deciding: Counter::new(),
            kernels: Counter::new(),
            transfers: Counter::new(),
            turn: Counter::new(),
            page_lock: Counter::new(),
            starting: Counter::new(),
            host: Counter::new(),
            plain: Counter::new(),
            plain_predicted: Counter::new(),
            host_measured: Counter::new(),
            host_predicted: Counter::new(),
            small: SmallTimes::new(),
        }
    }
}

/// The times of all routines, and of faults.
#[derive(Debug)]
#[repr(C)]
pub struct TimeTable {
    rows: [RoutineTimes; ROWS],
    /// Of the time of page faults, waits for kernels.
    pub fault_kernels: Counter,
    /// Of the time of page faults, waits for copies.
    pub fault_transfers: Counter,
}

impl TimeTable {
    #[expect(clippy::declare_interior_mutable_const, reason = "an initial value")]
    pub(super) const NEW: TimeTable = TimeTable {
        rows: [const { RoutineTimes::new() }; ROWS],
        fault_kernels: Counter::new(),
        fault_transfers: Counter::new(),
    };

    /// The times of a routine, or [`SPARSE`].
    #[must_use]
    pub fn row(&self, index: usize) -> &RoutineTimes {
        &self.rows[index.min(ROWS - 1)]
    }

    /// All rows, in the order of their indices.
    #[must_use]
    pub fn rows(&self) -> &[RoutineTimes] {
        &self.rows
    }
}

/// Whether the stubs pass small calls to the host BLAS themselves: the low byte is 1. Otherwise they ask the library. At the very
/// beginning of the memory of a process, so that another process finds it.
#[derive(Debug)]
#[repr(transparent)]
pub struct Quick(AtomicU64);

impl Quick {
    pub(super) const fn new() -> Quick {
        Quick(AtomicU64::new(0))
    }

    /// Whether they do.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.load(Relaxed) == 1
    }

    /// From here on they do, or do not.
    pub fn set(&self, on: bool) {
        self.0.store(u64::from(on), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_calls_count_with_the_mean_of_those_since_the_last_time() {
        let small = SmallTimes::new();
        assert_eq!((small.of(0), small.of(1)), (Some(0), None));
        small.settle(5, small.since(5));
        assert_eq!(small.of(5), None);
        // 1000 calls of 20 ns, then 10 of 2 us.
        (0..4).for_each(|_| small.took(20));
        small.settle(1000, small.since(1000));
        (0..2).for_each(|_| small.took(2000));
        assert!(small.is_open());
        assert_eq!(small.since(1010), 20_000);
        small.settle(1010, small.since(1010));
        assert!(!small.is_open());
        assert_eq!(small.of(1010), Some(20_000 + 20_000));
        // The rest as all that were timed, but not if it is more than they are.
        assert_eq!(small.of(1016), Some(40_000 + 6 * (80 + 4000) / 6));
        assert_eq!((small.of(2020).is_some(), small.of(2021)), (true, None));
        small.took(1_000_000);
        assert_eq!(small.since(1020), 10_000_000);
        small.settle(1020, 100_000);
        assert_eq!(small.of(1020), Some(140_000));
    }

    #[test]
    fn a_row_that_is_not_there_is_the_last() {
        let table = Box::new(TimeTable::NEW);
        table.row(usize::MAX).host.add(3);
        assert_eq!(table.row(SPARSE).host.get(), 3);
    }
}
