//! Which tasks of a call that stopped are computed on the host, and whether that can still be right.
//!
//! Tasks are repeated in the order of the plan, from the bytes that the host has. That is right for a part of an
//! operand if these are what the task would have found: those from before the call for its first writer, and for
//! readers that come before it (in trmm a tile of B is read by products before it is overwritten); the final ones for
//! readers that come after the last writer (in trsm), whether they came home or were computed again before.

use std::collections::HashMap;

use super::{Access, Part, Plan, Problem};
use crate::base::DeviceId;

/// Where the issue of a plan stopped, and what of the outputs is known.
#[derive(Clone, Copy)]
pub struct Stop<'a> {
    /// Tasks before this one were queued, the others were not.
    pub at: usize,
    /// The device that is lost, with what its tasks computed.
    pub lost: Option<DeviceId>,
    /// Whether bytes of a part are final on the host.
    pub home: &'a dyn Fn(&Part) -> bool,
    /// Whether bytes of a part are neither final nor what they were.
    pub torn: &'a dyn Fn(&Part) -> bool,
    /// Whether the old bytes of an operand are needed and may have been replaced elsewhere.
    pub gone: &'a dyn Fn(usize) -> bool,
}

impl std::fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop")
            .field("at", &self.at)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

/// A part of an output by its place. The parts that a device writes of an operand are the same or disjoint.
#[must_use]
pub const fn key(p: &Part) -> (usize, usize, usize, usize, usize) {
    (p.operand, p.row, p.col, p.rows, p.cols)
}

/// The tasks to compute on the host, in order.
///
/// # Errors
/// A part that a task would have to find as it no longer is.
pub fn redo(problem: &Problem, plan: &Plan, stop: &Stop<'_>) -> Result<Vec<usize>, Part> {
    let mut last = HashMap::new();
    if stop.lost.is_some() {
        for (i, task) in plan.tasks.iter().enumerate() {
            for part in task.parts.iter().filter(|p| p.access != Access::Read) {
                last.insert(key(part), i);
            }
        }
    }
    let replaced = |p: &Part| {
        problem.access(p.operand) == Access::Update
            && ((stop.gone)(p.operand) || (stop.home)(p) || (stop.torn)(p))
    };
    let mut again = Vec::new();
    for (i, task) in plan.tasks.iter().enumerate() {
        if i >= stop.at {
            again.push(i);
            continue;
        }
        if Some(task.device) != stop.lost {
            continue;
        }
        let written = || task.parts.iter().filter(|p| p.access != Access::Read);
        // A reduction's value is no part.
        let any = written().next().is_some();
        if any && written().all(|p| (stop.home)(p) && !(stop.torn)(p)) {
            continue;
        }
        let needed_old = |p: &&Part| {
            p.access != Access::Read || last.get(&key(p)).is_some_and(|&writer| writer > i)
        };
        if let Some(p) = task.parts.iter().filter(needed_old).find(|p| replaced(p)) {
            return Err(*p);
        }
        again.push(i);
    }
    Ok(again)
}
