//! Plans of calls whose output has a distribution: each tile of the output is computed by the device that owns it.

use rustc_hash::FxHashMap;

use super::problem::{Access, Part, Problem, Task};
use super::resources::Resources;
use super::{Plan, lower, merge};
use crate::base::distribution::Distributed;
use crate::base::ids::MAX_DEVICES;
use crate::base::routine::Cut;
use crate::base::{DeviceId, DeviceSet, Side, TileSize};

/// Blocks longer than this are computed in tiles, so that a device can begin when a part of its operands has arrived.
const LONGEST_TILE: usize = 2048;
/// Tiles are not shorter than this.
const LEAST_TILE: usize = 256;
/// Tasks in all, if larger ones make them fewer. One thread queues the tasks of all devices: on a machine with four H100 and 64 cores 70 to
/// 80 us each, so that calls of order 32768 in tiles of 2048 waited for that thread (bench/results/h100-x4-hints.md).
const TASKS: usize = 1024;
/// Lines of tiles of a triangular solution or product, for each device.
const LINES: usize = 2;

/// Cuts a call of level 3 as for one device that has the memory of all, and gives each task to the owner of the tile that it writes.
/// Of a triangular solution or product, whose tiles need each other, whole columns (rows) of tiles go to one of their owners.
/// `None` for other routines, or if the output has no owner among the devices.
#[must_use]
pub fn distributed(problem: &Problem, machine: &Resources, output: &Distributed) -> Option<Plan> {
    let devices = machine.devices;
    let known = |id| devices.position(id).is_some();
    if problem.routine.level() != 3 || !output.of.devices().into_iter().all(known) {
        return None;
    }
    let tile = match machine.fixed {
        true => machine.tile,
        false => tile(problem, output, devices.len()),
    };
    let one = Resources {
        devices: DeviceSet::only(devices.id(0)),
        tile,
        fixed: true,
        prefer: devices.id(0),
        memory: machine.memory.saturating_mul(devices.len()),
        tiling: None,
        ..*machine
    };
    let plan = lower(problem, &one);
    if !plan.fits {
        return None;
    }
    let mut tasks = plan.tasks;
    let mut owners = Owners::new(problem, output);
    for task in &mut tasks {
        if let Some(part) = task.parts.iter().find(|p| p.access != Access::Read) {
            task.device = owners.of(part);
        }
    }
    let tasks = merge(by_device(tasks, &devices)?, &devices);
    Some(Plan::of(tasks, plan.strips))
}

/// Which device computes which tile of the output.
struct Owners<'a> {
    output: &'a Distributed,
    extents: (usize, usize),
    /// The side of a triangular matrix by which the output is multiplied in place, or solved for: tiles of one column (left) or row
    /// (right) of tiles need each other, and belong to one of the owners of their blocks.
    lines: Option<Side>,
    /// The device of each such line, by its first column or row.
    known: FxHashMap<usize, DeviceId>,
    /// The number of lines of each device.
    load: [usize; MAX_DEVICES],
}

impl<'a> Owners<'a> {
    fn new(problem: &Problem, output: &'a Distributed) -> Self {
        let triangular = problem.routine.record().signature.cut == Cut::Triangular;
        Owners {
            output,
            extents: (problem.m, problem.n),
            lines: triangular.then_some(problem.form.side),
            known: FxHashMap::default(),
            load: [0; MAX_DEVICES],
        }
    }

    fn of(&mut self, part: &Part) -> DeviceId {
        let whole = |len| (0, len);
        match self.lines {
            None => {
                let (row, col) = (part.row + part.rows / 2, part.col + part.cols / 2);
                self.output.owner(row, col)
            }
            Some(Side::Left) => {
                let cols = (part.col, part.cols);
                self.line(part.col, whole(self.extents.0), cols)
            }
            Some(Side::Right) => {
                let rows = (part.row, part.rows);
                self.line(part.row, rows, whole(self.extents.1))
            }
        }
    }

    /// The device of a line of tiles with these rows and columns (the first, and their number): of the owners of its blocks the one that
    /// has fewest lines so far.
    fn line(&mut self, line: usize, rows: (usize, usize), cols: (usize, usize)) -> DeviceId {
        if let Some(&known) = self.known.get(&line) {
            return known;
        }
        let block = self.output.of.block();
        // From the edge of the first block on.
        let along = |(first, len): (usize, usize), origin: usize, step: usize| {
            let edge = first.saturating_sub((first + origin) % step);
            (edge..first + len).step_by(step)
        };
        let (row, col) = (self.output.row, self.output.col);
        let each = along(cols, col, block.1)
            .flat_map(|col| along(rows, row, block.0).map(move |row| (row, col)));
        let owners = each.map(|(row, col)| self.output.owner(row, col));
        let least = owners.min_by_key(|d| self.load[d.index()]);
        let device = least.unwrap_or(DeviceId(0));
        self.load[device.index()] += 1;
        self.known.insert(line, device);
        device
    }
}

/// The tile: as long as cuts a block into equal ones, and of sums of products as much at once as makes few tasks. Tiles are longer than
/// blocks of a few rows or columns. Lines of tiles need not follow the blocks: there are as many as give each device some.
fn tile(problem: &Problem, output: &Distributed, devices: usize) -> TileSize {
    let side = |block: usize, all: usize| {
        let even = block.div_ceil(block.div_ceil(LONGEST_TILE));
        even.max(LEAST_TILE).min(all.max(1))
    };
    let Problem { m, n, k, .. } = *problem;
    let (rows, cols) = output.of.block();
    let (rows, cols) = (side(rows, m), side(cols, n));
    let square = rows.min(cols).max(LEAST_TILE);
    let steps = |tiles: usize, tile: usize| {
        let steps = (TASKS / tiles.max(1)).clamp(1, k.div_ceil(tile).max(1));
        k.div_ceil(steps).max(tile)
    };
    match problem.routine.record().signature.cut {
        Cut::Triangular => {
            let across = if problem.form.side == Side::Left {
                n
            } else {
                m
            };
            let line = across.div_ceil(devices * LINES).next_multiple_of(square);
            TileSize::square(square.max(line.min(2 * LONGEST_TILE)))
        }
        Cut::Product => TileSize {
            m: rows,
            n: cols,
            k: steps(m.div_ceil(rows) * n.div_ceil(cols), square),
            strip: rows.min(cols),
        },
        Cut::RankK => TileSize {
            k: steps(n.div_ceil(square).pow(2), square),
            ..TileSize::square(square)
        },
        _ => TileSize::square(square),
    }
}

/// The tasks of each device; `None` if a task is on another one.
fn by_device(tasks: Vec<Task>, devices: &DeviceSet) -> Option<Vec<Vec<Task>>> {
    let mut lists = vec![Vec::new(); devices.len()];
    for task in tasks {
        lists[devices.position(task.device)?].push(task);
    }
    Some(lists)
}
