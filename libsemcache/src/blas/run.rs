//! Carries a call out: check, decide, plan, issue, and leave host memory such that nothing in it can be
//! read or changed wrongly without a trap (decision D7).

use std::sync::Once;

use log::{debug, warn};
use semcache_fault::broken;

use super::call::Outcome;
use super::checks::{Checks, Group, Item};
use super::finish::{self, Rest, finish};
use super::offload;
use super::operands::{self, Operands, blocks};
use super::policy::Policy;
use super::{memo, remember, value};
use crate::base::counters::{COUNTERS, WhyHost};
use crate::base::{AllocId, Rect, Value};
use crate::cache::call::Made;
use crate::cache::cells::Taken;
use crate::cache::history::Push;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::device::api::{DeviceError, Ticket};
use crate::plan::{Plan, Problem};
use crate::process::waited::Stopwatch;
use crate::sched::{self, Homeward, Out, Stopped};

/// What became of calls on the devices.
#[derive(Debug)]
pub struct Ran {
    /// What the call returns, if it is a single one.
    pub outcome: Outcome,
    /// The tasks that are left for the calling thread, of the calls before `from`. No call reads what another one writes, so
    /// their order does not matter.
    pub rests: Vec<Rest>,
    /// The first call that is left for the host: the devices refused in the middle.
    pub from: Option<usize>,
}

