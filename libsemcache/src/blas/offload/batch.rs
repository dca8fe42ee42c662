//! The decision about a batch of products: one for all of them.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::super::batch::{Batch, Item};
use super::super::memo;
use super::super::sample::sample;
use super::{Machine, gone, lower, state};
use crate::base::counters::WhyHost;
use crate::base::{AllocId, Interval, Rect};
use crate::cache::Cache;
use crate::cache::history::History;
use crate::model::decide::{self, Decision, Floor, Mode, OperandState, Question, Reason};
use crate::model::exec;
use crate::model::work::Work;
use crate::plan::{Access, Plan};

/// What each product of a batch costs the calling thread, in seconds, besides what a single one does: it is looked
/// at, planned and launched.
const EACH_S: f64 = 8e-6;
/// What the decision takes for each.
const LOOK_S: f64 = 2e-6;

/// Where the products of a batch run.
#[derive(Clone, Copy, Debug)]
pub(in crate::blas) struct Spread {
    devices: usize,
    usable: usize,
    tile: usize,
    prefer: usize,
    products: usize,
}

impl Spread {
    /// The plan of the `i`-th product. Many are dealt out, in order, so that a batch like it finds its operands where
    /// this one left them; few are cut.
    pub(in crate::blas) fn plan(
        &self,
        machine: &Machine,
        item: &Item<'_>,
        i: usize,
    ) -> Option<Plan> {
        let (devices, prefer) = match self.devices {
            1 => (1, self.prefer),
            n if self.products >= n => (1, i * n / self.products),
            n => (n, self.prefer),
        };
        lower(&item.problem, machine, devices, self.tile, prefer)
            .or_else(|| lower(&item.problem, machine, self.usable, self.tile, prefer))
    }
}

impl Machine {
    /// Whether all products of a batch are the host's wherever their operands are, if these are not kept from it: the
    /// largest one is, alone.
    #[must_use]
    pub fn hopeless_batch(&self, batch: &Batch) -> bool {
        batch.largest().is_none_or(|call| self.hopeless(call))
    }

    /// Whether the batch was sent to the host a moment ago, and goes there again without a decision.
    #[must_use]
    pub fn batch_stays_home(&self, batch: &Batch) -> bool {
        self.mode == Mode::Auto && self.memo.take(memo::of_batch(batch))
    }
}

/// One of the three operands of all products together.
#[derive(Default)]
struct Sum {
    bytes: usize,
    resident: usize,
    stale: usize,
    unpinned: usize,
    on: Vec<usize>,
    /// Bytes times the share that is read back.
    read_back: f64,
    /// Whether any of it is looked at.
    looked: f64,
    /// Seconds beyond what is predicted.
    beyond_s: f64,
    /// Calls in a row for which every block was used by this batch only.
    alone: Option<u32>,
    seen: Option<u32>,
    read: bool,
}

