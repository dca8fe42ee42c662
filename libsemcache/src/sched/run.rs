//! Issuing a plan: one pass that queues every task, and behind it the streamed write-back of final pieces.

use super::kernel::kernel;
use super::memory::{self, Tiles};
use super::streamed::StreamedWriteBack;
use crate::base::ids::MAX_DEVICES;
use crate::base::{AllocId, DeviceId, Rect};
use crate::cache::place::{device_bytes, tile_bytes};
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{Kernel, Operand, Ticket};
use crate::model::rates::DeviceRates;
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

/// Queues all tasks of `plan`, and behind them the streamed write-back of the pieces that `streamed` chooses. Returns the
/// last task's ticket. `tiles` says which tiles leave when, if the operands do not fit into the devices.
///
/// # Errors
/// The first task that could not be queued.
pub fn run(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    operands: &[Use],
    tiles: Option<&Tiles>,
    out: Out<'_>,
    streamed: &mut StreamedWriteBack,
) -> Result<Option<Ticket>, Stopped> {
    let footprints = Footprints::new(problem, plan, operands);
    let peers: Vec<bool> = cache
        .backend()
        .devices()
        .iter()
        .map(|c| !c.peers.is_empty())
        .collect();
    let whole = Room::Whole {
        flat: footprints.fit(cache, device_bytes),
    };
    let mut last = None;
    for (at, task) in plan.tasks.iter().enumerate() {
        let d = task.device.index();
        let mut uses: Vec<Use> = task
            .parts
            .iter()
            .map(|p| {
                let strip = plan.strips.around(task.device, p);
                let strip = problem.bytes(&strip, operands[p.operand].view.start);
                let footprint = match tiles {
                    None => footprints.of(task.device, p.operand),
                    Some(_) => Some(strip),
                };
                let mut tile = use_of(problem, &task.kernel, operands, p, footprint);
                if p.access == Access::Read && strip != tile.view {
                    tile.touched = vec![(strip, Access::Read)];
                }
                tile
            })
            .collect();
        if let Out::At(results) = out {
            uses.extend(results.get(at).cloned());
        }
        let room = tiles.map_or(whole, |tiles| tiles.room(at));
        let make = |at: &[Operand]| match out {
            Out::Cell(out) => Kernel {
                out,
                ..kernel(task, at)
            },
            _ => kernel(task, at),
        };
        match cache.queue(task.device, &uses, room, peers[d], &make) {
            Ok(ticket) => last = Some(ticket),
            Err(error) => return Err(Stopped { at, error }),
        }
        for (operand, rect) in streamed.queued(at, problem, task, operands) {
            if cache.send_piece(operands[operand].id, &rect) {
                streamed.note(operand, rect);
            }
        }
    }
    Ok(last)
}

