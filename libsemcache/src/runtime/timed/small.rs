//! Which small calls are timed. The stubs pass them to the host BLAS by a few instructions, which read no clock, as long as
//! [`PAGE.quick`](crate::base::counters::Page::quick) says so. About a hundred times a second `semcache run`, or a call of this process that is
//! not small, ends that. Then small calls come to the library's entry: some are passed on as they are, since those that follow
//! the end of a long call are not like the others; the next ones are timed; and then the stubs are quick again.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::base::counters::{MAX_ROUTINES, PAGE, SmallTimes, WhyHost};
use crate::process::spent;

/// The calls that are timed each time.
const TIMED: u32 = 32;
/// Fewer than this number of calls are passed on before.
const PASSED_ON: u32 = 128;
/// Nanoseconds between two times.
const EVERY_NS: u64 = 10_000_000;

/// The calls of this time that have not come yet; 0: the time has not begun.
static TO_COME: AtomicU32 = AtomicU32::new(0);
/// The routines of which calls were timed, one bit each.
static TIMED_ONES: [AtomicU64; MAX_ROUTINES.div_ceil(64)] =
    [const { AtomicU64::new(0) }; MAX_ROUTINES.div_ceil(64)];
/// When the last time began, as far as it was this process that began it.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static SETTLING: AtomicBool = AtomicBool::new(false);
/// Nanoseconds that reading the clock adds to the time of a call.
static CLOCK: AtomicU64 = AtomicU64::new(u64::MAX);

/// A small call has come to the library's entry. Returns whether it is to be timed.
#[must_use]
#[inline]
pub fn comes() -> bool {
    !PAGE.quick.is_on() && is_timed()
}

#[cold]
fn is_timed() -> bool {
    let next = |to_come: u32| match to_come {
        0 => Some(TIMED + some() - 1),
        _ => Some(to_come - 1),
    };
    let before = TO_COME.fetch_update(Relaxed, Relaxed, next).unwrap_or(0);
    if before == 1 {
        settle();
        PAGE.quick.set(true);
    }
    (1..=TIMED).contains(&before)
}

/// A number of calls to be passed on.
fn some() -> u32 {
    // The lower digits of the clock are as good as random.
    let mixed = spent::now().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    1 + mixed as u32 % PASSED_ON
}

/// A small call of the routine with this index took `ns`, reading the clock included.
pub(super) fn took(index: usize, small: &SmallTimes, ns: u64) {
    small.took(ns.saturating_sub(clock()));
    if let Some(word) = TIMED_ONES.get(index / 64) {
        word.fetch_or(1 << (index % 64), Relaxed);
    }
}

fn clock() -> u64 {
    let known = CLOCK.load(Relaxed);
    if known != u64::MAX {
        return known;
    }
    let reads = (0..16).map(|_| {
        let begun = spent::now();
        spent::now().saturating_sub(begun)
    });
    let least = reads.min().unwrap_or(0);
    CLOCK.store(least, Relaxed);
    least
}

/// Estimates the calls since the last time of the routines of which some were timed.
fn settle() {
    if SETTLING.swap(true, Relaxed) {
        return;
    }
    for (i, word) in TIMED_ONES.iter().enumerate() {
        let mut bits = word.swap(0, Relaxed);
        while bits != 0 {
            let index = i * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let calls = PAGE.calls.sum_passed(index, WhyHost::Small);
            PAGE.times.row(index).small.settle(calls);
        }
    }
    SETTLING.store(false, Relaxed);
}

/// A call that is not small has ended at this moment: it may be time to time small ones, if anybody wants a report.
pub(super) fn tick(now: u64) {
    let began = BEGAN.load(Relaxed);
    if now.saturating_sub(began) >= EVERY_NS
        && PAGE.quick.is_on()
        && crate::runtime::counted::is_shared()
    {
        BEGAN.store(now, Relaxed);
        PAGE.quick.set(false);
    }
}

/// In the child of a fork, which counts from zero.
pub fn child() {
    TO_COME.store(0, Relaxed);
    SETTLING.store(false, Relaxed);
    for word in &TIMED_ONES {
        word.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_calls_are_timed_and_then_the_stubs_are_quick() {
        let body = || {
            assert!(!PAGE.quick.is_on());
            for _ in 0..3 {
                let timed: Vec<bool> = (0..1000).map(|_| comes()).collect();
                let first = timed.iter().position(|timed| *timed).expect("some");
                assert!((1..=PASSED_ON as usize).contains(&first));
                let expected = (0..1000).map(|i| (first..first + TIMED as usize).contains(&i));
                assert!(timed.into_iter().eq(expected));
                assert!(PAGE.quick.is_on());
                PAGE.quick.set(false);
            }
        };
        testkit::alone(body);
    }
}
