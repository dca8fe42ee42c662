//! The data of streams and events: lists of tickets.

use semcache::device::api::Ticket;

/// Tickets, at most one per device and lane: the last ticket of a lane covers those before it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tickets(Vec<Ticket>);

impl Tickets {
    /// The list of one ticket.
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
    /// Whether the stream is ordered with the context's null stream.
    pub(crate) blocking: bool,
    /// The tickets that the stream's next operation waits for.
    pub(crate) frontier: Tickets,
}

/// An event. An event that was never recorded is complete.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: usize,
    pub(crate) timing: bool,
    pub(crate) tickets: Tickets,
    /// When the event was recorded last, by the host's monotonic clock in nanoseconds.
    pub(crate) recorded: Option<u64>,
}
