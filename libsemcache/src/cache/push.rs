//! Streamed write-back of results, and upload of inputs at each call without page protection, where the use of
//! their blocks so far says that it pays.

use std::sync::atomic::Ordering;
use std::time::Instant;

use log::debug;

use super::ahead::ReadAhead;
use super::task::Use as Operand;
use super::{Cache, State, TRANSIENT_BASE};
use crate::base::counters::COUNTERS;
use crate::base::{AllocId, Interval, Rect};
use crate::directory::Event;
use crate::policy::amortisation::Use;
use crate::policy::inputs::WriteThrough;
use crate::policy::results::Push;

/// Bytes per copy of a write-back: panels whose copy is complete can be made accessible while later copies are in
/// flight.
pub(crate) const PIECE: usize = 32 << 20;

/// Largest block that is uploaded again by each call instead of being protected: uploading it takes as long as the
/// fault that protection costs.
const RESEND_MAX: usize = 2 << 20;

/// Number of device calls for which a small block that the CPU always rewrites stays unprotected (write-through). The most of them for
/// a block of any size of which page protection takes longer than copies at each call.
const WRITE_THROUGH_CALLS: u64 = 64;

/// Number of uses after which such a block, results of devices included, is protected again, and its next use tells whether page protection
/// still takes longer: the CPU's accesses do not show in between. Also the number of calls after which blocks become write-through and are
/// protected again by turns (`SEMCACHE_GATE=mixed`).
const TURN: u32 = 8;

impl Cache {
    /// Takes a new number for a call, by which the uses of blocks tell calls apart.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Before a call uses this operand on devices: allows the operand's pages to be protected, and write-tracks the
    /// pages that it shares with other data. After a failure its pages stay accessible, which is right, only slower.
    ///
    /// If the block is write-through with its results, that ends: only calls of the BLAS know of such times, and do without this.
    pub(super) fn enclose(&self, state: &mut State, id: AllocId, rect: &Rect) {
        if state.writes_through(id) {
            self.end_write_through(state, id);
        }
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
        if state.writes_through(id) {
            state.uses.written_back(id);
            state.note_device(call, id, self.panels(rect), true);
            return Push::Streamed;
        }
        self.end_write_through(state, id);
        state.make_room_for_uses();
        let push = state.uses.push(id, rect);
        state.note_device(call, id, self.panels(rect), true);
        if open { Push::Streamed } else { push }
    }

    /// Before a call, known by its number, that could leave a result in mapped memory: whether it does.
    pub(super) fn expect_mapped(
        &self,
        state: &mut State,
        call: u64,
        id: AllocId,
        rect: &Rect,
    ) -> bool {
        if id.0 >= TRANSIENT_BASE {
            return state.uses.maps();
        }
        let mapped = self.is_for_cpu(state, id, rect, false);
        if mapped {
            state.note_device(call, id, self.panels(rect), true);
        }
        mapped
    }

    /// Whether a result is left in host memory alone ([`BlockUses::is_for_cpu`]). Not if its pages hold bytes of which a device has the
    /// newest copy, as the store of the result would fault there each time, and have these bytes written back.
    ///
    /// [`BlockUses::is_for_cpu`]: crate::policy::block_uses::BlockUses::is_for_cpu
    pub(super) fn is_for_cpu(
        &self,
        state: &mut State,
        id: AllocId,
        rect: &Rect,
        replayed: bool,
    ) -> bool {
        let pages = Rect::from(rect.span().align_out(self.page));
        let stale = state
            .entries
            .get(&id)
            .is_some_and(|e| e.dir.stale().overlaps(&pages));
        !stale && state.uses.is_for_cpu(id, rect, replayed)
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
        if state.writes_through(id) || self.choose_scans(state, id) {
            return;
        }
        if state.uses.write_through(id).is_none()
            && state.uses.rewritten(id)
            && state.block_len(id) <= RESEND_MAX
        {
            let until = state.calls + WRITE_THROUGH_CALLS;
            let how = WriteThrough {
                until,
                left: u32::MAX,
                results: false,
            };
            self.begin_write_through(state, id, how);
        }
    }

    /// Blocks become write-through, results of devices included. Returns whether all of them did.
    pub fn write_through(&self, blocks: &[AllocId]) -> bool {
        let mut state = self.lock();
        let mut began = true;
        for id in blocks {
            began &= self.begin_with_results(&mut state, *id, WRITE_THROUGH_CALLS);
        }
        began
    }

    fn begin_with_results(&self, state: &mut State, id: AllocId, calls: u64) -> bool {
        let how = WriteThrough {
            until: state.calls + calls,
            left: TURN - 1,
            results: true,
        };
        self.begin_write_through(state, id, how)
    }

    /// Ends the write-through time of a block for which it is over.
    pub(super) fn end_write_through_if_over(&self, state: &mut State, id: AllocId) {
        let how = state.uses.write_through(id);
        if how.is_some_and(|how| how.is_over(state.calls)) {
            self.end_write_through(state, id);
        }
    }

