//! The offload decision: whether calls run on devices or on the host BLAS, and on which devices. Gathers what the model
//! needs to know of the operands and asks the model.
//!
//! The products of a batch get one decision together, as one product that has the work of all. A single call is a batch
//! of one.

use log::Level::Debug;
use log::log_enabled;

use super::ab_probe::probed;
use super::asked::Asked;
use super::checks::Item;
use super::decided::{record, tell};
use super::finish::HostHas;
use super::gathered::{Gathered, WriteThrough};
use super::host_part;
use super::offload_policy::Policy;
use super::owners;
use super::plain::{self, Plain};
use super::section;
use super::spread::Spread;
use super::tiling::Planned;
use crate::base::counters::WhyHost;
use crate::base::distribution::Distributed;
use crate::base::{DeviceSet, Dtype, TileSize, Work};
use crate::cache::Cache;
use crate::cache::hot::OPERANDS;
use crate::cache::orders::Layout;
use crate::model::decide::{self, Decision, Mode, OperandState, Planner, Question, Reason};
use crate::model::exec;
use crate::policy::ab_probe::Where;
use crate::policy::amortisation::Use;
use crate::trace;

/// Seconds that a batch on devices costs the calling thread for each product after the first: to look up its operands,
/// plan and launch. (If the host runs the batch, only the look-up has been done: `call_sites::LOOK_S`.)
const EACH_S: f64 = 8e-6;

/// Blocks become write-through if a call is predicted to take less than this share of its time then.
const SOONER: f64 = 0.9;

/// A group of calls that the host BLAS runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declined {
    pub(super) why: WhyHost,
    /// Whether the calling thread calls the host BLAS and takes the time, instead of leaving the call to it by a jump.
    pub(super) timed: bool,
}

impl From<WhyHost> for Declined {
    fn from(why: WhyHost) -> Declined {
        Declined { why, timed: false }
    }
}

/// Decides whether a group of calls runs on devices; `key` is the key of the whole group ([`super::call_key`]).
///
/// # Errors
/// The reason why the host BLAS runs the calls.
pub(super) fn decide(
    cache: &Cache,
    policy: &Policy,
    key: u64,
    items: &mut [Item],
    host: HostHas,
) -> Result<Spread, Declined> {
    let usable = cache.backend().usable();
    let gathered = Gathered::of(cache, policy, items)?;
    let Some(first) = items.first() else {
        return Err(WhyHost::Empty.into());
    };
    let rates = policy.rates();
    let work = sum_of_work(items);
    let usable = exec::by_speed(&work, &rates, usable);
    let prefer = gathered.prefer(&usable);
    let beyond_s = if policy.expects_errors() {
        gathered.beyond_s()
    } else {
        0.0
    };
    let owners = match &*items {
        [item] => owners::of_call(cache, item, &gathered.apart(), rates.of(prefer)),
        _ => Vec::new(),
    };
    let states = gathered.states(&first.problem, !owners.is_empty(), beyond_s);
    let planned = match &*items {
        [item] => Some(Planned::new(policy, &rates, &item.problem, &usable)),
        _ => None,
    };
    let planner = planned.as_ref().filter(|p| p.serves());
    let asked = Asked {
        question: Question {
            work,
            host_s: match &*items {
                [_] => policy.host_s(&work, &rates.host),
                _ => None,
            },
            operands: &states,
            devices: usable,
            prefer,
            memory: &policy.memory,
            mode: policy.mode,
            tile: policy.tile,
            planner: planner.map(|p| p as &dyn Planner),
        },
        rates: &rates,
        more_s: (items.len() - 1) as f64 * (EACH_S + rates.of(prefer).launch_s),
    };
    let predicted = asked.answer(policy.mode);
    let through = match &*items {
        [item] if owners.is_empty() && policy.writes_through() && !section::is_open() => {
            let least_s = decided_s(&asked, &predicted).map(|s| (1.0 - SOONER) * s);
            let least_s = least_s.filter(|least_s| beyond_s > *least_s);
            let on = rates.of(prefer);
            // One block's error, or those of A, B and C together.
            least_s.and_then(|s| gathered.write_through(cache, item, (on, s / OPERANDS as f64)))
        }
        _ => None,
    };
    let through = through.as_ref();
    let sooner = through.and_then(|through| sooner(&asked, &predicted, through));
    let through = through.filter(|_| sooner.is_some());
    let (protected, (asked, predicted)) = (asked, sooner.unwrap_or((asked, predicted)));
    let beyond_s = through.map_or(beyond_s, |through| through.beyond_s);
    let decision = probed(policy, key, predicted, &asked);
    let single = host.door && items.len() == 1;
    let timed = single && is_timed(policy, &protected, &decision);
    let (divides, calls) = (decide::most_devices(&work) > 1, items.len());
    let distributed = match &*items {
        [item] => distribution(cache, item),
        _ => None,
    };
    let spread = |devices, tile| Spread {
        host: None,
        distributed: distributed.clone(),
        devices,
        usable,
        tile,
        prefer,
        owners: owners.clone(),
        divides,
        calls,
        whole_s: 0.0,
        writes_through: false,
        rates,
    };
    let awaited = !timed
        && host.routine
        && awaits_code(cache, policy, items, (&decision, &predicted), spread);
    if awaited && decision != predicted {
        policy.sites.with(key, |site| site.probe.put_off());
    }
    let timed = timed || awaited && single && is_timed(policy, &protected, &ON_HOST);
    let decision = if timed || awaited { ON_HOST } else { decision };
    let known = asked.question.host_s.is_some() || policy.host_given;
    plain::set(Plain::new(asked.plain_s(), known, items.len()));
    if trace::on() {
        record(&asked, &decision, decision != predicted);
    }
    if log_enabled!(Debug) {
        let instead = match decision == predicted {
            true => "",
            false if awaited => ", while code is loaded",
            false => ", against the prediction",
        };
        tell(&asked, &decision, instead);
    }
    match decision {
        Decision::Offload {
            devices,
            tile,
            predicted_s,
            host_s,
        } => {
            let began = through.is_some_and(|through| cache.write_through(&through.blocks));
            let amortises = policy.mode == Mode::Auto && predicted_s >= host_s;
            goes_to_devices(cache, &gathered, asked.question.operands, amortises);
            policy.left_to_devices(key);
            let chosen = match &*items {
                // The calling thread does not compute where the program wants to go on, or wants devices to compute.
                _ if section::is_open() || distributed.is_some() => None,
                [item] => {
                    let on = (&devices, tile);
                    host_part::choose(cache, policy, &asked, item, on, predicted_s, host.routine)
                }
                _ => None,
            };
            let gain_s = chosen.as_ref().map_or(0.0, |chosen| chosen.gain_s);
            Ok(Spread {
                host: chosen.map(|chosen| chosen.part),
                whole_s: predicted_s - beyond_s - gain_s,
                writes_through: began || gathered.writes_through(),
                ..spread(devices, tile)
            })
        }
        Decision::Host(reason) => {
            if reason == Reason::PredictedSlower {
                let blocks = gathered.reaches.iter();
                cache.note_host_call(blocks.map(|(id, reach)| (*id, reach.written)));
                // While the host is hardly timed, or code is loaded, every call gets a decision of its own.
                let each = awaited || timed && policy.learned().host_times.is_new(&work);
                let most = match each {
                    true => 0,
                    false if single && !timed => untimed(policy, &asked).unwrap_or(u64::MAX),
                    false => u64::MAX,
                };
                policy.left_to_host(key, items.len(), asked.plain_s(), most);
            }
            let why = if awaited {
                WhyHost::Loading
            } else {
                why(reason)
            };
            Err(Declined { why, timed })
        }
    }
}

