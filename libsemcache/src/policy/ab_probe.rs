//! A/B probes of predictions: measures the time from one call to the next of the same kind, on the host and on devices,
//! and runs a few calls on the other side to compare the measured times.
//!
//! A prediction knows rates, but not whether the program's other cores are busy, whether its data are in the host's
//! caches, or what reading a result costs the program. The time from one call of a kind to the next, a *cycle*,
//! includes all of these. It also includes what the program does between its calls, which takes the same time on both
//! sides. So if the cycles on one side are clearly shorter, the call belongs there. Other activity only ever makes a
//! cycle longer, so the shortest of the last cycles counts.
//!
//! The A/B probes of a kind of call begin at its decisions number `FIRST`, 4 `FIRST`, 16 `FIRST` and so on, and when its cycles become far
//! shorter or longer: what was measured on the other side may no longer hold then. A probe
//! takes place only if the prediction for the other side is at most `CLOSE` measured cycles at first, and twice as many
//! at each further probe. So all probes together cost a small part of the loop. If on the other side results of other calls had to be
//! copied in each cycle, it has to be shorter than a cycle: bytes and rates of links are known.

/// Where a call runs: one of the two sides that an A/B probe compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// The host BLAS.
    Host,
    /// The devices.
    Devices,
}

impl Where {
    /// The opposite side.
    #[must_use]
    pub fn other(self) -> Where {
        match self {
            Where::Host => Where::Devices,
            Where::Devices => Where::Host,
        }
    }
}

/// Decisions before the first A/B probe.
const FIRST: u32 = 64;
/// Decisions in an A/B probe. The first cycle is not measured: operands move in it.
const LENGTH: u32 = 4;
/// Decisions for the probed side in an A/B probe in which it takes at most [`NEAR`] times as long: the first calls there cannot be
/// replayed, and the threads of the host BLAS are still awake. After the first [`LENGTH`] of them, [`LENGTH`] decisions are for the
/// side that was chosen before, whose cycles may have become shorter: if the program changed during the probe, cycles of before and
/// after the change would be compared.
const LONG: u32 = 24;
const NEAR: f64 = 1.5;
/// Number of cycles measured on a side before their time counts.
const ENOUGH: u32 = 3;
/// The first A/B probe takes place if the prediction for the other side is at most this number of measured cycles.
const CLOSE: f64 = 3.0;
/// The call moves to the other side if cycles there are shorter than this share of those on the predicted side.
const CLEARLY: f64 = 0.92;
/// With each longer cycle, the shortest measured time grows by up to this factor: the program may have changed.
const FORGET: f64 = 1.02;
/// A cycle that is shorter than this share of the shortest one shows that the program changed, and so do two in a row that take at least
/// this number of times as long. The other side is probed at once then: its cycles were measured before.
const SHORTER: f64 = 0.7;
const LONGER: f64 = 1.5;

/// What a call is expected to take on a side.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expected {
    /// Seconds of the call.
    pub seconds: f64,
    /// Whether they were measured there, and not predicted by rates.
    pub measured: bool,
    /// Whether results of other calls are copied in each cycle.
    pub copies: bool,
}

/// A probe that is under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// The side that is probed.
    side: Where,
    /// Decisions so far for that side, and after the first of them for the other one.
    made: u32,
    again: u32,
}

/// The A/B probes of one kind of call.
#[derive(Clone, Copy, Debug)]
pub struct AbProbe {
    /// The time of the kind's last decision, and the mark that the caller left then.
    last: Option<(f64, u64)>,
    /// The side that the last call ran on.
    at: Where,
    /// Whether the cycle that ends next is not measured, because operands moved in it.
    moving: bool,
    /// For each side, the shortest of the last cycles in seconds, and the number of cycles measured.
    shortest: [f64; 2],
    cycles: [u32; 2],
    /// The cycles in a row that were far longer than the shortest one of the present side, and the shortest of them.
    longer: u32,
    shortest_longer: f64,
    decisions: u32,
    /// The decision at which the next A/B probe begins; and the current probe.
    next: u32,
    probe: Option<Probe>,
    /// The next probe takes place if the prediction is at most this number of cycles.
    within: f64,
}