/// Runs calls on the devices, in order, and says what is left.
///
/// # Errors
/// Why the host must run all of them; nothing of the program's was changed.
pub fn run(
    cache: &Cache,
    policy: &Policy,
    group: &Group<'_>,
    checks: &mut Checks<'_>,
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
    let (watch, key) = (Stopwatch::start(), memo::of(group.calls));
    let spread = offload::decide(cache, policy, key, &mut checks.items)?;
    let number = cache.number();
    let mut ran = Ran {
        outcome: Outcome::Done(Value::ZERO),
        rests: Vec::new(),
        from: None,
    };
    for (i, item) in checks.items.iter().enumerate() {
        // After the first call this means that a device was lost, and that the call before was completed on the host.
        if !cache.whole() {
            if i == 0 {
                return Err(WhyHost::Refused);
            }
            ran.from = Some(item.at);
            break;
        }
        // Whether a single call can be launched as it was before has been seen already.
        let known = group.is_batch().then(|| remember::known(item.call));
        if known.flatten().and_then(|k| k.launch(cache)).is_some() {
            policy.launched_again(key);
            continue;
        }
        let planned = spread.plan(policy, &item.problem, i);
        let done = planned
            .ok_or(WhyHost::OutOfMemory)
            .and_then(|(plan, seconds)| {
                // What a batch takes is nobody's in particular.
                let predicted = (!group.is_batch()).then_some(Predicted {
                    watch,
                    seconds,
                    queued: (0.0, 0.0),
                });
                carry_out(cache, item, number, predicted, &plan)
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
    }
    Ok(ran)
}

/// What a call is to take, and when it began.
#[derive(Clone, Copy, Debug)]
struct Predicted {
    watch: Stopwatch,
    seconds: offload::Seconds,
    /// What the watch showed when all copies and kernels were queued.
    queued: (f64, f64),
}

impl Predicted {
    /// How much longer it took. What it waited for does not count, for that may be other calls' work; nor does what it
    /// did itself as long as the whole was no longer than predicted. A call that waits at its end, for bytes of its result
    /// that no page protection can guard, is judged as one whose result stays on the device: the whole does not have that
    /// wait. If it was shorter, the fault that may follow has been counted.
    fn excess_s(&self) -> f64 {
        let (queued, own_queued) = self.queued;
        let (_, own) = self.watch.seconds();
        let whole = queued + own - own_queued;
        let excess = (whole - self.seconds.whole).min(own - self.seconds.own);
        excess.max(-self.seconds.look)
    }
}

/// What became of one call.
#[derive(Debug)]
enum Carried {
    /// The devices have it, or it has been completed.
    Done(Outcome),
    /// Some tasks are left for the calling thread.
    Rest(Rest),
}

/// Runs a call by its plan; `number` is what the cache knows it by.
///
/// # Errors
/// Why the host must run it; nothing of the program's was changed.
fn carry_out(
    cache: &Cache,
    item: &Item<'_>,
    number: u64,
    mut predicted: Option<Predicted>,
    plan: &Plan,
) -> Result<Carried, WhyHost> {
    let problem = &item.problem;
    let mut operands = Operands::register(cache, item)?;
    let issued = issue(cache, number, problem, plan, &mut operands, &mut predicted);
    operands.release(cache);
    let (carried, landed) = issued?;
    if matches!(carried, Carried::Done(_)) {
        let placed = &operands.placed;
        let excess = predicted.zip(largest(placed)).map(|(predicted, id)| {
            let excess_s = predicted.excess_s();
            debug!("it took {:.1} us beyond its prediction", excess_s * 1e6);
            (id, excess_s)
        });
        COUNTERS
            .bytes
            .per_call
            .add(remember::per_call_bytes(placed));
        remember::conclude(
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

/// Queues the call's kernels and copies, waits for what must be home when it returns, and tells which results the CPU is to
/// find readable.
fn issue(
    cache: &Cache,
    number: u64,
    problem: &Problem,
    plan: &Plan,
    operands: &mut Operands,
    predicted: &mut Option<Predicted>,
) -> Result<(Carried, Vec<(AllocId, Rect)>), WhyHost> {
    // Boxed: a fixed address while the devices write it.
    let mut slot = Box::new([0_u8; 16]);
    let (mut result, mut cell) = (None, None);
    if problem.routine.reduces() {
        let size = value::size_of(problem);
        cell = match plan.tasks.as_slice() {
            [task] => cache.take_cell(task.device),
            _ => None,
        };
        result = Some(match &cell {
            Some(_) => operands::slot(&mut slot, size),
            None => operands.add_result(cache, &mut slot, size),
        });
    }
    let placed = &operands.placed;
    let outlooks = cache.expect(number, placed);
    let outputs = || {
        outlooks
            .iter()
            .enumerate()
            .filter_map(|(i, o)| Some((i, (*o)?)))
    };
    let wanted: Vec<usize> = outputs()
        .filter(|(_, o)| o.push != Push::No)
        .map(|(i, _)| i)
        .collect();
    let landing: Vec<(AllocId, Rect)> = outputs()
        .filter(|(_, o)| o.push == Push::Land)
        .map(|(i, _)| (placed[i].id, placed[i].view))
        .collect();
    let out = match (&cell, &result) {
        (Some(cell), _) => Out::Cell(cell.addr()),
        (None, Some(r)) => Out::At(r),
        (None, None) => Out::Nowhere,
    };
    let mut homeward = Homeward::new(plan, &wanted);
    let launched = sched::run(cache, problem, plan, placed, out, &mut homeward);
    if let Some(predicted) = predicted {
        predicted.queued = predicted.watch.seconds();
    }
    let issued = launched.and_then(|last| {
        // A loss while results are on their way home is noticed here, while the inputs may still exist.
        let kernel = cell.take().zip(last);
        land(cache, placed, result.as_ref(), &landing, kernel, &mut slot).map_err(|error| Stopped {
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
        if stopped.at == 0 && !gone {
            // Nothing was launched: the host BLAS can have the whole call.
            home(cache, placed, result.as_ref(), &[]).map_err(|_| WhyHost::Refused)?;
            fell_back(problem, &stopped.error);
            return Err(match stopped.error {
                CacheError::NoRoom => WhyHost::OutOfMemory,
                CacheError::Device(DeviceError::Unreadable { .. }) => WhyHost::Guarded,
                _ => WhyHost::Refused,
            });
        }
        fell_back(problem, &stopped.error);
        if !gone && !broken!("break-guards") && home(cache, placed, result.as_ref(), &[]).is_ok() {
            let tasks = plan.tasks.get(stopped.at..).unwrap_or_default();
            let rest = Rest::new(problem, tasks, placed, result, slot);
            return Ok((Carried::Rest(rest), Vec::new()));
        }
        complete(
            cache,
            problem,
            plan,
            placed,
            result.as_ref(),
            stopped,
            &finish::Known {
                outputs: &outputs().map(|(i, o)| (i, o.before)).collect::<Vec<_>>(),
                sent: homeward.sent(),
            },
        );
        // What was to be home is, and who touches it opens it.
        let outcome = value::outcome(problem.routine, problem.dtype, &slot);
        return Ok((Carried::Done(outcome), Vec::new()));
    }
    let outcome = value::outcome(problem.routine, problem.dtype, &slot);
    Ok((Carried::Done(outcome), landing))
}

/// The block of the operand that reaches farthest: what a call costs is mostly its doing.
fn largest(placed: &[Use]) -> Option<AllocId> {
    let operand = placed.iter().max_by_key(|p| p.view.span().len());
    operand.map(|p| p.id)
}

/// Waits for what must be home when the call returns, the value of a reduction too.
fn land(
    cache: &Cache,
    placed: &[Use],
    result: Option<&Use>,
    landing: &[(AllocId, Rect)],
    value: Option<(Taken, Ticket)>,
    slot: &mut [u8; 16],
) -> Result<(), CacheError> {
    home(cache, placed, result, landing)?;
    if let Some((cell, kernel)) = value {
        *slot = cache.collect(cell, kernel)?;
    }
    Ok(())
}

/// Finishes a call on the host, and again for every device that is lost while its results come home.
fn complete(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    placed: &[Use],
    result: Option<&Use>,
    mut stopped: Stopped,
    known: &finish::Known<'_>,
) {
    let mut sent = known.sent.to_vec();
    for _ in 0..=cache.backend().devices().len() {
        // What one pass computed must not be computed again from itself by the next.
        let known = finish::Known {
            sent: &sent,
            ..*known
        };
        let done = finish(cache, problem, plan, placed, result, &stopped, &known);
        sent.extend(done);
        // Also uploads of memory that the program may change now must be through.
        match home(cache, placed, result, &[]) {
            Ok(()) => return,
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

/// Counts a call that the devices did not finish; the first one is said.
fn fell_back(problem: &Problem, why: &CacheError) {
    static SAID: Once = Once::new();
    COUNTERS.fallbacks.add(1);
    // A lost device has its own line; memory that cannot be read is the program's business.
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

/// A device that will not give results back is as good as lost.
fn as_loss(e: CacheError) -> CacheError {
    match e {
        CacheError::Device(DeviceError::Refused { device, .. }) => {
            CacheError::Device(DeviceError::Lost { device })
        }
        other => other,
    }
}

/// Ends a call: what no trap guards goes home, and is there when this returns; so are the results that `landing` names.
fn home(
    cache: &Cache,
    placed: &[Use],
    result: Option<&Use>,
    landing: &[(AllocId, Rect)],
) -> Result<(), CacheError> {
    let (coming, settled) = cache.settle(placed.iter().chain(result), landing);
    let arrived = cache.arrive(&coming);
    settled?;
    arrived
}