/// Seconds of a call where the decision leaves it; `None` if it was not predicted.
fn decided_s(asked: &Asked<'_>, decision: &Decision) -> Option<f64> {
    match decision {
        Decision::Offload { predicted_s, .. } => Some(*predicted_s),
        Decision::Host(Reason::PredictedSlower) => Some(asked.on_host()),
        Decision::Host(_) => None,
    }
}

/// The decision for a call on devices with blocks write-through, if that takes much less time than what was decided.
fn sooner<'a>(
    asked: &Asked<'a>,
    decision: &Decision,
    through: &'a WriteThrough<'a>,
) -> Option<(Asked<'a>, Decision)> {
    let instead = Asked {
        question: Question {
            operands: &through.states,
            ..asked.question
        },
        ..*asked
    };
    let answer = instead.answer(Mode::Auto);
    let Decision::Offload { predicted_s, .. } = answer else {
        return None;
    };
    (predicted_s < SOONER * decided_s(asked, decision)?).then_some((instead, answer))
}

/// The distribution of a call's output, if the program gave it one.
fn distribution(cache: &Cache, item: &Item) -> Option<Distributed> {
    let problem = &item.problem;
    let last = problem.operands.len() - 1;
    let block = item.blocks[last].filter(|_| problem.routine.level() == 3)?;
    let (operand, element) = (&problem.operands[last], problem.dtype.size());
    let layout = Layout {
        start: item.places[last].start - block.start,
        stride: operand.ld * element,
        element,
    };
    cache.distributed(block.id, &layout, (operand.rows, operand.cols))
}

fn why(reason: Reason) -> WhyHost {
    match reason {
        Reason::Off => WhyHost::Never,
        Reason::NoDevice => WhyHost::NoDevice,
        Reason::Small => WhyHost::Small,
        Reason::PredictedSlower => WhyHost::PredictedSlower,
    }
}

