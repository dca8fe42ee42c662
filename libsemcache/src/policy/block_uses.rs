//! The use of all blocks, under the cache's lock.

use std::collections::HashMap;
use std::time::Instant;

use super::alike::Alike;
use super::block_use::{BlockUse, Expected};
use super::inputs::WriteThrough;
use super::results::Push;
use crate::base::heuristics::{Heuristic, Without};
use crate::base::{AllocId, Interval, Rect};

/// The most blocks whose use is kept; beyond this all but those of write-through blocks are dropped.
const BLOCKS_MAX: usize = 4096;

/// The most lengths of blocks for which prediction errors and the last block are kept; beyond this all are dropped.
const LENGTHS_MAX: usize = 64;

/// The key of all replayed calls: a block that a replayed call uses has another user than a call that passes the offload decision.
const REPLAYED: u64 = 0;

/// The use of each block, and of blocks of each length.
#[derive(Debug, Default)]
pub struct BlockUses {
    uses: HashMap<AllocId, BlockUse>,
    lengths: HashMap<usize, Alike>,
    without: Without,
}

impl BlockUses {
    /// No block was used yet; `without` says which heuristics are left out.
    #[must_use]
    pub fn new(without: Without) -> BlockUses {
        BlockUses {
            without,
            ..BlockUses::default()
        }
    }

    /// The use of a block, if it was used before.
    #[must_use]
    pub fn get(&self, id: AllocId) -> Option<&BlockUse> {
        self.uses.get(&id)
    }

    /// As [`BlockUses::get`], to be changed.
    pub fn get_mut(&mut self, id: AllocId) -> Option<&mut BlockUse> {
        self.uses.get_mut(&id)
    }

    /// Drops the uses of all blocks if there are too many, but for those of write-through blocks that exist: only their use says
    /// when they are protected again.
    pub fn make_room(&mut self, exists: impl Fn(AllocId) -> bool) {
        if self.uses.len() >= BLOCKS_MAX {
            self.uses
                .retain(|&id, h| h.inputs().write_through().is_some() && exists(id));
        }
    }

    /// The use of a block of `len` bytes, made at the block's first use.
    fn entry(&mut self, id: AllocId, len: usize) -> &mut BlockUse {
        if !self.uses.contains_key(&id) {
            let alike = self.lengths.get_mut(&len);
            let new = match alike.filter(|_| self.without.uses(Heuristic::Alike)) {
                Some(alike) => {
                    let last = alike.last().and_then(|id| self.uses.get(&id));
                    BlockUse::expecting(alike.prediction_error, last)
                }
                None => BlockUse::default(),
            };
            self.uses.insert(id, new);
        }
        self.uses.entry(id).or_default()
    }

    /// Takes note of a sample of the bytes of a block of `len` bytes.
    pub fn sampled(&mut self, id: AllocId, len: usize, rect: &Rect, sample: u64) {
        self.entry(id, len).sampled(rect, sample);
    }

    /// Notes that a call, known by its key, uses a block, and returns what the block's use before it lets expect.
    pub fn note(&mut self, id: AllocId, len: usize, call: u64) -> Expected {
        let without = self.without;
        let h = self.entry(id, len);
        h.used_by(call);
        let mut expected = h.expected();
        h.used();
        if !without.uses(Heuristic::Amortisation) {
            expected.calls = 0;
        }
        if !without.uses(Heuristic::ReadBack) {
            (expected.read_back, expected.looked) = (0.0, 0.0);
        }
        expected
    }

    /// Notes that a replayed call uses a block. `written`: a device leaves a result in the block, which was not announced; `read`: it
    /// reads the block.
    pub fn note_replay(&mut self, id: AllocId, written: bool, read: bool) {
        let h = self.uses.entry(id).or_default();
        h.used_by(REPLAYED);
        h.used();
        h.prediction_error().unknown();
        if written {
            h.same_result();
        }
        if read {
            h.read_by_device();
        }
    }

    /// Whether results are left in mapped memory at all.
    #[must_use]
    pub fn maps(&self) -> bool {
        self.without.uses(Heuristic::Mapped)
    }

    /// Notes that a device updates a result: it reads the block as well.
    pub fn updated(&mut self, id: AllocId) {
        if let Some(h) = self.uses.get_mut(&id) {
            h.read_by_device();
        }
    }

    /// Whether a device may leave a result in `rect` of a block in host memory alone. If so, it does: that is noted as in
    /// [`BlockUses::push`]; `replayed`: so is the use by a replayed call.
    pub fn is_for_cpu(&mut self, id: AllocId, rect: &Rect, replayed: bool) -> bool {
        if !self.without.uses(Heuristic::Mapped) || !self.without.uses(Heuristic::Streamed) {
            return false;
        }
        let Some(h) = self.uses.get_mut(&id).filter(|h| h.is_for_cpu(rect)) else {
            return false;
        };
        if replayed {
            h.used_by(REPLAYED);
            h.used();
            h.prediction_error().unknown();
        }
        h.push(rect, true);
        true
    }

