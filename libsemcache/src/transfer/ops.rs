//! Operations in flight over the bytes of one place (a replica, or the host side of an allocation).
//!
//! Streams run concurrently; an operation that reads bytes waits for the writes in flight over them, one
//! that writes waits for reads and writes (the full/empty bits of SemCache++ 3.2.3, as events over byte
//! rectangles). The list stays short: an operation that is ordered behind another and covers it makes the
//! older one redundant.

use crate::base::{DeviceId, Rect};
use crate::device::api::{Backend, DeviceError, Lane, Ticket};

/// Tickets to wait for. All of them are named, also several of one stream: after a loss a later ticket of a
/// stream does not speak for an earlier one that failed.
#[derive(Clone)]
pub struct Deps {
    /// The first `few` of these, as long as there are no more: most operations wait for one or two.
    some: [Ticket; FEW],
    few: usize,
    /// All of them, once there are more.
    many: Vec<Ticket>,
}

/// So many tickets need no memory of their own.
const FEW: usize = 4;

/// What fills the places of tickets that are not there.
const NONE: Ticket = Ticket {
    device: DeviceId(0),
    lane: Lane::In,
    seq: 0,
};

impl Default for Deps {
    fn default() -> Self {
        Self {
            some: [NONE; FEW],
            few: 0,
            many: Vec::new(),
        }
    }
}

impl core::fmt::Debug for Deps {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.tickets()).finish()
    }
}

impl Deps {
    /// Adds a ticket. Of a stream only the last is kept, which is complete when the others are: so there are never
    /// more than streams.
    pub fn add(&mut self, t: Ticket) {
        let known = if self.many.is_empty() {
            &mut self.some[..self.few]
        } else {
            &mut self.many[..]
        };
        if let Some(k) = known
            .iter_mut()
            .find(|k| k.device == t.device && k.lane == t.lane)
        {
            k.seq = k.seq.max(t.seq);
            return;
        }
        if !self.many.is_empty() {
            self.many.push(t);
        } else if let Some(place) = self.some.get_mut(self.few) {
            *place = t;
            self.few += 1;
        } else {
            self.many.extend_from_slice(&self.some);
            self.many.push(t);
            self.few = 0;
        }
    }

    fn retain(&mut self, keep: impl Fn(Ticket) -> bool) {
        self.many.retain(|&t| keep(t));
        let mut kept = 0;
        for i in 0..self.few {
            let t = self.some[i];
            if keep(t) {
                self.some[kept] = t;
                kept += 1;
            }
        }
        self.few = kept;
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Deps) {
        for &t in other.tickets() {
            self.add(t);
        }
    }

    /// The tickets.
    #[must_use]
    pub fn tickets(&self) -> &[Ticket] {
        if self.many.is_empty() {
            &self.some[..self.few]
        } else {
            &self.many
        }
    }

    /// Whether there is nothing to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tickets().is_empty()
    }

    /// Forgets what is complete.
    pub fn prune(&mut self, backend: &dyn Backend) {
        // A ticket of a lost device never completes; whoever waits for it learns that.
        self.retain(|t| !matches!(backend.done(t), Ok(true)));
    }

    /// Whether all are complete, after asking the devices. A lost device touches nothing any more.
    pub fn settled(&mut self, backend: &dyn Backend) -> bool {
        self.retain(|t| matches!(backend.done(t), Ok(false)));
        self.is_empty()
    }

    /// Blocks until all are complete.
    ///
    /// # Errors
    /// The first loss met; the others were waited for all the same.
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

/// One operation in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The bytes it touches.
    pub rect: Rect,
    /// Its completion.
    pub ticket: Ticket,
    /// Whether it writes them.
    pub write: bool,
}

/// The operations in flight over one place, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Ops(Vec<InFlight>);

/// Above this many entries, completed operations are looked for at every push.
const PRUNE_AT: usize = 16;

impl Ops {
    /// Collects what an operation over `rect` must wait for.
    pub fn deps(&self, rect: &Rect, write: bool, out: &mut Deps) {
        for op in &self.0 {
            if (write || op.write) && op.rect.overlaps(rect) {
                out.add(op.ticket);
            }
        }
    }

    /// Collects the operations that read some of `rect`.
    pub fn reads(&self, rect: &Rect, out: &mut Deps) {
        for op in &self.0 {
            if !op.write && op.rect.overlaps(rect) {
                out.add(op.ticket);
            }
        }
    }

    /// Everything in flight.
    pub fn all(&self, out: &mut Deps) {
        for op in &self.0 {
            out.add(op.ticket);
        }
    }

    /// What operations in flight write.
    pub fn writes(&self) -> impl Iterator<Item = &Rect> {
        self.0.iter().filter(|op| op.write).map(|op| &op.rect)
    }

    /// Records an operation that was queued behind [`Ops::deps`] of the same arguments.
    pub fn push(&mut self, backend: &dyn Backend, rect: Rect, ticket: Ticket, write: bool) {
        self.0.retain(|op| {
            let ordered = write
                || (!op.write
                    && op.ticket.device == ticket.device
                    && op.ticket.lane == ticket.lane);
            !(ordered && rect.contains(&op.rect))
        });
        if self.0.len() >= PRUNE_AT {
            self.prune(backend);
        }
        self.0.push(InFlight {
            rect,
            ticket,
            write,
        });
    }

    /// Records an operation that what follows over `rect` must wait for (reused device memory).
    pub fn push_ordered(&mut self, rect: Rect, ticket: Ticket) {
        self.0.push(InFlight {
            rect,
            ticket,
            write: true,
        });
    }

    /// Forgets what is complete.
    pub fn prune(&mut self, backend: &dyn Backend) {
        self.0
            .retain(|op| !matches!(backend.done(op.ticket), Ok(true)));
    }

    /// Whether nothing is in flight (as far as is known without asking the device).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an operation of a device is in flight here.
    #[must_use]
    pub fn involve(&self, device: DeviceId) -> bool {
        self.0.iter().any(|op| op.ticket.device == device)
    }

    /// Forgets the operations of a lost device: they never complete. Returns the bytes that those which did
    /// not complete in time were to write.
    pub fn forget(&mut self, device: DeviceId, backend: &dyn Backend) -> Vec<Rect> {
        let (gone, kept) = self.0.iter().partition(|op| op.ticket.device == device);
        self.0 = kept;
        let unwritten = |op: &InFlight| op.write && !matches!(backend.done(op.ticket), Ok(true));
        Vec::into_iter(gone)
            .filter(unwritten)
            .map(|op| op.rect)
            .collect()
    }

    /// Forgets everything: the caller waited for it.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
