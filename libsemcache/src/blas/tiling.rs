//! The choice of tiles and blocks for calls of level 3: of the tilings that there are, the one whose timeline ends first.
//!
//! A plan and its timeline take 0.15 us a task, 0.3 us with strips (`benches/planning.rs`), so for each number of devices
//! tilings are tried as long as that costs no more than a hundredth of the call, or a twentieth of a short one: from the fewest tasks on, out
//! of core after the one that the plan's estimate ranks first. Over all routines, orders of 2048 to 32768 and memory for
//! 0.05 to 0.85 of the operands (an H100's rates), the timelines chosen out of core are 0.6 % longer than the best of all
//! tilings offered; tried in the order of the estimate, 1.7 %.

use smallvec::SmallVec;

use super::offload_policy::Policy;
use super::tilings::{Chosen, Key};
use crate::base::{DeviceSet, Routine, TileSize};
use crate::model::decide::Planner;
use crate::model::exec::row_s;
use crate::model::predictor::{Case, Predictor};
use crate::model::rates::Rates;
use crate::model::select::{Choice, Fetch, tiles};
use crate::plan::{self, Pace, Problem, Resources, Tiling};
use crate::sched::memory::{Devices, schedule};
use crate::sched::timeline::Timeline;

/// Seconds that planning with a given tile may take.
const MOST_S: f64 = 2.5e-3;
/// Seconds to plan a task and to find its place in the timeline, without strips and with them.
const PLAN_S: (f64, f64) = (0.15e-6, 0.3e-6);
/// The share of a call that planning may take.
const PLANNING: f64 = 0.01;
/// The share of a short call: from the first number of seconds to the second; to the third, where tasks on several devices need each
/// other's results (triangular routines) or read a triangle (symmetric ones). Triangular solves of random shapes on two devices take
/// 2.5 % longer with the second as limit, and LU, whose calls all have other sizes, decides 2.5 times slower with 100 us for each
/// (`benches/planning.rs`; bench/results/planning.md).
const PLANNING_SHORT: f64 = 0.05;
const PLANNING_S: [f64; 3] = [20e-6, 100e-6, 200e-6];
/// Tiles of the output for each device, at least, of a call that is issued in a window: one is the least that goes to another
/// device.
const CHAINS: usize = 8;
/// A call of which no dimension is longer is one task.
const LEAST: usize = 512;

/// One call of level 3 on devices that can be used now.
#[derive(Debug)]
pub(super) struct Planned<'a> {
    policy: &'a Policy,
    rates: &'a Rates,
    problem: &'a Problem,
    /// Whether the operands exceed the memory of every device, and tilings for that exist.
    exceeds: bool,
    /// The host's part beside this problem: columns of the output, and seconds.
    host: (usize, f64),
}

