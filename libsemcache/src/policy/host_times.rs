//! What the host BLAS takes for calls of a kind, measured.
//!
//! The rates of the host BLAS predict its time within a factor of two or three: caches have several levels, and the functions of a
//! library differ in how well they use its threads. Where the host's time lies near the devices', that decides wrongly. So a few
//! calls of each kind are timed from their begin to their return: the first ones for which the host is predicted to be faster; and, once
//! devices have run a few calls of a kind for which the host is predicted to need a similar time, the next two, on the host. The latter
//! is done anew when devices take calls over that the host has run: the operands may lie in the processor's caches now, or no longer.
//!
//! Other processes, or fewer cores than the library has threads, make it slower than any prediction: on a machine with four H100 a dgemm
//! of order 128 with 64 threads took 10 ms instead of 0.05, and a dgemv of order 128 0.05 or 3 ms. So calls that are too small for
//! devices are timed, too, now and then, and the median of the last times of a kind counts.
//!
//! A single time is not believed beyond the factor by which predictions err, or beyond earlier times: the call may have woken the
//! library's threads.
//!
//! A program whose calls hardly repeat, as a factorisation's, whose panels shrink from call to call, gains nothing from times of
//! single kinds: each new kind uses up a part of an allowance, which calls of known kinds fill again.

use core::hash::{BuildHasher as _, BuildHasherDefault};

use rustc_hash::FxHasher;

use super::ab_probe::Where;
use crate::base::Work;

/// Kinds in the table at once, in sets of [`WAYS`]; a new kind replaces the one of its set that was decided on least. A QR factorisation
/// of 4096 x 1024 by LAPACK has 3400.
const KINDS: usize = 4096;
const WAYS: usize = 4;
/// Calls of a kind that are timed at first. Of fewer the fastest counts: waking the library's threads makes a call longer.
const FIRST: u32 = 3;
/// Of the times of a kind the last ones are kept, and from [`FIRST`] on their median counts.
const KEPT: usize = 5;
/// Later one in this number of decisions for the host is timed, and each where the host takes this number of seconds.
const EACH: u32 = 32;
const LONG_S: f64 = 1e-4;
/// One in this number of calls is timed for which the devices are too slow wherever the operands are.
const RARE: u32 = 4096;
/// Decisions for devices in a row before the host runs calls of the kind, twice as many each further time, and how many calls: the first
/// one has the host write to pages that devices held, and may wake the library's threads.
const PATIENCE: u32 = 4;
const TRIED: u32 = 2;
/// It does so if it is predicted to take at most this number of times as long as the devices. Fewer than [`TRIED`] times of a kind count
/// as at most this number of times the predicted one, or as what earlier times told.
const CLOSE: f64 = 3.0;
/// A host that takes longer runs such calls once devices have computed for this number of times as long, and twice as long each
/// further time: it may only have been held up while it was timed.
const WORTH: f64 = 20.0;
/// A host whose time was not taken may be found to take up to this number of times as long as predicted: a dgemm of order 64 takes 7 us
/// with kernels for the processor, and 36 to 85 us with those of an OpenBLAS that does not know it. Once [`RECENT`] kinds were timed,
/// up to [`MARGIN`] times what the last ones took, but for the [`OUTLIERS`] that took longest: some wake the library's threads.
const FAR: f64 = 10.0;
const MARGIN: f64 = 2.0;
const RECENT: usize = 16;
const OUTLIERS: usize = 3;
/// Even so one in this number of calls of new kinds is timed: the host may have become slower.
const AGAIN: u32 = 64;
/// The allowance: at most, and at the start; and what a new kind takes of it. A call of a known kind adds one.
const ALLOWANCE: u32 = 256;
const NEW: u32 = 4;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Kind {
    work: Work,
    /// The last times, the place of the next one being `timed % KEPT`.
    times: [f32; KEPT],
    /// Calls that a device could not compute faster, and of the first of these how many were to be timed; whether the next decision
    /// times one.
    passed: u32,
    looked: u32,
    wanted: bool,
    /// Calls that were to be timed, and those that were: the host BLAS may lack a function that the library can call.
    tried: u32,
    timed: u32,
    /// The seconds that times told that were dropped since, as the host runs calls again for their time.
    before: f32,
    decisions: u32,
    /// Decisions for devices in a row, how many of these calls the host ran for their time, and before how many decisions it runs none.
    on_devices: u32,
    checked: u32,
    patience: u32,
    /// Decisions for the host whose calls were not timed, since devices held operands.
    untimed: u32,
}

