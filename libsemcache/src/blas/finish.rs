//! What the host computes of a call on devices: a part that was divided off for it, or the completion of the call after a
//! device refused a task or was lost. Then the tasks that were not queued, and those of the lost device, are computed on the
//! host from the bytes that still exist, so that the program never gets wrong numbers. [`finish`] says which tasks these are.
//! [`Rest`] computes either by the host BLAS, which the shim hands to the runtime ([`HostBlas`]).
//!
//! No lock is held and no signal blocked while the host computes: the host BLAS has threads, locks and buffers of its
//! own; and a refusal may have come from program memory that could not be read, so that the program's SIGSEGV handler may
//! leave the call by `siglongjmp`.
#![expect(unsafe_code, reason = "computes on the program's operands")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::call::Outcome;
use super::checks::Item;
use crate::base::counters::COUNTERS;
use crate::base::kernel::Kernel;
use crate::base::{AllocId, Rect, Work};
use crate::cache::lost::HostCopy;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::DeviceError;
use crate::plan::redo::{self, Stop};
use crate::plan::{self, Access, Part, Plan, Problem, Resources, Task};
use crate::sched::memory::work;
use crate::sched::{self, Stopped, local};

/// The functions of the host BLAS that the program would have used without semcache.
pub trait HostBlas: std::fmt::Debug {
    /// Computes a kernel whose operands are in host memory. The caller holds no lock and has blocked no signal; a handler
    /// of the program may leave by a jump. False, and nothing has happened, if the host BLAS has no function for the
    /// kernel.
    ///
    /// # Safety
    /// The operands, and the place of the value of a reduction, are memory of the extents that the kernel says.
    #[must_use]
    unsafe fn compute(&self, kernel: &Kernel) -> bool;

    /// Whether the host BLAS has a function for the kernel's routine and type. The first question may search its libraries.
    fn has(&self, kernel: &Kernel) -> bool;
}

/// What the host BLAS has of a routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostHas {
    /// The routine: the host BLAS can run the call.
    pub routine: bool,
    /// Functions that the runtime can call itself.
    pub door: bool,
}

/// Tasks of a call that the host computes: those that no device finished, or a part that was divided off for the host. The
/// results of its other tasks are written back, in flight, or behind inaccessible pages.
#[derive(Debug)]
pub struct Rest {
    /// Whether devices should have computed them.
    refused: bool,
    problem: Box<Problem>,
    tasks: Vec<Task>,
    placed: Vec<Use>,
    result: Option<Use>,
    /// Memory for the value of a reduction of one task.
    slots: Box<[[u8; 16]]>,
}

impl Rest {
    pub(super) fn new(
        problem: &Problem,
        tasks: &[Task],
        placed: &[Use],
        result: Option<Use>,
        slots: Box<[[u8; 16]]>,
    ) -> Rest {
        Rest {
            refused: true,
            problem: Box::new(problem.clone()),
            tasks: tasks.to_vec(),
            placed: placed.to_vec(),
            result,
            slots,
        }
    }

    /// The host's part of a call whose operands lie at these addresses.
    pub(super) fn of_host(problem: &Problem, places: &[Rect], tasks: &[Task]) -> Rest {
        let at = |(i, p): (usize, &Rect)| sched::operand(problem, i, AllocId(0), p.start, p.start);
        let placed: Vec<Use> = places.iter().enumerate().map(at).collect();
        Rest {
            refused: false,
            ..Rest::new(problem, tasks, &placed, None, Box::new([]))
        }
    }

    /// A whole call, as one task; `None` if its plan has several.
    pub(super) fn whole(item: &Item) -> Option<Rest> {
        let everything = Resources::new(1, usize::MAX, usize::MAX);
        let plan = plan::lower(&item.problem, &everything);
        let one = plan.fits && plan.tasks.len() == 1;
        one.then(|| Rest::of_host(&item.problem, &item.places, &plan.tasks))
    }

