//! What the host BLAS takes for calls of a kind, measured.
//!
//! The rates of the host BLAS predict its time within a factor of two or three: caches have several levels, and the functions of a
//! library differ in how well they use its threads. Where the host's time lies near the devices', that decides wrongly. So a few
//! calls of each kind are timed from their begin to their return: the first ones for which the host is predicted to be faster; and, once
//! devices have run a few calls of a kind for which the host is predicted to need a similar time, the next two, on the host. The latter
//! is done anew when devices take calls over that the host has run: the operands may lie in the processor's caches now, or no longer.
//!
//! A single time is not believed beyond the factor by which predictions err: the call may have woken the library's threads.
//!
//! A program whose calls hardly repeat, as a factorisation's, whose panels shrink from call to call, gains nothing from times of
//! single kinds: each new kind uses up a part of an allowance, which calls of known kinds fill again.

use core::hash::{BuildHasher as _, BuildHasherDefault};

use rustc_hash::FxHasher;

use super::ab_probe::Where;
use crate::base::Work;

/// Kinds in the table at once, in sets of [`WAYS`]; a new kind replaces the one of its set that was decided on least.
const KINDS: usize = 1024;
const WAYS: usize = 4;
/// Calls of a kind that are timed at first. The fastest of them counts: other activity only makes a call longer.
const FIRST: u32 = 3;
/// Later one in this number of decisions for the host is timed.
const EACH: u32 = 32;
/// Weight of a later time.
const WEIGHT: f64 = 0.25;
/// Decisions for devices in a row before the host runs calls of the kind, twice as many each further time, and how many calls: the first
/// one has the host write to pages that devices held, and may wake the library's threads.
const PATIENCE: u32 = 4;
const TRIED: u32 = 2;
/// It does so if it is predicted to take at most this number of times as long as the devices. Fewer than [`TRIED`] times of a kind count
/// as at most this number of times the predicted one.
const CLOSE: f64 = 3.0;
/// A host whose time was not taken may be found to take up to this number of times as long as predicted: a dgemm of order 64 takes 7 us
/// with kernels for the processor, and 36 to 85 us with those of an OpenBLAS that does not know it.
const FAR: f64 = 10.0;
/// The allowance: at most, and at the start; and what a new kind takes of it. A call of a known kind adds one.
const ALLOWANCE: u32 = 256;
const NEW: u32 = 4;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Kind {
    work: Work,
    seconds: f64,
    /// Calls that were to be timed, and those that were: the host BLAS may lack a function that the library can call.
    tried: u32,
    timed: u32,
    decisions: u32,
    /// Decisions for devices in a row, how many of these calls the host ran for their time, and before how many decisions it runs none.
    on_devices: u32,
    checked: u32,
    patience: u32,
}

impl Kind {
    /// Notes a decision for devices. Returns whether the host is to run the call for its time, which may be close to theirs if `close`.
    fn is_checked(&mut self, close: bool) -> bool {
        self.on_devices = self.on_devices.saturating_add(1);
        let due = match self.checked {
            0 => self.on_devices > self.patience,
            n => n < TRIED,
        };
        if !due || !close {
            return false;
        }
        if self.checked == 0 {
            self.patience = self.patience.saturating_mul(2);
            // Earlier times may no longer hold.
            self.timed = 0;
        }
        self.checked += 1;
        true
    }
}

/// The measured kinds: routine, element type and sizes.
#[derive(Clone, Debug)]
pub struct HostTimes {
    kinds: Vec<Option<Kind>>,
    allowance: u32,
}

impl Default for HostTimes {
    fn default() -> Self {
        HostTimes {
            kinds: vec![None; KINDS],
            allowance: ALLOWANCE,
        }
    }
}

/// The first place of the set of a kind.
fn set(work: &Work) -> usize {
    let hash = BuildHasherDefault::<FxHasher>::default().hash_one(work);
    (hash >> 48) as usize % (KINDS / WAYS) * WAYS
}

impl HostTimes {
    fn known(&self, work: &Work) -> Option<&Kind> {
        let at = set(work);
        let set = self.kinds[at..at + WAYS].iter().flatten();
        set.into_iter().find(|kind| kind.work == *work)
    }

    /// The measured seconds, for a call that is made now and is predicted to take `predicted_s`; `None` if no call of this kind was
    /// timed.
    pub fn seconds(&mut self, work: &Work, predicted_s: f64) -> Option<f64> {
        let kind = self.known(work).filter(|kind| kind.timed > 0)?;
        let seconds = match kind.timed {
            TRIED.. => kind.seconds,
            _ => kind.seconds.min(CLOSE * predicted_s),
        };
        self.allowance = (self.allowance + 1).min(ALLOWANCE);
        Some(seconds)
    }

