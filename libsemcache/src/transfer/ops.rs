//! Operations in flight over the bytes of a replica, or of the host side of an allocation, and the tickets to wait for.
//!
//! Streams run concurrently. An operation that reads bytes waits for the writes in flight over them; an operation that
//! writes bytes waits for reads and writes (the full/empty bits of SemCache++ 3.2.3, as events over byte rectangles).
//! The list stays short: if an operation is ordered behind an older one and covers its bytes, the older one is removed.

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

    /// Whether a ticket of the same stream is here that is not later.
    fn has_before(&self, t: Ticket) -> bool {
        let earlier = |k: &Ticket| (k.device, k.lane) == (t.device, t.lane) && k.seq <= t.seq;
        self.0.iter().any(earlier)
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

/// The operations in flight over one replica, or over the host side of one allocation, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    list: Vec<InFlight>,
    /// At this many entries a push removes completed operations: twice as many as the last time left, so that each
    /// operation is asked about a few times however many are in flight.
    prune_at: usize,
}

/// With fewer entries, no push removes completed operations.
const LEAST_PRUNED: usize = 16;

impl Ops {
    /// Collects the tickets that an operation over `rect` must wait for.
    pub fn deps(&self, rect: &Rect, write: bool, out: &mut Deps) {
        for op in &self.list {
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
        self.list.retain(|op| {
            let ordered = write
                || (!op.write
                    && op.ticket.device == ticket.device
                    && op.ticket.lane == ticket.lane);
            !(ordered && rect.contains(&op.rect))
        });
        if self.list.len() >= self.prune_at.max(LEAST_PRUNED) {
            self.prune(backend);
        }
        self.list.push(InFlight {
            rect,
            ticket,
            write,
        });
    }

    /// Records an operation of the memory's previous use, for which every operation over `rect` must wait (reused
    /// device memory).
    pub fn push_ordered(&mut self, rect: Rect, ticket: Ticket) {
        self.list.push(InFlight {
            rect,
            ticket,
            write: true,
        });
    }

    /// Removes completed operations.
    pub fn prune(&mut self, backend: &dyn Backend) {
        // A stream completes its operations in order: if one is not done, none behind it is.
        let mut pending = Deps::default();
        self.list.retain(|op| {
            if pending.has_before(op.ticket) {
                return true;
            }
            let done = matches!(backend.done(op.ticket), Ok(true));
            if !done {
                pending.add(op.ticket);
            }
            !done
        });
        self.prune_at = 2 * self.list.len();
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
        let (gone, kept) = self.list.iter().partition(|op| op.ticket.device == device);
        self.list = kept;
        self.prune_at = 0;
        let unwritten = |op: &InFlight| op.write && !matches!(backend.done(op.ticket), Ok(true));
        Vec::into_iter(gone)
            .filter(unwritten)
            .map(|op| op.rect)
            .collect()
    }

    /// Removes all operations: the caller has waited for them.
    pub fn clear(&mut self) {
        self.list.clear();
        self.prune_at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::api::Lane;

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
}
