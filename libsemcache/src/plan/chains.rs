//! Chains: the tasks of a plan that have to stay together, in their order, if tasks go to other devices than planned.
//!
//! Later tasks of a chain need what earlier ones have written: all steps of an output tile, or of the tiles of a solution that
//! need each other. Chains whose tasks a device's list mixes, as those of a block that share tiles of the inputs, count as one.

use std::collections::HashMap;

use super::problem::{Access, Part};
use super::redo::key;
use super::{Plan, Problem};
use crate::base::DeviceId;

/// Tasks that stay on one device, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// The device for which they are planned.
    pub device: DeviceId,
    /// Their indices in the plan.
    pub tasks: Vec<usize>,
}

/// The chains of a level-3 plan, those of each device in their order. Tasks of different chains never use the same bytes of an
/// output, so each chain may run on any device, at any time.
#[must_use]
pub fn chains(problem: &Problem, plan: &Plan) -> Vec<Chain> {
    let output = |p: &&Part| problem.access(p.operand) != Access::Read;
    // The last task that uses a part of an output.
    let mut last = HashMap::new();
    for (at, task) in plan.tasks.iter().enumerate() {
        for part in task.parts.iter().filter(output) {
            last.insert(key(part), at);
        }
    }
    // Of each device, the chain that is not complete yet, and its last task so far.
    let mut open: Vec<(Chain, usize)> = Vec::new();
    let mut chains = Vec::new();
    for (at, task) in plan.tasks.iter().enumerate() {
        let same = |(chain, _): &(Chain, usize)| chain.device == task.device;
        let i = open.iter().position(same).unwrap_or_else(|| {
            let (device, tasks) = (task.device, Vec::new());
            open.push((Chain { device, tasks }, 0));
            open.len() - 1
        });
        let (chain, end) = &mut open[i];
        chain.tasks.push(at);
        for part in task.parts.iter().filter(output) {
            *end = (*end).max(last.get(&key(part)).copied().unwrap_or(at));
        }
        if *end <= at {
            let tasks = std::mem::take(&mut chain.tasks);
            let device = chain.device;
            chains.push(Chain { device, tasks });
        }
    }
    chains
}
