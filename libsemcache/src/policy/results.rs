//! What the CPU does with the results that devices leave in a block, and which result is written back ahead of the CPU's access.
//!
//! A *round* is the results that devices leave in a block between two accesses of the CPU to them. A program that
//! multiplies, adds to the product and prints it has rounds of two results. When the last rounds had the same number of
//! results, the result that completes the next round is written back while the call still computes.

use crate::base::Rect;

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

/// Calls in a row, among those that the offload decision sees, that leave a result in the block on the host BLAS, until
/// what the CPU did with devices' results is forgotten: calls on the host teach nothing of that. Doubles each time.
const PATIENCE: u32 = 8;
const PATIENCE_MAX: u32 = 1 << 16;

/// Results in a row that no device has read, until the next one is left in host memory alone.
const FOR_CPU: u32 = 3;

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

/// The results that devices left in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Results {
    count: u32,
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
    /// A call that used the block was sent to the host BLAS since devices last left a result: accesses to the block
    /// since then count as the host BLAS's.
    at_host: bool,
    /// Calls in a row that wrote the block on the host BLAS, and how many it takes until the devices' results are
    /// forgotten.
    host_results: u32,
    patience: u32,
    /// A device has read the block since the latest result; and the number of results in a row that none read.
    reused: bool,
    for_cpu: u32,
}

impl Results {
    /// No result yet.
    pub const NONE: Results = Results {
        count: 0,
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
        at_host: false,
        host_results: 0,
        patience: PATIENCE,
        reused: false,
        for_cpu: 0,
    };

    /// The results of a new block that is expected to be used as `like`: what is expected there counts as one result, so the new
    /// block's own results soon count more. If there is no result in that block, it tells nothing.
    #[must_use]
    pub fn expecting(like: &Results) -> Results {
        if like.count == 0 {
            return Results::NONE;
        }
        Results {
            count: 1,
            read_back: like.read_back() as f32,
            looks: like.looked() as f32,
            ..Results::NONE
        }
    }

    /// A call that uses the block (`written`: writes it) was sent to the host BLAS. Until a device leaves a result,
    /// accesses to the block count as the host BLAS's and not as the program's.
    pub(super) fn sent_to_host(&mut self, written: bool) {
        self.end_round();
        self.at_host = true;
        if !written {
            return;
        }
        self.host_results += 1;
        if self.host_results >= self.patience {
            self.host_results = 0;
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            (self.count, self.read_back, self.looks) = (0, 0.0, 0.0);
            (self.writes, self.touched, self.period, self.agree) = (0, 0, 0, 0);
        }
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

    fn next(mut self, of: fn(&Results) -> f32) -> f64 {
        self.end_round();
        match self.due() {
            Some(due) => f64::from(u8::from(due)),
            None if self.count == 0 => 0.0,
            None => f64::from(of(&self)) / f64::from(self.count),
        }
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
            self.read_back = (self.read_back + share).min(self.count as f32);
            self.looks = (self.looks + 1.0).min(self.count as f32);
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
        (self.at_host, self.host_results) = (false, 0);
        self.writes = self.writes.saturating_add(1);
        self.span = span;
        self.for_cpu = if std::mem::take(&mut self.reused) {
            0
        } else {
            self.for_cpu.saturating_add(1)
        };
        self.count = self.count.saturating_add(1);
        if self.count > 64 {
            // Older results count less.
            self.count /= 2;
            self.read_back /= 2.0;
            self.looks /= 2.0;
        }
    }

    /// A device leaves another result of the same span as the latest, in a call that did not announce it.
    pub(super) fn same_result(&mut self) {
        self.result(self.span);
    }

    /// A device leaves a result in `rect`. Returns whether it is to be written back ahead of the CPU's access; never if not
    /// `streams`.
    pub(super) fn push(&mut self, rect: &Rect, streams: bool) -> Push {
        self.end_round();
        let due = self.due() == Some(true);
        let span = rect.span().len();
        self.result(span);
        if !due || !streams || (rect.count > 1 && rect.width < NARROW) {
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

    /// A device reads the block.
    pub(super) fn read_by_device(&mut self) {
        self.reused = true;
    }

    /// Whether a device that leaves a result in `rect` may leave it in host memory alone: the call waits for it as the CPU is
    /// expected to read it, and no device has read the last results.
    pub(super) fn is_for_cpu(mut self, rect: &Rect) -> bool {
        !self.reused && self.for_cpu >= FOR_CPU && self.push(rect, true) == Push::Awaited
    }

    /// The CPU touched `bytes` of the block.
    pub(super) fn touched(&mut self, bytes: usize) {
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
mod tests;
