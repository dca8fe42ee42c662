//! The offload decision: whether calls run on devices or on the host BLAS, and on which devices. Gathers what the model
//! needs to know of the operands and asks the model.
//!
//! The products of a batch get one decision together, as one product that has the work of all. A single call is a batch
//! of one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use log::Level::Debug;
use log::log_enabled;

use super::ab_probe::probed;
use super::asked::Asked;
use super::call_key;
use super::checks::Item;
use super::decided::{record, tell};
use super::finish::HostHas;
use super::host_part;
use super::offload_policy::{Policy, state};
use super::owners;
use super::plain::{self, Plain};
use super::sample::sample;
use super::section;
use super::spread::Spread;
use super::tiling::Planned;
use crate::base::counters::WhyHost;
use crate::base::distribution::Distributed;
use crate::base::{AllocId, DeviceId, DeviceSet, Dtype, Interval, TileSize, Work};
use crate::cache::Cache;
use crate::cache::call::{Before, Found, Survey};
use crate::cache::hot::OPERANDS;
use crate::cache::orders::Layout;
use crate::model::decide::{self, Decision, Mode, OperandState, Planner, Question, Reason};
use crate::model::exec;
use crate::plan::Access;
use crate::policy::ab_probe::Where;
use crate::policy::amortisation::Use;
use crate::policy::block_use::Expected;
use crate::trace;

/// Seconds that a batch on devices costs the calling thread for each product after the first: to look up its operands,
/// plan and launch. (If the host runs the batch, only the look-up has been done: `call_sites::LOOK_S`.)
const EACH_S: f64 = 8e-6;

/// The operands of all calls at one position (A, B or C), added up.
#[derive(Debug, Default)]
struct Sum {
    bytes: usize,
    resident: usize,
    stale: usize,
    unpinned: usize,
    on: Vec<usize>,
    /// Whether any call reads its operand.
    read: bool,
    /// For each operand, its bytes times the share of them that the CPU reads back; added up.
    read_back: f64,
    /// The highest probability that the CPU reads any byte of one of these results.
    looked: f64,
    /// For how many calls in a row the same call, and no other, has used a block; the minimum over the blocks.
    alone: Option<u32>,
    /// How many earlier calls used a block since the CPU last wrote to it; the minimum over the blocks.
    seen: Option<u32>,
    /// How many earlier calls used a block; the minimum over the blocks.
    calls: Option<u32>,
    /// Uploads of a block have not paid yet, or were lost.
    owes: bool,
}

/// The bytes of a block that the calls use.
#[derive(Debug)]
struct Reach {
    /// At each operand position, from the first to the last byte.
    spans: [Interval; OPERANDS],
    /// The sum of the panels of all operands, counted as in [`Cache::expect`].
    panels: usize,
    /// Whether any call writes an operand in the block.
    written: bool,
}

/// What is known of the operands of all calls before a decision.
#[derive(Debug, Default)]
struct Gathered {
    sums: [Sum; OPERANDS],
    reaches: BTreeMap<AllocId, Reach>,
    before: Before,
}

impl Gathered {
    fn of(cache: &Cache, policy: &Policy, items: &mut [Item]) -> Result<Gathered, WhyHost> {
        let mut all = Gathered::default();
        // A matrix that is an input of several products counts once.
        let mut counted = BTreeSet::new();
        let (auto, single) = (policy.mode == Mode::Auto, items.len() == 1);
        let user = user(items);
        for item in items {
            let of_each = |is: &dyn Fn(usize) -> bool| {
                core::array::from_fn(|i| i < item.places.len() && is(i))
            };
            let survey = Survey {
                places: &item.places,
                blocks: &item.blocks,
                user,
                inputs: of_each(&|i| auto && item.problem.access(i) == Access::Read),
                fetched: of_each(&|i| item.problem.fetches(i)),
                sample,
            };
            let found = cache.survey(&survey, &mut all.before);
            let found = found.map_err(|_| WhyHost::Refused)?;
            for (i, found) in found.iter().enumerate() {
                item.known[i] = found.known;
                if single || counted.insert(item.places[i]) {
                    all.add(cache, item, i, found);
                }
            }
        }
        Ok(all)
    }

