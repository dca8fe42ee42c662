//! Device memory of a call whose operands exceed it: what stays on the devices of what they hold, and the tiles that leave
//! before each task.

use rustc_hash::FxHashMap;

use super::memory::{Devices, MOST_SLOTS, load, slot};
use crate::base::{AllocId, DeviceSet, Rect};
use crate::cache::place::{Other, holds};
use crate::cache::room::Room;
use crate::cache::task::Use;
use crate::cache::{Cache, CacheError};
use crate::model::rates::Rates;
use crate::model::timeline::{self, Load};
use crate::plan::{Part, Plan, Problem};

/// The tiles of a call that leave their devices, and when.
#[derive(Debug)]
pub struct Tiles {
    /// Bytes of device memory for each tile.
    slot: usize,
    /// What leaves, in the order of the tasks.
    leaving: Vec<(AllocId, Rect)>,
    /// For each task, where in `leaving` that begins which leaves before it, and at the end the length of `leaving`.
    first: Vec<usize>,
}

impl Tiles {
    /// What a task finds on its device.
    #[must_use]
    pub fn room(&self, task: usize) -> Room<'_> {
        Room::Tiles {
            slot: self.slot,
            leave: &self.leaving[self.first[task]..self.first[task + 1]],
        }
    }

    /// The same where other tasks run on the device than the timeline knows: the tile that was used longest ago leaves.
    #[must_use]
    pub fn slots(&self) -> Room<'_> {
        Room::Tiles {
            slot: self.slot,
            leave: &[],
        }
    }
}

/// Makes room on the devices of a plan whose operands do not fit, and decides which tiles leave before each task.
///
/// `set` are the devices of the plan, `rates` those by which the timeline says when each tile is used.
///
/// Tiles of the call that devices hold already stay. So do other replicas of its operands, if at least half of their memory
/// holds valid bytes that the call uses, and if its timeline with them is not longer than with the slots that they take.
///
/// # Errors
/// A device is lost, or could not copy the newest bytes of a replica to the host.
pub(super) fn make_room(
    cache: &Cache,
    problem: &Problem,
    plan: &Plan,
    operands: &[Use],
    (set, rates): (&DeviceSet, &Rates),
) -> Result<Tiles, CacheError> {
    let place = |p: &Part| {
        let whole = &operands[p.operand];
        (whole.id, problem.bytes(p, whole.view.start))
    };
    let on = Devices::new(set, rates, cache.links());
    let (mut load, places) = load(problem, plan, &on, &[], place);
    let held = Held {
        cache,
        set,
        plan,
        slot: slot(places.iter().map(|(_, rect)| rect)),
        known: places.iter().zip(0..).map(|(p, i)| (*p, i)).collect(),
        places: &places,
    };
    let mut slots = held.make_room(&mut load, true)?;
    let mut schedule = timeline::schedule(&load, &on.with(&slots.now));
    if !load.apart.is_empty() {
        let mut tiles_only = load.clone();
        tiles_only.apart.clear();
        let evicted = timeline::schedule(&tiles_only, &on.with(&slots.without));
        let sooner = match (&evicted, &schedule) {
            (Some(evicted), Some(kept)) => evicted.seconds < kept.seconds,
            (evicted, _) => evicted.is_some(),
        };
        if sooner {
            slots = held.make_room(&mut load, false)?;
            schedule = timeline::schedule(&load, &on.with(&slots.now));
        }
    }
    let mut tiles = Tiles {
        slot: held.slot,
        leaving: Vec::new(),
        first: Vec::with_capacity(plan.tasks.len() + 1),
    };
    match schedule {
        Some(schedule) => {
            let mut drops = schedule.drops.iter().peekable();
            for task in 0..=plan.tasks.len() {
                tiles.first.push(tiles.leaving.len());
                while let Some(drop) = drops.next_if(|d| d.task <= task) {
                    tiles.leaving.push(places[drop.tile as usize]);
                }
            }
        }
        // Tiles of different lengths fit where tiles of the greatest length do not; the one used longest ago leaves.
        None => {
            tiles.slot = 0;
            tiles.first = vec![0; plan.tasks.len() + 1];
        }
    }
    Ok(tiles)
}

/// What the devices hold of a call's tiles.
struct Held<'a> {
    cache: &'a Cache,
    set: &'a DeviceSet,
    plan: &'a Plan,
    /// Bytes of device memory for each tile.
    slot: usize,
    /// The tiles.
    places: &'a [(AllocId, Rect)],
    /// The index of each.
    known: FxHashMap<(AllocId, Rect), u32>,
}

/// The slots of each device: as many as there are, and as there would be without replicas that are no tiles.
struct Slots {
    now: Vec<usize>,
    without: Vec<usize>,
}

impl Held<'_> {
    /// Evicts what does not stay, and writes down what does. `others`: whether replicas that are no tiles may stay.
    fn make_room(&self, load: &mut Load, others: bool) -> Result<Slots, CacheError> {
        // A device that the plan does not use needs no slot.
        let mut slots = Slots {
            now: vec![0; self.set.len()],
            without: vec![0; self.set.len()],
        };
        let used = |device| self.plan.footprints.iter().any(|f| f.device == device);
        load.resident.clear();
        load.apart.clear();
        for (d, device) in self.set.ids().enumerate().filter(|(_, id)| used(*id)) {
            let tile = |id: AllocId, rect: &Rect| self.known.contains_key(&(id, *rect));
            let keep = |o: &Other| others && 2 * self.worth(o) >= o.memory;
            let held = self.cache.make_room(device, self.slot, &tile, &keep)?;
            for (id, rect, valid) in held.tiles {
                let tile = self.known.get(&(id, rect));
                load.resident.extend(tile.map(|&tile| (d, tile, valid)));
            }
            for other in &held.others {
                let within = self.within(other);
                let valid = within.map(|(rect, tile)| (d, tile, other.valid.contains(rect)));
                load.apart.extend(valid);
            }
            slots.now[d] = held.slots.min(MOST_SLOTS);
            slots.without[d] = held.most.min(MOST_SLOTS);
        }
        Ok(slots)
    }

    /// The tiles that a kernel can use in a replica.
    fn within(&self, other: &Other) -> impl Iterator<Item = (&Rect, u32)> {
        let (alloc, rect) = (other.alloc, other.rect);
        let tiles = self.places.iter().zip(0..);
        let within = tiles.filter(move |((id, tile), _)| *id == alloc && holds(&rect, tile));
        within.map(|((_, tile), i)| (tile, i))
    }

    /// The valid bytes of a replica that the call uses.
    fn worth(&self, other: &Other) -> usize {
        let tiles = self.within(other);
        let valid = tiles.filter(|(tile, _)| other.valid.contains(tile));
        valid.map(|(tile, _)| tile.bytes()).sum()
    }
}
