//! Execution of a call on devices: check, decide, plan, issue; then host memory is left such that the CPU can neither
//! read stale bytes nor change bytes that devices hold without a page fault.

use std::sync::Once;

use log::{debug, warn};
use semcache_fault::broken;

use super::call::Outcome;
use super::checks::{Checks, Group, Item};
use super::finish::{self, Rest, finish};
use super::offload;
use super::operands::{self, Operands, blocks};
use super::policy::Policy;
use super::spread::Seconds;
use super::{host_decisions, host_part, replay, value};
use crate::base::counters::{COUNTERS, WhyHost};
use crate::base::{AllocId, DeviceSet, Rect, Value};
use crate::cache::call::Made;
use crate::cache::cells::Taken;
use crate::cache::history::Push;
use crate::cache::pins::Pinning;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{DeviceError, Ticket};
use crate::model::rates::Rates;
use crate::plan::{Plan, Problem, Task};
use crate::process::waited::Stopwatch;
use crate::sched::{self, Holds, Memory, Out, Stopped, StreamedWriteBack};

/// How calls on devices ended.
#[derive(Debug)]
pub struct Ran {
    /// The result of a single call.
    pub outcome: Outcome,
    /// The tasks, of the calls before `from`, that the calling thread has to compute. None reads what another one of these
    /// lists writes, so the order of the lists does not matter.
    pub rests: Vec<Rest>,
    /// The first call that the host BLAS has to run, because the devices refused it.
    pub from: Option<usize>,
}

/// Runs the calls of a group on the devices, in order, and returns what is left for the host. `has_routine`: whether the host
/// BLAS has the routine.
///
/// # Errors
/// The reason why the host must run all of them; no byte of the program was changed.
pub fn run(
    cache: &Cache,
    policy: &Policy,
    group: &Group<'_>,
    checks: &mut Checks<'_>,
    has_routine: bool,
) -> Result<Ran, WhyHost> {
    if checks.clears() {
        return Err(WhyHost::Empty);
    }
    if checks.conflict() {
        return Err(WhyHost::Aliased);
    }
    if !cache.whole() {
        return Err(WhyHost::Refused);
    }
    for item in &mut checks.items {
        item.blocks = blocks(cache, &item.problem, &item.places)?;
    }
    let (watch, key) = (Stopwatch::start(), host_decisions::of(group.calls));
    let spread = offload::decide(cache, policy, key, &mut checks.items, has_routine)?;
    let number = cache.number();
    let mut ran = Ran {
        outcome: Outcome::Done(Value::ZERO),
        rests: Vec::new(),
        from: None,
    };
    for (i, item) in checks.items.iter().enumerate() {
        // After the first call this means that a device was lost during the call before, which was completed on the
        // host.
        if !cache.whole() {
            if i == 0 {
                return Err(WhyHost::Refused);
            }
            ran.from = Some(item.at);
            break;
        }
        // For a single call the caller has tried a replay already; the products of a batch are tried here.
        let known = group.is_batch().then(|| replay::known(item.call));
        if known.flatten().and_then(|k| k.launch(cache)).is_some() {
            policy.launched_again(key);
            continue;
        }
        let divided = spread.host.as_ref().map(|host| (item, host));
        if let Some((item, host)) = divided {
            host_part::open(cache, item, host).map_err(|_| WhyHost::Refused)?;
        }
        let on_devices = divided.map(|(item, host)| host_part::of_devices(item, host));
        let item = on_devices.as_ref().unwrap_or(item);
        let planned = spread.plan(policy, &item.problem, i);
        let done = planned
            .ok_or(WhyHost::OutOfMemory)
            .and_then(|(plan, on, seconds)| {
                // The time of a batch is no measurement of any of its products, so a batch has no prediction error.
                let predicted = (!group.is_batch()).then_some(Predicted {
                    watch,
                    seconds,
                    queued: (0.0, 0.0),
                });
                spread.count(cache, &plan);
                carry_out(
                    cache,
                    item,
                    number,
                    predicted,
                    (&plan, (&on, &spread.rates)),
                )
            });
        match done {
            Ok(Carried::Done(outcome)) => ran.outcome = outcome,
            Ok(Carried::Rest(rest)) => ran.rests.push(rest),
            Err(why) if i == 0 => return Err(why),
            Err(_) => {
                ran.from = Some(item.at);
                break;
            }
        }
        if let Some((item, host)) = divided {
            COUNTERS.host_parts.add(1);
            ran.rests.push(host_part::of_host(item, host));
        }
    }
    Ok(ran)
}

