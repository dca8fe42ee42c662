//! Use of a block: how calls and the CPU used it so far. Predictions, streamed write-back and the way in which writes of the CPU are
//! noticed rest on it, correctness never does.

use std::time::Instant;

use super::amortisation::Ledger;
use super::inputs::{Inputs, WriteThrough};
use super::prediction_error::{Kind, PredictionError};
use super::results::{Push, Results};
use crate::base::Rect;

/// How a block was used by calls and by the CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct BlockUse {
    results: Results,
    inputs: Inputs,
    prediction_error: PredictionError,
    uploads: Ledger,
    /// The key of the last call that used the block, and for how many calls in a row no call of another key has used
    /// it.
    user: u64,
    alone: u32,
    /// Calls that used it.
    calls: u32,
    /// The CPU wrote the block before the last call that used it, of those of which that is known.
    rewritten: bool,
}

/// What a block's use so far lets expect of the next call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expected {
    /// Earlier calls on the same contents.
    pub seen: u32,
    /// Earlier calls on the block.
    pub calls: u32,
    /// For how many calls in a row the same call, and no other, has used the block.
    pub alone: u32,
    /// The share of the next result that the CPU is likely to access before a device writes another result.
    pub read_back: f64,
    /// How likely the CPU accesses any part of the next result before a device writes another result.
    pub looked: f64,
    /// The block is write-through for results of devices, too.
    pub writes_through: bool,
    rewritten: bool,
    prediction_error: PredictionError,
}

impl Expected {
    /// Of memory of unknown lifetime: its results are on the host when the call returns.
    pub const TRANSIENT: Expected = Expected {
        seen: 0,
        calls: 0,
        alone: 0,
        read_back: 1.0,
        looked: 1.0,
        writes_through: false,
        rewritten: true,
        prediction_error: PredictionError::NONE,
    };

    /// The seconds that a use of `panels` panels by a device is expected to take beyond the prediction.
    #[must_use]
    pub fn beyond_s(&self, panels: usize, output: bool, now: Instant) -> f64 {
        let kind = Kind::of(output, self.rewritten, self.writes_through);
        self.prediction_error.expected_s(panels, kind, now)
    }

    /// As [`Expected::beyond_s`], if the block were write-through.
    #[must_use]
    pub fn beyond_through_s(&self, panels: usize, output: bool, now: Instant) -> f64 {
        let kind = Kind::of(output, true, true);
        self.prediction_error.expected_s(panels, kind, now)
    }
}

impl Default for BlockUse {
    fn default() -> Self {
        BlockUse {
            results: Results::NONE,
            inputs: Inputs::NONE,
            prediction_error: PredictionError::NONE,
            uploads: Ledger::default(),
            user: 0,
            alone: 0,
            calls: 0,
            rewritten: true,
        }
    }
}

impl BlockUse {
    /// The use of a new block: the prediction error of blocks of its length, and from `like`, the last of them, how much of the
    /// results the CPU accessed.
    pub(super) fn expecting(prediction_error: PredictionError, like: Option<&BlockUse>) -> Self {
        BlockUse {
            results: like.map_or(Results::NONE, |like| Results::expecting(&like.results)),
            prediction_error,
            ..BlockUse::default()
        }
    }

