//! The choice of tiles and blocks for operands that exceed the devices' memory: of the tilings that the plan offers, the one
//! whose timeline ends first.

use super::policy::Policy;
use super::tilings::Key;
use crate::model::rates::Rates;
use crate::model::select::Choice;
use crate::plan::{self, Pace, Plan, Problem, Resources, Tiling};
use crate::sched::memory::schedule;

/// Tasks whose timelines may be compared, in all, before one is chosen: each costs about a microsecond.
const MOST_COMPARED: usize = 8192;

/// The resources of a plan, the choice for operands that exceed the memory included.
pub(super) fn resources(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    devices: usize,
    tile: usize,
) -> Resources {
    let mut resources = plain(policy, rates, problem, devices, tile);
    if exceeds(policy, problem) {
        resources.tiling = chosen(policy, rates, problem, &resources).map(|(tiling, _)| tiling);
    }
    resources
}

/// The tile and the predicted seconds of a call on all these devices, if its operands exceed their memory.
pub(super) fn out_of_core(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    devices: usize,
) -> Option<Choice> {
    if !exceeds(policy, problem) {
        return None;
    }
    let resources = plain(policy, rates, problem, devices, policy.tile.unwrap_or(2048));
    let (tiling, seconds) = chosen(policy, rates, problem, &resources)?;
    Some(Choice {
        tile: tiling.tile,
        seconds,
    })
}

fn plain(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    devices: usize,
    tile: usize,
) -> Resources {
    let (device, gemm) = (rates.among(devices), rates.device.gemm(problem.dtype));
    let mut resources = Resources::new(devices, tile, policy.memory);
    resources.fixed = policy.tile.is_some();
    resources.pace = Pace {
        products_per_s: gemm.peak_flops / 2.0 / problem.dtype.flop_factor(),
        half_size: gemm.half_size,
        launch_s: device.launch_s,
        bytes_per_s: device.h2d.bytes_per_s,
        runs: device.runs,
        ..Pace::USUAL
    };
    resources
}

/// Whether a level-3 call has more operands than one device's memory holds.
fn exceeds(policy: &Policy, problem: &Problem) -> bool {
    let bytes = problem.operands.iter().fold(0, |sum: usize, o| {
        let elements = o.rows.saturating_mul(o.cols);
        sum.saturating_add(elements.saturating_mul(problem.dtype.size()))
    });
    problem.routine.level() == 3 && bytes > policy.memory / 10 * 9
}

/// The tiling whose timeline ends first, and its seconds; `None` if the operands fit, or the memory is too small.
fn chosen(
    policy: &Policy,
    rates: &Rates,
    problem: &Problem,
    resources: &Resources,
) -> Option<(Tiling, f64)> {
    let key = Key::new(problem, resources.devices);
    if let Some(known) = policy.learned().tilings.get(&key) {
        return known;
    }
    let found = compare(rates, problem, resources);
    policy.learned().tilings.put(key, found);
    found
}

fn compare(rates: &Rates, problem: &Problem, resources: &Resources) -> Option<(Tiling, f64)> {
    let device = rates.among(resources.devices);
    let (mut best, mut compared): (Option<(Tiling, f64)>, usize) = (None, 0);
    let mut tilings = plan::tilings(problem, resources);
    // The fewest tasks first: their timeline costs least.
    tilings.sort_by_key(|t| std::cmp::Reverse(t.tile));
    for tiling in tilings {
        if tiling.in_core || (best.is_some() && compared > MOST_COMPARED) {
            break;
        }
        let plan = plan::lower(
            problem,
            &Resources {
                tiling: Some(tiling),
                ..*resources
            },
        );
        compared += plan.tasks.len();
        let seconds = predicted(problem, &plan, rates, &device, resources);
        if best.is_none_or(|(_, least)| seconds < least) {
            best = Some((tiling, seconds));
        }
    }
    best
}

fn predicted(
    problem: &Problem,
    plan: &Plan,
    rates: &Rates,
    device: &crate::model::rates::DeviceRates,
    resources: &Resources,
) -> f64 {
    let issue_s = plan.tasks.len() as f64 * rates.task_s.max(Pace::USUAL.issue_s);
    match schedule(problem, plan, device, (resources.devices, resources.memory)) {
        Some(schedule) => schedule.seconds.max(issue_s),
        None => f64::INFINITY,
    }
}
