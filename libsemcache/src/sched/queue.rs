//! Queueing of one task of a plan: how it uses its operands, and the bytes that each device's replicas of them hold.

use super::kernel::kernel;
use super::memory::Uploaders;
use super::room::Tiles;
use super::streamed::StreamedWriteBack;
use crate::base::ids::MAX_DEVICES;
use crate::base::{AllocId, DeviceId, Rect};
use crate::cache::pins::Pinning;
use crate::cache::pins_ahead::PinsAhead;
use crate::cache::place::{device_bytes, holds};
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{Kernel, Operand, Ticket};
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

/// Where a reduction leaves its value.
#[derive(Clone, Copy, Debug)]
pub enum Out<'a> {
    /// The call is no reduction.
    Nowhere,
    /// In host memory, copied there from the device: one value for each task.
    At(&'a [Use]),
    /// In a cell of page-locked memory that the device writes, at this device address.
    Cell(u64),
    /// The call is no reduction, and its one task leaves this part of it in mapped memory.
    Mapped(usize, Operand),
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

/// What is moved when a task uses a part of an operand: the part with the rest of its strip, and its bytes.
pub(super) fn moved(
    problem: &Problem,
    plan: &Plan,
    operands: &[Use],
    task: &Task,
    p: &Part,
) -> (Part, Rect) {
    let moved = plan.strips.around(task.device, p);
    let bytes = problem.bytes(&moved, operands[p.operand].view.start);
    (moved, bytes)
}

/// The memory that the tasks of a call find.
#[derive(Debug)]
pub struct Memory<'a> {
    /// Which tiles leave the devices when, if the operands do not fit.
    pub tiles: Option<&'a Tiles>,
    /// The device that each input is uploaded to, if several use it. Chosen for the whole call, so only a call whose tasks stay on
    /// the devices of its plan has them.
    pub uploaders: Option<&'a mut Uploaders>,
    /// The pieces of host memory that are pinned before the first task that uses them.
    pub pinning: Pinning<'a>,
    /// The pieces that another thread pins before the first task that uses them.
    pub results: Option<&'a PinsAhead>,
}

