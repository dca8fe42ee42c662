//! Prediction error of devices' use of a block: the time that a program spends beyond the predictions, in the calls
//! themselves and in the CPU's faults that follow.
//!
//! A prediction knows bytes and rates. It does not know that a program touches a little of each panel between two calls
//! (the panel factorisations of LAPACK), nor what it costs to make pages inaccessible under the host BLAS's threads.
//! Both show in measured time. A *round* is the calls on devices between two visits of the CPU to the block, and the
//! visit. Its error is shared among all panels that its calls used, so that it says something of smaller and larger
//! operands of the same block. The median of three rounds counts, since first calls load kernels and allocate memory. It
//! counts for 200 times as long as the error itself, 10 s at most; then the block is used without it again, to measure anew.
//!
//! Inputs and outputs have errors of their own, and so have uses before which the CPU wrote the block and others: a program that
//! stops rewriting its inputs no longer pays for the faults of its writes. Uses while a block is write-through have others again; there
//! each call is a round, and its whole time counts, as it waits for its results. After such a time the errors of the other kinds are not
//! believed any more, and the next round of each kind that had one counts alone, in the place of the last three.

use std::time::{Duration, Instant};

/// A known error is believed for this many times as long as it costs, then the block is used without it again: half a
/// percent of the time goes into that.
const BELIEVED_FOR: f64 = 200.0;
/// The longest time, in seconds, that a known error is believed.
const BELIEVED_AT_MOST: f64 = 10.0;
/// A round that no visit of the CPU ends is ended by the call after this many.
const CALLS: u32 = 8;

/// How a call uses a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(usize);

impl Kind {
    const COUNT: usize = 6;
    const THROUGH: usize = 4;

    /// `output`: the call writes the block; `rewritten`: the CPU wrote it since the call before, which does not count while it is
    /// write-through.
    #[must_use]
    pub fn of(output: bool, rewritten: bool, through: bool) -> Kind {
        let how = match (through, rewritten) {
            (true, _) => Kind::THROUGH,
            (false, true) => 2,
            (false, false) => 0,
        };
        Kind(how + usize::from(output))
    }
}

/// The last rounds with operands of one kind: error in seconds per panel, the latest round first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    last: [f32; 3],
    rounds: u8,
    until: Option<Instant>,
    /// The next round takes the place of all three.
    anew: bool,
}

impl Track {
    const NONE: Track = Track {
        last: [0.0; 3],
        rounds: 0,
        until: None,
        anew: false,
    };

    fn add(&mut self, each: f32, panels: usize, now: Instant) {
        self.last = match core::mem::take(&mut self.anew) {
            true => [each; 3],
            false => [each, self.last[0], self.last[1]],
        };
        self.rounds = self.rounds.saturating_add(1);
        let long = f64::from(self.median()) * panels as f64 * BELIEVED_FOR;
        let long = Duration::from_secs_f64(long.clamp(0.0, BELIEVED_AT_MOST));
        self.until = now.checked_add(long);
    }

    fn median(&self) -> f32 {
        if usize::from(self.rounds) < self.last.len() {
            return 0.0;
        }
        let mut sorted = self.last;
        sorted.sort_by(f32::total_cmp);
        sorted[1]
    }
}

/// A round that has not ended.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    /// The number of the latest call in the round, and how many calls there were.
    call: u64,
    calls: u32,
    panels: usize,
    /// How the calls used the block.
    kinds: [bool; Kind::COUNT],
    excess_s: f64,
    /// The CPU has touched the block since the round began.
    visited: bool,
}

impl Round {
    /// Visits of the CPU do not show while the block is write-through.
    fn is_through(&self) -> bool {
        self.kinds[Kind::THROUGH..].contains(&true)
    }
}

/// The prediction errors of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionError {
    /// For each kind of use.
    tracks: [Track; Kind::COUNT],
    now: Option<Round>,
}

impl PredictionError {
    pub(crate) const NONE: PredictionError = PredictionError {
        tracks: [Track::NONE; Kind::COUNT],
        now: None,
    };

    /// Takes over the errors that a block of the same length has learned, for each kind of use that it knows.
    pub(super) fn learn(&mut self, other: &PredictionError) {
        for (mine, theirs) in self.tracks.iter_mut().zip(&other.tracks) {
            if theirs.rounds > 0 && !theirs.anew {
                *mine = *theirs;
            }
        }
    }

