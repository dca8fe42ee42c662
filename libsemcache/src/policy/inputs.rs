//! How the CPU changes a block between the calls that use it.
//!
//! Writes of the CPU show as faults where pages are protected, as marked pages where they are write-tracked, and where no device
//! holds a byte, as a sample of the contents that differs.

use crate::base::Rect;

/// Calls in a row before each of which the CPU wrote an input, until the block becomes write-through.
const REWRITES: u32 = 4;

/// If the CPU writes at most one byte in this many of a block between two uses, that is a patch.
const PATCH: usize = 2;

/// Patches in a row after which the CPU is expected to go on patching the block.
const HABIT: u32 = 3;

/// The first time that write tracking of a block ends may be a new phase of the program. Each further time, this many times as many
/// patches in a row are needed for it to begin again, up to [`HABIT_MAX`].
const HABIT_GROWS: u32 = 16;
const HABIT_MAX: u32 = 1 << 16;

/// Losing comparisons in a row after which write tracking of a block ends: one of them may be a single refill between patches.
const LOSSES: u32 = 2;

/// What write tracking of a block costs and saves is compared each time that the CPU has written one byte in this many of the block's.
const COMPARED: usize = 8;

/// A time in which the pages of a block are not protected: calls upload what they read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteThrough {
    /// The count of device calls at which the pages are protected again.
    pub until: u64,
    /// The time also ends after this many more uses of the block, by calls on the host, too.
    pub left: u32,
    /// Whether calls also write results of devices back before they return; else the first result in the block ends the time.
    pub results: bool,
}

impl WriteThrough {
    /// Whether the time is over when devices have run this many calls.
    #[must_use]
    pub fn is_over(&self, calls: u64) -> bool {
        calls >= self.until || self.left == 0
    }
}

/// The CPU's writes to a block, and the calls between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inputs {
    /// Calls that used the block since the CPU was last seen writing it.
    uses: u32,
    /// The bytes of the last sample of the block's contents, and its value.
    sample: (Rect, u64),
    /// A call that writes the block was sent to the host BLAS since devices last left a result.
    by_host_calls: bool,
    /// Calls in a row before each of which the CPU wrote it.
    rewrites: u32,
    /// Bytes that the CPU wrote to the block since its last use, and the length of the block.
    written: usize,
    len: usize,
    /// Patches in a row.
    patches: u32,
    /// How often write tracking of the block ended since it cost more than it saved.
    ended: u32,
    /// While the block is write-tracked, of the scans since costs were last compared: bytes of the pages that the CPU wrote, and bytes
    /// that replicas kept in the panels around them.
    scanned: (usize, usize),
    /// Comparisons in a row in which write tracking cost more than it saved.
    losses: u32,
    /// Writes of the CPU were not trapped until now, so the next use is no evidence of whether the CPU writes before
    /// each use.
    unseen: bool,
    /// While the block is write-through: until when.
    write_through: Option<WriteThrough>,
}

impl Inputs {
    /// No use yet.
    pub const NONE: Inputs = Inputs {
        uses: 0,
        sample: (Rect::interval(0, 0), 0),
        by_host_calls: false,
        rewrites: 0,
        written: 0,
        len: 0,
        patches: 0,
        ended: 0,
        scanned: (0, 0),
        losses: 0,
        unseen: false,
        write_through: None,
    };

    /// Earlier calls on the same contents. Upload amortisation: the cost of one upload is shared among as many later
    /// calls.
    pub(super) fn seen(&self) -> u32 {
        self.uses
    }