    /// The blocks of a call become write-through for [`TURN`] calls on devices if its number says so (`SEMCACHE_GATE=mixed`).
    pub(super) fn take_turns(&self, state: &mut State, number: u64, operands: &[Operand]) {
        if (number / u64::from(TURN)).is_multiple_of(2) {
            return;
        }
        for Operand { id, .. } in operands {
            if state.uses.write_through(*id).is_none() {
                self.begin_with_results(state, *id, TURN.into());
            }
        }
    }

    /// A block that is used becomes write-through. Returns whether it did: after a failure it stays protected, which is right, only slower.
    fn begin_write_through(&self, state: &mut State, id: AllocId, how: WriteThrough) -> bool {
        let tracked = match state.entries.get(&id) {
            Some(e) if state.uses.get(id).is_some() => e.dir.tracked(),
            _ => return false,
        };
        // What devices have comes home first, also from those that are left if one is lost.
        if tracked.is_empty() || self.give_to_cpu(state, id, tracked, tracked, true).is_err() {
            return false;
        }
        let State {
            entries,
            pools,
            uses,
            ..
        } = state;
        let Some(e) = entries.get_mut(&id) else {
            return false;
        };
        let event = Event::WriteThrough {
            span: tracked,
            on: true,
        };
        let began = self.step(e, pools, &event, None).is_ok();
        if began {
            debug!("{:#x} is write-through", e.host.base);
            COUNTERS.gate.write_through.add(1);
            // Panels that are write-through by themselves are so no more when the time ends.
            e.pingpong.clear();
            uses.begin_write_through(id, how);
        }
        began
    }

    fn end_write_through(&self, state: &mut State, id: AllocId) {
        let State {
            entries,
            pools,
            uses,
            ..
        } = state;
        if uses.write_through(id).is_none() {
            return;
        }
        // After a failure the block stays unprotected, which is right, only slower.
        let again = entries.get_mut(&id).map(|e| {
            let span = e.dir.tracked();
            self.end_write_through_of(e, pools, span)
        });
        if again.is_none_or(|r| r.is_ok()) {
            uses.end_write_through(id);
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
            if let Some(h) = state.uses.get_mut(id) {
                h.sent_to_host(written);
            }
        }
    }

    /// Notes how calls on devices got the bytes that they read of these blocks ([`Ledger::used`]).
    ///
    /// [`Ledger::used`]: crate::policy::amortisation::Ledger::used
    pub fn note_uploads(&self, uploads: &[(AllocId, Interval, Use)]) {
        if uploads.is_empty() {
            return;
        }
        let mut state = self.lock();
        for (id, span, how) in uploads {
            if let Some(h) = state.uses.get_mut(*id) {
                h.uploads().used(*span, *how);
            }
        }
    }

    /// Notes that the CPU is about to touch `bytes` of a block.
    pub fn note_touch(&self, id: AllocId, bytes: usize, write: bool) {
        self.lock().note_cpu(id, bytes, write);
    }
}

impl State {
    /// Notes that a replayed call uses a block. `written`: a device leaves a result in the block, which
    /// [`Cache::expect`] did not announce; `read`: it reads the block.
    pub(crate) fn note_repeat(&mut self, id: AllocId, written: bool, read: bool) {
        self.make_room_for_uses();
        self.uses.note_replay(id, written, read);
    }

    /// Whether calls write their results in a block back before they return.
    pub(super) fn writes_through(&self, id: AllocId) -> bool {
        // Only the survey before a call ends a time that is over, so that the call runs as it was predicted.
        let how = self.uses.write_through(id);
        how.is_some_and(|how| how.results)
    }

    fn block_len(&self, id: AllocId) -> usize {
        self.entries.get(&id).map_or(0, |e| e.block.len)
    }

    /// Notes that the CPU touched a block.
    pub(crate) fn note_cpu(&mut self, id: AllocId, bytes: usize, write: bool) {
        let len = self.entries.get(&id).map_or(bytes, |e| e.block.len);
        if let Some(h) = self.uses.get_mut(id) {
            h.touched(bytes, write, len);
        }
    }

    /// Notes that a device is about to use `panels` panels of a block.
    fn note_device(&mut self, call: u64, id: AllocId, panels: usize, output: bool) {
        if let Some(e) = self.entries.get(&id) {
            let block = (id, e.block.len);
            self.uses
                .on_devices(call, block, panels, output, Instant::now());
        }
    }

    /// Notes that serving a fault in a block took `seconds`, without waits for devices.
    pub(crate) fn note_fault(&mut self, id: AllocId, seconds: f64) {
        if let Some(h) = self.uses.get_mut(id) {
            h.prediction_error().fault(seconds);
        }
    }

    pub(super) fn make_room_for_uses(&mut self) {
        let entries = &self.entries;
        self.uses.make_room(|id| entries.contains_key(&id));
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
