//! Operations in flight over the bytes of a replica, or of the host side of an allocation, and the tickets to wait for.
//!
//! Streams run concurrently. An operation that reads bytes waits for the writes in flight over them; an operation that
//! writes bytes waits for reads and writes (the full/empty bits of SemCache++ 3.2.3, as events over byte rectangles).
//! The list stays short: if an operation is ordered behind an older one and covers its bytes, the older one is removed.
//! It is sorted by the operations' first bytes, so that an operation on a tile is compared with those on the same column
//! panel, however many are in flight over the matrix.

use std::ops::Range;

use crate::base::{DeviceId, Rect};
use crate::device::api::{Backend, DeviceError, Ticket};
use smallvec::SmallVec;

/// Tickets to wait for, at most one of each stream: the latest.
#[derive(Clone, Debug, Default)]
pub struct Deps(SmallVec<[Ticket; FEW]>);

/// This many tickets are kept without memory of their own: most operations wait for one or two.
const FEW: usize = 4;

impl Deps {
    /// Adds a ticket. Of each stream only the last ticket is kept, which is complete when the earlier ones are: so
    /// there are never more tickets than streams.
    pub fn add(&mut self, t: Ticket) {
        let of_stream = |k: &&mut Ticket| k.device == t.device && k.lane == t.lane;
        match self.0.iter_mut().find(of_stream) {
            Some(known) => known.seq = known.seq.max(t.seq),
            None => self.0.push(t),
        }
    }

    fn retain(&mut self, keep: impl Fn(Ticket) -> bool) {
        self.0.retain(|t| keep(*t));
    }

    /// Adds all tickets of another set.
    pub fn extend(&mut self, other: &Deps) {
        for &t in other.tickets() {
            self.add(t);
        }
    }

    /// The tickets.
    #[must_use]
    pub fn tickets(&self) -> &[Ticket] {
        &self.0
    }

    /// Whether there is no ticket to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of the ticket of the same stream that is here.
    fn of_stream(&self, t: Ticket) -> Option<u64> {
        let same = |k: &&Ticket| (k.device, k.lane) == (t.device, t.lane);
        self.0.iter().find(same).map(|k| k.seq)
    }

    /// Removes the tickets of complete operations.
    pub fn prune(&mut self, backend: &dyn Backend) {
        // A ticket of a lost device never completes; it is kept, and a thread that waits for it gets the error.
        self.retain(|t| !matches!(backend.done(t), Ok(true)));
    }

    /// Whether all operations are complete, after asking the devices. Those of a lost device count as complete: a lost
    /// device touches no memory any more.
    pub fn settled(&mut self, backend: &dyn Backend) -> bool {
        self.retain(|t| matches!(backend.done(t), Ok(false)));
        self.is_empty()
    }

    /// Blocks until all operations are complete.
    ///
    /// # Errors
    /// A device was lost; the tickets of other devices were waited for all the same. Of several losses, the last one
    /// met.
    pub fn wait(&self, backend: &dyn Backend) -> Result<(), DeviceError> {
        let mut result = Ok(());
        for &t in self.tickets() {
            if let Err(e) = backend.wait(t) {
                result = Err(e);
            }
        }
        result
    }
}

/// One operation in flight over a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The bytes that the operation touches.
    pub rect: Rect,
    /// The ticket that completes with the operation.
    pub ticket: Ticket,
    /// Whether the operation writes the bytes.
    pub write: bool,
}

/// The operations in flight over one replica, or over the host side of one allocation.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    /// In the order of their first bytes.
    list: Vec<InFlight>,
    /// For each operation the largest end of the bytes of it and of those before it: these ends ascend.
    reach: Vec<usize>,
    /// At this many entries a push removes completed operations: twice as many as the last time left, so that each
    /// operation is asked about a few times however many are in flight.
    prune_at: usize,
}

/// With fewer entries, no push removes completed operations.
const LEAST_PRUNED: usize = 16;

impl Ops {
    /// The positions of the operations whose bytes may overlap `rect`.
    fn near(&self, rect: &Rect) -> Range<usize> {
        let span = rect.span();
        let first = self.reach.partition_point(|&end| end <= span.start);
        let end = self.list.partition_point(|op| op.rect.start < span.end);
        first..end.max(first)
    }

    /// Collects the tickets that an operation over `rect` must wait for.
    pub fn deps(&self, rect: &Rect, write: bool, out: &mut Deps) {
        for op in &self.list[self.near(rect)] {
            if (write || op.write) && op.rect.overlaps(rect) {
                out.add(op.ticket);
            }
        }
    }

    /// Collects the tickets of all operations in flight.
    pub fn all(&self, out: &mut Deps) {
        for op in &self.list {
            out.add(op.ticket);
        }
    }

    /// The bytes that operations in flight write.
    pub fn writes(&self) -> impl Iterator<Item = &Rect> {
        self.list.iter().filter(|op| op.write).map(|op| &op.rect)
    }