    /// Whether what [`HostTimes::seconds`] says of a kind was measured more than once.
    #[must_use]
    pub fn is_sure(&self, work: &Work) -> bool {
        self.known(work).is_some_and(|kind| kind.timed >= TRIED)
    }

    /// The next `calls` calls of a known kind run on the host without a decision.
    pub fn repeats(&mut self, calls: u64) {
        let calls = u32::try_from(calls).unwrap_or(ALLOWANCE);
        self.allowance = self.allowance.saturating_add(calls).min(ALLOWANCE);
    }

    /// The longest that the host may be found to take, if no call of this kind was timed and it is predicted to take `predicted_s`:
    /// as predicted, if its time will not be taken.
    #[must_use]
    pub fn at_most(&self, predicted_s: f64) -> f64 {
        if self.allowance < NEW {
            predicted_s
        } else {
            FAR * predicted_s
        }
    }

    fn kind(&mut self, work: &Work) -> &mut Kind {
        let new = Kind {
            work: *work,
            seconds: 0.0,
            tried: 0,
            timed: 0,
            decisions: 0,
            on_devices: 0,
            checked: 0,
            patience: PATIENCE,
        };
        let at = set(work);
        let set = &mut self.kinds[at..at + WAYS];
        let is_it = |kind: &Option<Kind>| kind.is_some_and(|kind| kind.work == *work);
        let place = set.iter().position(is_it).unwrap_or_else(|| {
            // A free place comes first: `None` is less than any number.
            let decisions = |i: &usize| set[*i].map(|kind| kind.decisions);
            let least = (0..WAYS).min_by_key(decisions).unwrap_or(0);
            set[least] = Some(new);
            least
        });
        set[place].get_or_insert(new)
    }

    /// Whether a call is to run on the host with its time taken; its decision chose `place`, where it is predicted to take
    /// `predicted_s`, and `host_s` on the host.
    pub fn due(&mut self, work: &Work, place: Where, predicted_s: f64, host_s: f64) -> bool {
        let tried = self.known(work).map_or(0, |kind| kind.tried);
        if tried == 0 && self.allowance < NEW {
            return false;
        }
        let kind = self.kind(work);
        kind.decisions = kind.decisions.saturating_add(1);
        let due = match place {
            Where::Host => {
                (kind.on_devices, kind.checked) = (0, 0);
                tried < FIRST || kind.decisions.is_multiple_of(EACH)
            }
            Where::Devices => kind.is_checked(host_s <= CLOSE * predicted_s),
        };
        if due {
            kind.tried = kind.tried.saturating_add(1);
            if tried == 0 {
                self.allowance -= NEW;
            }
        }
        due
    }

    /// Whether the next decision for the host would have its time taken: it must not be repeated without a decision then.
    #[must_use]
    pub fn is_new(&self, work: &Work) -> bool {
        self.known(work).is_none_or(|kind| kind.tried < FIRST)
    }

    /// Notes the time of a call that ran on the host. Returns whether calls of its kind were timed before, and it took no longer than
    /// they are known to take.
    pub fn took(&mut self, work: &Work, seconds: f64) -> bool {
        if !seconds.is_finite() || seconds <= 0.0 {
            return false;
        }
        let kind = self.kind(work);
        let confirms = kind.timed > 0 && seconds <= kind.seconds;
        kind.seconds = match kind.timed {
            0 => seconds,
            1..FIRST => kind.seconds.min(seconds),
            _ => kind.seconds + WEIGHT * (seconds - kind.seconds),
        };
        kind.timed = kind.timed.saturating_add(1);
        confirms
    }
}

#[cfg(test)]
mod tests {
    use super::Where::{Devices, Host};
    use super::*;
    use crate::base::Dtype;

    fn work(n: usize) -> Work {
        Work::gemm(Dtype::D, n, n, n)
    }

    #[test]
    fn the_first_calls_of_a_kind_are_timed_and_the_fastest_counts() {
        let mut times = HostTimes::default();
        for (i, seconds) in [3.0, 2.0, 5.0].into_iter().enumerate() {
            assert_eq!(times.seconds(&work(7), 1.0).is_some(), i > 0);
            assert!(times.is_new(&work(7)) && times.due(&work(7), Host, 1.0, 1.0));
            assert_eq!(times.took(&work(7), seconds), seconds == 2.0);
        }
        assert_eq!(times.seconds(&work(7), 1.0), Some(2.0));
        assert!(!times.is_new(&work(7)));
        let due = (0..4 * EACH).filter(|_| times.due(&work(7), Host, 1.0, 1.0));
        assert_eq!(due.count(), 4);
        // A host that becomes slower is followed.
        for _ in 0..40 {
            times.took(&work(7), 8.0);
        }
        assert!((times.seconds(&work(7), 1.0).unwrap() - 8.0).abs() < 0.01);
        assert_eq!(times.seconds(&work(8), 1.0), None);
    }

