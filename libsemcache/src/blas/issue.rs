//! One call on devices, from its plan to its end: what is expected of its outputs, the write-back of results that must be in host
//! memory when it returns, and what is left for the host if a device refuses a task or is lost.

use std::sync::{Arc, Once};

use log::{debug, warn};
use semcache_fault::broken;

use super::call::Outcome;
use super::checks::Item;
use super::finish::{self, Rest, finish};
use super::mapped::{Landed, Mapped, Place};
use super::operands::{self, Operands, PageLocks};
use super::replay::{self, Sites};
use super::section;
use super::spread::Seconds;
use super::value;
use crate::base::counters::{COUNTERS, WhyHost};
use crate::base::{AllocId, DeviceSet, Rect};
use crate::cache::call::{Made, Outlook};
use crate::cache::cells::Taken;
use crate::cache::lost::HostCopy;
use crate::cache::pins::Pinning;
use crate::cache::pins_ahead::{PinsAhead, Stop};
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{DeviceError, Ticket};
use crate::model::rates::Rates;
use crate::plan::{Access, Plan, Problem, Task};
use crate::policy::results::Push;
use crate::process::threads;
use crate::process::waited::Stopwatch;
use crate::sched::{self, Holds, Memory, Out, Stopped, StreamedWriteBack, Tiles};

/// A call's predicted time, and the measurement of its real one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicted {
    pub(super) watch: Stopwatch,
    pub(super) seconds: Seconds,
    /// The watch's readings when all copies and kernels were queued: wall time, and time without waiting.
    pub(super) queued: (f64, f64),
    /// The prediction includes the write-back of results ([`Spread::writes_through`](super::spread::Spread)).
    pub(super) returns_results: bool,
}

impl Predicted {
    /// The prediction error: how many seconds longer than predicted the call took. Wall time and the calling thread's
    /// own time each give a difference, and the smaller one counts: so time spent waiting does not count, as the device
    /// may have worked for other calls, and own time does not count unless the whole call was late. A wait at the end
    /// of the call for bytes of the result that no page protection can guard is left out of the wall time, as if the
    /// result stayed on the device, unless the block is write-through: then all of the wall time counts. A call that was shorter than predicted gets at most the seconds of one page fault
    /// as credit, since the prediction includes the fault of a later read of the result.
    fn excess_s(&self) -> f64 {
        let (queued, own_queued) = self.queued;
        let (wall, own) = self.watch.seconds();
        if self.returns_results {
            return wall - self.seconds.whole;
        }
        let whole = queued + own - own_queued;
        let excess = (whole - self.seconds.whole).min(own - self.seconds.own);
        excess.max(-self.seconds.look)
    }
}

/// How one call ended.
#[derive(Debug)]
pub enum Carried {
    /// The devices run it.
    Done(Outcome),
    /// The devices have run it, and its result, which was in mapped memory, is to be stored.
    Landed(Outcome, Landed),
    /// The calling thread has to compute some tasks.
    Rest(Rest),
}

/// The devices of a plan, and the rates by which it was made.
pub(super) type On<'a> = (&'a DeviceSet, &'a Rates);

/// A call whose operands are registered with the cache, and of which tasks can be queued.
#[derive(Debug)]
pub(super) struct Issue {
    /// The call's number in the cache.
    number: u64,
    pub(super) operands: Operands,
    predicted: Option<Predicted>,
    /// The value of each task of a reduction; in a box, so that its address does not change while devices write to it.
    slots: Box<[[u8; 16]]>,
    results: Vec<Use>,
    cell: Option<Taken>,
    /// The result that the kernel leaves in mapped memory.
    mapped: Option<Mapped>,
    outlooks: Vec<Option<Outlook>>,
    holds: Result<Holds, CacheError>,
    /// Results that the CPU is expected to read next: they are waited for and stay readable.
    landing: Vec<(AllocId, Rect)>,
    pub(super) streamed: StreamedWriteBack,
}