    /// Serving a fault in the block took `seconds`, without waits for devices: they belong to the round's error.
    pub fn fault(&mut self, seconds: f64) {
        if let Some(r) = &mut self.now {
            r.excess_s += seconds;
            r.visited = true;
        }
    }

    /// A call on devices, known by its number, uses `panels` panels of the block; the same call may use more of them in
    /// another operand. Returns whether a round ended, that is, whether an error was learned.
    pub(super) fn used(&mut self, call: u64, panels: usize, kind: Kind, now: Instant) -> bool {
        let ended = self
            .now
            .take_if(|r| r.call != call && (r.visited || r.calls >= CALLS || r.is_through()));
        let round = self.now.get_or_insert(Round {
            call,
            calls: 1,
            panels: 0,
            kinds: [false; Kind::COUNT],
            excess_s: 0.0,
            visited: false,
        });
        if round.call != call {
            (round.call, round.calls) = (call, round.calls + 1);
        }
        round.panels = round.panels.saturating_add(panels);
        round.kinds[kind.0] = true;
        let Some(ended) = ended.filter(|r| r.panels > 0) else {
            return false;
        };
        let each = (ended.excess_s.max(0.0) / ended.panels as f64) as f32;
        for (track, was) in self.tracks.iter_mut().zip(ended.kinds) {
            if was {
                track.add(each, ended.panels, now);
            }
        }
        true
    }

    /// The call of this number took `excess_s` seconds longer than predicted because of this block; less than zero:
    /// shorter.
    pub fn took(&mut self, call: u64, excess_s: f64) {
        if let Some(r) = self.now.as_mut().filter(|r| r.call == call) {
            r.excess_s += excess_s;
        }
    }

    /// The round is dropped: a call follows for which nothing was predicted, so its error is unknown.
    pub(super) fn unknown(&mut self) {
        self.now = None;
    }

    /// What is known of uses while the block is protected does not count any more, until a round tells anew.
    pub(super) fn measure_anew(&mut self) {
        for track in &mut self.tracks[..Kind::THROUGH] {
            (track.until, track.anew) = (None, track.median() > 0.0);
        }
    }

    /// The seconds that a use of `panels` panels is expected to take beyond the prediction.
    pub(super) fn expected_s(&self, panels: usize, kind: Kind, now: Instant) -> f64 {
        let track = &self.tracks[kind.0];
        if track.until.is_none_or(|until| now >= until) {
            return 0.0;
        }
        f64::from(track.median()) * panels as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: Kind = Kind(0);
    const OUTPUT: Kind = Kind(1);

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    /// A round of one call that uses one panel as an output and takes `excess_s` seconds too long.
    fn round(prediction_error: &mut PredictionError, call: u64, excess_s: f64, now: Instant) {
        prediction_error.used(call, 1, OUTPUT, now);
        prediction_error.fault(excess_s);
    }

    #[test]
    fn what_three_rounds_took_too_long_is_expected_per_panel() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        for call in 0..4 {
            // As many rounds have ended as there were calls before.
            prediction_error.used(call, 8, OUTPUT, now);
            let known = prediction_error.expected_s(10, OUTPUT, now) > 0.0;
            assert_eq!(known, call == 3);
            prediction_error.used(call, 2, OUTPUT, now);
            prediction_error.took(call, -1e-4);
            (0..11).for_each(|_| prediction_error.fault(1e-4));
        }
        assert!(close(prediction_error.expected_s(10, OUTPUT, now), 1e-3));
        assert!(close(prediction_error.expected_s(5, OUTPUT, now), 5e-4));
        assert!(close(prediction_error.expected_s(10, INPUT, now), 0.0));
        // The program stops touching the block between calls.
        for call in 4..6 {
            prediction_error.used(call, 10, OUTPUT, now);
            prediction_error.fault(0.0);
        }
        prediction_error.used(6, 10, OUTPUT, now);
        assert!(close(prediction_error.expected_s(10, OUTPUT, now), 0.0));
    }