    #[test]
    fn a_host_that_may_be_faster_than_the_devices_is_tried_twice() {
        let mut times = HostTimes::default();
        let due = |times: &mut HostTimes, host_s| {
            let mut calls = 0..100;
            calls.position(|_| times.due(&work(9), Devices, 1.0, host_s))
        };
        assert_eq!(due(&mut times, 2.0 * CLOSE), None);
        let first = due(&mut HostTimes::default(), CLOSE);
        assert_eq!(first, Some(PATIENCE as usize));
        // Also if no time is taken, since the host BLAS lacks the function.
        for _ in 0..TRIED {
            assert_eq!(due(&mut times, CLOSE), Some(0));
        }
        assert_eq!(due(&mut times, CLOSE), None);
    }

    #[test]
    fn a_single_time_is_not_believed_beyond_the_error_of_predictions() {
        let mut times = HostTimes::default();
        times.took(&work(7), 50.0);
        assert!(!times.is_sure(&work(7)));
        assert_eq!(times.seconds(&work(7), 1.0), Some(CLOSE));
        assert_eq!(times.seconds(&work(7), 40.0), Some(50.0));
        times.took(&work(7), 60.0);
        assert!(times.is_sure(&work(7)));
        assert_eq!(times.seconds(&work(7), 1.0), Some(50.0));
    }

    #[test]
    fn calls_that_devices_take_over_are_timed_on_the_host_again() {
        let mut times = HostTimes::default();
        // The CPU rewrites the operands.
        for _ in 0..FIRST {
            assert!(times.due(&work(7), Host, 1.0, 1.0));
            times.took(&work(7), 2.0);
        }
        // It does so no more, and the host takes less.
        let mut host_calls = 0;
        for n in 0..10 * PATIENCE {
            if times.due(&work(7), Devices, 1.5, 2.0) {
                assert!((PATIENCE..PATIENCE + TRIED).contains(&n));
                times.took(&work(7), 1.0);
                host_calls += 1;
            }
        }
        assert_eq!(
            (host_calls, times.seconds(&work(7), 1.0)),
            (TRIED, Some(1.0))
        );
        // Sites that differ, in turn: neither takes over from the other.
        for n in 0..1000 {
            let place = if n % 3 == 0 { Host } else { Devices };
            let due = times.due(&work(7), place, 1.5, 2.0);
            assert!(!due || place == Host);
        }
        // Each takeover is checked later than the one before.
        let mut checked = |calls: u32| {
            times.due(&work(7), Host, 1.5, 1.0);
            (0..calls).any(|_| times.due(&work(7), Devices, 1.5, 2.0))
        };
        assert!(!checked(2 * PATIENCE));
        assert!(checked(2 * PATIENCE + TRIED));
        assert!(!checked(4 * PATIENCE));
    }

    #[test]
    fn calls_that_do_not_repeat_are_soon_left_alone() {
        let mut times = HostTimes::default();
        let timed = |times: &mut HostTimes, n| {
            let due = times.due(&work(n), Host, 1.0, 1.0);
            if due {
                times.took(&work(n), 1.0);
            }
            due
        };
        let count = (0..10_000).filter(|n| timed(&mut times, *n)).count();
        assert_eq!(count, (ALLOWANCE / NEW) as usize);
        assert_eq!(times.at_most(2.0), 2.0);
        // Once they repeat, a new kind is timed again.
        let known = (0..10_000).find(|n| times.seconds(&work(*n), 1.0).is_some());
        let known = known.expect("some were timed");
        (0..NEW).for_each(|_| assert_eq!(times.seconds(&work(known), 1.0), Some(1.0)));
        assert_eq!(times.at_most(2.0), 2.0 * FAR);
        assert!(timed(&mut times, 20_000));
    }

    #[test]
    fn nonsense_is_left_out_and_kinds_replace_each_other() {
        let mut times = HostTimes::default();
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            times.took(&work(3), seconds);
        }
        assert_eq!(times.seconds(&work(3), 1.0), None);
        for n in 0..10 * KINDS {
            times.took(&work(n), 1.0);
        }
        let known = (0..10 * KINDS).filter(|n| times.seconds(&work(*n), 1.0).is_some());
        assert!((KINDS / 2..=KINDS).contains(&known.count()));
        // Two kinds that are used in turn stay, whatever else there is in their set.
        let mut times = HostTimes::default();
        let same = |n: &usize| set(&work(*n)) == set(&work(0));
        let pair: Vec<usize> = (0..100_000).filter(same).take(WAYS).collect();
        for n in pair.iter().chain(&pair) {
            times.took(&work(*n), 1.0);
        }
        assert!(pair.iter().all(|n| times.seconds(&work(*n), 1.0).is_some()));
    }
}