    /// Adds the operand with index `i` of a call.
    fn add(&mut self, cache: &Cache, item: &Item, i: usize, found: &Found) {
        let residency = &found.residency;
        let expected = item.blocks[i].and_then(|b| self.before.get(&b.id));
        let expected = expected.map_or(&Expected::TRANSIENT, |expected| expected);
        let place = &item.places[i];
        let bytes = place.bytes();
        let sum = &mut self.sums[i];
        sum.bytes += bytes;
        sum.resident += residency.union.min(bytes);
        sum.stale += residency.stale;
        sum.read |= item.problem.fetches(i);
        add_each(&mut sum.on, &residency.resident);
        sum.read_back += bytes as f64 * expected.read_back;
        sum.looked = sum.looked.max(expected.looked);
        if let Some(b) = &item.blocks[i] {
            let rect = place.counted_from(b.start);
            let reach = self.reaches.entry(b.id).or_insert_with(|| {
                sum.unpinned += cache.unpinned(b, place.start, place.end() - place.start);
                Reach {
                    spans: [Interval::default(); OPERANDS],
                    panels: 0,
                    written: false,
                }
            });
            reach.add(i, rect.span());
            reach.panels += cache.panels(&rect);
            reach.written |= item.problem.access(i) != Access::Read;
        }
        sum.alone = least(sum.alone, expected.alone);
        sum.seen = least(sum.seen, found.seen);
        sum.calls = least(sum.calls, expected.calls);
        sum.owes |= found.owes;
    }

    /// The device that has most bytes of the operands, the fastest one if none has any. Levels 1 and 2 mostly run on one
    /// device, and bytes that are on other devices must be copied to it.
    fn prefer(&self, usable: &DeviceSet) -> DeviceId {
        let on = |d: DeviceId| -> usize {
            let each = self.sums.iter().filter_map(|s| s.on.get(d.index()));
            each.sum()
        };
        // Of several that have the same number of bytes the last one is returned.
        let all = (0..usable.len()).rev().map(|at| usable.id(at));
        all.max_by_key(|&d| on(d)).unwrap_or(DeviceId(0))
    }

    /// For each operand the bytes that are on devices, but not on the one that has most of them.
    fn apart(&self) -> [usize; OPERANDS] {
        let of = |sum: &Sum| {
            let most = sum.on.iter().max().copied().unwrap_or(0);
            sum.resident.saturating_sub(most)
        };
        self.sums.each_ref().map(of)
    }

    /// The prediction error, in seconds, that earlier uses of these blocks lead to expect.
    fn beyond_s(&self) -> f64 {
        let now = Instant::now();
        let of = |(id, r): (&AllocId, &Reach)| {
            let before = self.before.get(id);
            before.map_or(0.0, |h| h.beyond_s(r.panels, r.written, now))
        };
        self.reaches.iter().map(of).sum()
    }
}

/// The calls as a user of blocks: by the first call, the last one and their number.
fn user(items: &[Item]) -> u64 {
    let ends = [items.first(), items.last()].into_iter().flatten();
    let users = ends.map(|item| call_key::user(&item.call));
    users.fold(items.len() as u64, |all, user| all.rotate_left(1) ^ user)
}

impl Reach {
    fn add(&mut self, position: usize, span: Interval) {
        let all = &mut self.spans[position];
        *all = if all.is_empty() {
            span
        } else {
            all.around(span)
        };
    }
}

fn add_each(sums: &mut Vec<usize>, more: &[usize]) {
    sums.resize(sums.len().max(more.len()), 0);
    for (sum, n) in sums.iter_mut().zip(more) {
        *sum += n;
    }
}

fn least(one: Option<u32>, other: u32) -> Option<u32> {
    Some(one.map_or(other, |one| one.min(other)))
}

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
    let operands = first.problem.operands.len();
    let states: Vec<OperandState<'_>> = gathered.sums[..operands]
        .iter()
        .enumerate()
        .map(|(i, s)| OperandState {
            resident: s.resident,
            // Each device computes with what it holds.
            on: if owners.is_empty() { &s.on } else { &[] },
            unpinned: s.unpinned,
            stale: s.stale,
            read: s.read,
            read_back: s.read_back / s.bytes.max(1) as f64,
            looked: s.looked,
            // The model adds up this value of all operands, so only the first one carries it.
            beyond_s: if i == 0 { beyond_s } else { 0.0 },
            alone: s.alone.unwrap_or(0),
            seen: s.seen.unwrap_or(0),
            calls: s.calls.unwrap_or(0),
            ..state(&first.problem, i, s.bytes)
        })
        .collect();
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
    let decision = probed(policy, key, predicted, &asked);
    let single = host.door && items.len() == 1;
    let timed = single && is_timed(policy, &asked, &decision);
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
        rates,
    };
    let awaited = !timed
        && host.routine
        && awaits_code(cache, policy, items, (&decision, &predicted), spread);
    if awaited && decision != predicted {
        policy.sites.with(key, |site| site.probe.put_off());
    }
    let timed = timed || awaited && single && is_timed(policy, &asked, &ON_HOST);
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
            let amortises = policy.mode == Mode::Auto && predicted_s >= host_s;
            goes_to_devices(cache, &gathered, &states, amortises);
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