impl<'a> Planned<'a> {
    pub(super) fn new(
        policy: &'a Policy,
        rates: &'a Rates,
        problem: &'a Problem,
        usable: &DeviceSet,
    ) -> Planned<'a> {
        let most = usable
            .ids()
            .map(|id| policy.memory_of(&DeviceSet::only(id)));
        let exceeds = exceeds(most.max().unwrap_or(0), problem);
        let mut planned = Planned {
            policy,
            rates,
            problem,
            exceeds,
            host: (0, 0.0),
        };
        planned.exceeds = exceeds && planned.out_of_core(usable).is_some();
        planned
    }

    /// The same call, beside which the host computes this number of columns of the output in these seconds.
    pub(super) fn beside_host(mut self, columns: usize, host_s: f64) -> Planned<'a> {
        self.host = (columns, host_s);
        self
    }

    /// The choice on devices of which one does not hold all operands.
    fn out_of_core(&self, devices: &DeviceSet) -> Option<Choice> {
        let tile = TileSize::square(self.policy.tile.unwrap_or(2048));
        let resources = plain(self.policy, self.rates, self.problem, devices, tile);
        let chosen = chosen(self.policy, self.rates, self.problem, &resources);
        chosen.map(|chosen| chosen.choice)
    }

    /// Whether the timeline can predict calls of this kind.
    pub(super) fn serves(&self) -> bool {
        let Problem { m, n, k, .. } = *self.problem;
        self.problem.routine.level() == 3 && m.max(n).max(k) > LEAST && m.min(n).min(k) > 0
    }

    /// The tile of a call whose operands fit. `None` if the first plan has more tasks than can be looked at in time.
    fn in_core(
        &self,
        devices: &DeviceSet,
        tile: Option<TileSize>,
        moved: &[Fetch],
    ) -> Option<Chosen> {
        let Problem { m, n, k, .. } = *self.problem;
        let on = Devices::new(devices, self.rates, &self.policy.links).beside_host(self.host.1);
        let (mut best, mut spent_s): (Option<Choice>, f64) = (None, 0.0);
        let given = tile.is_some();
        let resources = plain(
            self.policy,
            self.rates,
            self.problem,
            devices,
            // Each case has a tile of its own.
            TileSize::square(LEAST),
        );
        let timeline = Timeline::new(self.problem, &resources, &on);
        let size = self.problem.dtype.size();
        let bytes = self.problem.operands.iter().map(|o| o.rows * o.cols * size);
        let bytes: SmallVec<[usize; 3]> = bytes.collect();
        let case = |tile| Case {
            work: self.problem.work(),
            bytes: &bytes,
            moved,
            tile,
            devices: devices.len(),
            rates: self.rates.of(devices.id(0)),
            task_s: self.rates.task_s,
        };
        let candidates: Vec<TileSize> = match tile {
            Some(tile) => vec![tile],
            None => candidates(self.problem, devices, self.policy.ahead(devices).is_some()),
        };
        for tile in candidates {
            let tasks = tile.products(m, n, k);
            let call_s = best.map_or(0.0, |best| best.seconds);
            spent_s += planning_s(&tile, tasks.max(devices.len()));
            // The tile may have been chosen before, within a hundredth of the call.
            let allowed_s = match given {
                true => MOST_S,
                false => allowed_s(call_s, self.problem.routine, devices),
            };
            if spent_s > allowed_s {
                break;
            }
            let seconds = timeline.seconds(&case(tile))?;
            if best.is_none_or(|best| seconds < best.seconds) {
                best = Some(Choice { tile, seconds });
            }
        }
        best.map(|choice| Chosen {
            choice,
            tiling: None,
        })
    }
}

impl Planner for Planned<'_> {
    fn exceeds(&self) -> bool {
        self.exceeds
    }

    fn choice(
        &self,
        devices: &DeviceSet,
        tile: Option<TileSize>,
        moved: &[Fetch],
    ) -> Option<Choice> {
        if exceeds(self.policy.memory_of(devices), self.problem) {
            return self.out_of_core(devices);
        }
        let key = Key::new(
            self.problem,
            (devices, self.policy.memory_of(devices)),
            self.rates,
            tile,
            moved,
            self.host.0,
        );
        let known = self.policy.tilings().get(&key, self.rates);
        let chosen = known.unwrap_or_else(|| {
            let found = self.in_core(devices, tile, moved);
            self.policy.tilings().put(key, self.rates, found);
            found
        });
        chosen.map(|chosen| chosen.choice)
    }
}

/// The resources of a plan, the choice for operands that exceed the memory included.
pub(super) fn resources(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    devices: &DeviceSet,
    tile: TileSize,
) -> Resources {
    let mut resources = plain(policy, rates, problem, devices, tile);
    if exceeds(resources.memory, problem) {
        let chosen = chosen(policy, rates, problem, &resources);
        resources.tiling = chosen.and_then(|chosen| chosen.tiling);
    }
    resources
}

fn plain(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    devices: &DeviceSet,
    tile: TileSize,
) -> Resources {
    // The largest share is that of the fastest device.
    let device = rates.among(&devices.first(1));
    let link = rates.among(devices).h2d;
    let gemm = device.gemm(problem.dtype);
    let mut resources = Resources::new(0, 1, policy.memory_of(devices));
    resources.devices = *devices;
    resources.tile = tile;
    resources.fixed = policy.tile.is_some();
    resources.apart = policy.ahead(devices).is_some();
    resources.pace = Pace {
        products_per_s: gemm.peak_flops / 2.0 / problem.dtype.flop_factor(),
        half_size: gemm.half_size,
        launch_s: device.launch_s,
        row_s: row_s(problem.routine),
        bytes_per_s: link.bytes_per_s,
        runs: device.runs,
        ..Pace::USUAL
    };
    resources
}

