//! Where calls run, and by which plan: gathers what the model needs to know of their operands and asks it (decision D8).
//!
//! The products of a batch are decided upon together, as one product that has the work of all. A single call is a batch of
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use log::Level::Debug;
use log::{debug, log_enabled};

use super::asked::Asked;
use super::checks::Item;
use super::policy::{Policy, state};
use super::sample::sample;
use super::tried::tried;
use crate::base::Work;
use crate::base::counters::{COUNTERS, WhyHost};
use crate::base::{AllocId, DeviceId, Dtype, Interval};
use crate::cache::call::Histories;
use crate::cache::history::History;
use crate::cache::hot::OPERANDS;
use crate::cache::{Cache, Residency};
use crate::model::decide::{Decision, Mode, OperandState, Question, Reason};
use crate::model::exec;
use crate::model::invest::Use;
use crate::model::trial::Where;
use crate::plan::{self, Access, Plan, Problem, Resources};

/// What a batch that runs on devices costs the calling thread for each product after the first, in seconds: it is looked
/// at, planned and launched. (Only the first of these has been done when the host runs it: `memo::LOOK_S`.)
const EACH_S: f64 = 8e-6;

/// Where calls run that devices make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    devices: usize,
    usable: usize,
    tile: usize,
    prefer: usize,
    calls: usize,
    /// What all calls are to take.
    whole_s: f64,
    /// Of that, the calling thread's own for a call, and for each of its tasks.
    call_s: f64,
    task_s: f64,
    /// The fault of a look at a result.
    fault_s: f64,
}

/// The seconds that a call is to take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds {
    /// In all.
    pub(super) whole: f64,
    /// The calling thread's own, pinning and packing not counted.
    pub(super) own: f64,
    /// The fault of a look at a result.
    pub(super) look: f64,
}

impl Spread {
    /// The plan of the `i`-th call, and what it is predicted to take; none if devices have no room for it. Many calls are
    /// dealt out, in order, so that a batch like it finds its operands where this one left them; few are cut.
    pub(super) fn plan(
        &self,
        policy: &Policy,
        problem: &Problem,
        i: usize,
    ) -> Option<(Plan, Seconds)> {
        let (devices, prefer) = match self.devices {
            1 => (1, self.prefer),
            n if self.calls >= n => (1, i * n / self.calls),
            n => (n, self.prefer),
        };
        let on = |devices| lower(problem, policy, devices, self.tile, prefer);
        // What the chosen devices have no room for, all of them may.
        let plan = on(devices).or_else(|| on(self.usable))?;
        let seconds = Seconds {
            whole: self.whole_s,
            own: self.call_s + self.task_s * plan.tasks.len() as f64,
            look: self.fault_s,
        };
        Some((plan, seconds))
    }
}

/// The operands at one position of all calls together.
#[derive(Debug, Default)]
struct Sum {
    bytes: usize,
    resident: usize,
    stale: usize,
    unpinned: usize,
    on: Vec<usize>,
    /// Whether a call reads its operand.
    read: bool,
    /// Bytes times the share of them that the CPU reads back.
    read_back: f64,
    /// How likely the CPU looks at any of them.
    looked: f64,
    /// The calls in a row that were the only users of a block: the least of all blocks.
    alone: Option<u32>,
    /// The earlier calls that used a block since the CPU wrote it: the least of all blocks.
    seen: Option<u32>,
}

/// What calls use of a block.
#[derive(Debug)]
struct Reach {
    /// From the first to the last byte, by the operands' positions.
    spans: [Interval; OPERANDS],
    /// The panels of all operands, added up, as [`Cache::expect`] counts them.
    panels: usize,
    /// Whether a call writes an operand there.
    written: bool,
}

/// What is known before calls of their operands.
#[derive(Debug, Default)]
struct Gathered {
    sums: [Sum; OPERANDS],
    reaches: BTreeMap<AllocId, Reach>,
    histories: Histories,
}