/// Records that calls go to devices. `amortises`: they are slower there than on the host, and only later calls that use
/// the uploaded data again make the upload pay.
fn goes_to_devices(
    cache: &Cache,
    gathered: &Gathered,
    states: &[OperandState<'_>],
    amortises: bool,
) {
    let mut uses = Vec::new();
    for (id, reach) in &gathered.reaches {
        let operands = reach.spans.iter().zip(states).zip(&gathered.sums);
        for ((span, s), sum) in operands.filter(|((span, s), _)| s.read && !span.is_empty()) {
            if s.resident >= s.bytes / 2 {
                if sum.owes {
                    uses.push((*id, *span, Use::Found));
                }
            } else if amortises && s.seen > 0 {
                uses.push((*id, *span, Use::Sent { on: s.seen }));
            }
        }
    }
    cache.note_uploads(&uses);
}

/// Bytes of operands that the host may get from devices, or take from them by writing, for a call that is only to be timed there.
const MOVED: usize = 16 << 20;

/// The decision for a call that could run on devices.
const ON_HOST: Decision = Decision::Host(Reason::PredictedSlower);

/// Whether the host would be chosen even if it took as long as it may be found to take.
fn is_settled(policy: &Policy, asked: &Asked<'_>) -> bool {
    let bound = policy.host_bound(&asked.question.work, asked.plain_s());
    bound.is_some_and(|bound| {
        let slower = Asked {
            question: Question {
                host_s: Some(bound),
                ..asked.question
            },
            ..*asked
        };
        matches!(slower.answer(Mode::Auto), Decision::Host(_))
    })
}

/// Whether a single call runs on the host with its time taken ([`crate::policy::host_times`]): where the host was chosen only if all
/// operands are there, so that the time has no page faults, and where devices were chosen only if they hold little that the host needs
/// or writes. The value of a reduction would need a place of its own.
fn is_timed(policy: &Policy, asked: &Asked<'_>, decision: &Decision) -> bool {
    let work = asked.question.work;
    if work.routine.reduces() {
        return false;
    }
    let host_s = asked.on_host();
    let (place, predicted_s) = match decision {
        Decision::Offload { predicted_s, .. } => (Where::Devices, *predicted_s),
        Decision::Host(Reason::PredictedSlower) => (Where::Host, host_s),
        Decision::Host(_) => return false,
    };
    let moved = asked.question.operands.iter().map(|o| match o.written {
        true => o.stale.max(o.resident),
        false => o.stale,
    });
    let fits = match place {
        Where::Host => host_s <= asked.plain_s() && !is_settled(policy, asked),
        Where::Devices => moved.sum::<usize>() <= MOVED,
    };
    fits && policy.times_host(&work, place, predicted_s, host_s)
}

/// How many calls may follow on the host without a decision after a single one that was not timed because devices hold operands.
fn untimed(policy: &Policy, asked: &Asked<'_>) -> Option<u64> {
    let work = asked.question.work;
    let held = asked.on_host() > asked.plain_s();
    if work.routine.reduces() || !held || is_settled(policy, asked) {
        return None;
    }
    policy.untimed(&work)
}

/// Whether a single call for which devices were chosen stays on the host because they have not loaded the code of its kernel. Nothing is
/// known of what it loses if it would run on devices to be measured, or for an upload that pays only with later calls.
fn awaits_code(
    cache: &Cache,
    policy: &Policy,
    items: &[Item],
    (decision, predicted): (&Decision, &Decision),
    spread: impl FnOnce(DeviceSet, TileSize) -> Spread,
) -> bool {
    let ([item], &Decision::Offload { devices, tile, .. }) = (items, decision) else {
        return false;
    };
    let gain_s = match predicted {
        Decision::Offload {
            predicted_s,
            host_s,
            ..
        } if predicted_s < host_s => Some(host_s - predicted_s),
        _ => None,
    };
    let plan = || {
        let planned = spread(devices, tile).plan(policy, &item.problem, 0);
        planned.map(|(plan, ..)| plan)
    };
    let backend = cache.backend();
    policy.awaits_code()
        && (policy.kernel_loads).awaited(backend, &item.problem, &devices, gain_s, plan)
}

/// The work of all calls as that of one product: as many rows and as deep as the largest, and wide enough for the sum.
fn sum_of_work(items: &[Item]) -> Work {
    if let [item] = items {
        return item.problem.work();
    }
    let amount = |w: &Work| w.m as f64 * w.n as f64 * w.k as f64;
    let works = || items.iter().map(|i| i.problem.work());
    let total: f64 = works().map(|w| amount(&w)).sum();
    let largest = works()
        .max_by(|x, y| amount(x).total_cmp(&amount(y)))
        .unwrap_or(Work::gemm(Dtype::D, 1, 1, 1));
    let area = largest.m as f64 * largest.k as f64;
    Work {
        n: (total / area).ceil().max(1.0) as usize,
        ..largest
    }
}
