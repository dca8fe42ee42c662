//! Recovery of a call that stopped: which of its tasks the host must compute, and whether that still gives the right
//! result.
//!
//! The host computes tasks in the order of the plan, from the bytes that it has. That is right if each part of an
//! operand has the bytes that the task would have found on the device. For the part's first writer, and for readers
//! before it (in trmm, products read a tile of B before it is overwritten), these are the bytes from before the call.
//! For readers after the last writer (in trsm) they are the final bytes, whether these were written back or computed on
//! the host before.

use std::collections::HashMap;

use super::{Access, Part, Plan, Problem};
use crate::base::DeviceId;

/// The task at which the issue of a plan stopped, and the state of the outputs.
#[derive(Clone, Copy)]
pub struct Stop<'a> {
    /// The index of the first task that was not queued.
    pub at: usize,
    /// The lost device, if any; the results of its tasks are lost, too, unless they were written back.
    pub lost: Option<DeviceId>,
    /// Whether bytes of a part are final in host memory.
    pub written_back: &'a dyn Fn(&Part) -> bool,
    /// Whether bytes of a part in host memory are neither final nor those from before the call.
    pub torn: &'a dyn Fn(&Part) -> bool,
    /// Whether the old bytes of an operand are needed, but are not known to be in host memory.
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

/// The operand and position of a part of an output. Two parts of an operand that a device writes are equal or disjoint.
#[must_use]
pub const fn key(p: &Part) -> (usize, usize, usize, usize, usize) {
    (p.operand, p.row, p.col, p.rows, p.cols)
}

/// The tasks that the host must compute, in order.
///
/// # Errors
/// A part that a task needs with bytes that no longer exist.
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
            && ((stop.gone)(p.operand) || (stop.written_back)(p) || (stop.torn)(p))
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
        // The value of a reduction is not a part of an operand.
        let any = written().next().is_some();
        if any && written().all(|p| (stop.written_back)(p) && !(stop.torn)(p)) {
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
