//! Issuing a plan: one pass that queues every task, and the streamed write-back of final pieces behind the tasks that compute them.

use super::memory::{Devices, Uploaders};
use super::queue::{Footprints, Memory, Out, Queue, moved};
use super::room::{self, Tiles};
use super::streamed::StreamedWriteBack;
use crate::base::DeviceSet;
use crate::cache::pins_ahead::PinsAhead;
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
/// With several devices, the pieces of a task wait until each other device may have got its next task: in an
/// iteration on four H100 queueing a copy took 25 us before each of the last three kernels (bench/results/h100-x4.md). If
/// tiles leave the devices, their memory is needed by the next task, and nothing waits.
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
    let behind = match memory.tiles {
        Some(_) => 0,
        None => plan.devices().saturating_sub(1),
    };
    let mut queue = Queue::new(cache, problem, plan, operands, memory, out);
    let (mut last, count) = (None, plan.tasks.len());
    for at in 0..count {
        match queue.task(plan, at) {
            Ok(ticket) => last = Some(ticket),
            Err(error) => return Err(Stopped { at, error }),
        }
        if at >= behind {
            queue.write_back(plan, at - behind, streamed);
        }
    }
    for at in count.saturating_sub(behind)..count {
        queue.write_back(plan, at, streamed);
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

/// Adds the tasks of a plan to the results that a thread page-locks while the tasks are queued.
pub fn add_tasks(results: &mut PinsAhead, problem: &Problem, plan: &Plan, operands: &[Use]) {
    for task in &plan.tasks {
        results.task(task.parts.iter().map(|p| {
            let (_, bytes) = moved(problem, plan, operands, task, p);
            (p.operand, bytes.span())
        }));
    }
}

#[cfg(test)]
mod tests;
