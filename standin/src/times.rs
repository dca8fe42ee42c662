//! When the simulated machine's operations ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use semcache::device::measured;

use crate::stream::Tickets;

/// The number of operations of each stream whose ends are known.
const MOST: usize = 1 << 16;

/// The last operations of each stream (device and lane), oldest first: their positions in the stream and their ends, by the
/// host's monotonic clock in nanoseconds.
type Ends = BTreeMap<(u8, u8), VecDeque<(u64, u64)>>;

static ENDS: Mutex<Ends> = Mutex::new(Ends::new());

/// From now on the ends of all operations are noted.
pub(crate) fn start() {
    measured::watch(|op, (_, end)| {
        let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = ends.entry((op.device(), op.lane())).or_default();
        if stream.len() >= MOST {
            stream.pop_front();
        }
        stream.push_back((op.seq(), end));
    });
}

/// The end of the last operation among those of the tickets, all of which are complete; 0 if it is not known any more.
pub(crate) fn end(tickets: &Tickets) -> u64 {
    let ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |ticket: &semcache::device::api::Ticket| {
        let stream = ends.get(&(ticket.device.0, ticket.lane as u8))?;
        let at = stream.binary_search_by_key(&ticket.seq, |(seq, _)| *seq);
        at.ok().map(|i| stream[i].1)
    };
    tickets.as_slice().iter().filter_map(of).max().unwrap_or(0)
}
