//! Completes a call on the host when a device refused a part of it or was lost: the tasks that were not
//! queued, and those of the lost device, are computed here from the bytes that exist (decision D9).
//!
//! After a refusal nothing is locked meanwhile and no signal blocked ([`Rest`]): the program's memory may be what could not
//! be read, and its handler of the fault may leave by a jump.
#![expect(unsafe_code, reason = "computes on the program's operands")]

use std::collections::HashMap;

use super::call::Outcome;
use crate::base::Rect;
use crate::cache::lost::HostCopy;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::DeviceError;
use crate::plan::redo::{self, Stop};
use crate::plan::{Access, Part, Plan, Problem, Task};
use crate::sched::{Stopped, local};

/// The tasks of a call that the devices did not take. All results of the others are home, or behind closed pages.
#[derive(Debug)]
pub struct Rest {
    problem: Box<Problem>,
    tasks: Vec<Task>,
    placed: Vec<Use>,
    result: Option<Use>,
    /// Where the result is.
    slot: Box<[u8; 16]>,
}

impl Rest {
    pub(super) fn new(
        problem: &Problem,
        tasks: &[Task],
        placed: &[Use],
        result: Option<Use>,
        slot: Box<[u8; 16]>,
    ) -> Rest {
        Rest {
            problem: Box::new(problem.clone()),
            tasks: tasks.to_vec(),
            placed: placed.to_vec(),
            result,
            slot,
        }
    }

    /// Computes them, with nothing locked and no signal blocked, once bytes of the others' results that could not be written
    /// have been delivered. Where the program's handler leaves by a jump, this keeps its memory.
    #[must_use]
    pub fn compute(self) -> Outcome {
        for task in &self.tasks {
            // SAFETY: the operands are the program's, of the extents it promised by the call; the slot is ours, and large
            // enough for every value.
            unsafe { local::compute(&self.problem, task, &self.placed, self.result.as_ref()) };
        }
        super::value::outcome(self.problem.routine, self.problem.dtype, &self.slot)
    }
}

/// What is known of the outputs of a call that stopped.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Which operands they are, and what the host held of each before it: whether its old contents can be used again.
    pub outputs: &'a [(usize, HostCopy)],
    /// Final bytes that it sent home, or computed there: of which operand, and which.
    pub sent: &'a [(usize, Rect)],
}

/// Runs what is missing on the host, and returns what of the outputs is final there now. Ends the process if bytes that
/// are needed existed only on a lost device.
pub fn finish(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    placed: &[Use],
    result: Option<&Use>,
    stopped: &Stopped,
    known: &Known<'_>,
) -> Vec<(usize, Rect)> {
    let Known { outputs, sent } = *known;
    let lost = match stopped.error {
        CacheError::Device(DeviceError::Lost { device }) => {
            // Reported again by the next use if this fails.
            let _ = cache.device_lost(device);
            Some(device)
        }
        _ => None,
    };
    // Final bytes that came home before their device was lost, and those that did not.
    let (home, torn): (Vec<_>, Vec<_>) = sent
        .iter()
        .filter(|_| lost.is_some())
        .partition(|(i, rect)| !cache.is_lost(placed[*i].id, rect));
    // Outputs whose old bytes are needed and may have been replaced: by an eviction, say.
    let mut gone = Vec::new();
    if lost.is_some() {
        for (operand, before) in outputs {
            let p = &placed[*operand];
            // The first task of a tile that overwrites needs no old bytes; otherwise the host's must still
            // be those from before the call.
            let overwritten = p.access == Access::Overwrite;
            if !cache.reclaim(p.id, &p.view, overwritten, before) {
                gone.push(*operand);
            }
        }
    }
    let within = |pieces: &[&(usize, Rect)], part: &Part| {
        let rect = problem.bytes(part, placed[part.operand].view.start);
        pieces
            .iter()
            .any(|(operand, piece)| *operand == part.operand && piece.overlaps(&rect))
    };
    let again = redo::redo(
        problem,
        plan,
        &Stop {
            at: stopped.at,
            lost,
            home: &|p| within(&home, p),
            torn: &|p| within(&torn, p),
            gone: &|operand| gone.contains(&operand),
        },
    );
    let again = again.unwrap_or_else(|p| {
        let at = problem.bytes(&p, placed[p.operand].addr()).start;
        crate::cache::lost::end_process(at, &stopped.error)
    });
    let mut done = HashMap::new();
    for task in again.iter().filter_map(|&i| plan.tasks.get(i)) {
        for part in &task.parts {
            let p = &placed[part.operand];
            let rect = problem.bytes(part, p.view.start);
            let write = part.access != Access::Read;
            if let Err(e) = cache.open(p.id, &rect, write) {
                crate::cache::lost::end_process(p.base + rect.start, &e);
            }
            super::deliver::deliver_to(&problem.bytes(part, p.addr()));
            if write {
                done.insert(redo::key(part), (part.operand, rect));
            }
        }
        // SAFETY: the operands are the program's, of the extents it promised by the call; they were brought
        // home and opened above.
        unsafe { local::compute(problem, task, placed, result) };
    }
    done.into_values().collect()
}