/// Whether a level-3 call has more operands than this memory holds.
pub(super) fn exceeds(memory: usize, problem: &Problem) -> bool {
    let bytes = problem.operands.iter().fold(0, |sum: usize, o| {
        let elements = o.rows.saturating_mul(o.cols);
        sum.saturating_add(elements.saturating_mul(problem.dtype.size()))
    });
    problem.routine.level() == 3 && bytes > memory / 10 * 9
}

/// The tiling whose timeline ends first, and its seconds; `None` if the operands fit, or the memory is too small.
fn chosen(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    resources: &Resources,
) -> Option<Chosen> {
    let key = Key::new(
        problem,
        (&resources.devices, resources.memory),
        rates,
        None,
        &[],
        0,
    );
    if let Some(known) = policy.tilings().get(&key, rates) {
        return known;
    }
    let found = compare(policy, rates, problem, resources);
    policy.tilings().put(key, rates, found);
    found
}

/// The tiles of a call whose operands fit, those with the fewest tasks first; `apart`: it is issued in a window, and each device is to have
/// some tiles of the output.
#[must_use]
pub fn candidates(problem: &Problem, devices: &DeviceSet, apart: bool) -> Vec<TileSize> {
    let Problem { m, n, k, .. } = *problem;
    let mut all: Vec<_> = tiles(m.max(n).max(k)).map(TileSize::square).collect();
    all.extend(plan::strips_in_core(problem));
    all.sort_by_key(|tile| tile.products(m, n, k));
    let enough = |tile: &TileSize| tile.products(m, n, 1) >= CHAINS * devices.len();
    if apart && all.iter().any(enough) {
        all.retain(enough);
    }
    all
}

/// Seconds to plan this number of tasks.
#[must_use]
pub fn planning_s(tile: &TileSize, tasks: usize) -> f64 {
    let each_s = if tile.in_strips() { PLAN_S.1 } else { PLAN_S.0 };
    tasks as f64 * each_s
}

/// Seconds that planning a call of `call_s` seconds may take.
fn allowed_s(call_s: f64, routine: Routine, devices: &DeviceSet) -> f64 {
    let [least_s, most_s, most_shared_s] = PLANNING_S;
    let shared = matches!(routine, Routine::Symm | Routine::Trmm | Routine::Trsm);
    let most_s = if shared && devices.len() > 1 {
        most_shared_s
    } else {
        most_s
    };
    let short_s = (call_s * PLANNING_SHORT).clamp(least_s, most_s);
    short_s.max(call_s * PLANNING)
}

fn compare(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    resources: &Resources,
) -> Option<Chosen> {
    let on = Devices::new(&resources.devices, rates, &policy.links);
    let (mut best, mut spent_s): (Option<Chosen>, f64) = (None, 0.0);
    let tasks = |tile: &TileSize| tile.products(problem.m, problem.n, problem.k);
    let mut tilings = plan::tilings(problem, resources);
    if let [_, others @ ..] = &mut *tilings {
        let cost = |t: &Tiling| planning_s(&t.tile, tasks(&t.tile));
        others.sort_by(|x, y| cost(x).total_cmp(&cost(y)));
    }
    for tiling in tilings {
        if tiling.in_core {
            break;
        }
        let tasks = tasks(&tiling.tile);
        let too_long = |best: &Chosen| {
            let allowed_s = allowed_s(best.choice.seconds, problem.routine, &resources.devices);
            spent_s + planning_s(&tiling.tile, tasks) > allowed_s
        };
        if best.as_ref().is_some_and(too_long) {
            break;
        }
        let (tile, tiling) = (tiling.tile, Some(tiling));
        let plan = plan::lower(
            problem,
            &Resources {
                tiling,
                ..*resources
            },
        );
        spent_s += planning_s(&tile, plan.tasks.len());
        let seconds =
            schedule(problem, &plan, &on, resources.memory).map_or(f64::INFINITY, |s| s.seconds);
        if best.is_none_or(|best| seconds < best.choice.seconds) {
            let choice = Choice { tile, seconds };
            best = Some(Chosen { choice, tiling });
        }
    }
    best
}
