//! History of a block: how the CPU and calls used it so far. Predictions and streamed write-back rest on it,
//! correctness never does.
//!
//! A *round* is the results that devices leave in a block between two accesses of the CPU to them. A program that
//! multiplies, adds to the product and prints it has rounds of two results. When the last rounds had the same number of
//! results, the result that completes the next round is written back while the call still computes.

use std::time::Instant;

use super::prediction_error::PredictionError;
use crate::base::{AllocId, Rect};

/// Rounds in a row that must have the same number of results before a result is written back ahead of the CPU's access.
/// Doubles with each result that was written back and not accessed.
const ROUNDS: u32 = 2;

/// The most rounds that must agree before a result is written back, so that a program that changes its habits now and
/// then gets streamed write-back again.
const ROUNDS_MAX: u32 = 32;

/// For results of at most this many bytes the call waits until they are written back, and leaves their pages readable,
/// so that the CPU does not fault at all: the copy takes no longer than a fault.
const LAND_MAX: usize = 1 << 20;

/// One in this many results that are written back is a probe: its pages fault as if it had not been written back. Only
/// faults show whether the CPU still accesses results, and how much of each.
const PROBE: u32 = 32;

/// Of a result larger than this, the CPU must have accessed half before the next results are written back as a whole.
const SMALL: usize = 256 << 10;

/// Columns of fewer bytes than this are not copied one by one ahead of the CPU's access; whole panels are copied when
/// they are touched.
const NARROW: usize = 64;

/// Calls in a row before each of which the CPU wrote an input, until the block becomes write-through.
const REWRITES: u32 = 4;

/// If the CPU writes at most one byte in this many of a block between two uses, that is a patch; if more, a refill.
const PATCH: usize = 2;

/// Patches in a row after which the CPU is expected to go on patching the block.
const HABIT: i32 = 3;

/// Calls in a row, among those that the offload decision sees, that leave a result in the block on the host BLAS, until
/// what the CPU did with devices' results is forgotten: calls on the host teach nothing of that. Doubles each time.
const PATIENCE: u32 = 8;
const PATIENCE_MAX: u32 = 1 << 16;

/// New blocks that may take over the history of the last block of their length, until that history is forgotten: if
/// calls on such blocks go to the host BLAS, no newer history replaces it. Doubles each time.
const HEIRS: u32 = 32;
const HEIRS_MAX: u32 = 1 << 16;

/// What is known of blocks of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    /// The prediction error of devices' use of blocks of the length, as learned last.
    pub(super) prediction_error: PredictionError,
    /// The last block of the length that devices left a result in, how many new blocks have taken over its history
    /// since, and how many may.
    last: Option<AllocId>,
    heirs: u32,
    patience: u32,
}

impl Default for Alike {
    fn default() -> Self {
        Alike {
            prediction_error: PredictionError::NONE,
            last: None,
            heirs: 0,
            patience: HEIRS,
        }
    }
}

impl Alike {
    /// The block whose history a new block may take over.
    pub(super) fn last(&mut self) -> Option<AllocId> {
        self.heirs += 1;
        if self.heirs > self.patience {
            (self.last, self.heirs) = (None, 0);
            self.patience = (self.patience * 2).min(HEIRS_MAX);
        }
        self.last
    }

    /// Devices left a result in the block `id`: the next new blocks of its length take over its history.
    pub(super) fn left(&mut self, id: AllocId) {
        (self.last, self.heirs) = (Some(id), 0);
    }
}