/// A call's predicted time, and the measurement of its real one.
#[derive(Clone, Copy, Debug)]
struct Predicted {
    watch: Stopwatch,
    seconds: Seconds,
    /// The watch's readings when all copies and kernels were queued: wall time, and time without waiting.
    queued: (f64, f64),
}

impl Predicted {
    /// The prediction error: how many seconds longer than predicted the call took. Wall time and the calling thread's
    /// own time each give a difference, and the smaller one counts: so time spent waiting does not count, as the device
    /// may have worked for other calls, and own time does not count unless the whole call was late. A wait at the end
    /// of the call for bytes of the result that no page protection can guard is left out of the wall time, as if the
    /// result stayed on the device. A call that was shorter than predicted gets at most the seconds of one page fault
    /// as credit, since the prediction includes the fault of a later read of the result.
    fn excess_s(&self) -> f64 {
        let (queued, own_queued) = self.queued;
        let (_, own) = self.watch.seconds();
        let whole = queued + own - own_queued;
        let excess = (whole - self.seconds.whole).min(own - self.seconds.own);
        excess.max(-self.seconds.look)
    }
}

/// How one call ended.
#[derive(Debug)]
enum Carried {
    /// The devices run it.
    Done(Outcome),
    /// The calling thread has to compute some tasks.
    Rest(Rest),
}

/// The devices of a plan, and the rates by which it was made.
type On<'a> = (&'a DeviceSet, &'a Rates);

/// Whether the tasks of a plan page-lock what they use one after the other; else the operands are page-locked before the first
/// task. A single task waits for all of its operands anyway. With a context on each of two H100s page-locking takes longer
/// than all copies and kernels, and was no faster piece by piece.
fn pins_by_task(cache: &Cache, plan: &Plan) -> bool {
    plan.tasks.len() > 1 && cache.backend().usable() == 1
}