/// Decides.
///
/// # Errors
/// Why the host runs the batch.
pub(in crate::blas) fn decide(
    cache: &Cache,
    machine: &Machine,
    batch: &Batch,
    items: &[Item<'_>],
) -> Result<Spread, WhyHost> {
    let usable = cache.backend().usable();
    let Some(first) = items.first() else {
        return Err(WhyHost::Empty);
    };
    // The same matrix may be an input of all of them.
    let mut places = HashSet::new();
    let mut blocks: HashMap<AllocId, History> = HashMap::new();
    // What of each block the batch uses, and whether it writes there.
    let mut reaches: HashMap<AllocId, (History, Interval, bool)> = HashMap::new();
    let mut sums: [Sum; 3] = Default::default();
    for item in items {
        for (i, (p, b)) in item.places.iter().zip(&item.blocks).enumerate() {
            if !places.insert(*p) {
                continue;
            }
            let sum = &mut sums[i.min(2)];
            let bytes = p.bytes();
            sum.bytes += bytes;
            sum.read |= item.problem.fetches(i);
            let Some(b) = b else {
                sum.read_back += bytes as f64 * History::TRANSIENT.read_back();
                sum.looked = 1.0;
                sum.seen = Some(0);
                continue;
            };
            let rect = p.counted_from(b.start);
            let residency = cache.residency(b.id, &rect);
            // A batch is one use of a block.
            let history = *blocks.entry(b.id).or_insert_with(|| {
                let unwatched = residency.union == 0 && item.problem.access(i) == Access::Read;
                if unwatched && machine.mode == Mode::Auto {
                    cache.note_sample(b, &rect, sample(p));
                }
                sum.unpinned += cache.unpinned(b);
                cache.note_use(b, memo::of_batch(batch))
            });
            sum.resident += residency.union.min(bytes);
            sum.stale += residency.stale;
            sum.on.resize(usable, 0);
            for (sum, n) in sum.on.iter_mut().zip(&residency.resident) {
                *sum += n;
            }
            sum.read_back += bytes as f64 * history.read_back();
            sum.looked = sum.looked.max(history.looked());
            let reach = reaches.entry(b.id).or_insert((history, rect.span(), false));
            let span = rect.span();
            reach.1 = Interval::new(reach.1.start.min(span.start), reach.1.end.max(span.end));
            reach.2 |= item.problem.access(i) != Access::Read;
            let alone = history.alone();
            sum.alone = Some(sum.alone.map_or(alone, |a| a.min(alone)));
            let gone = gone(&item.problem, i, p, &rect, &residency);
            let seen = machine.learned().bets.count_for(b.id, history.seen(), gone);
            sum.seen = Some(sum.seen.map_or(seen, |s| s.min(seen)));
        }
    }
    if machine.real {
        let now = Instant::now();
        let beyond_s = |(history, span, output): &(History, Interval, bool)| {
            let panels = cache.panels(&Rect::from(*span));
            history.beyond_s(panels, *output, now)
        };
        sums[2].beyond_s = reaches.values().map(beyond_s).sum();
    }
    let on = |d: usize| -> usize { sums.iter().filter_map(|s| s.on.get(d)).sum() };
    let prefer = (0..usable)
        .max_by_key(|&d| (on(d), usize::MAX - d))
        .unwrap_or(0);
    let states: Vec<OperandState<'_>> = sums
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
            beyond_s: s.beyond_s,
            alone: s.alone.unwrap_or(0),
            seen: s.seen.unwrap_or(0),
            ..state(&first.problem, i, s.bytes)
        })
        .collect();
    let work = together(items);
    let rates = *machine.learned().rates.machine();
    let question = Question {
        work,
        operands: &states,
        devices: usable,
        prefer,
        memory: machine.memory,
        mode: machine.mode,
        tile: machine.tile,
    };
    let more = (items.len() - 1) as f64 * (EACH_S + rates.device.launch_s);
    let host_s = decide::on_host(&question, &rates);
    let host = |why| {
        if why == WhyHost::PredictedSlower {
            let plain_s = exec::host_s(&work, &rates.host);
            let look_s = LOOK_S * items.len() as f64;
            machine
                .memo
                .put_dear(memo::of_batch(batch), look_s, plain_s);
            let mut told = HashSet::new();
            for item in items {
                for (i, b) in item.blocks.iter().enumerate() {
                    if let Some(b) = b.filter(|b| told.insert((b.id, i == 2))) {
                        cache.note_host_call(b.id, item.problem.access(i) != Access::Read);
                    }
                }
            }
        }
        Err(why)
    };
    match decide::decide(&question, &rates, &Floor::default()) {
        Decision::Offload {
            devices,
            tile,
            predicted_s,
            ..
        } => {
            if machine.mode == Mode::Auto && predicted_s.min(host_s * 0.96) + more >= host_s {
                return host(WhyHost::PredictedSlower);
            }
            Ok(Spread {
                devices,
                usable,
                tile,
                prefer,
                products: items.len(),
            })
        }
        Decision::Host(Reason::Off) => Err(WhyHost::Never),
        Decision::Host(Reason::NoDevice) => Err(WhyHost::NoDevice),
        Decision::Host(Reason::Small) => Err(WhyHost::Small),
        Decision::Host(Reason::PredictedSlower) => host(WhyHost::PredictedSlower),
    }
}

/// The work of all products as that of one: as high and deep as the largest, and wide enough for all.
fn together(items: &[Item<'_>]) -> Work {
    let amount = |w: &Work| w.m as f64 * w.n as f64 * w.k as f64;
    let works = || items.iter().map(|i| i.problem.work());
    let total: f64 = works().map(|w| amount(&w)).sum();
    let largest = works()
        .max_by(|x, y| amount(x).total_cmp(&amount(y)))
        .unwrap_or(Work::gemm(crate::base::Dtype::D, 1, 1, 1));
    let area = largest.m as f64 * largest.k as f64;
    Work {
        n: (total / area).ceil().max(1.0) as usize,
        ..largest
    }
}