impl Gathered {
    fn of(
        cache: &Cache,
        policy: &Policy,
        key: u64,
        items: &mut [Item<'_>],
    ) -> Result<Gathered, WhyHost> {
        let mut all = Gathered::default();
        // The same matrix may be an input of all products of a batch.
        let mut counted = BTreeSet::new();
        let (auto, single) = (policy.mode == Mode::Auto, items.len() == 1);
        for item in items {
            let inputs = |i: usize| auto && item.problem.access(i) == Access::Read;
            let (places, blocks) = (&item.places, &item.blocks);
            let used = &mut all.histories;
            let found = cache.survey(places, blocks, key, used, &inputs, sample);
            let found = found.map_err(|_| WhyHost::Refused)?;
            for (i, found) in found.iter().enumerate() {
                item.known[i] = found.known;
                if single || counted.insert(item.places[i]) {
                    all.add(cache, policy, item, i, &found.residency);
                }
            }
        }
        Ok(all)
    }

    /// The `i`-th operand of a call.
    fn add(
        &mut self,
        cache: &Cache,
        policy: &Policy,
        item: &Item<'_>,
        i: usize,
        residency: &Residency,
    ) {
        let history = item.blocks[i].and_then(|b| Some(&**self.histories.get(&b.id)?));
        let history = history.unwrap_or(&History::TRANSIENT);
        let place = &item.places[i];
        let bytes = place.bytes();
        let sum = &mut self.sums[i];
        sum.bytes += bytes;
        sum.resident += residency.union.min(bytes);
        sum.stale += residency.stale;
        sum.read |= item.problem.fetches(i);
        add_each(&mut sum.on, &residency.resident);
        sum.read_back += bytes as f64 * history.read_back();
        sum.looked = sum.looked.max(history.looked());
        let mut seen = history.seen();
        if let Some(b) = &item.blocks[i] {
            let rect = place.counted_from(b.start);
            let reach = self.reaches.entry(b.id).or_insert_with(|| {
                sum.unpinned += cache.unpinned(b);
                Reach {
                    spans: [Interval::default(); OPERANDS],
                    panels: 0,
                    written: false,
                }
            });
            reach.add(i, rect.span());
            reach.panels += cache.panels(&rect);
            reach.written |= item.problem.access(i) != Access::Read;
            // Most of what the call reads there is on no device.
            let missing = residency.union < bytes / 2 && item.problem.fetches(i);
            let gone = missing.then(|| rect.span());
            seen = policy.learned().bets.count_for(b.id, seen, gone);
        }
        sum.alone = least(sum.alone, history.alone());
        sum.seen = least(sum.seen, seen);
    }

    /// Which of the devices has most of the operands. Levels 1 and 2 mostly run on one device: what the others hold must
    /// move.
    fn prefer(&self, usable: usize) -> usize {
        let on = |d: usize| -> usize { self.sums.iter().filter_map(|s| s.on.get(d)).sum() };
        let best = (0..usable).max_by_key(|&d| (on(d), usize::MAX - d));
        best.unwrap_or(0)
    }

    /// What is to be expected of the blocks beyond the prediction, in seconds.
    fn beyond_s(&self) -> f64 {
        let now = Instant::now();
        let of = |(id, r): (&AllocId, &Reach)| {
            let history = self.histories.get(id);
            history.map_or(0.0, |h| h.beyond_s(r.panels, r.written, now))
        };
        self.reaches.iter().map(of).sum()
    }
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

/// Decides where calls run that the program makes as one; `key` is that of all of them ([`super::memo::of`]).
///
/// # Errors
/// Why the host runs them.
pub(super) fn decide(
    cache: &Cache,
    policy: &Policy,
    key: u64,
    items: &mut [Item<'_>],
) -> Result<Spread, WhyHost> {
    let usable = cache.backend().usable();
    let gathered = Gathered::of(cache, policy, key, items)?;
    let Some(first) = items.first() else {
        return Err(WhyHost::Empty);
    };
    let prefer = gathered.prefer(usable);
    let beyond_s = if policy.real {
        gathered.beyond_s()
    } else {
        0.0
    };
    let operands = first.problem.operands.len();
    let states: Vec<OperandState<'_>> = gathered.sums[..operands]
        .iter()
        .enumerate()
        .map(|(i, s)| OperandState {
            resident: s.resident,
            on: &s.on,
            unpinned: s.unpinned,
            stale: s.stale,
            read: s.read,
            read_back: s.read_back / s.bytes.max(1) as f64,
            looked: s.looked,
            // The model adds them up.
            beyond_s: if i == 0 { beyond_s } else { 0.0 },
            alone: s.alone.unwrap_or(0),
            seen: s.seen.unwrap_or(0),
            ..state(&first.problem, i, s.bytes)
        })
        .collect();
    let rates = *policy.learned().rates.machine();
    let asked = Asked {
        question: Question {
            work: sum_of_work(items),
            operands: &states,
            devices: usable,
            prefer,
            memory: policy.memory,
            mode: policy.mode,
            tile: policy.tile,
        },
        rates: &rates,
        more_s: (items.len() - 1) as f64 * (EACH_S + rates.device.launch_s),
    };
    let predicted = asked.answer(policy.mode);
    let decision = tried(policy, key, predicted, &asked);
    if log_enabled!(Debug) {
        tell(&asked, &decision, decision != predicted);
    }
    match decision {
        Decision::Offload {
            devices,
            tile,
            predicted_s,
            host_s,
        } => {
            let invested = policy.mode == Mode::Auto && predicted_s >= host_s;
            goes_to_devices(policy, key, &gathered, &states, invested);
            Ok(Spread {
                devices,
                usable,
                tile,
                prefer,
                calls: items.len(),
                whole_s: predicted_s - beyond_s,
                call_s: rates.call_s,
                task_s: rates.task_s,
                fault_s: rates.fault_s,
            })
        }
        Decision::Host(reason) => {
            if reason == Reason::PredictedSlower {
                let blocks = gathered.reaches.iter();
                cache.note_host_call(blocks.map(|(id, reach)| (*id, reach.written)));
                goes_home(policy, key, &asked, items.len());
            }
            Err(why(reason))
        }
    }
}

fn why(reason: Reason) -> WhyHost {
    match reason {
        Reason::Off => WhyHost::Never,
        Reason::NoDevice => WhyHost::NoDevice,
        Reason::Small => WhyHost::Small,
        Reason::PredictedSlower => WhyHost::PredictedSlower,
    }
}

/// Takes note of calls that go to devices. `invested`: only calls to come will make that pay.
fn goes_to_devices(
    policy: &Policy,
    key: u64,
    gathered: &Gathered,
    states: &[OperandState<'_>],
    invested: bool,
) {
    let mut learned = policy.learned();
    for (id, reach) in &gathered.reaches {
        let operands = reach.spans.iter().zip(states);
        for (span, s) in operands.filter(|(span, s)| s.read && !span.is_empty()) {
            let how = if s.resident < s.bytes / 2 {
                let on = if invested { s.seen } else { 0 };
                Use::Sent { on }
            } else {
                Use::Found
            };
            learned.bets.used(*id, *span, how);
        }
    }
    if policy.tries() {
        let mark = COUNTERS.cache.remembered.get();
        let now = policy.now();
        learned.trials.went(key, now, Where::Devices, mark);
    }
}

/// Takes note of calls that go to the host because devices would be slower.
fn goes_home(policy: &Policy, key: u64, asked: &Asked<'_>, calls: usize) {
    let work = asked.question.work;
    let plain_s = exec::host_s(&work, &asked.rates.host);
    let mut learned = policy.learned();
    // Each decision of a trial is made.
    let left = if policy.tries() && learned.trials.on_trial(key) {
        0
    } else {
        policy.memo.put(key, calls, plain_s)
    };
    if policy.tries() {
        learned.trials.went(key, policy.now(), Where::Host, left);
    }
    drop(learned);
    if calls == 1 && asked.on_host() <= plain_s {
        policy.sent(work, plain_s);
    }
}

/// The work of all calls as that of one: as high and deep as the largest, and wide enough for all.
fn sum_of_work(items: &[Item<'_>]) -> Work {
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

/// What was decided, and why.
fn tell(asked: &Asked<'_>, decision: &Decision, tried: bool) {
    let work = asked.question.work;
    let operands: Vec<String> = asked
        .question
        .operands
        .iter()
        .map(|o| {
            format!(
                "{} KiB ({} resident, {} stale, {} to pin, seen {}, alone {}, read back {:.2}, looked {:.2}, beyond {:.1} us)",
                o.bytes >> 10,
                o.resident >> 10,
                o.stale >> 10,
                o.unpinned >> 10,
                o.seen,
                o.alone,
                o.read_back,
                o.looked,
                o.beyond_s * 1e6
            )
        })
        .collect();
    let verdict = match decision {
        Decision::Offload {
            devices,
            predicted_s,
            ..
        } => {
            format!("{devices} devices, {:.1} us", predicted_s * 1e6)
        }
        Decision::Host(reason) => format!("host: {}", reason.key()),
    };
    debug!(
        "{} {} x {} x {}: {verdict}{}; host {:.1} us; {}",
        work.routine.name(work.dtype),
        work.m,
        work.n,
        work.k,
        if tried {
            ", against the prediction"
        } else {
            ""
        },
        asked.on_host() * 1e6,
        operands.join(", ")
    );
}

/// The plan for so many devices, if they have room.
fn lower(
    problem: &Problem,
    policy: &Policy,
    devices: usize,
    tile: usize,
    prefer: usize,
) -> Option<Plan> {
    let mut resources = Resources::new(devices, tile, policy.memory);
    let first = DeviceId(u8::try_from(prefer).unwrap_or(0));
    resources.prefer = first;
    if policy.mode == Mode::Always {
        // Asked to use the devices whatever it costs, also to spread small problems over all of them.
        resources.grain = 1;
    }
    let mut plan = plan::lower(problem, &resources);
    if devices == 1 {
        // A plan for one device numbers it zero.
        plan.tasks.iter_mut().for_each(|t| t.device = first);
        plan.footprints.iter_mut().for_each(|f| f.device = first);
    }
    plan.fits.then_some(plan)
}