impl Issue {
    /// Prepares a call. Operands that no task and no other thread page-locks later are page-locked now.
    ///
    /// # Errors
    /// Another thread has meanwhile freed, unmapped or remapped a block, or a part of it.
    pub(super) fn new(
        cache: &Cache,
        number: u64,
        item: &Item,
        (plan, on): (&Plan, On<'_>),
        pinned: PageLocks,
        predicted: Option<Predicted>,
    ) -> Result<Issue, WhyHost> {
        let mut operands = Operands::register(cache, item, pinned)?;
        let problem = &item.problem;
        let mut slots: Box<[[u8; 16]]> = Box::new([]);
        let (mut results, mut cell) = (Vec::new(), None);
        if problem.routine.reduces() {
            slots = vec![[0; 16]; plan.tasks.len()].into();
            let size = value::size_of(problem);
            cell = match plan.tasks.as_slice() {
                [task] => cache.take_cell(task.device),
                _ => None,
            };
            results = match (&cell, &mut *slots) {
                (Some(_), [slot]) => vec![operands::slot(slot, size)],
                (_, slots) => operands.add_results(cache, slots, size),
            };
        }
        let placed = &operands.placed;
        // Before the outputs' host copies are looked at: making room writes bytes back to them.
        let holds = sched::make_room(cache, problem, plan, placed, on);
        let by_tiles = !matches!(holds, Ok(Holds::Whole(_)));
        // In an asynchronous section no result is waited for that page protection can guard.
        let waits = !section::is_open();
        let mappable = Place::of(problem, plan, placed);
        let mappable = mappable.filter(|_| !by_tiles && cell.is_none() && waits);
        let mut mapped = mappable.and_then(|place| Mapped::new(cache, plan, place));
        let operand = mapped.as_ref().map(|mapped| mapped.place.operand);
        let outlooks = cache.expect(number, placed, operand);
        let outputs = || {
            outlooks
                .iter()
                .enumerate()
                .filter_map(|(i, o)| Some((i, (*o)?)))
                .filter(|(_, o)| !o.mapped)
        };
        if !outlooks.iter().flatten().any(|o| o.mapped)
            && let Some(unused) = mapped.take()
        {
            unused.give(cache);
        }
        // Results that do not fit into the devices leave them during the call.
        let wanted: Vec<usize> = outputs()
            .filter(|(_, o)| o.push != Push::No || by_tiles)
            .map(|(i, _)| i)
            .collect();
        let landing = outputs()
            .filter(|(_, o)| o.push == Push::Awaited && waits)
            .map(|(i, _)| (placed[i].id, placed[i].view))
            .collect();
        Ok(Issue {
            number,
            predicted,
            slots,
            results,
            cell,
            mapped,
            holds,
            landing,
            streamed: StreamedWriteBack::new(plan, &wanted, by_tiles),
            outlooks,
            operands,
        })
    }

    /// The call's time will be no measurement of the devices.
    pub(super) fn forget_time(&mut self) {
        self.predicted = None;
    }

    /// The operands, which tiles leave the devices when, and the streamed write-back.
    ///
    /// # Errors
    /// No task can be queued.
    pub(super) fn parts(
        &mut self,
    ) -> Result<(&[Use], Option<&Tiles>, &mut StreamedWriteBack), Stopped> {
        let holds = self.holds.as_ref().map_err(refused)?;
        Ok((&self.operands.placed, holds.tiles(), &mut self.streamed))
    }

    /// Queues the kernels and copies of all tasks. Returns the last task's ticket.
    ///
    /// # Errors
    /// The first task that could not be queued.
    pub(super) fn run(
        &mut self,
        cache: &'static Cache,
        item: &Item,
        plan: &Plan,
    ) -> Result<Option<Ticket>, Stopped> {
        let out = match (&self.cell, &self.mapped) {
            (Some(cell), _) => Out::Cell(cell.addr()),
            (None, Some(mapped)) => Out::Mapped(mapped.place.part, mapped.at()),
            (None, None) if self.results.is_empty() => Out::Nowhere,
            (None, None) => Out::At(&self.results),
        };
        let pinned = self.operands.pinned;
        let by_task = |i: usize| match pinned {
            PageLocks::Before => false,
            PageLocks::ByTask => true,
            PageLocks::ResultsAhead => item.problem.access(i) == Access::Read,
        };
        let placed = &self.operands.placed;
        let (tiles, uploaders) = match self.holds.as_mut().map_err(|error| refused(error))? {
            Holds::Whole(uploaders) => (None, Some(uploaders)),
            Holds::Tiles(tiles) => (Some(&*tiles), None),
        };
        let results = (pinned == PageLocks::ResultsAhead).then(|| {
            let mut results = PinsAhead::new(&item.blocks, |i| {
                let written = item.problem.access(i) != Access::Read;
                written.then(|| operands::bytes(&item.places[i]))
            });
            sched::add_tasks(&mut results, &item.problem, plan, placed);
            results.claim(cache);
            Arc::new(results)
        });
        // Also if this unwinds, pieces that are claimed and not page-locked can be claimed by later calls.
        let _stop = results.as_deref().map(Stop);
        let memory = Memory {
            tiles,
            uploaders,
            pinning: Pinning::new(&item.blocks, by_task, pinned != PageLocks::ResultsAhead),
            results: results.as_deref(),
        };
        let streamed = &mut self.streamed;
        if let Some(results) = results.clone() {
            // Without a thread the first task that waits does what the thread would.
            let _ = threads::spawn("semcache-pin", threads::STACK, move || results.run(cache));
        }
        sched::run(cache, &item.problem, plan, placed, memory, out, streamed)
    }

    /// Ends the call: waits for results that must be in host memory when it returns.
    ///
    /// # Errors
    /// The reason why the host must run the call; no byte of the program was changed.
    pub(super) fn end(
        mut self,
        (cache, sites): (&Cache, &Sites),
        item: &Item,
        plan: &Plan,
        launched: Result<Option<Ticket>, Stopped>,
    ) -> Result<Carried, WhyHost> {
        if let Some(predicted) = &mut self.predicted {
            predicted.queued = predicted.watch.seconds();
        }
        let (predicted, number) = (self.predicted, self.number);
        let mapped = self.mapped.as_ref().map(|mapped| mapped.place);
        let operands = std::mem::take(&mut self.operands);
        let ended = self.settle(cache, &item.problem, plan, &operands.placed, launched);
        operands.release(cache);
        let (carried, landed) = ended?;
        if !matches!(carried, Carried::Rest(_)) {
            let placed = &operands.placed;
            // Results in memory of unknown lifetime are complete.
            let kept = |u: &&Use| u.access != Access::Read && !crate::cache::is_transient(u.id);
            for written in placed.iter().filter(kept) {
                section::writes(written.id, written.view.span(), &|id| cache.knows(id));
            }
            let excess = predicted.zip(largest(placed)).map(|(predicted, id)| {
                let excess_s = predicted.excess_s();
                debug!("it took {:.1} us beyond its prediction", excess_s * 1e6);
                (id, excess_s)
            });
            COUNTERS.bytes.per_call.add(replay::per_call_bytes(placed));
            replay::conclude(
                (cache, sites),
                item,
                plan,
                (placed, mapped),
                Made {
                    number,
                    excess,
                    landed: &landed,
                    repeats: &[],
                },
            );
        }
        Ok(carried)
    }

    /// Waits for results that must be in host memory when the call returns, or finds out what the host has to compute. Returns
    /// the results that stay readable there, because the CPU is expected to read them next.
    fn settle(
        self,
        cache: &Cache,
        problem: &Problem,
        plan: &Plan,
        placed: &[Use],
        launched: Result<Option<Ticket>, Stopped>,
    ) -> Result<(Carried, Vec<(AllocId, Rect)>), WhyHost> {
        let Issue {
            mut slots,
            mut results,
            mut cell,
            mut mapped,
            outlooks,
            landing,
            streamed,
            ..
        } = self;
        if launched.is_err()
            && let Some(unused) = mapped.take()
        {
            unused.give(cache);
        }
        let issued = launched.and_then(|last| {
            // If a device is lost during the write-back, `land` reports it here, while the inputs may still exist.
            let kernel = cell.take().zip(last);
            let operand = mapped.as_ref().map(|mapped| mapped.place.operand);
            let others = placed.iter().enumerate();
            let others = others.filter(|(i, _)| Some(*i) != operand).map(|(_, u)| u);
            let settled = others.chain(&results);
            let landed = land(cache, settled, &landing, kernel, &mut slots);
            // The kernel that writes to mapped memory is waited for last, so that the thread works while it runs.
            let landed = landed.and_then(|()| match (operand, last) {
                (Some(_), Some(kernel)) => Ok(cache.backend().wait(kernel)?),
                _ => Ok(()),
            });
            landed.map_err(|error| Stopped {
                // No byte of a result in mapped memory has been stored, so the whole call is computed again.
                at: if operand.is_some() {
                    0
                } else {
                    plan.tasks.len()
                },
                error: as_loss(error),
            })
        });
        if let Some(unused) = cell {
            cache.give_cell(unused);
        }
        if let Err(stopped) = issued {
            debug!(
                "{}: {:?} at task {} of {}",
                problem.routine.name(problem.dtype),
                stopped.error,
                stopped.at,
                plan.tasks.len()
            );
            let gone = matches!(
                stopped.error,
                CacheError::Device(DeviceError::Lost { .. }) | CacheError::DataLost
            );
            // The values of some pieces of a vector are of no use without the others: the host BLAS reduces the whole vector.
            let in_pieces = results.len() > 1;
            if (stopped.at == 0 || in_pieces) && !gone {
                // No byte of the program was changed, so the host BLAS can run the whole call.
                write_back(cache, placed.iter().chain(&results), &[])
                    .map_err(|_| WhyHost::Refused)?;
                fell_back(problem, &stopped.error);
                return Err(match stopped.error {
                    CacheError::NoRoom => WhyHost::OutOfMemory,
                    CacheError::Device(DeviceError::Unreadable { .. }) => WhyHost::Guarded,
                    _ => WhyHost::Refused,
                });
            }
            fell_back(problem, &stopped.error);
            let all = placed.iter().chain(&results);
            if !gone && !broken!("break-guards") && write_back(cache, all, &[]).is_ok() {
                let tasks = plan.tasks.get(stopped.at..).unwrap_or_default();
                let rest = Rest::new(problem, tasks, placed, results.pop(), slots);
                return Ok((Carried::Rest(rest), Vec::new()));
            }
            let outputs: Vec<(usize, HostCopy)> = outlooks
                .iter()
                .enumerate()
                .filter_map(|(i, o)| Some((i, (*o)?.before)))
                .collect();
            let tasks = complete(
                cache,
                problem,
                plan,
                placed,
                &results,
                stopped,
                &finish::Known {
                    outputs: &outputs,
                    sent: streamed.sent(),
                },
            );
            // Results that must be in host memory are there; pages that are still inaccessible are made accessible when the
            // CPU touches them.
            if in_pieces {
                return Err(WhyHost::Refused);
            }
            let rest = Rest::new(problem, &tasks, placed, results.pop(), slots);
            return Ok((Carried::Rest(rest), Vec::new()));
        }
        let outcome = value::outcome(problem.routine, problem.dtype, &slots);
        let carried = match mapped.and_then(|mapped| mapped.land(cache, placed)) {
            Some(landed) => Carried::Landed(outcome, landed),
            None => Carried::Done(outcome),
        };
        Ok((carried, landing))
    }
}

/// A plan for which no room could be made.
fn refused(error: &CacheError) -> Stopped {
    Stopped {
        at: 0,
        error: error.clone(),
    }
}

/// The block of the operand that spans most bytes: the prediction error is booked there, as the largest operand causes
/// most of a call's time.
fn largest(placed: &[Use]) -> Option<AllocId> {
    let operand = placed.iter().max_by_key(|p| p.view.span().len());
    operand.map(|p| p.id)
}

/// Waits for the results that must be in host memory when the call returns, and for the values of a reduction.
fn land<'a>(
    cache: &Cache,
    operands: impl Iterator<Item = &'a Use>,
    landing: &[(AllocId, Rect)],
    value: Option<(Taken, Ticket)>,
    slots: &mut [[u8; 16]],
) -> Result<(), CacheError> {
    write_back(cache, operands, landing)?;
    if let (Some((cell, kernel)), [slot]) = (value, slots) {
        *slot = cache.collect(cell, kernel)?;
    }
    Ok(())
}

