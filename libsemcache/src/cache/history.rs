//! What the program did with a block so far, for predictions: never for correctness.
//!
//! A *round* is the results that devices leave in a block between two looks of the CPU at it. A program that
//! multiplies, adds to the product and prints it has rounds of two results; when the last rounds agree, the
//! result that completes the next one is sent home while it is still being computed (decision D7).

use std::time::Instant;

use super::toll::Toll;
use crate::base::{AllocId, Rect};

/// Rounds that must agree before a result is sent home unasked. Doubles with each one that nobody looked at.
const ROUNDS: u32 = 2;

/// So many at most: a program that changes its mind now and then is followed again.
const ROUNDS_MAX: u32 = 32;

/// Results of at most this many bytes are waited for and left readable, so that the CPU does not fault at
/// all: their copy takes no longer than a fault.
const LAND_MAX: usize = 1 << 20;

/// One in so many results that are sent home is opened as if it had not been: whether the CPU still looks at
/// them, and at how much of them, shows in faults only.
const PROBE: u32 = 32;

/// Of a larger result the CPU must have opened half before the next ones are sent home as a whole.
const SMALL: usize = 256 << 10;

/// Runs of fewer bytes are not worth a copy engine's while; whole panels are fetched when they are touched.
const NARROW: usize = 64;

/// Calls in a row before each of which the CPU wrote an input, until it is no longer watched.
const REWRITES: u32 = 4;

/// A block of which the CPU writes at most one byte in so many between two uses is patched, otherwise refilled.
const PATCH: usize = 2;

/// So many times in a row, until that is a habit.
const HABIT: i32 = 3;

/// Results that calls on the host leave, as far as decisions see them, until what the CPU did with those of devices
/// counts no more: nothing new is learned of that meanwhile. Doubles each time.
const PATIENCE: u32 = 8;
const PATIENCE_MAX: u32 = 1 << 16;

/// New blocks that may expect what the last one like them taught, until that is forgotten: where calls on such blocks go to
/// the host, nothing new is learned. Doubles each time.
const HEIRS: u32 = 32;
const HEIRS_MAX: u32 = 1 << 16;

/// What is known of blocks of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    /// What devices' use of them cost last.
    pub(super) toll: Toll,
    /// The last one that devices left a result in, how many new blocks have asked since, and how many may.
    last: Option<AllocId>,
    heirs: u32,
    patience: u32,
}

impl Default for Alike {
    fn default() -> Self {
        Alike {
            toll: Toll::NONE,
            last: None,
            heirs: 0,
            patience: HEIRS,
        }
    }
}

impl Alike {
    /// Whose history a new block may count on.
    pub(super) fn last(&mut self) -> Option<AllocId> {
        self.heirs += 1;
        if self.heirs > self.patience {
            (self.last, self.heirs) = (None, 0);
            self.patience = (self.patience * 2).min(HEIRS_MAX);
        }
        self.last
    }

    /// Devices left a result in that block.
    pub(super) fn left(&mut self, id: AllocId) {
        (self.last, self.heirs) = (Some(id), 0);
    }
}

/// How a block was used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    /// Calls that used it since the CPU was last seen writing it.
    uses: u32,
    /// Results that devices left in it.
    results: u32,
    /// Of these, those that the CPU looked at before the next one; a look at a part counts as that part.
    read_back: f32,
    /// The same with each look counted as one.
    looks: f32,
    /// Results in this round so far.
    writes: u32,
    /// Bytes from the first to the last of the latest result.
    span: usize,
    /// Bytes opened to the CPU since then.
    touched: usize,
    /// Results in each of the last rounds.
    period: u32,
    /// How many of them agree in that.
    agree: u32,
    /// How many must, if more than [`ROUNDS`].
    need: u32,
    /// What was done with the latest result.
    sent: Sent,
    /// Results sent home, and whether the latest is a probe.
    pushes: u32,
    probe: bool,
    /// Where the last sample of its bytes was taken, and what it was.
    sample: (Rect, u64),
    /// The last call that used it was sent to the host, which touches it as the program does.
    at_host: bool,
    /// And writes it.
    by_host_calls: bool,
    /// Results of such calls in a row, and how many it takes until habits are forgotten.
    host_results: u32,
    patience: u32,
    /// The last call that used it, and for how many calls in a row that has been the only one.
    user: u64,
    alone: u32,
    /// Calls in a row before each of which the CPU wrote it.
    rewrites: u32,
    /// Bytes that the CPU wrote since it was used, of a block that large.
    written: usize,
    len: usize,
    /// How often in a row that was a patch; or, less than zero, a refill.
    patches: i32,
    /// The next use does not tell: what the CPU did before it went unseen.
    unseen: bool,
    /// Not watched until so many calls have run.
    unwatched: Option<u64>,
    /// What its use by devices costs beyond the predictions.
    toll: Toll,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sent {
    /// It waits to be touched.
    #[default]
    Not,
    /// It goes home unasked.
    Home,
    /// It was home and readable when the call returned: nobody sees whether it is looked at.
    Open,
}