impl Kind {
    /// The seconds that the kept times tell; zero if there are none.
    fn seconds(&self) -> f64 {
        let mut times = self.times;
        let kept = &mut times[..KEPT.min(self.timed as usize)];
        kept.sort_unstable_by(f32::total_cmp);
        let middle = if self.timed < FIRST {
            0
        } else {
            kept.len() / 2
        };
        kept.get(middle).copied().map_or(0.0, f64::from)
    }

    /// Notes a decision for devices, which are predicted to take `predicted_s`, the host `host_s`. Returns whether the host is to run the
    /// call for its time.
    fn is_checked(&mut self, predicted_s: f64, host_s: f64) -> bool {
        self.on_devices = self.on_devices.saturating_add(1);
        let close = host_s <= CLOSE * predicted_s;
        let long_s = f64::from(self.patience / PATIENCE) * WORTH * host_s;
        let due = match self.checked {
            1..TRIED => true,
            _ if !close => self.timed > 0 && f64::from(self.on_devices) * predicted_s >= long_s,
            0 => self.on_devices > self.patience,
            _ => false,
        };
        if !due {
            return false;
        }
        if !(1..TRIED).contains(&self.checked) {
            self.checked = 0;
            self.patience = self.patience.saturating_mul(2);
            // Earlier times may no longer hold.
            self.before = self.seconds() as f32;
            self.timed = 0;
        }
        self.checked += 1;
        if !close {
            self.on_devices = 0;
        }
        true
    }
}

/// How many times as long as predicted the kinds took that were timed last.
#[derive(Clone, Debug, Default)]
struct Errors {
    last: [f32; RECENT],
    count: usize,
}

impl Errors {
    fn add(&mut self, times: f64) {
        self.last[self.count % RECENT] = times as f32;
        self.count += 1;
    }

    /// How many times as long as predicted a kind may take that was not timed.
    fn far(&self) -> f64 {
        if self.count < RECENT {
            return FAR;
        }
        let mut last = self.last;
        last.sort_unstable_by(f32::total_cmp);
        MARGIN * f64::from(last[RECENT - 1 - OUTLIERS]).max(1.0)
    }
}

/// The measured kinds: routine, element type and sizes.
#[derive(Clone, Debug)]
pub struct HostTimes {
    kinds: Vec<Option<Kind>>,
    allowance: u32,
    /// Of levels 1 and 2, and of level 3.
    errors: [Errors; 2],
    /// Calls of kinds that were not timed because the errors are known.
    settled: u32,
}

