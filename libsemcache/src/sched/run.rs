//! Issuing a plan: one pass that queues every task, and behind it the streamed write-back of final pieces.

use super::memory::{Devices, Uploaders};
use super::queue::{Footprints, Memory, Out, Queue};
use super::room::{self, Tiles};
use super::streamed::StreamedWriteBack;
use crate::base::DeviceSet;
use crate::cache::place::tile_bytes;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::Ticket;
use crate::model::rates::Rates;
use crate::plan::{Plan, Problem};

/// A plan that could not be issued to its end: tasks before `at` are queued, the others are not.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Index of the first task that was not queued.
    pub at: usize,
    /// Why that task was not queued.
    pub error: CacheError,
}

/// Queues all tasks of `plan`, and behind them the streamed write-back of the pieces that `streamed` chooses. Returns the
/// last task's ticket.
///
/// # Errors
/// The first task that could not be queued.
pub fn run(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    operands: &[Use],
    memory: Memory<'_>,
    out: Out<'_>,
    streamed: &mut StreamedWriteBack,
) -> Result<Option<Ticket>, Stopped> {
    let mut queue = Queue::new(cache, problem, plan, operands, memory, out);
    let mut last = None;
    for at in 0..plan.tasks.len() {
        match queue.task(plan, at, streamed) {
            Ok(ticket) => last = Some(ticket),
            Err(error) => return Err(Stopped { at, error }),
        }
    }
    Ok(last)
}

/// What the memory of a call's devices holds.
#[derive(Debug)]
pub enum Holds {
    /// All that the call uses. An input that several devices read is uploaded to one of them.
    Whole(Uploaders),
    /// Tiles, which leave the devices between the call's tasks.
    Tiles(Tiles),
}

impl Holds {
    /// The tiles, if not all that the call uses fits.
    #[must_use]
    pub fn tiles(&self) -> Option<&Tiles> {
        match self {
            Holds::Whole(_) => None,
            Holds::Tiles(tiles) => Some(tiles),
        }
    }
}

/// Makes room on the devices for the tiles of a call, if not all that it uses fits into nine tenths of their memory. The rates of
/// the call's devices predict which tiles leave when.
///
/// # Errors
/// A device is lost, or could not copy the newest bytes of a replica to the host.
pub fn make_room(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    operands: &[Use],
    on: (&DeviceSet, &Rates),
) -> Result<Holds, CacheError> {
    if Footprints::new(problem, plan, operands).fit(cache, tile_bytes) {
        let (set, rates) = on;
        let on = Devices::new(set, rates, cache.links());
        return Ok(Holds::Whole(Uploaders::new(problem, plan, &on)));
    }
    room::make_room(cache, problem, plan, operands, on).map(Holds::Tiles)
}

#[cfg(test)]
mod tests;
