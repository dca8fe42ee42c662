//! Plans: cuts a BLAS problem into tile tasks. Pure functions: a plan knows matrices in element coordinates and the
//! number of devices, but neither addresses nor replicas nor streams.
//!
//! Outputs are distributed, so that no two devices ever write the same byte (owner computes, as in BLASX, section III):
//! level 3 by panels of the matrix that is written, gemv by blocks of y, ger and the routines that add or copy matrices
//! by column panels; vector routines stay on one device, unless several devices hold parts of the vectors; products of a
//! vector with one triangle stay on one device. Triangular and
//! symmetric matrices of level 3, and those of level 2 that exceed the memory, are cut into square tiles along their
//! diagonal: the tiles on it go to the routine's own kernel, the others to plain products or rank-1 updates, which are
//! most of the work (BLASX, section III-B).

mod blocks;
mod chains;
mod distributed;
mod footprint;
mod gemm;
pub mod host_part;
mod level2;
mod level2_half;
mod lowered;
pub mod problem;
mod rank_k;
pub mod redo;
mod resources;
mod split;
mod strips;
mod symm;
mod tiles;
pub mod tiling;
mod touched;
mod triangular;
mod vector;
mod work;

#[cfg(test)]
mod executor;
#[cfg(test)]
mod tests;

pub use chains::{Chain, chains};
pub use distributed::distributed;
pub use footprint::Footprint;
pub use host_part::{HostPart, host_part};
pub use lowered::Plan;
pub use problem::{Access, Operand, Part, Problem, Task};
pub use resources::{Pace, Resources};
pub use strips::Strips;
pub use tiling::Tiling;
pub use touched::touched;
pub use vector::{Owned, by_owners, divides};

use crate::base::routine::Cut;
use crate::base::{DeviceSet, TileSize, Value};

/// Cuts a problem into tasks. `fits` is false if
///
/// * there is no device;
/// * a product or rank-k update has `k == 0`;
/// * a level-3 routine would need tiles smaller than 16;
/// * the memory is so small that there would be more than `MOST_TASKS_AT_ALL` tasks (levels 1 and 2: `MOST_TASKS`;
///   reductions: `MOST_VALUES`);
/// * iamax has a vector that nine tenths of the memory do not hold;
/// * imatcopy transposes a matrix that exceeds 1/`TRANSPOSED_SHARE` of the memory.
///
/// A reduction (dot, nrm2, asum) of several tasks has one value for each; the caller makes one of these.
#[must_use]
pub fn lower(problem: &Problem, machine: &Resources) -> Plan {
    if machine.devices.is_empty() {
        return Plan::default();
    }
    // If the preferred device is not among them, the fastest device is preferred.
    let prefer = Some(machine.prefer).filter(|d| machine.devices.position(*d).is_some());
    let machine = &Resources {
        prefer: prefer.unwrap_or(machine.devices.id(0)),
        ..*machine
    };
    let cut = problem.routine.record().signature.cut;
    let tiling = largest(cut)
        .filter(|_| !nothing(problem))
        .and_then(|shares| blocks::tiling(problem, machine, shares));
    let per_device = match cut {
        Cut::Product => gemm::lower(problem, machine, tiling),
        Cut::Symmetric => symm::lower(problem, machine, tiling),
        Cut::RankK => rank_k::lower(problem, machine, tiling),
        Cut::Triangular => triangular::lower(problem, machine, tiling),
        Cut::PartsOfVector => level2::gemv(problem, machine),
        Cut::Panels => level2::ger(problem, machine),
        Cut::Matrices => level2::elementwise(problem, machine),
        Cut::Whole => level2_half::lower(problem, machine),
        Cut::Vectors => vector::elementwise(problem, machine),
        Cut::Value => vector::reduction(problem, machine),
    };
    match per_device {
        Some(lists) => {
            let tasks = merge(lists, &machine.devices);
            let strips = tiling.map_or_else(Strips::default, |t| Strips::of(&tasks, &t));
            Plan::of(tasks, strips)
        }
        None => Plan::default(),
    }
}

/// The tilings from which a caller may choose one for [`Resources::tiling`], best first by an estimate. Empty for routines
/// that are not of level 3, and if [`lower`] would not fit.
#[must_use]
pub fn tilings(problem: &Problem, machine: &Resources) -> Vec<Tiling> {
    if nothing(problem) || machine.devices.is_empty() {
        return Vec::new();
    }
    let shares = largest(problem.routine.record().signature.cut);
    shares.map_or_else(Vec::new, |shares| blocks::tilings(problem, machine, shares))
}

/// Whether no product is to be computed.
fn nothing(problem: &Problem) -> bool {
    problem.m == 0 || problem.n == 0 || problem.k == 0
}

/// The tile sizes in strips that are worth a look for operands that fit, of a level-3 routine.
#[must_use]
pub fn strips_in_core(problem: &Problem) -> Vec<TileSize> {
    blocks::strips_in_core(problem)
}

/// What tells the largest share of a level-3 routine.
fn largest(cut: Cut) -> Option<blocks::Shares> {
    match cut {
        Cut::Product => Some(gemm::largest),
        Cut::Symmetric => Some(symm::largest),
        Cut::RankK => Some(rank_k::largest),
        Cut::Triangular => Some(triangular::largest),
        _ => None,
    }
}

/// Merges the task lists of the devices: next is always a task of the device that will have done first what it has got so
/// far, so that all devices get work early, and none runs out of it while tasks of others are issued.
fn merge(lists: Vec<Vec<Task>>, devices: &DeviceSet) -> Vec<Task> {
    let mut tasks = Vec::with_capacity(lists.iter().map(Vec::len).sum());
    let mut lists: Vec<_> = lists
        .into_iter()
        .map(|l| {
            let speed = l.first().map_or(1.0, |task| devices.speed(task.device));
            (0.0_f64, speed, l.into_iter())
        })
        .collect();
    if let [(_, _, only)] = &mut lists[..] {
        tasks.extend(only);
        return tasks;
    }
    loop {
        let waiting = lists.iter_mut().filter(|(_, _, list)| list.len() > 0);
        let least = waiting.min_by(|x, y| x.0.total_cmp(&y.0));
        let Some((time, speed, list)) = least else {
            return tasks;
        };
        let Some(task) = list.next() else {
            return tasks;
        };
        let k = &task.kernel;
        *time += k.m.max(1) as f64 * k.n.max(1) as f64 * k.k.max(1) as f64 / *speed;
        tasks.push(task);
    }
}