/// How a block was used by calls and by the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    /// Calls that used it since the CPU was last seen writing it.
    uses: u32,
    /// Results that devices left in it.
    results: u32,
    /// Of the results, those that the CPU accessed before the next result; one accessed in part counts as that share of
    /// one.
    read_back: f32,
    /// Of the results, those of which the CPU accessed any part before the next result.
    looks: f32,
    /// Results in this round so far.
    writes: u32,
    /// Bytes from the first to the last byte of the latest result.
    span: usize,
    /// Bytes of panels made accessible to the CPU since the latest result.
    touched: usize,
    /// Results in each of the last rounds, while these had the same number.
    period: u32,
    /// How many of the last rounds had the same number of results.
    agree: u32,
    /// How many rounds must have the same number of results before a result is written back, if more than [`ROUNDS`].
    need: u32,
    /// What was done with the latest result.
    sent: Sent,
    /// Results written back ahead of the CPU's access, and whether the latest is a probe.
    pushes: u32,
    probe: bool,
    /// The bytes of the last sample of the block's contents, and its value.
    sample: (Rect, u64),
    /// A call that used the block was sent to the host BLAS since devices last left a result: accesses to the block
    /// since then count as the host BLAS's.
    at_host: bool,
    /// A call that writes the block was sent to the host BLAS since devices last left a result.
    by_host_calls: bool,
    /// Calls in a row that wrote the block on the host BLAS, and how many it takes until the history of results is
    /// forgotten.
    host_results: u32,
    patience: u32,
    /// The key of the last call that used the block, and for how many calls in a row no call of another key has used
    /// it.
    user: u64,
    alone: u32,
    /// Calls in a row before each of which the CPU wrote it.
    rewrites: u32,
    /// Bytes that the CPU wrote to the block since its last use, and the length of the block.
    written: usize,
    len: usize,
    /// Patches in a row; if less than zero, refills in a row.
    patches: i32,
    /// Writes of the CPU were not trapped until now, so the next use is no evidence of whether the CPU writes before
    /// each use.
    unseen: bool,
    /// While the block is write-through: the count of device calls at which its pages are protected again.
    write_through_until: Option<u64>,
    /// The prediction error of devices' use of the block: seconds beyond the predictions.
    prediction_error: PredictionError,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sent {
    /// The result stays on the device until the CPU touches it.
    #[default]
    Not,
    /// The result is written back ahead of the CPU's access; an access faults.
    WrittenBack,
    /// The result was on the host and its pages were readable when the call returned: no fault shows whether the CPU
    /// reads it.
    Open,
}

/// What a call is to do with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The result stays on the device until the CPU touches it.
    No,
    /// Streamed write-back: pieces of the result are copied to the host as they become final.
    Streamed,
    /// Streamed write-back, and the call waits for the copies and leaves the pages readable.
    Awaited,
}

impl Default for History {
    fn default() -> Self {
        History::NEW
    }
}

impl History {
    /// The history assumed of memory of unknown lifetime: its results are on the host when the call returns.
    pub const TRANSIENT: History = History {
        results: 1,
        read_back: 1.0,
        looks: 1.0,
        ..History::NEW
    };

    const NEW: History = History {
        uses: 0,
        results: 0,
        read_back: 0.0,
        looks: 0.0,
        writes: 0,
        span: 0,
        touched: 0,
        period: 0,
        agree: 0,
        need: 0,
        sent: Sent::Not,
        pushes: 0,
        probe: false,
        sample: (Rect::interval(0, 0), 0),
        at_host: false,
        by_host_calls: false,
        host_results: 0,
        patience: PATIENCE,
        user: 0,
        alone: 0,
        rewrites: 0,
        written: 0,
        len: 0,
        patches: 0,
        unseen: false,
        write_through_until: None,
        prediction_error: PredictionError::NONE,
    };

    /// Earlier calls on the same contents. Upload amortisation: the cost of one upload is shared among as many later
    /// calls.
    #[must_use]
    pub fn seen(self) -> u32 {
        self.uses
    }

    /// Takes note of a sample of the block's bytes, taken while its pages are not protected. If an earlier sample of
    /// the same bytes differs, the CPU has written the block. That does not count if calls that were sent to the host
    /// BLAS write the block: those calls would write it on a device, were the block there.
    pub(super) fn sampled(&mut self, rect: &Rect, sample: u64) {
        if self.sample.0 == *rect && self.sample.1 != sample && !self.by_host_calls {
            self.uses = 0;
        }
        self.sample = (*rect, sample);
    }

    /// A call that uses the block (`written`: writes it) was sent to the host BLAS. Until a device leaves a result,
    /// accesses to the block count as the host BLAS's and not as the program's.
    pub(super) fn sent_to_host(&mut self, written: bool) {
        self.end_round();
        self.at_host = true;
        if !written {
            return;
        }
        self.by_host_calls = true;
        self.host_results += 1;
        if self.host_results >= self.patience {
            self.host_results = 0;
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            (self.results, self.read_back, self.looks) = (0, 0.0, 0.0);
            (self.writes, self.touched, self.period, self.agree) = (0, 0, 0, 0);
        }
    }

