//! What the calling thread spends its time on, for the report. A [`Span`] measures a part of a thread's time less the spans within it,
//! so that no nanosecond counts twice, however spans are nested; a [`Spending`] notes its span under a kind, and the call around it
//! takes what was noted ([`begin`], [`take`]).
//!
//! Any span may be left by a jump of a signal handler: its time is then that of the span around it, and nothing else changes.

use core::cell::Cell;

use rustix::time::{ClockId, clock_gettime};
use semcache_fault::latency;

/// What time within a call is spent on, if not on deciding and issuing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spent {
    /// Waiting for kernels.
    Kernels,
    /// Waiting for copies, or copying for a device.
    Transfers,
    /// Waiting for another thread, which uses the cache.
    Turn,
    /// Page-locking memory.
    PageLock,
    /// Waiting for devices to be started.
    Starting,
    /// In the host BLAS.
    Host,
}

/// How many kinds there are.
pub const KINDS: usize = 6;

/// Nanoseconds by kind, in the order of [`Spent`].
pub type ByKind = [u64; KINDS];

/// Nanoseconds by kind in little memory, as the library has little that is thread-local: the lower 32 bits of each, and 10 bits more,
/// which is 73 minutes.
#[derive(Clone, Copy)]
struct Packed {
    low: [u32; KINDS],
    high: u64,
}

const HIGH: u32 = 10;

impl Packed {
    fn get(self) -> ByKind {
        core::array::from_fn(|kind| {
            let high = self.high >> (HIGH * kind as u32) & ((1 << HIGH) - 1);
            high << 32 | u64::from(self.low[kind])
        })
    }

    fn of(all: &ByKind) -> Packed {
        let most = (1 << (32 + HIGH)) - 1;
        let all = all.map(|ns| ns.min(most));
        let high = |(kind, ns): (usize, &u64)| (ns >> 32) << (HIGH * kind as u32);
        Packed {
            low: all.map(|ns| ns as u32),
            high: all.iter().enumerate().map(high).fold(0, |a, b| a | b),
        }
    }
}

std::thread_local! {
    /// What was noted, and not taken yet.
    static PENDING: Cell<Packed> = const { Cell::new(Packed { low: [0; KINDS], high: 0 }) };
    /// The nanoseconds of all spans that have ended.
    static NOTED: Cell<u64> = const { Cell::new(0) };
    /// Of these, page faults.
    static FAULTS: Cell<u64> = const { Cell::new(0) };
}

/// The time now, in nanoseconds.
#[must_use]
#[inline]
pub fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// A part of the calling thread's time.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    begun: u64,
    noted: u64,
}

impl Span {
    /// Begins.
    #[must_use]
    pub fn begin() -> Span {
        Span::since(now())
    }

    /// Began at this moment.
    #[must_use]
    pub fn since(begun: u64) -> Span {
        leave_out_faults();
        Span {
            begun,
            noted: NOTED.get(),
        }
    }

    /// Ends. Returns the nanoseconds that belong to no span within it, and when it ended.
    #[must_use]
    pub fn end(self) -> (u64, u64) {
        let ended = now();
        (self.end_at(ended), ended)
    }

    /// As [`Span::end`], at this moment, which has just passed. Returns the nanoseconds.
    #[must_use]
    pub fn end_at(self, ended: u64) -> u64 {
        leave_out_faults();
        let within = NOTED.get().wrapping_sub(self.noted);
        let own = ended.saturating_sub(self.begun).saturating_sub(within);
        NOTED.set(NOTED.get().wrapping_add(own));
        own
    }
}

/// What was noted before a call; see [`take`].
#[must_use]
pub fn begin() -> ByKind {
    PENDING.get().get()
}

/// A number that no other living thread has.
#[must_use]
pub fn thread() -> usize {
    NOTED.with(|noted| core::ptr::from_ref(noted).addr())
}

