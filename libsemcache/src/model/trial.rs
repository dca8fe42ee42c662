//! What calls really cost, where the prediction may be wrong: the time from one call to the next of the same kind, on
//! the host and on devices, and now and then a trial of the place that was not chosen.
//!
//! A prediction knows rates, not habits: whether the program's other cores are busy, whether its data are in the host's
//! caches, what a look at a result costs it. A *cycle* has all of that in it, and whatever the program does between
//! its calls, which is the same in both places; so if the cycles in one place are clearly shorter, the call belongs
//! there. Times only ever become longer by what else goes on, so the shortest of the last cycles counts.
//!
//! Trials begin when a call has been decided upon `FIRST` times and come four times rarer each time, and only where
//! the prediction for the other place is at most some of the cycles that are seen here, `CLOSE` at first and twice as
//! many each time: together they cost a small part of the loop.

/// Where a call runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// The host BLAS.
    Host,
    /// The devices.
    Devices,
}

impl Where {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Where {
        match self {
            Where::Host => Where::Devices,
            Where::Devices => Where::Host,
        }
    }
}

/// Kinds of calls that are followed at once; a collision forgets the older one.
const KINDS: usize = 256;
/// Decisions until the first trial.
const FIRST: u32 = 64;
/// Decisions of a trial. The first cycle does not count: operands move in it.
const LENGTH: u32 = 4;
/// Cycles that must have been seen in a place to be believed.
const ENOUGH: u32 = 3;
/// A place whose prediction is at most so many of the other's cycles is put to the first trial.
const CLOSE: f64 = 3.0;
/// Cycles in the other place must be shorter than this share of those in the predicted one.
const CLEARLY: f64 = 0.92;
/// The shortest cycle is forgotten by this factor with each that is longer: the program may have changed.
const FORGET: f64 = 1.02;

/// One kind of call.
#[derive(Clone, Copy, Debug)]
struct Kind {
    key: u64,
    /// When the call went last, and the mark of that.
    last: Option<(f64, u64)>,
    /// Where it went last.
    at: Where,
    /// The cycle that ends next does not count.
    moving: bool,
    /// Shortest of the last cycles in seconds, and how many were seen, by place.
    shortest: [f64; 2],
    cycles: [u32; 2],
    decisions: u32,
    /// The decision at which the next trial begins, and what is left of this one.
    next: u32,
    trial: Option<(Where, u32)>,
    /// How many cycles the prediction may be for it.
    within: f64,
}

impl Kind {
    const fn new(key: u64) -> Kind {
        Kind {
            key,
            last: None,
            at: Where::Host,
            moving: true,
            shortest: [f64::INFINITY; 2],
            cycles: [0; 2],
            decisions: 0,
            next: FIRST,
            trial: None,
            within: CLOSE,
        }
    }

    /// Books the cycle that ends now.
    fn ended(&mut self, now: f64, calls: impl FnOnce(Where, u64) -> Option<u32>) {
        let Some((since, mark)) = self.last.take() else {
            return;
        };
        let calls = calls(self.at, mark);
        if core::mem::take(&mut self.moving) {
            return;
        }
        let Some(calls) = calls.filter(|n| *n > 0) else {
            return;
        };
        let i = self.at as usize;
        let cycle = (now - since) / f64::from(calls);
        self.shortest[i] = cycle.min(self.shortest[i] * FORGET);
        self.cycles[i] = self.cycles[i].saturating_add(1);
    }

    fn known(&self, place: Where) -> Option<f64> {
        let i = place as usize;
        (self.cycles[i] >= ENOUGH).then_some(self.shortest[i])
    }

    fn better(&self, predicted: Where) -> Where {
        match (self.known(predicted), self.known(predicted.other())) {
            (Some(here), Some(there)) if there < here * CLEARLY => predicted.other(),
            _ => predicted,
        }
    }
}

/// The kinds of calls.
#[derive(Clone, Debug)]
pub struct Trials(Vec<Kind>);

impl Default for Trials {
    fn default() -> Self {
        Trials(vec![Kind::new(0); KINDS])
    }
}

impl Trials {
    fn kind(&mut self, key: u64) -> &mut Kind {
        let kind = &mut self.0[(key >> 40) as usize % KINDS];
        if kind.key != key {
            *kind = Kind::new(key);
        }
        kind
    }