/// A call whose tasks are queued one by one.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    cache: &'a Cache,
    problem: &'a Problem,
    operands: &'a [Use],
    memory: Memory<'a>,
    out: Out<'a>,
    footprints: Footprints,
    /// Whether tasks have gone to other devices than planned.
    pub(super) dealt: bool,
    /// The first task whose inputs have not been sent ahead of it.
    brought: usize,
    /// What holds the operands if all of them fit.
    whole: Room<'static>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(
        cache: &'a Cache,
        problem: &'a Problem,
        plan: &Plan,
        operands: &'a [Use],
        memory: Memory<'a>,
        out: Out<'a>,
    ) -> Queue<'a> {
        let footprints = Footprints::new(problem, plan, operands);
        Queue {
            cache,
            problem,
            operands,
            memory,
            out,
            whole: Room::Whole {
                flat: footprints.fit(cache, device_bytes),
            },
            footprints,
            dealt: false,
            brought: 0,
        }
    }

    /// Queues the task with this index.
    pub(super) fn task(&mut self, plan: &Plan, at: usize) -> Result<Ticket, CacheError> {
        let task = &plan.tasks[at];
        while let Some(results) = self.memory.results
            && !results.ready(at)
        {
            if !self.bring_next(plan, at) {
                results.wait(self.cache, at);
            }
        }
        let mapped = |j: usize| matches!(self.out, Out::Mapped(part, _) if part == j);
        let parts = task.parts.iter().enumerate();
        let placed: Vec<_> = parts.filter(|(j, _)| !mapped(*j)).map(|(_, p)| p).collect();
        let placed = placed.into_iter();
        let mut uses: Vec<Use> = placed.map(|p| self.prepare(plan, task, p)).collect();
        if let Out::At(results) = self.out {
            uses.extend(results.get(at).cloned());
        }
        let room = match self.memory.tiles {
            Some(tiles) if self.dealt => tiles.slots(),
            Some(tiles) => tiles.room(at),
            None => self.whole,
        };
        let make = |at: &[Operand]| match self.out {
            Out::Cell(out) => Kernel {
                out,
                ..kernel(task, at)
            },
            Out::Mapped(part, result) => kernel(task, &with_mapped(at, part, result)),
            _ => kernel(task, at),
        };
        self.cache.queue(task.device, &uses, room, &make)
    }

    /// How a task uses a part of an operand, and the bytes that are moved with it. If another device is to have an input first, the
    /// input is sent there.
    fn prepare(&mut self, plan: &Plan, task: &Task, p: &Part) -> Use {
        let (cache, problem, operands) = (self.cache, self.problem, self.operands);
        let Memory {
            tiles,
            uploaders,
            pinning,
            ..
        } = &mut self.memory;
        let (moved, strip) = moved(problem, plan, operands, task, p);
        pinning.need(cache, p.operand, p.access != Access::Read, strip.span());
        let footprint = match tiles {
            None => self.footprints.of(task.device, p.operand, &strip),
            Some(_) => Some(strip),
        };
        let mut tile = use_of(problem, &task.kernel, operands, p, footprint);
        if p.access == Access::Read && strip != tile.view {
            tile.touched = vec![(strip, Access::Read)];
        }
        let uploader = uploaders.as_mut().and_then(|all| all.first(&moved));
        if let Some(uploader) = uploader.filter(|&u| u != task.device)
            && let Some(footprint) = self.footprints.of(uploader, p.operand, &strip)
        {
            let input = Use {
                footprint,
                ..tile.clone()
            };
            // What cannot be sent there is copied by the task itself.
            let _ = cache.bring(uploader, &input, self.whole);
        }
        tile
    }

    /// While the task `at` waits for its results to be page-locked: sends those inputs of a later task that no task of the call
    /// writes, of each task once. Returns false after the last task, or if tiles leave the devices.
    fn bring_next(&mut self, plan: &Plan, at: usize) -> bool {
        self.brought = self.brought.max(at);
        let task = match plan.tasks.get(self.brought) {
            Some(task) if self.memory.tiles.is_none() => task,
            _ => return false,
        };
        self.brought += 1;
        for p in &task.parts {
            if self.problem.access(p.operand) == Access::Read {
                let input = self.prepare(plan, task, p);
                // What cannot be sent is copied by the task itself.
                let _ = self.cache.bring(task.device, &input, self.whole);
            }
        }
        true
    }

    /// Queues the write-back of the pieces that are final once this task is done, as far as `streamed` chooses. It is called once for
    /// each task, in the order in which they are queued.
    pub(super) fn write_back(&self, plan: &Plan, at: usize, streamed: &mut StreamedWriteBack) {
        let pieces = streamed.queued(at, self.problem, plan, self.operands);
        self.send(pieces, streamed);
    }

    /// Queues the write-back of final pieces.
    pub(super) fn send(&self, pieces: Vec<(usize, Rect)>, streamed: &mut StreamedWriteBack) {
        for (operand, rect) in pieces {
            if self.cache.send_piece(self.operands[operand].id, &rect) {
                streamed.note(operand, rect);
            }
        }
    }
}

/// The places of all parts of a task of which one lies in mapped memory.
#[must_use]
pub fn with_mapped(at: &[Operand], part: usize, result: Operand) -> Vec<Operand> {
    let (before, behind) = at.split_at(part.min(at.len()));
    [before, &[result], behind].concat()
}

/// For each device and operand, the bytes that the plan has the device touch over the whole call.
#[derive(Debug)]
pub(super) struct Footprints(Vec<(DeviceId, usize, Rect)>);

impl Footprints {
    pub(super) fn new(problem: &Problem, plan: &Plan, operands: &[Use]) -> Self {
        let of = |Footprint { device, part }: &Footprint| {
            let bytes = problem.bytes(part, operands[part.operand].view.start);
            (*device, part.operand, bytes)
        };
        Self(plan.footprints.iter().map(of).collect())
    }

    /// The bytes of an operand that a device touches, if `part` is among them: a task that has gone to another device than
    /// planned may use others.
    fn of(&self, device: DeviceId, operand: usize, part: &Rect) -> Option<Rect> {
        let mut all = self.0.iter();
        let found = all.find(|(d, o, _)| *d == device && *o == operand);
        found.map(|f| f.2).filter(|r| holds(r, part))
    }

    /// Whether the footprints on each device take at most nine tenths of its memory, each as many bytes as `bytes` says.
    pub(super) fn fit(&self, cache: &Cache, bytes: fn(&Rect) -> usize) -> bool {
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