    /// The history of a new block: the prediction error of blocks of its length; and, from `like`, the history
    /// of the last block of its length, how much of the results the CPU accessed. That counts as one result, so the new
    /// block's own results soon count more.
    pub(super) fn expecting(prediction_error: PredictionError, like: Option<History>) -> History {
        let new = History {
            prediction_error,
            ..History::NEW
        };
        let Some(like) = like.filter(|h| h.results > 0) else {
            return new;
        };
        History {
            results: 1,
            read_back: like.read_back() as f32,
            looks: like.looked() as f32,
            ..new
        }
    }

    /// The prediction error of devices' use of the block, to be changed.
    pub(super) fn prediction_error(&mut self) -> &mut PredictionError {
        &mut self.prediction_error
    }

    /// The seconds that a use of `panels` panels by a device is expected to take beyond the prediction.
    #[must_use]
    pub fn beyond_s(self, panels: usize, output: bool, now: Instant) -> f64 {
        self.prediction_error.expected_s(panels, output, now)
    }

    /// The share of the next result that the CPU is likely to access before a device writes another result: 0 or 1 if
    /// rounds are regular, else the mean of the earlier results.
    #[must_use]
    pub fn read_back(self) -> f64 {
        self.next(|h| h.read_back)
    }

    /// How likely the CPU accesses any part of the next result before a device writes another result.
    #[must_use]
    pub fn looked(self) -> f64 {
        self.next(|h| h.looks)
    }

    fn next(mut self, of: fn(&History) -> f32) -> f64 {
        self.end_round();
        match self.due() {
            Some(due) => f64::from(u8::from(due)),
            None if self.results == 0 => 0.0,
            None => f64::from(of(&self)) / f64::from(self.results),
        }
    }

    /// For how many calls in a row the same call, and no other, has used the block.
    #[must_use]
    pub fn alone(self) -> u32 {
        self.alone
    }

    /// Whether the next result completes a regular round, so that the CPU is expected to access it.
    pub(super) fn next_is_due(mut self) -> bool {
        self.end_round();
        self.due() == Some(true)
    }

    /// Whether the next result completes a round; `None` if the last rounds had different numbers of results.
    fn due(&self) -> Option<bool> {
        (self.agree >= self.need.max(ROUNDS)).then_some(self.writes + 1 == self.period)
    }

    /// Another result is about to follow: whether the CPU accessed the latest result is known now, and is counted.
    fn end_round(&mut self) {
        let looked = self.touched > 0 || self.sent == Sent::Open;
        if looked {
            let whole =
                self.sent == Sent::Open || self.touched >= self.span / 2 || self.span <= SMALL;
            if !whole {
                (self.period, self.agree) = (0, 0);
            } else if self.writes == self.period {
                self.agree = self.agree.saturating_add(1);
            } else {
                (self.period, self.agree) = (self.writes, 1);
            }
            if whole && self.sent != Sent::Not {
                self.need = self.need.saturating_sub(1);
            }
            let share = if whole {
                1.0
            } else {
                self.touched as f32 / self.span as f32
            };
            self.read_back = (self.read_back + share).min(self.results as f32);
            self.looks = (self.looks + 1.0).min(self.results as f32);
            (self.writes, self.touched) = (0, 0);
        } else if self.sent == Sent::WrittenBack {
            (self.period, self.agree) = (0, 0);
            self.need = (self.need.max(ROUNDS) * 2).min(ROUNDS_MAX);
        }
        self.sent = Sent::Not;
    }

    /// A device leaves a result in the block; `span` is the number of bytes from its first to its last.
    fn result(&mut self, span: usize) {
        self.end_round();
        (self.at_host, self.by_host_calls, self.host_results) = (false, false, 0);
        self.writes = self.writes.saturating_add(1);
        self.span = span;
        self.rewrites = 0;
        self.results = self.results.saturating_add(1);
        if self.results > 64 {
            // Older results count less.
            self.results /= 2;
            self.read_back /= 2.0;
            self.looks /= 2.0;
        }
    }

    /// A device leaves another result of the same span as the latest, in a call that did not announce it.
    pub(super) fn same_result(&mut self) {
        self.result(self.span);
    }

