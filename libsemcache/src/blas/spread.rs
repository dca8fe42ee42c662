//! Calls that run on devices: which devices, and the plan for them.

use super::offload_policy::Policy;
use super::tiling;
use crate::base::counters::{COUNTERS, LeftOut, on_device};
use crate::base::distribution::Distributed;
use crate::base::ids::MAX_DEVICES;
use crate::base::{DeviceId, DeviceSet, TileSize};
use crate::cache::Cache;
use crate::model::decide::Mode;
use crate::model::rates::Rates;
use crate::plan::{self, HostPart, Owned, Plan, Problem, Resources};

/// The decision for calls that run on devices: which devices, which tile, and the predicted times.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub(super) devices: DeviceSet,
    /// The part of a single call that the host computes.
    pub(super) host: Option<HostPart>,
    /// All devices that can be used.
    pub(super) usable: DeviceSet,
    pub(super) tile: TileSize,
    /// The device for work that is not distributed.
    pub(super) prefer: DeviceId,
    /// The distribution of a single call's output, by which devices compute it.
    pub(super) distributed: Option<Distributed>,
    /// The devices that compute a call of level 1 where its vectors lie.
    pub(super) owners: Vec<Owned>,
    /// Whether calls of this kind are divided among devices at all.
    pub(super) divides: bool,
    pub(super) calls: usize,
    /// Predicted seconds of all calls together, without the prediction error of earlier uses.
    pub(super) whole_s: f64,
    /// A single call's operands lie in a block that is write-through, so that its results are written back before it returns.
    pub(super) writes_through: bool,
    /// The rates by which the decision was made.
    pub(super) rates: Rates,
}

/// The predicted seconds of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds {
    /// The whole call, waiting included.
    pub(super) whole: f64,
    /// The calling thread's own part, without page-locking and packing.
    pub(super) own: f64,
    /// The page fault with which the CPU reads a result.
    pub(super) look: f64,
}

impl Spread {
    /// The plan of the call with index `i`, its devices, and its predicted time; `None` if the devices have no room for it.
    /// If there are at least as many calls as devices, each call runs on one device, in order, so that the next batch of
    /// the same shape finds its operands on the same devices; fewer calls are each cut over all chosen devices.
    pub(super) fn plan(
        &self,
        policy: &Policy,
        problem: &Problem,
        i: usize,
    ) -> Option<(Plan, DeviceSet, Seconds)> {
        let (count, calls) = (self.devices.len(), self.calls);
        let devices = if count > 1 && calls >= count {
            let turn = (0..count).rfind(|&at| self.devices.cut(calls, at) <= i);
            DeviceSet::only(self.devices.id(turn.unwrap_or(0)))
        } else {
            self.devices
        };
        let on = |devices| {
            let plan = lower(
                problem,
                policy,
                &self.rates,
                devices,
                self.tile,
                self.prefer,
            )?;
            Some((plan, devices))
        };
        let by_owners = || {
            let resources = Resources::new(0, 1, policy.memory_of(&self.usable));
            let plan = plan::by_owners(problem, &resources, &self.owners)?;
            Some((plan, self.usable))
        };
        let distributed = self.distributed.as_ref();
        let by_distribution = || {
            let tile = policy.tile.map_or(self.tile, TileSize::square);
            let mut resources = tiling::resources(policy, &self.rates, problem, &self.usable, tile);
            resources.tile = tile;
            let plan = plan::distributed(problem, &resources, distributed?)?;
            COUNTERS.distributed.add(1);
            Some((plan, self.usable))
        };
        // If the chosen devices have no room for the call, all usable devices together may have.
        let (plan, on) = by_distribution()
            .or_else(by_owners)
            .or_else(|| on(devices))
            .or_else(|| on(self.usable))?;
        let seconds = Seconds {
            whole: self.whole_s,
            own: self.rates.call_s + self.rates.task_s * plan.tasks.len() as f64,
            look: self.rates.fault_s,
        };
        Some((plan, on, seconds))
    }

    /// Counts, for each device of the machine, a call with this plan, and why it has no part of it.
    pub(super) fn count(&self, cache: &Cache, plan: &Plan) {
        let mut tasks = [0; MAX_DEVICES];
        for task in &plan.tasks {
            tasks[task.device.index()] += 1;
        }
        let count = cache.backend().devices().len();
        for (id, tasks) in (0..count).map(DeviceId::at).zip(tasks) {
            let device = on_device(id);
            if tasks > 0 {
                device.calls.add(1);
                device.tasks.add(tasks);
                continue;
            }
            device.left_out(if self.usable.position(id).is_none() {
                LeftOut::Starting
            } else if self.devices.position(id).is_some() || !self.divides {
                LeftOut::NoPart
            } else {
                LeftOut::Slower
            });
        }
    }
}

/// The plan for these devices, if they have room.
fn lower(
    problem: &Problem,
    policy: &Policy,
    rates: &Rates,
    devices: DeviceSet,
    tile: TileSize,
    prefer: DeviceId,
) -> Option<Plan> {
    let mut resources = tiling::resources(policy, rates, problem, &devices, tile);
    resources.prefer = prefer;
    if policy.mode == Mode::Always {
        // Mode `always` uses the devices whatever that costs, and spreads small problems over all of them, too.
        resources.grain = 1;
    }
    let plan = plan::lower(problem, &resources);
    plan.fits.then_some(plan)
}