    /// Computes a whole call by the host BLAS, under the conditions of [`Rest::compute`]. False, and nothing has happened, if the
    /// host BLAS has no function for it.
    #[must_use]
    pub fn compute_whole(self, host: &dyn HostBlas, timed: &dyn Fn(Work, Duration)) -> bool {
        let [task] = &*self.tasks else {
            return false;
        };
        let kernel = local::in_place(&self.problem, task, &self.placed, None);
        if !host.has(&kernel) {
            return false;
        }
        self.placed.iter().for_each(Use::begun);
        let begun = Instant::now();
        // SAFETY: the operands are the program's, of the extents that its call promised.
        let computed = unsafe { host.compute(&kernel) };
        if computed {
            COUNTERS.host_timed.add(1);
            timed(self.problem.work(), begun.elapsed());
        }
        computed
    }

    /// Computes these tasks on the host, with no lock held and no signal blocked, after results of the other tasks that
    /// no copy could write have been delivered. Tasks for which there is no function of a host BLAS are computed by
    /// arithmetic of semcache's own, on the calling thread. If the program's signal handler leaves by a jump, the memory
    /// of `self` leaks. `timed` gets the work and the time of each task of a part that was divided off for the host BLAS.
    #[must_use]
    pub fn compute(self, host: Option<&dyn HostBlas>, timed: &dyn Fn(Work, Duration)) -> Outcome {
        self.placed.iter().for_each(Use::begun);
        for task in &self.tasks {
            let begun = Instant::now();
            let kernel = local::in_place(&self.problem, task, &self.placed, self.result.as_ref());
            // SAFETY: the operands are the program's, of the extents that its call promised; the slot is owned by
            // `self` and large enough for every value.
            unsafe {
                if host.is_some_and(|host| host.compute(&kernel)) {
                    if self.refused {
                        COUNTERS.fallback_host_tasks.add(1);
                    } else {
                        timed(work(&self.problem, task), begun.elapsed());
                    }
                } else {
                    local::compute(&kernel);
                    COUNTERS.fallback_own_tasks.add(1);
                }
            }
        }
        super::value::outcome(self.problem.routine, self.problem.dtype, &self.slots)
    }
}

/// The outputs of a call that stopped before all of its tasks were done.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The index of each output, and what the host held of its bytes before the call: tells whether the old contents
    /// can be used again.
    pub outputs: &'a [(usize, HostCopy)],
    /// Rectangles of outputs, each with its operand's index, that are final and were written back, or that the host will
    /// compute.
    pub sent: &'a [(usize, Rect)],
}

/// Adds the tasks that the host must compute to `tasks`, opens the pages of their operands, and returns the rectangles of
/// outputs that these tasks write. Ends the process if needed bytes existed only on a lost device.
pub fn finish(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    placed: &[Use],
    stopped: &Stopped,
    known: &Known<'_>,
    tasks: &mut Vec<Task>,
) -> Vec<(usize, Rect)> {
    let Known { outputs, sent } = *known;
    let lost = match stopped.error {
        CacheError::Device(DeviceError::Lost { device }) => {
            // If this fails, the next use of the device reports the loss again.
            let _ = cache.device_lost(device);
            Some(device)
        }
        _ => None,
    };
    // Final bytes whose write-back was complete when their device was lost, and those whose write-back was not.
    let (written_back, torn): (Vec<_>, Vec<_>) = sent
        .iter()
        .filter(|_| lost.is_some())
        .partition(|(i, rect)| !cache.is_lost(placed[*i].id, rect));
    // Outputs whose old bytes are needed, but are not known to be in host memory: an eviction during the call may have
    // replaced them there, or only the lost device had them.
    let mut gone = Vec::new();
    if lost.is_some() {
        for (operand, before) in outputs {
            let p = &placed[*operand];
            // The first task of an overwritten tile needs no old bytes; for other tiles the host's bytes must still be
            // those from before the call.
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
            written_back: &|p| within(&written_back, p),
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
            if write {
                done.insert(redo::key(part), (part.operand, rect));
            }
        }
        tasks.push(task.clone());
    }
    done.into_values().collect()
}