    /// A device leaves a result in `rect`. Returns whether it is to be written back ahead of the CPU's access.
    pub(super) fn push(&mut self, rect: &Rect) -> Push {
        self.end_round();
        let due = self.due() == Some(true);
        let span = rect.span().len();
        self.result(span);
        if !due || (rect.count > 1 && rect.width < NARROW) {
            return Push::No;
        }
        self.pushes = self.pushes.wrapping_add(1);
        self.probe = self.pushes.is_multiple_of(PROBE);
        if span <= LAND_MAX && !self.probe {
            self.sent = Sent::Open;
            Push::Awaited
        } else {
            self.sent = Sent::WrittenBack;
            Push::Streamed
        }
    }

    /// Notes the key of the call that uses the block.
    pub(super) fn used_by(&mut self, call: u64) {
        self.alone = if self.user == call {
            self.alone.saturating_add(1)
        } else {
            0
        };
        self.user = call;
    }

    /// A call uses the block, as an input or an output.
    pub(super) fn used(&mut self) {
        if self.write_through_until.is_some() {
            // A write-through block is uploaded again by each call, so no earlier upload serves this one.
            self.uses = 0;
            return;
        }
        let written = std::mem::take(&mut self.written);
        if written > 0 && written.saturating_mul(PATCH) <= self.len {
            self.patches = (self.patches.max(0) + 1).min(HABIT);
        } else if written > 0 {
            self.patches = (self.patches.min(0) - 1).max(-HABIT);
        }
        if !std::mem::take(&mut self.unseen) {
            self.rewrites = if self.uses == 0 {
                self.rewrites.saturating_add(1)
            } else {
                0
            };
        }
        self.uses = self.uses.saturating_add(1);
    }

    /// The CPU wrote `bytes` of the block's `len` bytes.
    pub(super) fn wrote(&mut self, bytes: usize, len: usize) {
        if !self.by_host_calls {
            self.written = self.written.saturating_add(bytes);
            self.len = len;
        }
    }

    /// Whether the CPU wrote a small part of the block between uses, [`HABIT`] times in a row.
    pub(super) fn patched(&self) -> bool {
        self.patches >= HABIT
    }

    /// Whether the CPU wrote most of the block between uses, twice in a row.
    pub(super) fn refilled(&self) -> bool {
        self.patches <= -2
    }

    /// Whether the CPU wrote the block before each of the last [`REWRITES`] calls.
    pub(super) fn rewritten(&self) -> bool {
        self.rewrites >= REWRITES
    }

    /// The count of device calls at which the block's write-through time ends; `None` if the block is not
    /// write-through.
    pub(super) fn write_through_until(&self) -> Option<u64> {
        self.write_through_until
    }

    /// The block is write-through until devices have run `until` calls.
    pub(super) fn begin_write_through(&mut self, until: u64) {
        self.write_through_until = Some(until);
    }

    /// The block's write-through time ends: writes of the CPU are trapped again.
    pub(super) fn end_write_through(&mut self) {
        self.write_through_until = None;
        self.rewrites = REWRITES - 1;
        self.unseen = true;
        self.uses = 0;
    }

    /// The CPU touched `bytes` of the block; `write`: it wrote them.
    pub(super) fn touched(&mut self, bytes: usize, write: bool) {
        if write && !self.by_host_calls {
            self.uses = 0;
        }
        if self.writes > 0 && !self.at_host {
            self.touched = self.touched.saturating_add(bytes);
        }
    }