impl Default for AbProbe {
    fn default() -> Self {
        AbProbe {
            last: None,
            at: Where::Host,
            moving: true,
            shortest: [f64::INFINITY; 2],
            cycles: [0; 2],
            longer: 0,
            shortest_longer: f64::INFINITY,
            decisions: 0,
            next: FIRST,
            probe: None,
            within: CLOSE,
        }
    }
}

impl AbProbe {
    /// Records the cycle that ends now.
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
        self.follow_change(i, cycle);
        self.shortest[i] = cycle.min(self.shortest[i] * FORGET);
        self.cycles[i] = self.cycles[i].saturating_add(1);
    }

    /// Makes a probe due if a cycle on side `i` shows that the program changed.
    fn follow_change(&mut self, i: usize, cycle: f64) {
        let known = self.cycles[i] >= ENOUGH;
        let longer = known && cycle > self.shortest[i] * LONGER;
        (self.longer, self.shortest_longer) = match longer {
            true => (self.longer + 1, self.shortest_longer.min(cycle)),
            false => (0, f64::INFINITY),
        };
        if self.longer >= 2 {
            self.shortest[i] = core::mem::replace(&mut self.shortest_longer, f64::INFINITY);
            self.longer = 0;
        } else if !known || cycle >= self.shortest[i] * SHORTER {
            return;
        }
        if self.probe.is_none() {
            self.next = self.next.min(self.decisions + 1);
            self.within = CLOSE;
        }
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

    /// The side for the next decision of a probe that is under way, if it goes on.
    fn goes_on(&self, probe: &mut Probe) -> Option<Where> {
        let [there, here] = [probe.side, probe.side.other()].map(|s| self.shortest[s as usize]);
        let far = there >= here * NEAR;
        if probe.made >= LENGTH && probe.again < LENGTH && !far {
            probe.again += 1;
            return Some(probe.side.other());
        }
        let near = !far && there >= here * CLEARLY;
        let more = probe.made < LENGTH || probe.made < LONG && near;
        more.then(|| {
            probe.made += 1;
            probe.side
        })
    }

    /// The side for a call of this kind, about which a decision is made at the time `now` (seconds), and which is
    /// predicted to be faster on side `predicted`. `calls` returns how many such calls were made since the last
    /// decision, given its side and mark, or `None` if that is not known; `predict` returns what is expected of a side, and is called
    /// only if an A/B probe is due.
    pub fn place(
        &mut self,
        now: f64,
        calls: impl FnOnce(Where, u64) -> Option<u32>,
        predicted: Where,
        predict: impl FnOnce(Where) -> Expected,
    ) -> Where {
        self.ended(now, calls);
        self.decisions = self.decisions.saturating_add(1);
        if let Some(mut probe) = self.probe.take()
            && let Some(place) = self.goes_on(&mut probe)
        {
            self.probe = Some(probe);
            return place;
        }
        let chosen = self.better(predicted);
        if self.decisions < self.next {
            return chosen;
        }
        self.next = self.next.saturating_mul(4);
        let within = self.within;
        self.within *= 2.0;
        let other = chosen.other();
        let affordable = |cycle| {
            let expected = predict(other);
            let within = match expected {
                Expected { copies: true, .. } => 1.0,
                Expected { measured: true, .. } => CLOSE,
                _ => within,
            };
            expected.seconds < within * cycle
        };
        if !self.known(chosen).is_some_and(affordable) {
            return chosen;
        }
        // Older measurements of the probed side may no longer hold.
        self.cycles[other as usize] = 0;
        self.shortest[other as usize] = f64::INFINITY;
        self.probe = Some(Probe {
            side: other,
            made: 1,
            again: 0,
        });
        other
    }

    /// Whether an A/B probe of this kind is under way, so that each call needs a decision.
    #[must_use]
    pub fn probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Ends a probe whose calls could not run on the side that it asked for. The next one takes place soon.
    pub fn put_off(&mut self) {
        if self.probe.take().is_some() {
            self.next = self.decisions.saturating_add(LENGTH);
            self.within /= 2.0;
        }
    }

    /// Records that a call of this kind runs on `place`, with a mark for the next decision.
    pub fn went(&mut self, now: f64, place: Where, mark: u64) {
        if self.at != place {
            self.moving = true;
            (self.longer, self.shortest_longer) = (0, f64::INFINITY);
        }
        self.at = place;
        self.last = Some((now, mark));
    }
}

