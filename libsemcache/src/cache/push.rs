//! Streamed write-back of results, and upload of inputs at each call without page protection, where the history of
//! their blocks says that it pays.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::ahead::ReadAhead;
use super::history::{History, Push};
use super::{Cache, State, TRANSIENT_BASE};
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, Rect};
use crate::directory::Event;
use crate::host::Block;

/// The most blocks with a history; beyond this all histories but those of write-through blocks are dropped.
const BLOCKS_MAX: usize = 4096;

/// The most lengths of blocks for which prediction errors and the last block are kept; beyond this all are dropped.
const LENGTHS_MAX: usize = 64;

/// Bytes per copy of a write-back: panels whose copy is complete can be made accessible while later copies are in
/// flight.
pub(crate) const PIECE: usize = 32 << 20;

/// Largest block that is uploaded again by each call instead of being protected: uploading it takes as long as the
/// fault that protection costs.
const RESEND_MAX: usize = 2 << 20;

/// Number of device calls for which a small block that the CPU always rewrites stays unprotected (write-through).
const WRITE_THROUGH_CALLS: u64 = 64;

/// The key of all replayed calls, for [`State::note_use`]: a block that a replayed call uses has another user than a
/// call that passes the offload decision.
const REPLAYED: u64 = 0;

impl Cache {
    /// Takes a new number for a call, by which histories tell calls apart.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Before a call uses this operand on devices: allows the operand's pages to be protected, and write-tracks the
    /// pages that it shares with other data. After a failure its pages stay accessible, which is right, only slower.
    pub(super) fn enclose(&self, state: &mut State, id: AllocId, rect: &Rect) {
        let State { entries, pools, .. } = state;
        if let Some(e) = entries.get_mut(&id) {
            let event = Event::Enclose { rect: *rect };
            let closable = self.step(e, pools, &event, None);
            if let Err(err) = closable.and_then(|()| self.track_edges(e, pools, rect)) {
                log::debug!("an operand's pages stay open: {err:?}");
            }
        }
    }

    /// Before a call, known by its number, leaves a result in `rect`: whether the result is to be written back as it
    /// becomes final. A result in memory that is never protected always is.
    pub(super) fn expect_result(
        &self,
        state: &mut State,
        call: u64,
        id: AllocId,
        rect: &Rect,
    ) -> Push {
        let open = state.entries.get_mut(&id).is_none_or(|e| {
            // A new result follows, so read-ahead in an older result of the block ends.
            e.ahead = ReadAhead::default();
            e.dir.tracked().is_empty()
        });
        if id.0 >= TRANSIENT_BASE {
            return Push::Streamed;
        }
        self.end_write_through(state, id);
        state.make_room_for_history();
        let push = state.history.entry(id).or_default().push(rect);
        state.note_device(call, id, self.panels(rect), true);
        if open { Push::Streamed } else { push }
    }

    /// Queues the write-back of a piece of an output behind the kernel that writes it; the piece's panels stay
    /// inaccessible. Returns whether it was queued: if not, the piece is copied to the host when the CPU touches it,
    /// and an error shows there.
    pub fn send_piece(&self, id: AllocId, rect: &Rect) -> bool {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        let Some(e) = entries.get_mut(&id) else {
            return false;
        };
        let before = e.downloads;
        for piece in pieces(rect) {
            if self.queue_write_back(e, pools, &piece).is_err() {
                COUNTERS.fallbacks.add(1);
                return false;
            }
        }
        // The call keeps a list of these pieces itself: the host's other bytes of the output are as they were before
        // the call.
        e.downloads = before;
        true
    }

    /// Before a call reads `rect`: a small block that the CPU rewrote before each of the last calls is left unprotected
    /// for a while. Uploading it again costs less than the fault by which a write of the CPU would be noticed.
    pub(super) fn expect_input(&self, state: &mut State, call: u64, id: AllocId, rect: &Rect) {
        state.note_device(call, id, self.panels(rect), false);
        if self.choose_scans(state, id) {
            return;
        }
        let Some(h) = state.history.get(&id) else {
            return;
        };
        let rewritten = h.rewritten();
        match h.write_through_until() {
            Some(until) if state.calls >= until => self.end_write_through(state, id),
            Some(_) => {}
            None if rewritten => self.begin_write_through(state, id),
            None => {}
        }
    }

    fn begin_write_through(&self, state: &mut State, id: AllocId) {
        let until = state.calls + WRITE_THROUGH_CALLS;
        let State {
            entries,
            pools,
            history,
            ..
        } = state;
        let Some(e) = entries.get_mut(&id) else {
            return;
        };
        if e.block.len > RESEND_MAX || e.dir.tracked().is_empty() {
            return;
        }
        let event = Event::WriteThrough {
            span: e.dir.tracked(),
            on: true,
        };
        // After a failure the block stays protected, which is right, only slower.
        if self.step(e, pools, &event, None).is_ok()
            && let Some(h) = history.get_mut(&id)
        {
            h.begin_write_through(until);
        }
    }

    fn end_write_through(&self, state: &mut State, id: AllocId) {
        let State {
            entries,
            pools,
            history,
            ..
        } = state;
        let Some(h) = history
            .get_mut(&id)
            .filter(|h| h.write_through_until().is_some())
        else {
            return;
        };
        // After a failure the block stays unprotected, which is right, only slower.
        let again = entries.get_mut(&id).map(|e| {
            let span = e.dir.tracked();
            self.end_write_through_of(e, pools, span)
        });
        if again.is_none_or(|r| r.is_ok()) {
            h.end_write_through();
        }
    }