/// Runs a call by its plan; `number` is the call's number in the cache.
///
/// # Errors
/// The reason why the host must run the call; no byte of the program was changed.
fn carry_out(
    cache: &Cache,
    item: &Item<'_>,
    number: u64,
    mut predicted: Option<Predicted>,
    (plan, on): (&Plan, On<'_>),
) -> Result<Carried, WhyHost> {
    let mut operands = Operands::register(cache, item, pins_by_task(cache, plan))?;
    let planned = (plan, on);
    let issued = issue(cache, number, item, planned, &mut operands, &mut predicted);
    operands.release(cache);
    let (carried, landed) = issued?;
    if matches!(carried, Carried::Done(_)) {
        let placed = &operands.placed;
        let excess = predicted.zip(largest(placed)).map(|(predicted, id)| {
            let excess_s = predicted.excess_s();
            debug!("it took {:.1} us beyond its prediction", excess_s * 1e6);
            (id, excess_s)
        });
        COUNTERS.bytes.per_call.add(replay::per_call_bytes(placed));
        replay::conclude(
            cache,
            item,
            plan,
            placed,
            Made {
                number,
                excess,
                landed: &landed,
                repeats: None,
            },
        );
    }
    Ok(carried)
}

/// Queues the call's kernels and copies, waits for results that must be in host memory when the call returns, and
/// returns the results that stay readable there, because the CPU is expected to read them next.
fn issue(
    cache: &Cache,
    number: u64,
    item: &Item<'_>,
    (plan, on): (&Plan, On<'_>),
    operands: &mut Operands,
    predicted: &mut Option<Predicted>,
) -> Result<(Carried, Vec<(AllocId, Rect)>), WhyHost> {
    let problem = &item.problem;
    // The value of each task of a reduction; in a box, so that its address does not change while devices write to it.
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
    let outlooks = cache.expect(number, placed);
    let outputs = || {
        outlooks
            .iter()
            .enumerate()
            .filter_map(|(i, o)| Some((i, (*o)?)))
    };
    // Results that do not fit into the devices leave them during the call.
    let wanted: Vec<usize> = outputs()
        .filter(|(_, o)| o.push != Push::No || by_tiles)
        .map(|(i, _)| i)
        .collect();
    let landing: Vec<(AllocId, Rect)> = outputs()
        .filter(|(_, o)| o.push == Push::Awaited)
        .map(|(i, _)| (placed[i].id, placed[i].view))
        .collect();
    let out = match &cell {
        Some(cell) => Out::Cell(cell.addr()),
        None if results.is_empty() => Out::Nowhere,
        None => Out::At(&results),
    };
    let mut streamed = StreamedWriteBack::new(plan, &wanted, by_tiles);
    let launched = match holds {
        Ok(holds) => sched::run(
            cache,
            problem,
            plan,
            placed,
            Memory {
                holds,
                pinning: Pinning::new(if operands.pinned_by_task {
                    &item.blocks
                } else {
                    &[]
                }),
            },
            out,
            &mut streamed,
        ),
        Err(error) => Err(Stopped { at: 0, error }),
    };
    if let Some(predicted) = predicted {
        predicted.queued = predicted.watch.seconds();
    }
    let issued = launched.and_then(|last| {
        // If a device is lost during the write-back, `land` reports it here, while the inputs may still exist.
        let kernel = cell.take().zip(last);
        land(cache, placed, &results, &landing, kernel, &mut slots).map_err(|error| Stopped {
            at: plan.tasks.len(),
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
            write_back(cache, placed, &results, &[]).map_err(|_| WhyHost::Refused)?;
            fell_back(problem, &stopped.error);
            return Err(match stopped.error {
                CacheError::NoRoom => WhyHost::OutOfMemory,
                CacheError::Device(DeviceError::Unreadable { .. }) => WhyHost::Guarded,
                _ => WhyHost::Refused,
            });
        }
        fell_back(problem, &stopped.error);
        if !gone && !broken!("break-guards") && write_back(cache, placed, &results, &[]).is_ok() {
            let tasks = plan.tasks.get(stopped.at..).unwrap_or_default();
            let rest = Rest::new(problem, tasks, placed, results.pop(), slots);
            return Ok((Carried::Rest(rest), Vec::new()));
        }
        let tasks = complete(
            cache,
            problem,
            plan,
            placed,
            &results,
            stopped,
            &finish::Known {
                outputs: &outputs().map(|(i, o)| (i, o.before)).collect::<Vec<_>>(),
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
    Ok((Carried::Done(outcome), landing))
}

/// The block of the operand that spans most bytes: the prediction error is booked there, as the largest operand causes
/// most of a call's time.
fn largest(placed: &[Use]) -> Option<AllocId> {
    let operand = placed.iter().max_by_key(|p| p.view.span().len());
    operand.map(|p| p.id)
}

/// Waits for the results that must be in host memory when the call returns, and for the values of a reduction.
fn land(
    cache: &Cache,
    placed: &[Use],
    results: &[Use],
    landing: &[(AllocId, Rect)],
    value: Option<(Taken, Ticket)>,
    slots: &mut [[u8; 16]],
) -> Result<(), CacheError> {
    write_back(cache, placed, results, landing)?;
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
        match write_back(cache, placed, results, &[]) {
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
fn as_loss(e: CacheError) -> CacheError {
    match e {
        CacheError::Device(DeviceError::Refused { device, .. }) => {
            CacheError::Device(DeviceError::Lost { device })
        }
        other => other,
    }
}

/// Ends a call: results on pages that cannot be protected are written back before this returns, and so are the results
/// in `landing`.
fn write_back(
    cache: &Cache,
    placed: &[Use],
    results: &[Use],
    landing: &[(AllocId, Rect)],
) -> Result<(), CacheError> {
    let (pending, settled) = cache.settle(placed.iter().chain(results), landing);
    let arrived = cache.arrive(&pending);
    settled?;
    arrived
}