    /// Records an operation that was queued behind [`Ops::deps`] of the same arguments. Removes older operations that
    /// it makes redundant.
    pub fn push(&mut self, backend: &dyn Backend, rect: Rect, ticket: Ticket, write: bool) {
        let redundant = |op: &InFlight| {
            let ordered = write
                || (!op.write
                    && op.ticket.device == ticket.device
                    && op.ticket.lane == ticket.lane);
            ordered && rect.contains(&op.rect)
        };
        let new = InFlight {
            rect,
            ticket,
            write,
        };
        let (mut at, mut replaced) = (self.near(&rect), false);
        while let Some(i) = at.clone().find(|&i| redundant(&self.list[i])) {
            if self.list[i].rect == rect && !replaced {
                // The usual case: the next task on a tile.
                self.list[i] = new;
                (replaced, at.start) = (true, i + 1);
            } else {
                self.list.remove(i);
                self.reach.remove(i);
                at = i..at.end - 1;
                self.reach_from(i);
            }
        }
        if replaced {
            return;
        }
        if self.list.len() >= self.prune_at.max(LEAST_PRUNED) {
            self.prune(backend);
        }
        self.insert(new);
    }

    /// Records an operation of the memory's previous use, for which every operation over `rect` must wait (reused
    /// device memory).
    pub fn push_ordered(&mut self, rect: Rect, ticket: Ticket) {
        self.insert(InFlight {
            rect,
            ticket,
            write: true,
        });
    }

    fn insert(&mut self, op: InFlight) {
        let at = (self.list).partition_point(|known| known.rect.start <= op.rect.start);
        self.list.insert(at, op);
        self.reach.insert(at, 0);
        self.reach_from(at);
    }

    /// Recomputes the ends from a position on at which an operation was added, or removed.
    fn reach_from(&mut self, at: usize) {
        let mut reach = at.checked_sub(1).map_or(0, |before| self.reach[before]);
        for i in at..self.list.len() {
            reach = reach.max(self.list[i].rect.span().end);
            if self.reach[i] == reach && i > at {
                break;
            }
            self.reach[i] = reach;
        }
    }

    /// Removes completed operations.
    pub fn prune(&mut self, backend: &dyn Backend) {
        // A stream completes its operations in order: if one is not done, none behind it is, and if one is, so are all before it.
        let (mut pending, mut complete) = (Deps::default(), Deps::default());
        self.keep(|op| {
            if pending
                .of_stream(op.ticket)
                .is_some_and(|seq| seq <= op.ticket.seq)
            {
                return true;
            }
            if complete
                .of_stream(op.ticket)
                .is_some_and(|seq| seq >= op.ticket.seq)
            {
                return false;
            }
            let done = matches!(backend.done(op.ticket), Ok(true));
            if done {
                complete.add(op.ticket);
            } else {
                pending.retain(|t| (t.device, t.lane) != (op.ticket.device, op.ticket.lane));
                pending.add(op.ticket);
            }
            !done
        });
        self.prune_at = 2 * self.list.len();
    }

    fn keep(&mut self, keep: impl FnMut(&InFlight) -> bool) {
        self.list.retain(keep);
        self.reach.clear();
        let mut reach = 0;
        self.reach.extend(self.list.iter().map(|op| {
            reach = reach.max(op.rect.span().end);
            reach
        }));
    }

    /// Whether no operation is in flight, as far as is known without asking the device.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether an operation of a device is in flight over these bytes.
    #[must_use]
    pub fn involve(&self, device: DeviceId) -> bool {
        self.list.iter().any(|op| op.ticket.device == device)
    }

    /// Removes the operations of a lost device, which never complete. Returns the bytes that those of them were to
    /// write that did not complete before the loss.
    pub fn forget(&mut self, device: DeviceId, backend: &dyn Backend) -> Vec<Rect> {
        let unwritten = |op: &&InFlight| {
            let lost = op.write && op.ticket.device == device;
            lost && !matches!(backend.done(op.ticket), Ok(true))
        };
        let gone = self.list.iter().filter(unwritten).map(|op| op.rect);
        let gone = gone.collect();
        self.keep(|op| op.ticket.device != device);
        self.prune_at = 0;
        gone
    }