    /// The number of panels that a rectangle lies in, at most.
    #[must_use]
    pub fn panels(&self, rect: &Rect) -> usize {
        rect.span().len().div_ceil(self.panel.max(1))
    }

    /// Notes that a call goes to the host BLAS. `blocks`: the blocks that it uses, and whether it writes each.
    pub fn note_host_call(&self, blocks: impl Iterator<Item = (AllocId, bool)>) {
        let mut state = self.lock();
        for (id, written) in blocks {
            if let Some(h) = state.history.get_mut(&id) {
                h.sent_to_host(written);
            }
        }
    }

    /// Notes that the CPU is about to touch `bytes` of a block.
    pub fn note_touch(&self, id: AllocId, bytes: usize, write: bool) {
        self.lock().note_cpu(id, bytes, write);
    }
}

impl State {
    /// Notes that a call, known by its key, uses a block, and returns the block's history before the call.
    pub(super) fn note_use(&mut self, block: &Block, call: u64) -> Box<History> {
        let h = self.history_of(block);
        h.used_by(call);
        let before = Box::new(*h);
        h.used();
        before
    }

    /// Notes that a replayed call uses a block. `written`: a device leaves a result in the block, which
    /// [`Cache::expect`] did not announce.
    pub(crate) fn note_repeat(&mut self, id: AllocId, written: bool) {
        self.make_room_for_history();
        let h = self.history.entry(id).or_default();
        h.used();
        h.used_by(REPLAYED);
        h.prediction_error().unknown();
        if written {
            h.same_result();
        }
    }

    /// Whether the next result in a block is to be written back ahead of the CPU's access.
    pub(crate) fn due(&self, id: AllocId) -> bool {
        self.history.get(&id).is_some_and(|h| h.next_is_due())
    }

    /// Notes that the CPU touched a block.
    pub(crate) fn note_cpu(&mut self, id: AllocId, bytes: usize, write: bool) {
        if let Some(h) = self.history.get_mut(&id) {
            h.touched(bytes, write);
            if write && let Some(e) = self.entries.get(&id) {
                h.wrote(bytes, e.block.len);
            }
        }
    }

    /// The history of a block, made at the block's first use.
    pub(super) fn history_of(&mut self, block: &Block) -> &mut History {
        self.make_room_for_history();
        if !self.history.contains_key(&block.id) {
            let new = match self.lengths.get_mut(&block.len) {
                Some(alike) => {
                    let last = alike.last().and_then(|id| self.history.get(&id)).copied();
                    History::expecting(alike.prediction_error, last)
                }
                None => History::default(),
            };
            self.history.insert(block.id, new);
        }
        self.history.entry(block.id).or_default()
    }

    /// Notes that a device is about to use `panels` panels of a block.
    fn note_device(&mut self, call: u64, id: AllocId, panels: usize, output: bool) {
        let (Some(h), Some(e)) = (self.history.get_mut(&id), self.entries.get(&id)) else {
            return;
        };
        let learned = h
            .prediction_error()
            .used(call, panels, output, Instant::now());
        if !learned && !output {
            return;
        }
        if self.lengths.len() >= LENGTHS_MAX && !self.lengths.contains_key(&e.block.len) {
            self.lengths.clear();
        }
        let alike = self.lengths.entry(e.block.len).or_default();
        if learned {
            alike.prediction_error.learn(h.prediction_error());
        }
        if output {
            alike.left(id);
        }
    }

    /// Notes that serving a fault in a block took `seconds`, without waits for devices.
    pub(crate) fn note_fault(&mut self, id: AllocId, seconds: f64) {
        if let Some(h) = self.history.get_mut(&id) {
            h.prediction_error().fault(seconds);
        }
    }

    /// Whether the latest result in a block was written back ahead of the CPU's access, which is expected to access all
    /// of it.
    pub(crate) fn pushed(&self, id: AllocId) -> bool {
        self.history.get(&id).is_some_and(History::pushed)
    }

    fn make_room_for_history(&mut self) {
        if self.history.len() >= BLOCKS_MAX {
            // The history of an unprotected (write-through) block is kept: only the history says when the block is
            // protected again.
            let entries = &self.entries;
            self.history
                .retain(|id, h| h.write_through_until().is_some() && entries.contains_key(id));
        }
    }
}

/// Cuts a rectangle into pieces of at most [`PIECE`] bytes, or of one run.
pub(crate) fn pieces(rect: &Rect) -> impl Iterator<Item = Rect> + use<> {
    let rect = *rect;
    let whole = rect.count == 1;
    let (all, each) = if whole {
        (rect.width, PIECE)
    } else {
        (rect.count, (PIECE / rect.width.max(1)).max(1))
    };
    (0..all.div_ceil(each)).map(move |i| {
        let (from, n) = (i * each, each.min(all - i * each));
        if whole {
            Rect::interval(rect.start + from, rect.start + from + n)
        } else {
            Rect::new(rect.start + from * rect.stride, rect.width, rect.stride, n)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::RectSet;

    #[test]
    fn pieces_are_the_whole() {
        for rect in [
            Rect::interval(5, 6),
            Rect::interval(5, 5 + PIECE),
            Rect::interval(5, 6 + 3 * PIECE),
            Rect::new(7, 1 << 16, 1 << 17, 2048),
            Rect::new(7, PIECE + 1, 2 * PIECE, 3),
            Rect::new(0, 8, 64, 1),
            Rect::default(),
        ] {
            let mut set = RectSet::new();
            for piece in pieces(&rect) {
                assert!(!set.overlaps(&piece) && rect.contains(&piece));
                assert!(piece.bytes() <= PIECE || piece.count == 1);
                set.insert(&piece);
            }
            assert_eq!(set.bytes(), rect.bytes());
        }
    }
}