#[cfg(test)]
mod tests {
    use super::Where::{Devices, Host};
    use super::*;

    fn predicted_s(seconds: f64) -> Expected {
        Expected {
            seconds,
            measured: false,
            copies: false,
        }
    }

    /// How many calls run on the host and on the devices in a loop of one call, with a given time on each side, while
    /// the side that is not chosen is predicted to take `other`.
    fn run(calls: u32, predicted: Where, host: f64, devices: f64, other: f64) -> [u32; 2] {
        let mut probes = AbProbe::default();
        let (mut now, mut went) = (0.0, [0; 2]);
        for _ in 0..calls {
            let place = probes.place(now, |_, _| Some(1), predicted, |_| predicted_s(other));
            probes.went(now, place, 0);
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
    fn results_of_other_calls_are_not_copied_to_find_out() {
        for (seconds, probed) in [(1.1, 0), (0.9, 4)] {
            let mut probes = AbProbe::default();
            let copied = |_| Expected {
                copies: true,
                ..predicted_s(seconds)
            };
            let mut on_host = 0;
            for i in 0..100 {
                let place = probes.place(f64::from(i), |_, _| Some(1), Devices, copied);
                probes.went(f64::from(i), place, 0);
                on_host += u32::from(place == Host);
            }
            assert!(on_host.min(4) == probed, "{seconds}: {on_host}");
        }
    }

    #[test]
    fn a_wrong_prediction_is_found_out() {
        let [host, devices] = run(10_000, Host, 2.0, 1.0, 3.0);
        assert!(host < FIRST + 5 * LENGTH, "{host}");
        assert_eq!(host + devices, 10_000);
        assert!(run(10_000, Devices, 1.0, 1.2, 3.0)[1] < FIRST + 4 * LONG);
    }

    #[test]
    fn no_clear_difference_leaves_the_prediction() {
        assert_eq!(run(10_000, Devices, 0.97, 1.0, 1.0)[0], 4 * LONG);
    }

    #[test]
    fn a_side_that_becomes_faster_while_it_is_probed_is_found_out() {
        let mut probes = AbProbe::default();
        let (mut now, mut on_devices, mut in_a_row) = (0.0, 0, 0);
        for _ in 0..1000 {
            let place = probes.place(now, |_, _| Some(1), Host, |_| predicted_s(1.2));
            probes.went(now, place, 0);
            // The ninth call in a row on devices and later ones are replayed.
            in_a_row = if place == Host { 0 } else { in_a_row + 1 };
            on_devices += u32::from(place == Devices);
            now += match place {
                Host => 1.0,
                Devices if in_a_row > 8 => 0.3,
                Devices => 1.3,
            };
        }
        assert!(on_devices > 900, "{on_devices}");
    }

    #[test]
    fn a_program_that_changes_during_a_probe_is_followed() {
        // The CPU rewrites the inputs before each of the first calls, and no more at any decision of the first probe.
        for change in FIRST - 4..FIRST + 2 * LONG {
            let mut probes = AbProbe::default();
            let (mut now, mut late) = (0.0, 0);
            for n in 1..4 * FIRST {
                let place = probes.place(now, |_, _| Some(1), Devices, |_| predicted_s(6.0));
                probes.went(now, place, 0);
                let (host, devices) = if n < change { (10.0, 5.7) } else { (6.0, 0.9) };
                now += if place == Host { host } else { devices };
                late += u32::from(n >= change && place == Host);
            }
            assert!(late <= 10, "{late} after a change at {change}");
        }
    }

    #[test]
    fn what_is_far_apart_is_tried_late() {
        assert_eq!(run(10_000, Host, 1.0, 0.1, 25.0), [10_000, 0]);
        let [host, devices] = run(10_000, Host, 1.0, 0.1, 10.0);
        assert!(host >= 15 * FIRST && devices > 8000, "{host}");
    }

    #[test]
    fn a_side_that_was_slower_is_not_avoided_once_the_program_changes() {
        // While the CPU rewrites the inputs the host is faster; then devices are, as predicted, and the host's cycles are shorter, too. Or
        // devices are faster at first.
        for (before, after, predicted) in [
            ((3.2, 5.0), (0.24, 0.04), Devices),
            ((3.2, 2.0), (9.0, 20.0), Host),
        ] {
            let mut probes = AbProbe::default();
            let (mut now, mut wrong) = (0.0, 0);
            for n in 0..3 * FIRST {
                let late = n >= 2 * FIRST;
                let place = probes.place(now, |_, _| Some(1), predicted, |_| predicted_s(0.5));
                probes.went(now, place, 0);
                let (host, devices) = if late { after } else { before };
                now += if place == Host { host } else { devices };
                wrong += u32::from(late && place != predicted);
            }
            assert!(wrong <= 10, "{wrong}");
        }
    }

    #[test]
    fn what_was_measured_to_be_far_apart_is_not_tried() {
        let mut probes = AbProbe::default();
        for n in 0..10_000 {
            let measured = Expected {
                measured: true,
                ..predicted_s(4.0)
            };
            let place = probes.place(f64::from(n), |_, _| Some(1), Devices, |_| measured);
            assert_eq!(place, Devices);
            probes.went(f64::from(n), place, 0);
        }
    }

    #[test]
    fn the_first_cycle_after_a_move_and_unknown_ones_do_not_count() {
        let mut probes = AbProbe::default();
        let mut now = 0.0;
        // The number of calls is unknown in each cycle on the host, so there is no time to compare and no probe.
        for _ in 0..1000 {
            assert_eq!(
                probes.place(now, |_, _| None, Host, |_| predicted_s(0.5)),
                Host
            );
            probes.went(now, Host, 0);
            now += 1.0;
        }
        // Ten calls share a cycle; `calls` gets the mark of the last decision.
        for n in 0..FIRST * 64 {
            let calls = |place, mark| {
                assert_eq!((place, mark), if n == 0 { (Host, 0) } else { (Host, 5) });
                Some(10)
            };
            if probes.place(now, calls, Host, |_| predicted_s(0.5)) == Devices {
                assert!(probes.probing());
                return;
            }
            probes.went(now, Host, 5);
            now += 1.0;
        }
        panic!("never probed");
    }

    #[test]
    fn a_program_that_changes_is_followed() {
        let mut probes = AbProbe::default();
        let (mut now, mut late) = (0.0, 0);
        for n in 0..20_000 {
            let place = probes.place(now, |_, _| Some(1), Host, |_| predicted_s(0.5));
            probes.went(now, place, 0);
            // At first the devices are faster, after half of the calls the host is.
            let (host, devices) = if n < 10_000 { (2.0, 1.0) } else { (2.0, 5.0) };
            now += if place == Host { host } else { devices };
            late += u32::from(n >= 10_000 && place == Devices);
        }
        assert!(late < 200, "{late}");
    }
}