/// What was noted since [`begin`] returned `before`. From here on it counts as taken: a call around this one does not get it.
#[must_use]
pub fn take(before: &ByKind) -> ByKind {
    let now = PENDING.replace(Packed::of(before)).get();
    core::array::from_fn(|kind| now[kind].saturating_sub(before[kind]))
}

/// The calling thread spends its time on one thing until this is dropped, but for what is noted meanwhile.
#[derive(Debug)]
pub struct Spending {
    on: Spent,
    span: Span,
}

impl Spending {
    /// Begins.
    #[must_use]
    pub fn on(on: Spent) -> Spending {
        let span = Span::begin();
        Spending { on, span }
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        let (own, _) = self.span.end();
        note(self.on, own);
    }
}

/// The thread's page faults until now belong to no span: they are counted as faults.
fn leave_out_faults() {
    let faults = latency::of_this_thread();
    let new = faults.wrapping_sub(FAULTS.replace(faults));
    NOTED.set(NOTED.get().wrapping_add(new));
}

/// Adds nanoseconds to a kind. Their span has ended.
pub fn note(on: Spent, ns: u64) {
    let mut pending = PENDING.get().get();
    pending[on as usize] += ns;
    PENDING.set(Packed::of(&pending));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    fn pass(ms: u64) -> u64 {
        let begun = now();
        sleep(Duration::from_millis(ms));
        now() - begun
    }

    #[test]
    fn times_are_packed_without_loss() {
        for all in [
            [0; KINDS],
            [1, 2, 3, 4, 5, 6],
            [
                u64::from(u32::MAX),
                1 << 32,
                (1 << 42) - 1,
                1 << 41,
                0,
                7 << 33,
            ],
        ] {
            assert_eq!(Packed::of(&all).get(), all);
        }
        assert_eq!(Packed::of(&[u64::MAX; KINDS]).get(), [(1 << 42) - 1; KINDS]);
    }

    #[test]
    fn nothing_counts_twice() {
        let (call, before) = (Span::begin(), begin());
        let begun = now();
        let mut passed = [pass(2), 0, 0];
        {
            let _host = Spending::on(Spent::Host);
            passed[1] += pass(3);
            {
                let _kernels = Spending::on(Spent::Kernels);
                passed[2] += pass(4);
            }
            passed[1] += pass(1);
        }
        passed[0] += pass(2);
        let noted = take(&before);
        let (own, ended) = call.end();
        let [kernels, transfers, _, _, _, host] = noted;
        assert!(own >= passed[0] && host >= passed[1] && kernels >= passed[2] && transfers == 0);
        let all = own + noted.iter().sum::<u64>();
        assert!(all >= ended - begun && all - (ended - begun) < 1_000_000);
        assert_eq!(begin(), before);
    }

    #[test]
    fn a_call_within_a_call_takes_its_own() {
        let (outer, before) = (Span::begin(), begin());
        note(Spent::Turn, 7);
        let (inner, within) = (Span::begin(), begin());
        let passed = pass(3);
        note(Spent::Turn, 5);
        assert_eq!(take(&within), [0, 0, 5, 0, 0, 0]);
        let (inner, _) = inner.end();
        assert!(inner >= passed);
        assert_eq!(take(&before), [0, 0, 7, 0, 0, 0]);
        let (own, ended) = outer.end();
        assert!(own <= ended - outer.begun - inner);
    }

    #[test]
    fn faults_are_left_out() {
        latency::record(1_000_000_000);
        let span = Span::begin();
        let passed = pass(4);
        latency::record(3_000_000);
        let (own, ended) = span.end();
        assert!(own >= passed - 3_000_000 && own <= ended - span.begun - 3_000_000);
    }

    #[test]
    fn what_is_left_by_a_jump_is_the_time_around_it() {
        let (call, before) = (Span::begin(), begin());
        core::mem::forget(Spending::on(Spent::Host));
        let passed = pass(3);
        assert_eq!(take(&before), [0; KINDS]);
        assert!(call.end().0 >= passed);
    }
}
