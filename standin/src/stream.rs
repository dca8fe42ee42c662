//! Streams and events as data: lists of tickets.

use std::time::Instant;

use semcache::device::api::Ticket;

/// Tickets of which at most one per device and lane is kept: the last covers those before it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tickets(Vec<Ticket>);

impl Tickets {
    /// Exactly this one.
    pub(crate) fn one(ticket: Ticket) -> Self {
        Tickets(vec![ticket])
    }

    pub(crate) fn add(&mut self, more: &Tickets) {
        for ticket in &more.0 {
            let same = |t: &&mut Ticket| (t.device, t.lane) == (ticket.device, ticket.lane);
            match self.0.iter_mut().find(same) {
                Some(known) => known.seq = known.seq.max(ticket.seq),
                None => self.0.push(*ticket),
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[Ticket] {
        &self.0
    }
}

/// A stream of a context.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: usize,
    /// Ordered with the context's null stream.
    pub(crate) blocking: bool,
    /// What the next operation is behind.
    pub(crate) frontier: Tickets,
}

/// An event. Never recorded, it is complete.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: usize,
    pub(crate) timing: bool,
    pub(crate) tickets: Tickets,
    pub(crate) recorded: Option<Instant>,
}