    /// What is expected of the next call.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let writes_through = self.writes_through();
        let results = (self.results.read_back(), self.results.looked());
        let (read_back, looked) = if writes_through { (1.0, 0.0) } else { results };
        Expected {
            seen: self.inputs.seen(),
            calls: self.calls,
            alone: self.alone,
            read_back,
            looked,
            writes_through,
            rewritten: self.inputs.is_rewritten().unwrap_or(self.rewritten),
            prediction_error: self.prediction_error,
        }
    }

    /// Takes note of a sample of the block's bytes: [`Inputs::sampled`].
    pub(super) fn sampled(&mut self, rect: &Rect, sample: u64) {
        self.inputs.sampled(rect, sample);
    }

    /// A call that uses the block (`written`: writes it) was sent to the host BLAS. Until a device leaves a result,
    /// accesses to the block count as the host BLAS's and not as the program's.
    pub fn sent_to_host(&mut self, written: bool) {
        self.results.sent_to_host(written);
        if written {
            self.inputs.written_by_host_call();
        }
    }

    /// The prediction error of devices' use of the block, to be changed.
    pub fn prediction_error(&mut self) -> &mut PredictionError {
        &mut self.prediction_error
    }

    /// A call of this number, the last one that was noted, uses `panels` panels of the block on devices. Returns whether an error was
    /// learned.
    pub(super) fn on_devices(
        &mut self,
        call: u64,
        panels: usize,
        output: bool,
        now: Instant,
    ) -> bool {
        if !output {
            self.results.read_by_device();
        }
        let kind = Kind::of(output, self.rewritten, self.writes_through());
        self.prediction_error.used(call, panels, kind, now)
    }

    fn writes_through(&self) -> bool {
        self.inputs.write_through().is_some_and(|how| how.results)
    }

    /// The block becomes write-through.
    pub(super) fn begin_write_through(&mut self, how: WriteThrough) {
        self.inputs.begin_write_through(how);
        self.prediction_error.unknown();
    }

    /// The block's write-through time ends. If results were written back, too, it began since page protection took longer: the next use
    /// tells whether that still holds.
    pub(super) fn end_write_through(&mut self) {
        let results = self.writes_through();
        self.inputs.end_write_through();
        self.prediction_error.unknown();
        if results {
            self.prediction_error.measure_anew();
        }
    }

    /// The uploads of the block that later calls are to amortise.
    pub fn uploads(&mut self) -> &mut Ledger {
        &mut self.uploads
    }

    /// Whether the next result completes a regular round, so that the CPU is expected to access it.
    pub(super) fn next_is_due(&self) -> bool {
        self.results.next_is_due()
    }

    /// Whether a device that leaves a result in `rect` may leave it in host memory alone: [`Results::is_for_cpu`].
    pub(super) fn is_for_cpu(&self, rect: &Rect) -> bool {
        self.results.is_for_cpu(rect)
    }

    /// A device reads the block.
    pub(super) fn read_by_device(&mut self) {
        self.results.read_by_device();
    }

    /// A device leaves another result of the same span as the latest, in a call that did not announce it.
    pub(super) fn same_result(&mut self) {
        self.inputs.result();
        self.results.same_result();
    }

    /// A device leaves a result that its call writes back before it returns.
    pub(super) fn written_back(&mut self) {
        self.inputs.result();
    }

    /// A device leaves a result in `rect`. Returns whether it is to be written back ahead of the CPU's access; never if not
    /// `streams`.
    pub(super) fn push(&mut self, rect: &Rect, streams: bool) -> Push {
        self.inputs.result();
        self.results.push(rect, streams)
    }

    /// A call with this key is about to use the block.
    pub(super) fn used_by(&mut self, call: u64) {
        self.alone = if self.user == call {
            self.alone.saturating_add(1)
        } else {
            0
        };
        self.user = call;
    }

    /// The call uses the block, as an input or an output.
    pub(super) fn used(&mut self) {
        self.rewritten = self.inputs.is_rewritten().unwrap_or(self.rewritten);
        self.inputs.used();
        self.calls = self.calls.saturating_add(1);
    }

    /// The CPU touched `bytes` of the block's `len` bytes; `write`: it wrote them.
    pub fn touched(&mut self, bytes: usize, write: bool, len: usize) {
        if write {
            self.inputs.wrote(bytes, len);
        }
        self.results.touched(bytes);
    }

    /// The CPU's writes, and the calls between them.
    #[must_use]
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The CPU's writes, to be changed.
    pub(super) fn inputs_mut(&mut self) -> &mut Inputs {
        &mut self.inputs
    }

    /// Whether the latest result was written back ahead of the CPU's access and is expected to be accessed as a whole.
    pub(super) fn pushed(&self) -> bool {
        self.results.pushed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: usize = 64 << 20;

    fn rect(len: usize) -> Rect {
        Rect::interval(0, len)
    }

    /// A program that allocates each result anew and reads it.
    #[test]
    fn a_new_block_expects_what_the_cpu_did_with_the_last_one_like_it() {
        let new = |last: Option<&BlockUse>| BlockUse::expecting(PredictionError::NONE, last);
        let mut last = None;
        for _ in 0..10 {
            let mut h = new(last.as_ref());
            let expected = h.expected().read_back;
            h.push(&rect(BIG), true);
            h.touched(BIG, false, BIG);
            assert!(last.is_none() && expected == 0.0 || expected == 1.0);
            last = Some(h);
        }
        // The program stops reading its results.
        for _ in 0..10 {
            let mut h = new(last.as_ref());
            h.push(&rect(BIG), true);
            last = Some(h);
        }
        assert!(new(last.as_ref()).expected().read_back < 0.01);
        // A block without results teaches nothing.
        assert_eq!(new(Some(&BlockUse::default())), BlockUse::default());
    }

    #[test]
    fn what_a_call_on_the_host_does_is_not_the_programs_doing() {
        let mut h = BlockUse::default();
        for _ in 0..3 {
            h.used();
            h.push(&rect(BIG), true);
        }
        h.touched(BIG / 16, false, BIG);
        // The host BLAS reads and writes all of it.
        h.sent_to_host(true);
        h.touched(BIG, false, BIG);
        h.touched(BIG, true, BIG);
        assert_eq!(h.expected().seen, 3);
        assert!((h.expected().read_back - 1.0 / 48.0).abs() < 1e-6);
        // A device leaves a result: the program's own writes count again.
        h.push(&rect(BIG), true);
        h.touched(BIG, true, BIG);
        assert_eq!(h.expected().seen, 0);
        assert!(h.expected().read_back > 0.2);
        // The program may write inputs of calls on the host BLAS, and these writes count.
        h.used();
        h.sent_to_host(false);
        assert_eq!(h.expected().seen, 1);
        h.push(&rect(BIG), true);
        h.sent_to_host(false);
        h.touched(4096, true, BIG);
        assert_eq!(h.expected().seen, 0);
    }

    #[test]
    fn a_block_of_several_calls_is_not_one_calls_alone() {
        let mut h = BlockUse::default();
        for alone in 0..4 {
            h.used_by(7);
            assert_eq!(h.expected().alone, alone);
        }
        h.used_by(8);
        h.used_by(7);
        assert_eq!(h.expected().alone, 0);
    }

    /// A program that writes a part of a block between the calls that leave results in it: its error stays known while calls run on the
    /// host, where the CPU's writes are not seen.
    #[test]
    fn what_a_rewritten_block_costs_is_known_while_the_host_computes() {
        let (now, mut on_devices) = (Instant::now(), Vec::new());
        let mut h = BlockUse::default();
        for call in 0..40 {
            h.used_by(1);
            let goes = h.expected().beyond_s(1, true, now) < 1e-3;
            h.used();
            on_devices.push(goes);
            if goes {
                h.on_devices(call, 1, true, now);
                h.push(&rect(BIG), true);
                h.touched(BIG / 32, true, BIG);
                h.prediction_error().fault(5e-3);
            } else {
                h.sent_to_host(true);
            }
        }
        let count = on_devices.iter().filter(|goes| **goes).count();
        assert_eq!(count, 4, "{on_devices:?}");
    }

    #[test]
    fn a_write_through_block_has_an_error_of_its_own() {
        let (mut h, now) = (BlockUse::default(), Instant::now());
        for call in 0..6 {
            h.used();
            h.on_devices(call, 1, true, now);
            h.touched(BIG, true, BIG);
            h.prediction_error().fault(1e-3);
        }
        let expected = h.expected();
        assert!(expected.beyond_s(1, true, now) > 0.9e-3);
        assert!(expected.beyond_through_s(1, true, now) == 0.0 && !expected.writes_through);
        h.begin_write_through(WriteThrough {
            until: 64,
            left: 64,
            results: true,
        });
        // Calls write all of their results back; nothing of that is an error, and what the CPU does meanwhile is not seen.
        let expected = h.expected();
        assert!(expected.writes_through && expected.beyond_s(1, true, now) == 0.0);
        assert_eq!((expected.read_back, expected.seen), (1.0, 0));
        for call in 6..40 {
            h.used();
            h.on_devices(call, 1, true, now);
            h.prediction_error().took(call, 2e-3);
        }
        assert!(h.expected().beyond_s(1, true, now) > 1.9e-3);
        h.end_write_through();
        h.used();
        let expected = h.expected();
        assert!(expected.beyond_s(1, true, now) == 0.0);
        assert!(expected.beyond_through_s(1, true, now) > 1.9e-3);
        // One use while the block is protected tells whether that still takes longer.
        h.on_devices(40, 1, true, now);
        h.prediction_error().fault(1e-3);
        h.touched(BIG, true, BIG);
        h.used();
        h.on_devices(41, 1, true, now);
        h.touched(BIG, true, BIG);
        let protected = h.expected().beyond_s(1, true, now);
        assert!((0.9e-3..1.1e-3).contains(&protected), "{protected}");
    }
}
