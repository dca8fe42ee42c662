//! Issuing a plan: one pass that queues every task, and behind it the streamed write-back of final pieces.

use super::kernel::kernel;
use super::memory::{Devices, Uploaders};
use super::room::{self, Tiles};
use super::streamed::StreamedWriteBack;
use crate::base::ids::MAX_DEVICES;
use crate::base::{AllocId, DeviceId, DeviceSet, Rect};
use crate::cache::pins::Pinning;
use crate::cache::place::{device_bytes, tile_bytes};
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{Kernel, Operand, Ticket};
use crate::model::rates::Rates;
use crate::plan::{Access, Footprint, Part, Plan, Problem, Task, touched};

/// An operand of a call, in the allocation that begins at `base`; the operand's lowest byte is at `addr`.
#[must_use]
pub fn operand(problem: &Problem, i: usize, id: AllocId, base: usize, addr: usize) -> Use {
    let whole = problem.whole(i);
    let view = problem.bytes(&whole, addr - base);
    Use {
        id,
        base,
        view,
        footprint: view,
        access: whole.access,
        touched: Vec::new(),
        size: problem.dtype.size(),
        step: problem.operands[i].step(),
    }
}

/// A plan that could not be issued to its end: tasks before `at` are queued, the others are not.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Index of the first task that was not queued.
    pub at: usize,
    /// Why that task was not queued.
    pub error: CacheError,
}

/// Where a reduction leaves its value.
#[derive(Clone, Copy, Debug)]
pub enum Out<'a> {
    /// The call is no reduction.
    Nowhere,
    /// In host memory, copied there from the device: one value for each task.
    At(&'a [Use]),
    /// In a cell of page-locked memory that the device writes, at this device address.
    Cell(u64),
}

/// How a task uses each operand, if it is the only task of its call.
#[must_use]
pub fn uses(problem: &Problem, task: &Task, operands: &[Use]) -> Vec<Use> {
    task.parts
        .iter()
        .map(|p| use_of(problem, &task.kernel, operands, p, None))
        .collect()
}

/// How a task uses a part of an operand. `footprint`: the bytes of the operand that the whole call touches on the
/// device.
fn use_of(
    problem: &Problem,
    kernel: &Kernel,
    operands: &[Use],
    p: &Part,
    footprint: Option<Rect>,
) -> Use {
    let whole = &operands[p.operand];
    let bytes = |p: &Part| problem.bytes(p, whole.view.start);
    let touched = if problem.routine.triangle() == Some(p.operand) {
        let touched = touched(problem, kernel, p);
        touched.iter().map(|p| (bytes(p), p.access)).collect()
    } else {
        Vec::new()
    };
    let view = bytes(p);
    Use {
        view,
        footprint: footprint.unwrap_or(view),
        access: p.access,
        touched,
        ..*whole
    }
}

/// What the memory of a call's devices holds.
#[derive(Debug)]
pub enum Holds {
    /// All that the call uses. An input that several devices read is uploaded to one of them.
    Whole(Uploaders),
    /// Tiles, which leave the devices between the call's tasks.
    Tiles(Tiles),
}

/// The memory that the tasks of a call find.
#[derive(Debug)]
pub struct Memory<'a> {
    /// What the memory of the devices holds.
    pub holds: Holds,
    /// The pieces of host memory that are pinned before the first task that uses them.
    pub pinning: Pinning<'a>,
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
    Memory { holds, mut pinning }: Memory<'_>,
    out: Out<'_>,
    streamed: &mut StreamedWriteBack,
) -> Result<Option<Ticket>, Stopped> {
    let footprints = Footprints::new(problem, plan, operands);
    let whole = Room::Whole {
        flat: footprints.fit(cache, device_bytes),
    };
    let (tiles, mut uploaders) = match holds {
        Holds::Whole(uploaders) => (None, uploaders),
        Holds::Tiles(tiles) => (Some(tiles), Uploaders::default()),
    };
    let mut last = None;
    for (at, task) in plan.tasks.iter().enumerate() {
        let mut uses: Vec<Use> = task
            .parts
            .iter()
            .map(|p| {
                let moved = plan.strips.around(task.device, p);
                let strip = problem.bytes(&moved, operands[p.operand].view.start);
                let written = p.access != Access::Read;
                pinning.need(cache, p.operand, written, strip.span());
                let footprint = match &tiles {
                    None => footprints.of(task.device, p.operand),
                    Some(_) => Some(strip),
                };
                let mut tile = use_of(problem, &task.kernel, operands, p, footprint);
                if p.access == Access::Read && strip != tile.view {
                    tile.touched = vec![(strip, Access::Read)];
                }
                if let Some(uploader) = uploaders.first(&moved)
                    && uploader != task.device
                    && let Some(footprint) = footprints.of(uploader, p.operand)
                {
                    let input = Use {
                        footprint,
                        ..tile.clone()
                    };
                    // What cannot be sent there is copied by the task itself.
                    let _ = cache.bring(uploader, &input, whole);
                }
                tile
            })
            .collect();
        if let Out::At(results) = out {
            uses.extend(results.get(at).cloned());
        }
        let room = tiles.as_ref().map_or(whole, |tiles| tiles.room(at));
        let make = |at: &[Operand]| match out {
            Out::Cell(out) => Kernel {
                out,
                ..kernel(task, at)
            },
            _ => kernel(task, at),
        };
        match cache.queue(task.device, &uses, room, &make) {
            Ok(ticket) => last = Some(ticket),
            Err(error) => return Err(Stopped { at, error }),
        }
        for (operand, rect) in streamed.queued(at, problem, plan, operands) {
            if cache.send_piece(operands[operand].id, &rect) {
                streamed.note(operand, rect);
            }
        }
    }
    Ok(last)
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

/// For each device and operand, the bytes that the device touches over the whole call.
struct Footprints(Vec<(DeviceId, usize, Rect)>);

impl Footprints {
    fn new(problem: &Problem, plan: &Plan, operands: &[Use]) -> Self {
        let of = |Footprint { device, part }: &Footprint| {
            let bytes = problem.bytes(part, operands[part.operand].view.start);
            (*device, part.operand, bytes)
        };
        Self(plan.footprints.iter().map(of).collect())
    }

    fn of(&self, device: DeviceId, operand: usize) -> Option<Rect> {
        self.0
            .iter()
            .find(|(d, o, _)| *d == device && *o == operand)
            .map(|(_, _, r)| *r)
    }

    /// Whether the footprints on each device take at most nine tenths of its memory, each as many bytes as `bytes` says.
    fn fit(&self, cache: &Cache, bytes: fn(&Rect) -> usize) -> bool {
        let mut taken = [0_usize; MAX_DEVICES];
        for (device, _, rect) in &self.0 {
            let taken = &mut taken[device.index()];
            *taken = taken.saturating_add(bytes(rect));
        }
        let devices = cache.backend().devices().iter();
        devices
            .zip(taken)
            .all(|(caps, taken)| taken <= caps.memory / 10 * 9)
    }
}

#[cfg(test)]
mod tests;