    /// Whether the CPU wrote the block since the last use; `None` if that is not known, since calls on the host BLAS write it.
    pub(super) fn is_rewritten(&self) -> Option<bool> {
        (!self.by_host_calls).then_some(self.uses == 0)
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

    /// A call that writes the block was sent to the host BLAS.
    pub(super) fn written_by_host_call(&mut self) {
        self.by_host_calls = true;
    }

    /// A device leaves a result in the block.
    pub(super) fn result(&mut self) {
        self.by_host_calls = false;
        self.rewrites = 0;
    }

    /// A call uses the block, as an input or an output.
    pub(super) fn used(&mut self) {
        if let Some(how) = &mut self.write_through {
            how.left = how.left.saturating_sub(1);
            // A write-through block is uploaded again by each call, so no earlier upload serves this one.
            self.uses = 0;
            return;
        }
        let written = std::mem::take(&mut self.written);
        if written > 0 && written.saturating_mul(PATCH) <= self.len {
            self.patches = (self.patches + 1).min(HABIT_MAX);
        } else if written > 0 {
            self.patches = 0;
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
            self.uses = 0;
            self.written = self.written.saturating_add(bytes);
            self.len = len;
        }
    }

    /// A scan of a write-tracked block of `len` bytes found `written` bytes of pages that the CPU wrote; replicas kept `kept` bytes in the
    /// panels around these pages, which page protection would have dropped.
    ///
    /// Each written page cost a fault of the kernel, so tracking loses unless replicas keep at least as much as the CPU wrote. The block's
    /// length says nothing of that: HPL rewrites all of a matrix that is a shrinking part of the block.
    pub(super) fn scanned(&mut self, written: usize, kept: usize, len: usize) {
        let (all_written, all_kept) = self.scanned;
        self.scanned = (
            all_written.saturating_add(written),
            all_kept.saturating_add(kept),
        );
        let (written, kept) = self.scanned;
        if written.saturating_mul(COMPARED) >= len {
            self.losses = match kept < written {
                true => self.losses.saturating_add(1),
                false => 0,
            };
            self.scanned = (0, 0);
        }
    }

    /// Write tracking of the block ends.
    pub(super) fn end_write_tracking(&mut self) {
        self.ended = self.ended.saturating_add(1);
        (self.patches, self.losses, self.scanned) = (0, 0, (0, 0));
    }

    /// Whether the CPU wrote a small part of the block between uses, [`HABIT`] times in a row; more often, if write tracking of the block
    /// has ended more than once.
    pub(super) fn patched(&self) -> bool {
        let times = HABIT_GROWS.saturating_pow(self.ended.saturating_sub(1));
        self.patches >= HABIT.saturating_mul(times).min(HABIT_MAX)
    }

    /// Whether write tracking of the block costs more than it saves.
    pub(super) fn loses(&self) -> bool {
        self.losses >= LOSSES
    }

    /// Whether the CPU wrote the block before each of the last [`REWRITES`] calls.
    pub(super) fn rewritten(&self) -> bool {
        self.rewrites >= REWRITES
    }

    /// Until when the block is write-through, if it is.
    pub(super) fn write_through(&self) -> Option<WriteThrough> {
        self.write_through
    }

    /// The block becomes write-through.
    pub(super) fn begin_write_through(&mut self, how: WriteThrough) {
        self.write_through = Some(how);
        self.uses = 0;
    }

    /// The block's write-through time ends: writes of the CPU are trapped again.
    pub(super) fn end_write_through(&mut self) {
        self.write_through = None;
        self.rewrites = REWRITES - 1;
        self.unseen = true;
        self.uses = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: usize = 64 << 20;

    #[test]
    fn results_of_calls_on_the_host_are_not_the_programs_writing() {
        let r = Rect::interval(0, BIG);
        let mut h = Inputs::NONE;
        for sample in 0..4 {
            h.sampled(&r, sample);
            assert_eq!(h.seen(), 0);
            h.used();
        }
        h.written_by_host_call();
        for sample in 4..8 {
            h.sampled(&r, sample);
            h.used();
        }
        assert_eq!(h.seen(), 5);
    }

    #[test]
    fn patches_in_a_row_are_a_habit_that_a_refill_ends() {
        let mut h = Inputs::NONE;
        let mut use_after = |bytes: usize| {
            for piece in [bytes / 2, bytes - bytes / 2] {
                h.wrote(piece, BIG);
            }
            h.used();
            h.patched()
        };
        use_after(BIG);
        for i in 1..=HABIT {
            assert_eq!(use_after(BIG / 2), i == HABIT);
        }
        // Uses without a write in between are neither a patch nor a refill.
        assert!(use_after(0));
        assert!(!use_after(BIG / 2 + 2));
        for i in 1..=HABIT {
            assert_eq!(use_after(2), i == HABIT);
        }
    }

    #[test]
    fn write_tracking_that_keeps_less_than_is_written_ends() {
        let mut h = Inputs::NONE;
        let patches = |h: &mut Inputs| {
            (1..)
                .find(|_| {
                    h.wrote(4096, BIG);
                    h.used();
                    h.patched()
                })
                .unwrap_or(0)
        };
        assert_eq!(patches(&mut h), HABIT);
        // Little was written yet.
        h.scanned(BIG / COMPARED - 4096, 0, BIG);
        assert!(!h.loses());
        h.scanned(4096, 0, BIG);
        assert!(!h.loses());
        // A refill between patches.
        h.scanned(BIG / COMPARED, BIG, BIG);
        h.scanned(BIG, 0, BIG);
        assert!(!h.loses());
        h.scanned(BIG, 0, BIG);
        assert!(h.loses());
        for needed in [HABIT, HABIT * HABIT_GROWS, HABIT * HABIT_GROWS.pow(2)] {
            h.end_write_tracking();
            assert!(!h.loses() && !h.patched());
            assert_eq!(patches(&mut h), needed);
        }
        h.ended = u32::MAX;
        h.end_write_tracking();
        assert_eq!(patches(&mut h), HABIT_MAX);
        // Replicas keep as much as is written.
        for _ in 0..COMPARED {
            h.scanned(BIG / 4, BIG / 4, BIG);
            assert!(!h.loses());
        }
    }

    #[test]
    fn an_input_that_is_always_rewritten_is_noticed() {
        let mut h = Inputs::NONE;
        for i in 0..REWRITES {
            assert_eq!(h.rewrites, i);
            h.wrote(4096, BIG);
            h.used();
        }
        assert_eq!(h.rewrites, REWRITES);
        h.begin_write_through(WriteThrough {
            until: 64,
            left: 2,
            results: false,
        });
        assert!(
            h.write_through()
                .is_some_and(|how| !how.is_over(63) && how.is_over(64))
        );
        h.used();
        h.used();
        assert!(h.write_through().is_some_and(|how| how.is_over(0)));
        h.used();
        assert_eq!((h.seen(), h.rewrites), (0, REWRITES));
        h.end_write_through();
        // Writes before the first use after the write-through time were not trapped.
        h.used();
        assert_eq!(h.rewrites, REWRITES - 1);
        let mut same = h;
        h.wrote(4096, BIG);
        h.used();
        assert_eq!(h.rewrites, REWRITES);
        same.used();
        assert_eq!(same.rewrites, 0);
    }
}