/// Makes room on the devices for the tiles of a call of which not all that it uses fits into nine tenths of their memory;
/// `None` if it fits. `rates` predict which tiles leave when.
///
/// # Errors
/// A device is lost, or could not copy the newest bytes of a replica to the host.
pub fn make_room(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    operands: &[Use],
    rates: &DeviceRates,
) -> Result<Option<Tiles>, CacheError> {
    if Footprints::new(problem, plan, operands).fit(cache, tile_bytes) {
        return Ok(None);
    }
    memory::make_room(cache, problem, plan, operands, rates).map(Some)
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
mod tests {
    use super::*;
    use crate::base::counters::COUNTERS;
    use crate::base::{Dtype, Form, Op, Routine, TileSize, Value};
    use crate::device::sim::{SimConfig, SimMachine};
    use crate::model::{HostRates, Rates};
    use crate::plan::tiling::Order;
    use crate::plan::{Operand as Shape, Resources, Tiling, lower};
    use crate::protect::WriteThroughGate;

    const SIZES: [usize; 3] = [88, 72, 95];

    /// `C := A B + beta C` with strips of 48 rows and tiles of 16 columns, on devices that hold eight strips each.
    fn product(ops: (Op, Op), beta: f64, devices: usize) {
        let [m, n, k] = SIZES;
        let stored = |op, r, c| match op {
            Op::None => Shape::matrix(r, c, r + 3),
            _ => Shape::matrix(c, r, c),
        };
        let shapes = vec![
            stored(ops.0, m, k),
            stored(ops.1, k, n),
            Shape::matrix(m, n, m + 1),
        ];
        let mut starts = vec![0];
        for shape in &shapes {
            starts.push(starts[starts.len() - 1] + shape.ld * shape.cols);
        }
        let mut data: Vec<f64> = (0..starts[3]).map(|i| (i * 7 % 11) as f64 - 5.0).collect();
        let before = data.clone();
        let problem = Problem {
            routine: Routine::Gemm,
            dtype: Dtype::D,
            form: Form::default(),
            op_a: ops.0,
            op_b: ops.1,
            m,
            n,
            k,
            alpha: Value::ONE,
            beta: Value { re: beta, im: 0.0 },
            operands: shapes.clone(),
        };
        let turned = ops.0 != Op::None;
        let tile = TileSize {
            m: if turned { 16 } else { 48 },
            n: 16,
            k: if turned && ops.1 == Op::None { 48 } else { 16 },
            strip: 48,
        };
        let tiling = Tiling {
            tile,
            block_rows: if turned { 3 } else { 1 },
            block_cols: 2,
            order: Order::ColumnsOfBlocks,
            in_core: false,
        };
        let memory = 96 << 10;
        let mut resources = Resources::new(devices, 64, memory);
        resources.tiling = Some(tiling);
        let plan = lower(&problem, &resources);
        let longer = |t: &Task| {
            let mut parts = t.parts.iter();
            parts.any(|p| plan.strips.around(t.device, p).rows > p.rows)
        };
        assert!(plan.fits && plan.tasks.iter().any(longer), "{ops:?}");

        let sim = SimMachine::new(SimConfig {
            devices,
            memory,
            late: true,
            poison: true,
            ..SimConfig::default()
        });
        let sim = Box::leak(Box::new(sim.expect("a machine")));
        let cache = Cache::new(sim, &WriteThroughGate, 4096, 4096);
        let base = data.as_mut_ptr().expose_provenance();
        let id = cache.add_transient(base, data.len() * 8);
        let operands: Vec<Use> = (0..3)
            .map(|i| operand(&problem, i, id, base, base + starts[i] * 8))
            .collect();
        let rates = Rates::h200(HostRates::of_cores(4)).device;
        let evictions = COUNTERS.cache.evictions.get();
        let tiles = make_room(&cache, &problem, &plan, &operands, &rates).expect("room");
        assert!(tiles.is_some(), "the operands fit");
        let mut streamed = StreamedWriteBack::new(&plan, &[2], true);
        let done = run(
            &cache,
            &problem,
            &plan,
            &operands,
            tiles.as_ref(),
            Out::Nowhere,
            &mut streamed,
        );
        assert!(done.is_ok(), "{done:?}");
        assert!(COUNTERS.cache.evictions.get() > evictions);
        // Each strip of the output leaves as a whole.
        let rows: Vec<usize> = streamed.sent().iter().map(|(_, r)| r.width / 8).collect();
        assert!(rows.iter().all(|&rows| rows >= 32), "{ops:?}: {rows:?}");
        let whole = Rect::interval(0, before.len() * 8);
        cache.open(id, &whole, false).expect("written back");
        cache.finish_transient(id);

        let at = |x: usize, op: Op, r: usize, c: usize| match op {
            Op::None => before[starts[x] + r + c * shapes[x].ld],
            _ => before[starts[x] + c + r * shapes[x].ld],
        };
        let mut expected = before.clone();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let sum: f64 = (0..k)
                .map(|l| at(0, ops.0, i, l) * at(1, ops.1, l, j))
                .sum();
            expected[starts[2] + i + j * shapes[2].ld] = sum + beta * at(2, Op::None, i, j);
        }
        assert!(data == expected, "{ops:?} {beta} on {devices}");
    }

    #[test]
    fn products_in_strips_equal_the_whole() {
        for ops in [
            (Op::None, Op::None),
            (Op::None, Op::Trans),
            (Op::Trans, Op::None),
            (Op::Trans, Op::Trans),
        ] {
            for devices in 1..=3 {
                product(ops, 0.0, devices);
                product(ops, 2.0, devices);
            }
        }
    }
}