    /// The number of earlier calls on which the decision may count to amortise an upload ([`Ledger::count_for`]), and whether the use of
    /// bytes that are on a device already is to be noted.
    ///
    /// [`Ledger::count_for`]: super::amortisation::Ledger::count_for
    pub fn count_for(&mut self, id: AllocId, seen: u32, gone: Option<Interval>) -> (u32, bool) {
        if !self.without.uses(Heuristic::Amortisation) {
            return (0, false);
        }
        self.uses.get_mut(&id).map_or((seen, false), |h| {
            let count = h.uploads().count_for(seen, gone);
            (count, !h.uploads().is_settled())
        })
    }

    /// A device leaves a result in a block. Returns whether it is to be written back ahead of the CPU's access.
    pub fn push(&mut self, id: AllocId, rect: &Rect) -> Push {
        let streams = self.without.uses(Heuristic::Streamed);
        self.uses.entry(id).or_default().push(rect, streams)
    }

    /// A device leaves a result in a block that is write-through.
    pub fn written_back(&mut self, id: AllocId) {
        if let Some(h) = self.uses.get_mut(&id) {
            h.written_back();
        }
    }

    /// Whether the next result in a block is to be written back ahead of the CPU's access.
    #[must_use]
    pub fn due(&self, id: AllocId) -> bool {
        let streams = self.without.uses(Heuristic::Streamed);
        streams && self.get(id).is_some_and(BlockUse::next_is_due)
    }

    /// Whether the latest result in a block was written back ahead of the CPU's access, which is expected to access all
    /// of it.
    #[must_use]
    pub fn pushed(&self, id: AllocId) -> bool {
        self.get(id).is_some_and(BlockUse::pushed)
    }

    /// Notes that a call of this number is about to use `panels` panels of a block of `len` bytes on devices.
    pub fn on_devices(
        &mut self,
        call: u64,
        (id, len): (AllocId, usize),
        panels: usize,
        output: bool,
        now: Instant,
    ) {
        let Some(h) = self.uses.get_mut(&id) else {
            return;
        };
        let learns = self.without.uses(Heuristic::PredictionError);
        let learned = h.on_devices(call, panels, output, now) && learns;
        if !learned && !output {
            return;
        }
        if self.lengths.len() >= LENGTHS_MAX && !self.lengths.contains_key(&len) {
            self.lengths.clear();
        }
        let alike = self.lengths.entry(len).or_default();
        if learned {
            alike.prediction_error.learn(h.prediction_error());
        }
        if output {
            alike.left(id);
        }
    }

    /// Whether the CPU rewrites a block before every call, so that it becomes write-through.
    #[must_use]
    pub fn rewritten(&self, id: AllocId) -> bool {
        let h = self.get(id);
        self.without.uses(Heuristic::WriteThrough) && h.is_some_and(|h| h.inputs().rewritten())
    }

    /// Until when a block is write-through, if it is.
    #[must_use]
    pub fn write_through(&self, id: AllocId) -> Option<WriteThrough> {
        self.get(id)?.inputs().write_through()
    }

    /// A block becomes write-through.
    pub fn begin_write_through(&mut self, id: AllocId, how: WriteThrough) {
        if let Some(h) = self.uses.get_mut(&id) {
            h.begin_write_through(how);
        }
    }

    /// A block's write-through time ends: writes of the CPU are trapped again.
    pub fn end_write_through(&mut self, id: AllocId) {
        if let Some(h) = self.uses.get_mut(&id) {
            h.end_write_through();
        }
    }

    /// Whether a block is to be write-tracked, as the CPU wrote a small part of it between uses.
    #[must_use]
    pub fn patched(&self, id: AllocId) -> bool {
        let patched = |h: &BlockUse| h.inputs().patched() && h.inputs().write_through().is_none();
        self.without.uses(Heuristic::WriteTracking) && self.get(id).is_some_and(patched)
    }

    /// Notes what a scan of a write-tracked block of `len` bytes found: `written` bytes of pages that the CPU wrote, in whose panels replicas
    /// kept `kept` bytes.
    pub fn scanned(&mut self, id: AllocId, written: usize, kept: usize, len: usize) {
        if let Some(h) = self.uses.get_mut(&id) {
            h.inputs_mut().scanned(written, kept, len);
        }
    }

    /// Whether write tracking of a block costs more than it saves, so that it ends.
    #[must_use]
    pub fn tracking_loses(&self, id: AllocId) -> bool {
        self.get(id).is_some_and(|h| h.inputs().loses())
    }

    /// Write-tracking of a block ends.
    pub fn end_write_tracking(&mut self, id: AllocId) {
        if let Some(h) = self.uses.get_mut(&id) {
            h.inputs_mut().end_write_tracking();
        }
    }

    /// Whether inputs that no device holds are sampled.
    #[must_use]
    pub fn samples(&self) -> bool {
        self.without.uses(Heuristic::Samples)
    }
}