impl Default for HostTimes {
    fn default() -> Self {
        HostTimes {
            kinds: vec![None; KINDS],
            allowance: ALLOWANCE,
            errors: Default::default(),
            settled: 0,
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
            TRIED.. => kind.seconds(),
            _ => kind
                .seconds()
                .min(f64::from(kind.before).max(CLOSE * predicted_s)),
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
    pub fn at_most(&self, work: &Work, predicted_s: f64) -> f64 {
        if self.allowance < NEW {
            predicted_s
        } else {
            self.errors[usize::from(work.is_level3())].far() * predicted_s
        }
    }

    /// The longest that the host may be found to take for calls of a kind of which none was to be timed, once it is known how well such
    /// times are predicted: if devices are predicted to take longer even so, a measured time would decide nothing.
    #[must_use]
    pub fn bound(&mut self, work: &Work, predicted_s: f64) -> Option<f64> {
        let new = self.known(work).is_none_or(|kind| kind.tried == 0);
        let settled = new && self.is_settled(work);
        settled.then(|| self.errors[usize::from(work.is_level3())].far() * predicted_s)
    }

    /// Whether it is known how well times are predicted, for one more call of a new kind.
    fn is_settled(&mut self, work: &Work) -> bool {
        let known = self.errors[usize::from(work.is_level3())].count >= RECENT;
        self.settled = self.settled.wrapping_add(u32::from(known));
        known && !self.settled.is_multiple_of(AGAIN)
    }

    fn kind(&mut self, work: &Work) -> &mut Kind {
        let new = Kind {
            work: *work,
            times: [0.0; KEPT],
            passed: 0,
            looked: 0,
            wanted: false,
            tried: 0,
            timed: 0,
            before: 0.0,
            decisions: 0,
            on_devices: 0,
            checked: 0,
            patience: PATIENCE,
            untimed: 0,
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
                let long = kind.timed > 0 && kind.seconds() >= LONG_S;
                tried < FIRST || long || kind.wanted || kind.decisions.is_multiple_of(EACH)
            }
            Where::Devices => kind.is_checked(predicted_s, host_s),
        };
        kind.wanted &= !due;
        if due {
            kind.tried = kind.tried.saturating_add(1);
            if tried == 0 {
                self.allowance -= NEW;
            }
        }
        due
    }

    /// How many calls may follow on the host without a decision after one that was not timed, as devices held operands: few at first,
    /// since one of the next finds all of them on the host. `None`: any number, as calls of this kind are known, or are not to be timed.
    pub fn untimed(&mut self, work: &Work) -> Option<u64> {
        let tried = self.known(work).map_or(0, |kind| kind.tried);
        if tried >= FIRST || tried == 0 && self.allowance < NEW {
            return None;
        }
        let kind = self.kind(work);
        let most = 1 << kind.untimed.min(16);
        kind.untimed += 1;
        Some(most)
    }

    /// Whether a call that devices cannot compute faster, wherever its operands are, is to get a decision all the same, so that its time
    /// on the host is taken. Not that of a new kind, once it is known how well such times are predicted.
    pub fn wants(&mut self, work: &Work) -> bool {
        if self.known(work).is_none() && (self.allowance < NEW || self.is_settled(work)) {
            return false;
        }
        let kind = self.kind(work);
        kind.passed = kind.passed.wrapping_add(1);
        let first = kind.tried < FIRST && kind.looked < FIRST;
        kind.looked += u32::from(first);
        kind.wanted |= first || kind.passed.is_multiple_of(RARE);
        first || kind.passed.is_multiple_of(RARE)
    }

    /// Whether the next decision for the host would have its time taken: it must not be repeated without a decision then.
    #[must_use]
    pub fn is_new(&self, work: &Work) -> bool {
        self.known(work).is_none_or(|kind| kind.tried < FIRST)
    }

    /// Notes the time of a call that ran on the host and was predicted to take `predicted_s`. Returns whether calls of its kind were timed
    /// before, and it took no longer than they are known to take.
    pub fn took(&mut self, work: &Work, seconds: f64, predicted_s: f64) -> bool {
        if !seconds.is_finite() || seconds <= 0.0 {
            return false;
        }
        let kind = self.kind(work);
        let confirms = kind.timed > 0 && seconds <= kind.seconds();
        kind.times[kind.timed as usize % KEPT] = seconds as f32;
        kind.timed = kind.timed.saturating_add(1);
        // Each kind counts once, however often it is timed.
        if kind.timed == TRIED {
            let error = kind.seconds() / predicted_s;
            self.errors[usize::from(work.is_level3())].add(error);
        }
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
    fn the_first_calls_of_a_kind_are_timed_and_the_last_times_count() {
        let mut times = HostTimes::default();
        for (i, seconds) in [3e-5, 2e-5, 5e-5].into_iter().enumerate() {
            assert_eq!(times.seconds(&work(7), 1.0).is_some(), i > 0);
            assert!(times.is_new(&work(7)) && times.due(&work(7), Host, 1.0, 1.0));
            assert_eq!(times.took(&work(7), seconds, 1.0), seconds == 2e-5);
        }
        let is = |times: &mut HostTimes, wanted: f64| {
            let found = times.seconds(&work(7), 1.0).unwrap();
            assert!((found / wanted - 1.0).abs() < 1e-6, "{found}");
        };
        is(&mut times, 3e-5);
        assert!(!times.is_new(&work(7)));
        let due = (0..4 * EACH).filter(|_| times.due(&work(7), Host, 1.0, 1.0));
        assert_eq!(due.count(), 4);
        // A single call that takes long changes little, a host that becomes slower is followed, and every call of one that takes long is
        // timed.
        times.took(&work(7), 8e-3, 1.0);
        is(&mut times, 5e-5);
        (0..2).for_each(|_| _ = times.took(&work(7), 8e-3, 1.0));
        is(&mut times, 8e-3);
        assert!((0..10).all(|_| times.due(&work(7), Host, 1.0, 1.0)));
        assert_eq!(times.seconds(&work(8), 1.0), None);
    }

    #[test]
    fn calls_that_are_too_small_for_devices_are_timed_now_and_then() {
        let mut times = HostTimes::default();
        for _ in 0..FIRST {
            assert!(times.wants(&work(7)) && times.due(&work(7), Host, 1.0, 1.0));
            times.took(&work(7), 1e-5, 1.0);
        }
        let wanted: Vec<u32> = (FIRST + 1..3 * RARE)
            .filter(|_| times.wants(&work(7)))
            .collect();
        assert_eq!(wanted, [RARE, 2 * RARE]);
        assert!(times.due(&work(7), Host, 1.0, 1.0) && !times.due(&work(7), Host, 1.0, 1.0));
        // Where no time is taken, they are soon left alone.
        assert_eq!(
            (0..RARE - 1).filter(|_| times.wants(&work(8))).count(),
            FIRST as usize
        );
    }

    #[test]
    fn a_host_that_seems_far_slower_is_tried_again() {
        let mut times = HostTimes::default();
        (0..FIRST).for_each(|_| _ = times.took(&work(7), 10.0, 1.0));
        let mut on_devices = |most: u32| {
            let due = (0..most).find(|_| times.due(&work(7), Devices, 1.0, 10.0));
            due.inspect(|_| _ = times.took(&work(7), 10.0, 1.0))
        };
        // Devices have computed for 200 seconds, then for 400.
        assert_eq!(on_devices(1000), Some(199));
        assert_eq!(on_devices(1), Some(0));
        assert_eq!(on_devices(1000), Some(399));
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
        times.took(&work(7), 50.0, 1.0);
        assert!(!times.is_sure(&work(7)));
        assert_eq!(times.seconds(&work(7), 1.0), Some(CLOSE));
        assert_eq!(times.seconds(&work(7), 40.0), Some(50.0));
        times.took(&work(7), 60.0, 1.0);
        assert!(times.is_sure(&work(7)));
        assert_eq!(times.seconds(&work(7), 1.0), Some(50.0));
    }

    #[test]
    fn a_single_new_time_is_believed_as_far_as_earlier_ones() {
        let mut times = HostTimes::default();
        (0..FIRST).for_each(|_| _ = times.took(&work(7), 50.0, 1.0));
        assert!((0..1000).any(|_| times.due(&work(7), Devices, 40.0, 50.0)));
        times.took(&work(7), 60.0, 1.0);
        assert!(!times.is_sure(&work(7)));
        assert_eq!(times.seconds(&work(7), 1.0), Some(50.0));
    }

    #[test]
    fn calls_that_devices_take_over_are_timed_on_the_host_again() {
        let mut times = HostTimes::default();
        // The CPU rewrites the operands.
        for _ in 0..FIRST {
            assert!(times.due(&work(7), Host, 1.0, 1.0));
            times.took(&work(7), 2.0, 1.0);
        }
        // It does so no more, and the host takes less.
        let mut host_calls = 0;
        for n in 0..10 * PATIENCE {
            if times.due(&work(7), Devices, 1.5, 2.0) {
                assert!((PATIENCE..PATIENCE + TRIED).contains(&n));
                times.took(&work(7), 1.0, 1.0);
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
                times.took(&work(n), 1.0, 1.0);
            }
            due
        };
        let count = (0..10_000).filter(|n| timed(&mut times, *n)).count();
        assert_eq!(count, (ALLOWANCE / NEW) as usize);
        assert_eq!(times.at_most(&work(1), 2.0), 2.0);
        // Once they repeat, a new kind is timed again.
        let known = (0..10_000).find(|n| times.seconds(&work(*n), 1.0).is_some());
        let known = known.expect("some were timed");
        (0..NEW).for_each(|_| assert_eq!(times.seconds(&work(known), 1.0), Some(1.0)));
        assert_eq!(times.at_most(&work(1), 2.0), 2.0 * FAR);
        assert!(timed(&mut times, 20_000));
    }

    #[test]
    fn the_errors_of_the_last_kinds_tell_how_far_others_may_be() {
        let mut times = HostTimes::default();
        assert_eq!(times.at_most(&work(1), 1.0), FAR);
        for n in 1..=RECENT {
            assert!(times.wants(&work(n)));
            (0..TRIED).for_each(|_| _ = times.took(&work(n), 1.5, 1.0));
        }
        // Kinds that devices could not compute faster are not timed any more, those that were go on.
        assert_eq!(times.at_most(&work(99), 1.0), 1.5 * MARGIN);
        assert!(!times.wants(&work(99)) && times.wants(&work(1)));
        let vector = Work::gemm(Dtype::D, 99, 99, 1);
        let vector = Work {
            routine: crate::base::Routine::Gemv,
            ..vector
        };
        assert_eq!(times.at_most(&vector, 1.0), FAR);
        assert_eq!(times.bound(&vector, 1.0), None);
        assert_eq!(times.bound(&work(99), 1.0), Some(1.5 * MARGIN));
        // One in some is timed all the same.
        let new = (0..2 * AGAIN).filter(|_| times.bound(&work(99), 1.0).is_none());
        assert_eq!(new.count(), 2);
        // A few that take far longer count for the next ones.
        for n in 100..=100 + OUTLIERS {
            assert_eq!(times.at_most(&work(99), 1.0), 1.5 * MARGIN);
            (0..TRIED).for_each(|_| _ = times.took(&work(n), 40.0, 1.0));
        }
        assert_eq!(times.at_most(&work(99), 1.0), 40.0 * MARGIN);
        // On a host that takes far longer than predicted, new kinds are timed again.
        assert_eq!(times.bound(&work(99), 1.0), Some(40.0 * MARGIN));
    }

    #[test]
    fn a_kind_that_could_not_be_timed_is_soon_decided_on_again() {
        let mut times = HostTimes::default();
        let left: Vec<_> = (0..5).map(|_| times.untimed(&work(7))).collect();
        assert_eq!(left, [Some(1), Some(2), Some(4), Some(8), Some(16)]);
        for _ in 0..FIRST {
            times.due(&work(7), Host, 1.0, 1.0);
        }
        assert_eq!(times.untimed(&work(7)), None);
    }

    #[test]
    fn nonsense_is_left_out_and_kinds_replace_each_other() {
        let mut times = HostTimes::default();
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            times.took(&work(3), seconds, 1.0);
        }
        assert_eq!(times.seconds(&work(3), 1.0), None);
        for n in 0..10 * KINDS {
            times.took(&work(n), 1.0, 1.0);
        }
        let known = (0..10 * KINDS).filter(|n| times.seconds(&work(*n), 1.0).is_some());
        assert!((KINDS / 2..=KINDS).contains(&known.count()));
        // Two kinds that are used in turn stay, whatever else there is in their set.
        let mut times = HostTimes::default();
        let same = |n: &usize| set(&work(*n)) == set(&work(0));
        let pair: Vec<usize> = (0..100_000).filter(same).take(WAYS).collect();
        for n in pair.iter().chain(&pair) {
            times.took(&work(*n), 1.0, 1.0);
        }
        assert!(pair.iter().all(|n| times.seconds(&work(*n), 1.0).is_some()));
    }
}
