//! Execution of a call on devices: check, decide, plan, issue; then host memory is left such that the CPU can neither
//! read stale bytes nor change bytes that devices hold without a page fault.

use smallvec::{SmallVec, smallvec};

use super::call::Outcome;
use super::checks::{Checks, Group, Item};
use super::finish::{HostHas, Rest};
use super::host_part;
use super::issue::{Carried, Issue, On, Predicted};
use super::mapped::Landed;
use super::offload::{self, Declined};
use super::offload_policy::Policy;
use super::operands::{self, PageLocks, blocks};
use super::replay::Sites;
use super::section;
use super::window::{self, Unfinished};
use crate::base::Value;
use crate::base::counters::{COUNTERS, WhyHost};
use crate::cache::Cache;
use crate::plan::{Access, Plan};
use crate::process::waited::Stopwatch;

/// How calls on devices ended, or how far they are.
#[derive(Debug)]
pub struct Ran {
    /// The result of a single call.
    pub outcome: Outcome,
    /// The tasks, of the calls before `from`, that the calling thread has to compute. No call reads what another call
    /// of the group writes, so their order does not matter.
    pub rests: Vec<Rest>,
    /// Results that were in mapped memory, to be stored to the program's.
    pub landed: SmallVec<[Landed; 1]>,
    /// The first call that the host BLAS has to run, because the devices refused it.
    pub from: Option<usize>,
    /// The call is issued in a window, and not to its end: nothing else is left.
    pub unfinished: Option<Box<Unfinished>>,
    /// The single call is one of those of which the host BLAS's time is taken: no device has a part of it.
    pub timed: Option<(WhyHost, Rest)>,
    /// The host BLAS has run it.
    pub on_host: bool,
}

impl Ran {
    fn done(outcome: Outcome) -> Ran {
        Ran {
            outcome,
            rests: Vec::new(),
            landed: SmallVec::new(),
            from: None,
            unfinished: None,
            timed: None,
            on_host: false,
        }
    }

    /// What the end of a single call leaves.
    #[must_use]
    pub fn of(carried: Carried) -> Ran {
        match carried {
            Carried::Done(outcome) => Ran::done(outcome),
            Carried::Landed(outcome, landed) => Ran {
                landed: smallvec![landed],
                ..Ran::done(outcome)
            },
            Carried::Rest(rest) => Ran {
                rests: vec![rest],
                ..Ran::done(Outcome::Done(Value::ZERO))
            },
        }
    }
}

/// Runs the calls of a group on the devices, in order, and returns what is left for the host.
///
/// # Errors
/// The reason why the host must run all of them; no byte of the program was changed.
pub fn run(
    cache: &'static Cache,
    policy: &Policy,
    group: &Group<'_>,
    checks: &mut Checks,
    host: HostHas,
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
    let watch = Stopwatch::start();
    let spread = match offload::decide(cache, policy, group.key, &mut checks.items, host) {
        Ok(spread) => spread,
        Err(Declined { why, timed }) => {
            let whole = checks.items.first().filter(|_| timed).and_then(Rest::whole);
            return whole.map_or(Err(why), |rest| {
                Ok(Ran {
                    timed: Some((why, rest)),
                    ..Ran::done(Outcome::Done(Value::ZERO))
                })
            });
        }
    };
    let number = cache.number();
    let mut ran = Ran::done(Outcome::Done(Value::ZERO));
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
        let batch = group.is_batch();
        let known = batch.then(|| policy.replays(&item.call, item.key));
        if let Some(landed) = known.flatten().and_then(|k| k.launch(cache)) {
            ran.landed.extend(landed);
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
                // The time of a batch is no measurement of any of its products, so a batch has no prediction error; neither has a call
                // that loads its kernels, or whose tiles are computed where the program wants them.
                let first = policy.kernel_loads.is_first_run(&item.problem, &on);
                let ordered = spread.distributed.is_some();
                let predicted = (!group.is_batch() && !first && !ordered).then_some(Predicted {
                    watch,
                    seconds,
                    queued: (0.0, 0.0),
                    returns_results: spread.writes_through,
                });
                let windowed = window::depth(cache, policy, item, (&plan, &on));
                // The host begins its part when all tasks are queued: the sooner, the better.
                let apart = group.is_batch() || divided.is_some() || ordered || section::is_open();
                if let Some(depth) = windowed.filter(|_| !apart) {
                    let planned = (plan, spread.clone(), &on);
                    let begun =
                        Unfinished::new((cache, policy), item, number, predicted, planned, depth);
                    ran.unfinished = Some(begun?);
                    return Ok(Carried::Done(ran.outcome));
                }
                spread.count(cache, &plan);
                let planned = (&plan, (&on, &spread.rates));
                carry_out((cache, &policy.sites), item, number, predicted, planned)
            });
        match done {
            Ok(Carried::Done(outcome)) => ran.outcome = outcome,
            Ok(Carried::Landed(outcome, landed)) => {
                ran.outcome = outcome;
                ran.landed.push(landed);
            }
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

/// When the operands of a call are page-locked. A single task waits for all of its operands anyway. Results are page-locked by a thread
/// beside the calling one if that sends inputs through staging memory meanwhile, or with a context on each of several GPUs, where
/// page-locking takes longer than all copies and kernels; unless a block holds both an input and a result: the pages of an input
/// become read-only before the thread may reach their piece.
fn page_locks(cache: &Cache, item: &Item, plan: &Plan) -> PageLocks {
    let Item { places, blocks, .. } = item;
    let (written, read): (Vec<usize>, Vec<usize>) =
        (0..places.len()).partition(|&i| item.problem.access(i) != Access::Read);
    let id = |i: usize| blocks[i].map(|b| b.id);
    let apart = |&w: &usize| blocks[w].is_none() || read.iter().all(|&r| id(r) != id(w));
    let slow =
        |&w: &usize| blocks[w].is_some_and(|b| cache.pins_slowly(&b, operands::bytes(&places[w])));
    let one = cache.backend().usable() == 1;
    let beside = !one || cache.stages_inputs();
    if plan.tasks.len() < 2 {
        PageLocks::Before
    } else if beside && written.iter().any(slow) && written.iter().all(apart) {
        PageLocks::ResultsAhead
    } else if one {
        PageLocks::ByTask
    } else {
        PageLocks::Before
    }
}

/// Runs a call by its plan; `number` is the call's number in the cache.
///
/// # Errors
/// The reason why the host must run the call; no byte of the program was changed.
fn carry_out(
    (cache, sites): (&'static Cache, &Sites),
    item: &Item,
    number: u64,
    predicted: Option<Predicted>,
    (plan, on): (&Plan, On<'_>),
) -> Result<Carried, WhyHost> {
    let locks = page_locks(cache, item, plan);
    let mut issue = Issue::new(cache, number, item, (plan, on), locks, predicted)?;
    let launched = issue.run(cache, item, plan);
    issue.end((cache, sites), item, plan, launched)
}