    /// Whether the latest result was written back ahead of the CPU's access and is expected to be accessed as a whole.
    pub(super) fn pushed(&self) -> bool {
        self.sent != Sent::Not && !self.probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: usize = 64 << 20;

    fn rect(len: usize) -> Rect {
        Rect::interval(0, len)
    }

    /// One round of `writes` results of `len` bytes, then an access of the CPU to `looked` bytes; returns what was
    /// decided for each result.
    fn round(h: &mut History, writes: u32, len: usize, looked: usize) -> Vec<Push> {
        let pushes = (0..writes).map(|_| h.push(&rect(len))).collect();
        h.touched(looked, false);
        pushes
    }

    /// A program that allocates each result anew and reads it.
    #[test]
    fn a_new_block_expects_what_the_cpu_did_with_the_last_one_like_it() {
        let mut last = None;
        for _ in 0..10 {
            let mut h = History::expecting(PredictionError::NONE, last);
            let expected = h.read_back();
            h.push(&rect(BIG));
            h.touched(BIG, false);
            assert!(last.is_none() && expected == 0.0 || expected == 1.0);
            last = Some(h);
        }
        // The program stops reading its results.
        for _ in 0..10 {
            let mut h = History::expecting(PredictionError::NONE, last);
            h.push(&rect(BIG));
            last = Some(h);
        }
        assert!(History::expecting(PredictionError::NONE, last).read_back() < 0.01);
        // A block without results teaches nothing.
        let none = History::expecting(PredictionError::NONE, Some(History::default()));
        assert_eq!(none, History::default());
    }

    #[test]
    fn what_one_block_taught_is_forgotten_where_nothing_new_is_learned() {
        let (mut alike, id) = (Alike::default(), AllocId(1));
        assert_eq!(alike.last(), None);
        for patience in [HEIRS, 2 * HEIRS] {
            alike.left(id);
            let heirs = (0..HEIRS_MAX)
                .take_while(|_| alike.last().is_some())
                .count();
            assert_eq!(heirs, patience as usize);
        }
    }

    #[test]
    fn results_of_calls_on_the_host_are_not_the_programs_writing() {
        let r = rect(BIG);
        let mut h = History::default();
        for sample in 0..4 {
            h.sampled(&r, sample);
            assert_eq!(h.seen(), 0);
            h.used();
        }
        h.sent_to_host(true);
        for sample in 4..8 {
            h.sampled(&r, sample);
            h.used();
        }
        assert_eq!(h.seen(), 5);
    }

    #[test]
    fn what_a_call_on_the_host_does_is_not_the_programs_doing() {
        let mut h = History::default();
        for _ in 0..3 {
            h.used();
            h.push(&rect(BIG));
        }
        h.touched(BIG / 16, false);
        // The host BLAS reads and writes all of it.
        h.sent_to_host(true);
        h.touched(BIG, false);
        h.touched(BIG, true);
        assert_eq!(h.seen(), 3);
        assert!((h.read_back() - 1.0 / 48.0).abs() < 1e-6);
        // A device leaves a result: the program's own writes count again.
        h.push(&rect(BIG));
        h.touched(BIG, true);
        assert_eq!(h.seen(), 0);
        assert!(h.read_back() > 0.2);
        // The program may write inputs of calls on the host BLAS, and these writes count.
        h.used();
        h.sent_to_host(false);
        assert_eq!(h.seen(), 1);
        h.push(&rect(BIG));
        h.sent_to_host(false);
        h.touched(4096, true);
        assert_eq!(h.seen(), 0);
    }

    #[test]
    fn a_block_of_several_calls_is_not_one_calls_alone() {
        let mut h = History::default();
        for alone in 0..4 {
            h.used_by(7);
            assert_eq!(h.alone(), alone);
        }
        h.used_by(8);
        h.used_by(7);
        assert_eq!(h.alone(), 0);
    }

    #[test]
    fn old_habits_are_forgotten_on_the_host() {
        let mut h = History::default();
        for patience in [PATIENCE, 2 * PATIENCE] {
            h.push(&rect(BIG));
            h.touched(BIG, true);
            for _ in 1..patience {
                h.sent_to_host(true);
                assert!((h.read_back() - 1.0).abs() < 1e-9);
            }
            h.sent_to_host(true);
            assert!(h.read_back().abs() < 1e-9);
        }
    }

    #[test]
    fn rounds_that_agree_become_a_habit() {
        use Push::{Awaited, No, Streamed};
        let mut h = History::default();
        for _ in 0..2 {
            assert_eq!(round(&mut h, 2, BIG, BIG), [No, No]);
        }
        assert!(h.read_back().abs() < 1e-9, "not the first of a round");
        assert_eq!(round(&mut h, 2, BIG, BIG), [No, Streamed]);
        assert_eq!(h.push(&rect(BIG)), No);
        assert!((h.read_back() - 1.0).abs() < 1e-9, "but the second");
        let mut h = History::default();
        for _ in 0..2 {
            assert_eq!(round(&mut h, 1, 4096, 4096), [No]);
        }
        assert_eq!(round(&mut h, 1, 4096, 4096), [Awaited]);
        assert_eq!(round(&mut h, 1, BIG, BIG), [Streamed]);
    }

    #[test]
    fn one_result_for_nothing_ends_it() {
        use Push::{No, Streamed};
        let mut h = History::default();
        for _ in 0..5 {
            round(&mut h, 1, BIG, BIG);
        }
        assert_eq!(h.push(&rect(BIG)), Streamed);
        for _ in 0..20 {
            assert_eq!(h.push(&rect(BIG)), No);
        }
        // After a write-back that was not accessed, more rounds must agree.
        h.touched(BIG, false);
        let mut rounds = 0;
        while round(&mut h, 1, BIG, BIG) == [No] {
            rounds += 1;
        }
        assert_eq!(rounds, 4);
    }

    #[test]
    fn another_number_of_results_is_another_habit() {
        use Push::{No, Streamed};
        let mut h = History::default();
        for _ in 0..4 {
            round(&mut h, 3, BIG, BIG);
        }
        // Fewer results than usual in a round: the CPU's access shows it, and no write-back was in vain.
        assert_eq!(round(&mut h, 1, BIG, BIG), [No]);
        assert_eq!(round(&mut h, 1, BIG, BIG), [No]);
        assert_eq!(round(&mut h, 1, BIG, BIG), [Streamed]);
        // Rounds that never agree: no write-back.
        let mut h = History::default();
        for i in 0..20 {
            let writes = 1 + i % 3;
            assert!(
                round(&mut h, writes, BIG, BIG).iter().all(|p| *p == No),
                "{i}"
            );
        }
        assert!(h.read_back() > 0.3 && h.read_back() < 0.7);
    }

    #[test]
    fn a_look_at_a_corner_is_no_look() {
        let mut h = History::default();
        for _ in 0..10 {
            assert_eq!(round(&mut h, 1, BIG, BIG / 16), [Push::No]);
        }
        // Elements far apart are not copied one by one.
        let strided = Rect::new(0, 8, 4096, 100);
        let mut h = History::default();
        for _ in 0..10 {
            assert_eq!(h.push(&strided), Push::No);
            h.touched(BIG, false);
        }
    }

    #[test]
    fn what_nobody_sees_is_looked_after() {
        let mut h = History::default();
        for _ in 0..2 {
            round(&mut h, 1, 4096, 4096);
        }
        // Results that are readable when the call returns, and that the CPU never reads.
        let pushes: Vec<Push> = (0..2 * PROBE).map(|_| h.push(&rect(4096))).collect();
        let landed = pushes.iter().filter(|p| **p == Push::Awaited).count();
        assert_eq!(landed, PROBE as usize - 1);
        assert_eq!(pushes.iter().filter(|p| **p == Push::Streamed).count(), 1);
        assert_eq!(pushes.last(), Some(&Push::No));
    }

    #[test]
    fn patches_and_refills_are_told_apart() {
        let mut h = History::default();
        let mut use_after = |bytes: usize| {
            for piece in [bytes / 2, bytes - bytes / 2] {
                h.touched(piece, true);
                h.wrote(piece, BIG);
            }
            h.used();
            (h.patched(), h.refilled())
        };
        use_after(BIG);
        for i in 1..=HABIT {
            assert_eq!(use_after(BIG / 2), (i == HABIT, false));
        }
        // Uses without a write in between are neither a patch nor a refill.
        assert_eq!(use_after(0), (true, false));
        assert_eq!(use_after(BIG / 2 + 2), (false, false));
        assert_eq!(use_after(BIG), (false, true));
        assert_eq!(use_after(2), (false, false));
    }

    #[test]
    fn an_input_that_is_always_rewritten_is_noticed() {
        let mut h = History::default();
        for i in 0..REWRITES {
            assert_eq!(h.rewrites, i);
            h.touched(4096, true);
            h.used();
        }
        assert_eq!(h.rewrites, REWRITES);
        h.write_through_until = Some(64);
        h.used();
        assert_eq!((h.seen(), h.rewrites), (0, REWRITES));
        h.end_write_through();
        // Writes before the first use after the write-through time were not trapped.
        h.used();
        assert_eq!(h.rewrites, REWRITES - 1);
        let mut same = h;
        h.touched(4096, true);
        h.used();
        assert_eq!(h.rewrites, REWRITES);
        same.used();
        assert_eq!(same.rewrites, 0);
    }
}
