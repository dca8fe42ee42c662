//! One pass over a plan.

use super::homeward::Homeward;
use super::kernel::kernel;
use crate::base::{AllocId, DeviceId, Rect};
use crate::cache::place::device_bytes;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{self, Kernel, Ticket};
use crate::plan::{Access, Operand, Part, Plan, Problem, Task, TaskOp, touched};

/// An operand of a call in the cache's terms.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Its allocation.
    pub id: AllocId,
    /// Host address of offset 0 of the allocation.
    pub base: usize,
    /// Offset of the operand's lowest byte.
    pub offset: usize,
    /// Resources in elements.
    pub shape: Operand,
    /// Bytes of an element.
    pub size: usize,
}

impl Placed {
    /// Bytes between consecutive columns, or elements of a strided vector.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.shape.ld * self.size
    }

    /// The bytes of a rectangle of elements. A vector counts its elements as rows of one column.
    #[must_use]
    pub fn rect(&self, row: usize, col: usize, rows: usize, cols: usize) -> Rect {
        let (es, stride) = (self.size, self.stride());
        if self.shape.vector && self.shape.ld != 1 {
            return Rect::new(self.offset + row * stride, es, stride, rows);
        }
        Rect::new(
            self.offset + col * stride + row * es,
            rows * es,
            stride.max(rows * es),
            cols,
        )
    }

    /// The bytes of the whole operand.
    #[must_use]
    pub fn whole(&self) -> Rect {
        self.rect(0, 0, self.shape.rows, self.shape.cols)
    }

    /// The bytes of a part.
    #[must_use]
    pub fn part(&self, p: &Part) -> Rect {
        self.rect(p.row, p.col, p.rows, p.cols)
    }
}

/// A plan that could not be issued to its end: tasks before `at` are queued, the others are not.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Index of the first task that was not queued.
    pub at: usize,
    /// Why.
    pub error: CacheError,
}

/// Where a reduction leaves its value.
#[derive(Clone, Copy, Debug)]
pub enum Out<'a> {
    /// The call is no reduction.
    Nowhere,
    /// In host memory, by a copy.
    At(&'a Placed),
    /// In a cell of the device, at this address.
    Cell(u64),
}

/// What a task does with each operand, when it is the only one of its call.
#[must_use]
pub fn uses(problem: &Problem, task: &Task, operands: &[Placed]) -> Vec<Use> {
    task.parts
        .iter()
        .map(|p| use_of(problem, &task.op, operands, p, None))
        .collect()
}

/// What a task does with a part, of an operand of which the call touches so much on its device.
fn use_of(
    problem: &Problem,
    op: &TaskOp,
    operands: &[Placed],
    p: &Part,
    footprint: Option<Rect>,
) -> Use {
    let o = &operands[p.operand];
    let view = o.part(p);
    let touched = if problem.routine.triangle() == Some(p.operand) {
        let touched = touched(problem, op, p);
        touched.iter().map(|p| (o.part(p), p.access)).collect()
    } else {
        Vec::new()
    };
    Use {
        id: o.id,
        view,
        footprint: footprint.unwrap_or(view),
        access: p.access,
        touched,
        size: o.size,
        step: o.shape.step(),
    }
}

/// Queues all tasks of `plan`, and behind them the copies home of what `home` wants. Returns the last one's ticket.
///
/// # Errors
/// The first task that could not be queued.
pub fn run(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    operands: &[Placed],
    out: Out<'_>,
    home: &mut Homeward,
) -> Result<Option<Ticket>, Stopped> {
    let footprints = Footprints::new(plan, operands);
    let peers: Vec<bool> = cache
        .backend()
        .devices()
        .iter()
        .map(|c| !c.peers.is_empty())
        .collect();
    let capacity: Vec<usize> = cache.backend().devices().iter().map(|c| c.memory).collect();
    let mut last = None;
    for (at, task) in plan.tasks.iter().enumerate() {
        let d = task.device.index();
        let mut uses: Vec<Use> = task
            .parts
            .iter()
            .map(|p| {
                let footprint = footprints.of(task.device, p.operand);
                use_of(problem, &task.op, operands, p, footprint)
            })
            .collect();
        if let Out::At(r) = out {
            let view = r.whole();
            uses.push(Use {
                id: r.id,
                view,
                footprint: view,
                access: Access::Overwrite,
                touched: Vec::new(),
                size: r.size,
                step: r.shape.step(),
            });
        }
        let roomy = footprints.bytes(task.device) <= capacity[d] / 10 * 9;
        let make = |at: &[api::Operand]| match out {
            Out::Cell(out) => Kernel {
                out,
                ..kernel(problem, task, at)
            },
            _ => kernel(problem, task, at),
        };
        match cache.queue(task.device, &uses, roomy, peers[d], &make) {
            Ok(ticket) => last = Some(ticket),
            Err(error) => return Err(Stopped { at, error }),
        }
        for (operand, rect) in home.queued(at, task, operands) {
            if cache.send_piece(operands[operand].id, &rect) {
                home.note(operand, rect);
            }
        }
    }
    Ok(last)
}

/// What each device will touch of each operand over the whole call.
struct Footprints(Vec<(DeviceId, usize, Rect)>);

impl Footprints {
    fn new(plan: &Plan, operands: &[Placed]) -> Self {
        Self(
            plan.footprints
                .iter()
                .map(|f| {
                    (
                        f.device,
                        f.operand,
                        operands[f.operand].rect(f.row, f.col, f.rows, f.cols),
                    )
                })
                .collect(),
        )
    }

    fn of(&self, device: DeviceId, operand: usize) -> Option<Rect> {
        self.0
            .iter()
            .find(|(d, o, _)| *d == device && *o == operand)
            .map(|(_, _, r)| *r)
    }

    /// Device memory that all of them take together, at most: flat spans or compact rectangles.
    fn bytes(&self, device: DeviceId) -> usize {
        self.0
            .iter()
            .filter(|(d, _, _)| *d == device)
            .map(|(_, _, r)| device_bytes(r))
            .sum()
    }
}