    /// Removes all operations: the caller has waited for them.
    pub fn clear(&mut self) {
        self.list.clear();
        self.reach.clear();
        self.prune_at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::api::Lane;
    use crate::device::sim::{SimConfig, SimMachine};
    use proptest::prelude::*;

    const NONE: Ticket = Ticket {
        device: DeviceId(0),
        lane: Lane::In,
        seq: 0,
    };

    #[test]
    fn few_and_many_tickets() {
        let on = |device: u8, seq| Ticket {
            device: crate::base::DeviceId(device),
            seq,
            ..NONE
        };
        let numbers = |d: &Deps| d.tickets().iter().map(|t| t.seq).collect::<Vec<_>>();
        let mut deps = Deps::default();
        for n in 1..=10 {
            assert_eq!(deps.is_empty(), n == 1);
            for _ in 0..2 {
                deps.add(on(n, n.into()));
            }
            let all: Vec<u64> = (1..=n.into()).collect();
            assert_eq!(numbers(&deps), all);
            for part in 1..4 {
                let mut kept = deps.clone();
                kept.retain(|t| t.seq % part == 0);
                let left: Vec<u64> = all.iter().copied().filter(|n| n % part == 0).collect();
                assert_eq!(numbers(&kept), left);
                kept.add(on(100, 100));
                assert_eq!(kept.tickets().last().map(|t| t.seq), Some(100));
                assert_eq!(kept.tickets().len(), left.len() + 1);
            }
        }
    }

    #[test]
    fn of_a_stream_the_last_ticket_is_kept() {
        let mut deps = Deps::default();
        let other = Ticket {
            lane: Lane::Out,
            ..NONE
        };
        for seq in [3, 9, 5] {
            deps.add(Ticket { seq, ..NONE });
            deps.add(Ticket {
                seq: 12 - seq,
                ..other
            });
        }
        let last = [Ticket { seq: 9, ..NONE }, Ticket { seq: 9, ..other }];
        assert_eq!(deps.tickets(), last);
    }

    /// The tickets to wait for if no operation was ever removed from the list.
    fn naive(queued: &[InFlight], rect: &Rect, write: bool) -> Vec<Ticket> {
        let mut deps = Deps::default();
        let waits = |op: &&InFlight| (write || op.write) && op.rect.overlaps(rect);
        queued
            .iter()
            .filter(waits)
            .for_each(|op| deps.add(op.ticket));
        sorted(&deps)
    }

    fn sorted(deps: &Deps) -> Vec<Ticket> {
        let mut tickets = deps.tickets().to_vec();
        tickets.sort_by_key(|t| (t.device, t.lane as usize));
        tickets
    }

    /// All operations so far, in the order in which they were queued, and the tickets that each waits for.
    #[derive(Default)]
    struct Queue {
        queued: Vec<InFlight>,
        behind: Vec<Vec<Ticket>>,
    }

    impl Queue {
        /// All that has to be complete before an operation that waits for these tickets begins.
        fn before(&self, tickets: &[Ticket]) -> Vec<bool> {
            let mut before = vec![false; self.queued.len()];
            let mut open: Vec<Ticket> = tickets.to_vec();
            while let Some(t) = open.pop() {
                for (i, op) in self.queued.iter().enumerate() {
                    let same = (op.ticket.device, op.ticket.lane) == (t.device, t.lane);
                    if same && op.ticket.seq <= t.seq && !before[i] {
                        before[i] = true;
                        open.extend(&self.behind[i]);
                    }
                }
            }
            before
        }
    }

    proptest! {
        /// An operation waits, directly or through others, for all older ones that it must not overtake.
        #[test]
        fn nothing_is_overtaken(
            ops in proptest::collection::vec(
                ((0usize..6, 0usize..4, 1usize..4, 1usize..4), 0usize..3, proptest::bool::ANY), 1..80),
        ) {
            let machine = SimMachine::new(SimConfig::default()).expect("a device");
            let (mut list, mut queue) = (Ops::default(), Queue::default());
            for (seq, ((row, col, rows, cols), lane, write)) in ops.into_iter().enumerate() {
                let rect = Rect::new(col * 100 + row * 8, rows * 8, 100, cols);
                let lane = [Lane::In, Lane::Compute, Lane::Out][lane];
                let mut deps = Deps::default();
                list.deps(&rect, write, &mut deps);
                let needed = naive(&queue.queued, &rect, write);
                let (found, all) = (queue.before(&sorted(&deps)), queue.before(&needed));
                prop_assert!(found.iter().zip(&all).all(|(found, needed)| *found || !needed));
                // It waits for nothing else.
                for t in deps.tickets() {
                    prop_assert!(needed.iter().any(|n| (n.device, n.lane) == (t.device, t.lane) && n.seq >= t.seq));
                }
                // Tickets of a device that is never asked: none is complete.
                let ticket = Ticket { device: DeviceId(0), lane, seq: 1_000_000 + seq as u64 };
                list.push(&machine, rect, ticket, write);
                queue.queued.push(InFlight { rect, ticket, write });
                queue.behind.push(sorted(&deps));
                let ends: Vec<usize> = list.list.iter().map(|op| op.rect.span().end).collect();
                let starts = list.list.windows(2).all(|w| w[0].rect.start <= w[1].rect.start);
                let reach = (0..ends.len()).all(|i| list.reach[i] == *ends[..=i].iter().max().unwrap());
                prop_assert!(starts && reach && list.reach.len() == ends.len());
            }
        }
    }
}