/// Prepares the completion of a call on the host, and again for every device that is lost during the write-back of its
/// results; returns the tasks that the host has to compute, in order.
fn complete(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    placed: &[Use],
    results: &[Use],
    mut stopped: Stopped,
    known: &finish::Known<'_>,
) -> Vec<Task> {
    let (mut sent, mut tasks) = (known.sent.to_vec(), Vec::new());
    for _ in 0..=cache.backend().devices().len() {
        // Tiles that one pass computes are final: a second computation would read them as inputs.
        let known = finish::Known {
            sent: &sent,
            ..*known
        };
        let done = finish(cache, problem, plan, placed, &stopped, &known, &mut tasks);
        sent.extend(done);
        // The wait includes uploads from memory that the program may change once the call has returned.
        match write_back(cache, placed.iter().chain(results), &[]) {
            Ok(()) => return tasks,
            Err(e) => {
                stopped = Stopped {
                    at: plan.tasks.len(),
                    error: as_loss(e),
                }
            }
        }
    }
    let at = placed.last().map_or(0, Use::addr);
    crate::cache::lost::end_process(at, &stopped.error)
}

/// Counts a call that the devices did not finish, and logs the first one.
fn fell_back(problem: &Problem, why: &CacheError) {
    static SAID: Once = Once::new();
    COUNTERS.fallbacks.add(1);
    // A lost device is logged elsewhere; memory that cannot be read is the program's own matter.
    if matches!(
        why,
        CacheError::Device(DeviceError::Lost { .. } | DeviceError::Unreadable { .. })
    ) {
        return;
    }
    SAID.call_once(|| {
        let name = problem.routine.name(problem.dtype);
        warn!("{name} finished on the host: {why:?}; further ones are only counted");
    });
}

/// A device that refuses to write results back counts as lost.
pub(super) fn as_loss(e: CacheError) -> CacheError {
    match e {
        CacheError::Device(DeviceError::Refused { device, .. }) => {
            CacheError::Device(DeviceError::Lost { device })
        }
        other => other,
    }
}

/// Ends a call: results on pages that cannot be protected are written back before this returns, and so are the results
/// in `landing`.
pub(super) fn write_back<'a>(
    cache: &Cache,
    operands: impl Iterator<Item = &'a Use>,
    landing: &[(AllocId, Rect)],
) -> Result<(), CacheError> {
    let (pending, settled) = cache.settle(operands, landing);
    let arrived = cache.arrive(&pending);
    settled?;
    arrived
}
