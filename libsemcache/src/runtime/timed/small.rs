//! Which small calls are timed. The stubs pass them to the host BLAS by a few instructions, which read no clock, as long as
//! [`PAGE.quick`](crate::base::counters::Page::quick) says so. About a hundred times a second `semcache run`, or a call of this process that is
//! not small, ends that. Then small calls come to the library's entry: some are passed on as they are, since those that follow
//! the end of a long call are not like the others; the next ones are timed; and then the stubs are quick again.

#![expect(unsafe_code, reason = "asks what the thread has computed for")]

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::base::counters::{MAX_ROUTINES, PAGE, SmallTimes};
use crate::process::spent;
use crate::runtime::secluded::is_secluded;

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
/// When estimates were made last.
static SETTLED: AtomicU64 = AtomicU64::new(0);
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

/// The index of a routine of which calls were timed, how many were made until now, and the estimated time of those since the last time.
type Estimate = (usize, u64, u64);

/// Estimates the calls since the last time of the routines of which some were timed. Calls that are timed are hardly ever those during
/// which the thread had to leave its core to another; so what it has waited for a core since the last time counts in addition. Together
/// the calls have not taken longer than the last time is ago, on each thread: one that had to wait while it was timed stands for itself only.
fn settle() {
    if SETTLING.swap(true, Relaxed) {
        return;
    }
    let now = spent::now();
    let passed = now.saturating_sub(SETTLED.swap(now, Relaxed));
    let mut threads = 1;
    let mut estimates = [(0, 0, 0); TIMED as usize];
    let mut count = 0;
    for (i, word) in TIMED_ONES.iter().enumerate() {
        let mut bits = word.swap(0, Relaxed);
        while bits != 0 {
            let index = i * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let (calls, of) = PAGE.calls.small(index, &PAGE.sites);
            threads = threads.max(of);
            // More routines than calls were timed if threads overtook each other; the next time has them.
            if let Some(place) = estimates.get_mut(count) {
                *place = (index, calls, PAGE.times.row(index).small.since(calls));
                count += 1;
            }
        }
    }
    let (wall, cpu) = share();
    for (_, _, ns) in &mut estimates[..count] {
        let scaled = u128::from(*ns) * u128::from(wall) / u128::from(cpu.max(1));
        *ns = u64::try_from(scaled).unwrap_or(u64::MAX);
    }
    let most = passed.saturating_mul(threads);
    for (index, calls, ns) in bounded(&mut estimates[..count], most) {
        PAGE.times.row(index).small.settle(calls, ns);
    }
    SETTLING.store(false, Relaxed);
}

/// The estimates, so that all together are no longer than `most`: the longest become shorter.
fn bounded(estimates: &mut [Estimate], most: u64) -> impl Iterator<Item = Estimate> {
    estimates.sort_unstable_by_key(|(_, _, ns)| core::cmp::Reverse(*ns));
    let sum = |all: u64, (_, _, ns): &Estimate| all.saturating_add(*ns);
    let mut surplus = estimates.iter().fold(0, sum).saturating_sub(most);
    estimates.iter().map(move |&(index, calls, ns)| {
        let off = surplus.min(ns);
        surplus -= off;
        (index, calls, ns - off)
    })
}

/// The thread that asked last, when, what it had computed for then, and how often it had waited for something.
static ASKED: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// For how long the calling thread has run since it asked last, and for how long of that it had a core; the same if it has waited for
/// anything else meanwhile, or may make no system calls.
fn share() -> (u64, u64) {
    if is_secluded() {
        return (1, 1);
    }
    // SAFETY: plain numbers, for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is a live local.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return (1, 1);
    }
    let of = |t: libc::timeval| {
        t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_usec.cast_unsigned() * 1000
    };
    let cpu = of(usage.ru_utime) + of(usage.ru_stime);
    // A thread of the program has the address of its thread-local memory for itself.
    let thread = spent::thread() as u64;
    let now = [thread, spent::now(), cpu, usage.ru_nvcsw.cast_unsigned()];
    // Only one thread at a time asks (`SETTLING`).
    let mut before = [0; 4];
    for ((place, now), before) in ASKED.iter().zip(now).zip(&mut before) {
        *before = place.swap(now, Relaxed);
    }
    let same = before[0] == now[0] && before[3] == now[3];
    let (wall, cpu) = (
        now[1].saturating_sub(before[1]),
        now[2].saturating_sub(before[2]),
    );
    match same && cpu > 0 && wall > cpu {
        true => (wall, cpu),
        false => (1, 1),
    }
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

    #[test]
    fn estimates_are_bounded_by_the_time_that_has_passed() {
        let left = |most| -> Vec<Estimate> {
            bounded(&mut [(1, 10, 5), (2, 20, 1000), (3, 30, 40)], most).collect()
        };
        assert_eq!(left(1045), [(2, 20, 1000), (3, 30, 40), (1, 10, 5)]);
        assert_eq!(left(100), [(2, 20, 55), (3, 30, 40), (1, 10, 5)]);
        assert_eq!(left(7), [(2, 20, 0), (3, 30, 2), (1, 10, 5)]);
    }
}