    /// A call of this kind is decided upon at the time `now` (seconds), and predicted to be faster in one place; where
    /// it is to go. `calls` tells how many such calls were made since it went somewhere last, with the mark left then,
    /// if that is known; `predict`, the prediction for a place in seconds, which is asked only if it matters.
    pub fn place(
        &mut self,
        key: u64,
        now: f64,
        calls: impl FnOnce(Where, u64) -> Option<u32>,
        predicted: Where,
        predict: impl FnOnce(Where) -> f64,
    ) -> Where {
        let kind = self.kind(key);
        kind.ended(now, calls);
        kind.decisions = kind.decisions.saturating_add(1);
        if let Some((place, left)) = kind.trial {
            kind.trial = (left > 1).then_some((place, left - 1));
            return place;
        }
        let chosen = kind.better(predicted);
        if kind.decisions < kind.next {
            return chosen;
        }
        kind.next = kind.next.saturating_mul(4);
        let within = kind.within;
        kind.within *= 2.0;
        let tried = chosen.other();
        let affordable = |cycle| predict(tried) < within * cycle;
        if !kind.known(chosen).is_some_and(affordable) {
            return chosen;
        }
        // What is known of it may be old.
        kind.cycles[tried as usize] = 0;
        kind.shortest[tried as usize] = f64::INFINITY;
        kind.trial = Some((tried, LENGTH - 1));
        tried
    }

    /// Whether each call of this kind is to be decided upon for now.
    #[must_use]
    pub fn on_trial(&mut self, key: u64) -> bool {
        self.kind(key).trial.is_some()
    }

    /// The call goes there.
    pub fn went(&mut self, key: u64, now: f64, place: Where, mark: u64) {
        let kind = self.kind(key);
        kind.moving |= kind.at != place;
        kind.at = place;
        kind.last = Some((now, mark));
    }

    /// Replaces the mark of the call that went last.
    pub fn remark(&mut self, key: u64, mark: u64) {
        if let Some(last) = &mut self.kind(key).last {
            last.1 = mark;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Where::{Devices, Host};
    use super::*;

    /// A loop of one call that takes so long in each place, while the one not chosen is predicted to take `other`: how
    /// many calls go to the host and to the devices.
    fn run(calls: u32, predicted: Where, host: f64, devices: f64, other: f64) -> [u32; 2] {
        let mut trials = Trials::default();
        let (mut now, mut went) = (0.0, [0; 2]);
        for _ in 0..calls {
            let place = trials.place(7, now, |_, _| Some(1), predicted, |_| other);
            trials.went(7, now, place, 0);
            went[place as usize] += 1;
            now += if place == Host { host } else { devices };
        }
        went
    }

    #[test]
    fn a_right_prediction_costs_a_few_calls() {
        let [host, devices] = run(10_000, Host, 1.0, 2.0, 1.5);
        assert_eq!((host, devices), (10_000 - 4 * LENGTH, 4 * LENGTH));
        assert_eq!(run(10_000, Devices, 2.0, 1.0, 1.5)[0], 4 * LENGTH);
    }

    #[test]
    fn a_wrong_prediction_is_found_out() {
        let [host, devices] = run(10_000, Host, 2.0, 1.0, 3.0);
        assert!(host < FIRST + 5 * LENGTH, "{host}");
        assert_eq!(host + devices, 10_000);
        assert!(run(10_000, Devices, 1.0, 1.2, 3.0)[1] < FIRST + 5 * LENGTH);
    }

    #[test]
    fn no_clear_difference_leaves_the_prediction() {
        assert_eq!(run(10_000, Devices, 0.97, 1.0, 1.0)[0], 4 * LENGTH);
    }

    #[test]
    fn what_is_far_apart_is_tried_late() {
        assert_eq!(run(10_000, Host, 1.0, 0.1, 25.0), [10_000, 0]);
        let [host, devices] = run(10_000, Host, 1.0, 0.1, 10.0);
        assert!(host >= 15 * FIRST && devices > 8000, "{host}");
    }

    #[test]
    fn the_first_cycle_after_a_move_and_unknown_ones_do_not_count() {
        let mut trials = Trials::default();
        let mut now = 0.0;
        // Every cycle on the host is one of unknown length: nothing to compare with, so no trial.
        for _ in 0..1000 {
            assert_eq!(trials.place(7, now, |_, _| None, Host, |_| 0.5), Host);
            trials.went(7, now, Host, 0);
            now += 1.0;
        }
        // Several calls share a cycle; the mark comes back.
        for n in 0..FIRST * 64 {
            let calls = |place, mark| {
                assert_eq!((place, mark), if n == 0 { (Host, 0) } else { (Host, 5) });
                Some(10)
            };
            if trials.place(7, now, calls, Host, |_| 0.5) == Devices {
                assert!(trials.on_trial(7));
                return;
            }
            trials.went(7, now, Host, 5);
            now += 1.0;
        }
        panic!("never tried");
    }

    #[test]
    fn a_program_that_changes_is_followed() {
        let mut trials = Trials::default();
        let (mut now, mut late) = (0.0, 0);
        for n in 0..20_000 {
            let place = trials.place(7, now, |_, _| Some(1), Host, |_| 0.5);
            trials.went(7, now, place, 0);
            // At first the devices are faster, then not.
            let (host, devices) = if n < 10_000 { (2.0, 1.0) } else { (2.0, 5.0) };
            now += if place == Host { host } else { devices };
            late += u32::from(n >= 10_000 && place == Devices);
        }
        assert!(late < 200, "{late}");
    }
}
