//! Operations in flight over the bytes of one place (a replica, or the host side of an allocation).
//!
//! Streams run concurrently; an operation that reads bytes waits for the writes in flight over them, one
//! that writes waits for reads and writes (the full/empty bits of SemCache++ 3.2.3, as events over byte
//! rectangles). The list stays short: an operation that is ordered behind another and covers it makes the
//! older one redundant.

use crate::base::{DeviceId, Rect};
use crate::device::api::{Backend, DeviceError, Ticket};

/// Tickets to wait for. All of them are named, also several of one stream: after a loss a later ticket of a
/// stream does not speak for an earlier one that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deps(Vec<Ticket>);

impl Deps {
    /// Adds a ticket.
    pub fn add(&mut self, t: Ticket) {
        if !self.0.contains(&t) {
            self.0.push(t);
        }
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Deps) {
        for &t in &other.0 {
            self.add(t);
        }
    }

    /// The tickets.
    #[must_use]
    pub fn tickets(&self) -> &[Ticket] {
        &self.0
    }

    /// Whether there is nothing to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets what is complete.
    pub fn prune(&mut self, backend: &dyn Backend) {
        // A ticket of a lost device never completes; whoever waits for it learns that.
        self.0.retain(|&t| !matches!(backend.done(t), Ok(true)));
    }

    /// Whether all are complete, after asking the devices. A lost device touches nothing any more.
    pub fn settled(&mut self, backend: &dyn Backend) -> bool {
        self.0.retain(|&t| matches!(backend.done(t), Ok(false)));
        self.is_empty()
    }

    /// Blocks until all are complete.
    ///
    /// # Errors
    /// The first loss met; the others were waited for all the same.
    pub fn wait(&self, backend: &dyn Backend) -> Result<(), DeviceError> {
        let mut result = Ok(());
        for &t in &self.0 {
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