/// What a call is to do with a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// It stays until somebody touches it.
    No,
    /// It goes home as it becomes final.
    Home,
    /// Likewise, and the call waits for it and leaves it readable.
    Land,
}

impl Default for History {
    fn default() -> Self {
        History::NEW
    }
}

impl History {
    /// Memory that is home again when the call returns.
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
        unwatched: None,
        toll: Toll::NONE,
    };

    /// Earlier calls on the same contents: an upload is shared among as many more.
    #[must_use]
    pub fn seen(self) -> u32 {
        self.uses
    }

    /// Takes note of a sample of bytes that are not watched: if it is another one than the last of the same bytes,
    /// the CPU has written them. Not if calls that were sent to the host write them: those would write on a device,
    /// were the block there.
    pub(super) fn sampled(&mut self, rect: &Rect, sample: u64) {
        if self.sample.0 == *rect && self.sample.1 != sample && !self.by_host_calls {
            self.uses = 0;
        }
        self.sample = (*rect, sample);
    }

    /// A call that uses the block, or writes it, was sent to the host. What the CPU does with it from here on is that
    /// call's doing, until a device leaves a result.
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

    /// Of a new block, of which is known what one like it costs, and the history of that one. What the CPU did with the
    /// other's results counts as one result: what it does with this one's soon counts more.
    pub(super) fn expecting(toll: Toll, like: Option<History>) -> History {
        let new = History {
            toll,
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

    /// What its use by devices costs.
    pub(super) fn toll(&mut self) -> &mut Toll {
        &mut self.toll
    }

    /// The seconds that a use of so many panels by a device is to be expected to take beyond what is predicted.
    #[must_use]
    pub fn beyond_s(self, panels: usize, output: bool, now: Instant) -> f64 {
        self.toll.expected_s(panels, output, now)
    }

    /// How much of the next result the CPU is likely to look at before a device writes another: for a program of
    /// habits it is known, else it is the share of the earlier results.
    #[must_use]
    pub fn read_back(self) -> f64 {
        self.next(|h| h.read_back)
    }

    /// How likely it looks at any of it.
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

    /// For how many calls in a row the same call, and no other, has used it.
    #[must_use]
    pub fn alone(self) -> u32 {
        self.alone
    }

    /// Whether the CPU is known to look at the next result.
    pub(super) fn next_is_due(mut self) -> bool {
        self.end_round();
        self.due() == Some(true)
    }

    /// Whether the next result completes a round, if the rounds are regular.
    fn due(&self) -> Option<bool> {
        (self.agree >= self.need.max(ROUNDS)).then_some(self.writes + 1 == self.period)
    }

    /// Another result is about to follow: what the CPU did with the one before is known now.
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
        } else if self.sent == Sent::Home {
            (self.period, self.agree) = (0, 0);
            self.need = (self.need.max(ROUNDS) * 2).min(ROUNDS_MAX);
        }
        self.sent = Sent::Not;
    }

    /// A device leaves a result; `span` is how far it reaches.
    fn result(&mut self, span: usize) {
        self.end_round();
        (self.at_host, self.by_host_calls, self.host_results) = (false, false, 0);
        self.writes = self.writes.saturating_add(1);
        self.span = span;
        self.rewrites = 0;
        self.results = self.results.saturating_add(1);
        if self.results > 64 {
            // Old habits fade.
            self.results /= 2;
            self.read_back /= 2.0;
            self.looks /= 2.0;
        }
    }

    /// A device leaves another result like the last one, whatever becomes of it.
    pub(super) fn same_result(&mut self) {
        self.result(self.span);
    }

    /// A device leaves a result of the given shape: what to do with it.
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
            Push::Land
        } else {
            self.sent = Sent::Home;
            Push::Home
        }
    }

    /// Which call it is that uses the block.
    pub(super) fn used_by(&mut self, call: u64) {
        self.alone = if self.user == call {
            self.alone.saturating_add(1)
        } else {
            0
        };
        self.user = call;
    }

    /// A call reads the block (or does anything else with it).
    pub(super) fn used(&mut self) {
        if self.unwatched.is_some() {
            // Sent anew each time.
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

    /// The CPU wrote some of the block's `len` bytes.
    pub(super) fn wrote(&mut self, bytes: usize, len: usize) {
        if !self.by_host_calls {
            self.written = self.written.saturating_add(bytes);
            self.len = len;
        }
    }

    /// Whether the CPU has the habit of writing a little of it between two uses.
    pub(super) fn patched(&self) -> bool {
        self.patches >= HABIT
    }

    /// Whether it has the habit of writing most of it.
    pub(super) fn refilled(&self) -> bool {
        self.patches <= -2
    }

    /// Whether the CPU wrote it before each of the last calls.
    pub(super) fn rewritten(&self) -> bool {
        self.rewrites >= REWRITES
    }

    /// Until when it is not watched, if it is not.
    pub(super) fn unwatched(&self) -> Option<u64> {
        self.unwatched
    }

    /// The block is not watched until so many calls have run.
    pub(super) fn unwatch(&mut self, until: u64) {
        self.unwatched = Some(until);
    }

    /// The block is watched again.
    pub(super) fn watched(&mut self) {
        self.unwatched = None;
        self.rewrites = REWRITES - 1;
        self.unseen = true;
        self.uses = 0;
    }

    /// The CPU touched the block.
    pub(super) fn touched(&mut self, bytes: usize, write: bool) {
        if write && !self.by_host_calls {
            self.uses = 0;
        }
        if self.writes > 0 && !self.at_host {
            self.touched = self.touched.saturating_add(bytes);
        }
    }

    /// Whether the latest result went home unasked and will be looked at as a whole.
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

    /// One round of `writes` results of `len` bytes, then a look of the CPU at `looked` bytes; what was decided.
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
            let mut h = History::expecting(Toll::NONE, last);
            let expected = h.read_back();
            h.push(&rect(BIG));
            h.touched(BIG, false);
            assert!(last.is_none() && expected == 0.0 || expected == 1.0);
            last = Some(h);
        }
        // It stops reading them.
        for _ in 0..10 {
            let mut h = History::expecting(Toll::NONE, last);
            h.push(&rect(BIG));
            last = Some(h);
        }
        assert!(History::expecting(Toll::NONE, last).read_back() < 0.01);
        // One that has no results teaches nothing.
        let none = History::expecting(Toll::NONE, Some(History::default()));
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
        // A device again: the program's writing counts.
        h.push(&rect(BIG));
        h.touched(BIG, true);
        assert_eq!(h.seen(), 0);
        assert!(h.read_back() > 0.2);
        // Inputs of calls on the host are the program's to write.
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
        use Push::{Home, Land, No};
        let mut h = History::default();
        for _ in 0..2 {
            assert_eq!(round(&mut h, 2, BIG, BIG), [No, No]);
        }
        assert!(h.read_back().abs() < 1e-9, "not the first of a round");
        assert_eq!(round(&mut h, 2, BIG, BIG), [No, Home]);
        assert_eq!(h.push(&rect(BIG)), No);
        assert!((h.read_back() - 1.0).abs() < 1e-9, "but the second");
        let mut h = History::default();
        for _ in 0..2 {
            assert_eq!(round(&mut h, 1, 4096, 4096), [No]);
        }
        assert_eq!(round(&mut h, 1, 4096, 4096), [Land]);
        assert_eq!(round(&mut h, 1, BIG, BIG), [Home]);
    }

    #[test]
    fn one_result_for_nothing_ends_it() {
        use Push::{Home, No};
        let mut h = History::default();
        for _ in 0..5 {
            round(&mut h, 1, BIG, BIG);
        }
        assert_eq!(h.push(&rect(BIG)), Home);
        for _ in 0..20 {
            assert_eq!(h.push(&rect(BIG)), No);
        }
        // It takes longer the second time.
        h.touched(BIG, false);
        let mut rounds = 0;
        while round(&mut h, 1, BIG, BIG) == [No] {
            rounds += 1;
        }
        assert_eq!(rounds, 4);
    }

    #[test]
    fn another_number_of_results_is_another_habit() {
        use Push::{Home, No};
        let mut h = History::default();
        for _ in 0..4 {
            round(&mut h, 3, BIG, BIG);
        }
        // Fewer than usual: seen by the look, nothing was sent for nothing.
        assert_eq!(round(&mut h, 1, BIG, BIG), [No]);
        assert_eq!(round(&mut h, 1, BIG, BIG), [No]);
        assert_eq!(round(&mut h, 1, BIG, BIG), [Home]);
        // Unlike each other: never.
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
        // Elements far apart.
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
        // Readable when the call returns, and never read.
        let pushes: Vec<Push> = (0..2 * PROBE).map(|_| h.push(&rect(4096))).collect();
        let landed = pushes.iter().filter(|p| **p == Push::Land).count();
        assert_eq!(landed, PROBE as usize - 1);
        assert_eq!(pushes.iter().filter(|p| **p == Push::Home).count(), 1);
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
        // Uses without a change in between say nothing.
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
        h.unwatched = Some(64);
        h.used();
        assert_eq!((h.seen(), h.rewrites), (0, REWRITES));
        h.watched();
        // What happened before the first use afterwards was not seen.
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