    #[test]
    fn calls_between_two_visits_share_what_the_visit_costs() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        for call in 0..16 {
            prediction_error.used(call, 5, if call % 4 == 0 { INPUT } else { OUTPUT }, now);
            if call % 4 == 3 {
                prediction_error.fault(2e-3);
            }
        }
        assert!(close(prediction_error.expected_s(5, OUTPUT, now), 5e-4));
        assert!(close(prediction_error.expected_s(5, INPUT, now), 5e-4));
    }

    #[test]
    fn calls_that_no_visit_ends_tell_of_their_own_time() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        for call in 0..u64::from(4 * CALLS) {
            prediction_error.used(call, 1, OUTPUT, now);
            prediction_error.took(call, 1e-3);
        }
        assert!(close(prediction_error.expected_s(1, OUTPUT, now), 1e-3));
    }

    #[test]
    fn one_round_counts_where_it_is_measured_anew() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        (0..4).for_each(|call| round(&mut prediction_error, call, 1e-3, now));
        for (call, excess_s) in [(4, 1e-3), (6, 0.0)] {
            assert!(close(prediction_error.expected_s(1, OUTPUT, now), 1e-3));
            prediction_error.unknown();
            prediction_error.measure_anew();
            assert!(close(prediction_error.expected_s(1, OUTPUT, now), 0.0));
            round(&mut prediction_error, call, excess_s, now);
            prediction_error.used(call + 1, 1, OUTPUT, now);
            assert!(close(prediction_error.expected_s(1, OUTPUT, now), excess_s));
        }
    }

    #[test]
    fn it_is_tried_again_and_believed_at_once() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        (0..4).for_each(|call| round(&mut prediction_error, call, 1e-3, now));
        let soon = now + Duration::from_millis(190);
        let late = now + Duration::from_millis(210);
        assert!(close(prediction_error.expected_s(1, OUTPUT, soon), 1e-3));
        assert!(close(prediction_error.expected_s(1, OUTPUT, late), 0.0));
        prediction_error.used(4, 1, OUTPUT, late);
        assert!(close(prediction_error.expected_s(1, OUTPUT, late), 1e-3));
        // An error is believed for ten seconds at most, however long a round took (the process may have been stopped).
        for call in 5..9 {
            round(&mut prediction_error, call, 1e3, now);
        }
        prediction_error.used(9, 1, OUTPUT, now);
        let end = now + Duration::from_secs(11);
        assert!(close(prediction_error.expected_s(1, OUTPUT, end), 0.0));
    }

    #[test]
    fn one_long_round_is_not_believed() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        for call in 0..10 {
            round(
                &mut prediction_error,
                call,
                if call == 3 { 1.0 } else { 0.0 },
                now,
            );
            assert!(close(prediction_error.expected_s(1, OUTPUT, now), 0.0));
        }
    }

    #[test]
    fn another_calls_excess_is_not_this_ones() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        for call in 0..10 {
            round(&mut prediction_error, call, 0.0, now);
            prediction_error.took(call + 1, 1.0);
        }
        assert!(close(prediction_error.expected_s(1, OUTPUT, now), 0.0));
    }

    #[test]
    fn a_block_learns_of_each_kind_what_is_known_of_it() {
        let now = Instant::now();
        let [mut inputs, mut outputs, mut new] = [PredictionError::NONE; 3];
        for call in 0..4 {
            inputs.used(call, 1, INPUT, now);
            inputs.fault(2e-3);
            round(&mut outputs, call, 1e-3, now);
        }
        new.learn(&inputs);
        new.learn(&outputs);
        new.learn(&PredictionError::NONE);
        assert!(close(new.expected_s(1, INPUT, now), 2e-3));
        assert!(close(new.expected_s(1, OUTPUT, now), 1e-3));
    }

    #[test]
    fn what_follows_an_unknown_call_tells_nothing() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        for call in 0..10 {
            prediction_error.used(call, 1, OUTPUT, now);
            prediction_error.unknown();
            prediction_error.fault(1.0);
        }
        assert!(close(prediction_error.expected_s(1, OUTPUT, now), 0.0));
    }

    #[test]
    fn a_program_that_stops_rewriting_its_input_pays_no_more_for_its_writes() {
        let (mut prediction_error, now) = (PredictionError::NONE, Instant::now());
        let written = Kind::of(false, true, false);
        for call in 0..8 {
            prediction_error.used(call, 1, written, now);
            prediction_error.fault(1e-3);
        }
        assert!(close(prediction_error.expected_s(1, written, now), 1e-3));
        assert!(close(prediction_error.expected_s(1, INPUT, now), 0.0));
        // The write that ends the first round of the other kind is one of three.
        prediction_error.used(8, 1, INPUT, now);
        prediction_error.fault(1e-3);
        for call in 9..13 {
            prediction_error.used(call, 1, INPUT, now);
            prediction_error.fault(0.0);
            assert!(close(prediction_error.expected_s(1, INPUT, now), 0.0));
        }
        assert!(close(prediction_error.expected_s(1, written, now), 1e-3));
    }
}
