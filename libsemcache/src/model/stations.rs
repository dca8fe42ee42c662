//! How other libraries deal the tasks of a call to devices, to compare with ([`Scheduler`]).
//!
//! * *Static* blocks: each device gets as many neighbouring chains as every other one, whatever its speed, as MAGMA and SemCache++
//!   (section 4.1) divide the output by rows.
//! * *BLASX* (Wang et al., ICS 2016, Alg. 1 and section IV-C): devices take chains from one queue into a *reservation station*. A
//!   device that has computed all that it had begun fills its station, steals a chain if queue and station are empty, and begins the
//!   four chains of the highest priority (Eq. 3: two for each tile of the inputs in its own memory, one for each in the memory of a
//!   device over a fast link), whose tasks it interleaves.
//! * *XKaapi* (Gautier et al., IPDPS 2013; Gautier and Lima, PAW-ATM 2021): a chain stays where it began (owner computes), its
//!   next task is ready when the one before is complete, and a device with less than eight chains steals the oldest one from the
//!   thread that made them.
//!
//! A chain is one tile of the output, or one line of tiles of a solution. Which tiles a device holds is what its chains used, the
//! least recently used one leaving first if there are more than its memory holds. Copies, and what is in which memory, are the
//! cache's business as ever.

use std::collections::{HashMap, VecDeque};

use super::dealing::{Chain, Dealing, Next};
use crate::base::config::Scheduler;

/// Chains that a device has begun at once: as many streams as BLASX uses (section IV-C).
const STREAMS: usize = 4;
/// The same of XKaapi, which copies the inputs of the next tasks meanwhile. The papers do not say of how many.
const PREFETCHED: usize = 8;
/// Chains in a reservation station. The paper does not say how many; more than [`STREAMS`], since it takes the best of them.
const SLOTS: usize = 2 * STREAMS;

/// A chain, and the tiles of the inputs that it reads.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// The chain.
    pub chain: Chain,
    /// Numbers of the tiles.
    pub inputs: Vec<u32>,
}

/// A chain that is begun.
#[derive(Clone, Debug)]
struct Begun {
    /// The tasks that are not queued.
    left: VecDeque<usize>,
    /// The number of queued tasks that are not complete.
    queued: usize,
}

/// One device.
#[derive(Clone, Debug, Default)]
struct Station {
    /// Its reservation station: chains that it has taken and not begun.
    waiting: VecDeque<Reading>,
    /// The chains that are begun, by numbers that are not used twice.
    begun: Vec<(u64, Begun)>,
    /// For each queued task that is not complete, the number of its chain.
    queued: VecDeque<u64>,
    /// The tiles that it holds, and when each was used last.
    tiles: HashMap<u32, u64>,
}

/// The tasks of one call that are not queued yet.
#[derive(Clone, Debug)]
pub struct Stations {
    scheduler: Scheduler,
    /// Chains that no device has taken.
    queue: VecDeque<Reading>,
    stations: Vec<Station>,
    /// For each device, from which others it copies over links faster than the host's.
    near: Vec<Vec<bool>>,
    /// Tiles that a device's memory holds.
    capacity: usize,
    /// Counts chains as they begin.
    clock: u64,
    moved: u64,
}

impl Stations {
    /// The chains of a call, in the order of their output tiles. `near` says, for each device, from which others it copies over
    /// links faster than the host's, `capacity` how many tiles a device's memory holds.
    #[must_use]
    pub fn new(
        scheduler: Scheduler,
        chains: Vec<Reading>,
        near: Vec<Vec<bool>>,
        capacity: usize,
    ) -> Stations {
        let devices = near.len();
        let mut stations = vec![Station::default(); devices];
        let mut queue: VecDeque<_> = chains.into();
        if scheduler == Scheduler::Static {
            let count = queue.len();
            for (at, reading) in queue.drain(..).enumerate() {
                stations[at * devices / count].waiting.push_back(reading);
            }
        }
        Stations {
            scheduler,
            queue,
            stations,
            near,
            capacity,
            clock: 0,
            moved: 0,
        }
    }

    /// Eq. 3 of BLASX.
    fn priority(&self, device: usize, reading: &Reading) -> u32 {
        let holds = |d: usize, tile: &u32| self.stations[d].tiles.contains_key(tile);
        let near =
            |tile: &u32| (0..self.stations.len()).any(|d| self.near[device][d] && holds(d, tile));
        let of = |tile: &u32| match holds(device, tile) {
            true => 2,
            false => u32::from(near(tile)),
        };
        reading.inputs.iter().map(of).sum()
    }

    /// The chain that a device begins next, if it may begin one.
    fn take(&mut self, device: usize) -> Option<Reading> {
        let most = match self.scheduler {
            Scheduler::Xkaapi => PREFETCHED,
            _ => STREAMS,
        };
        if self.stations[device].begun.len() >= most {
            return None;
        }
        match self.scheduler {
            Scheduler::Planned | Scheduler::Static => self.stations[device].waiting.pop_front(),
            Scheduler::Xkaapi => self.queue.pop_front(),
            Scheduler::Blasx => self.reserved(device),
        }
    }

    /// Fills the reservation stations of devices that have nothing in flight, by turns.
    fn reserve(&mut self) {
        while !self.queue.is_empty() {
            let open = self.stations.iter_mut();
            let open = open.filter(|s| s.queued.is_empty() && s.waiting.len() < SLOTS);
            let Some(station) = open.min_by_key(|s| s.waiting.len()) else {
                return;
            };
            station.waiting.extend(self.queue.pop_front());
        }
    }

    /// As [`Stations::take`], from the reservation station. As soon as tasks of the chains that are begun are queued, none is begun
    /// until all of these are complete.
    fn reserved(&mut self, device: usize) -> Option<Reading> {
        if !self.stations[device].queued.is_empty() {
            return None;
        }
        if self.stations[device].waiting.is_empty() && self.stations[device].begun.is_empty() {
            let most = (0..self.stations.len()).max_by_key(|&d| self.stations[d].waiting.len())?;
            return self.stations[most].waiting.pop_back();
        }
        let waiting = self.stations[device].waiting.iter().enumerate();
        let priorities = waiting.map(|(at, reading)| (at, self.priority(device, reading)));
        // Of equal priorities the first one.
        let best = priorities
            .max_by_key(|&(at, priority)| (priority, std::cmp::Reverse(at)))?
            .0;
        self.stations[device].waiting.remove(best)
    }

    /// Begins a chain on a device.
    fn begin(&mut self, device: usize, reading: Reading) -> Option<Next> {
        self.clock += 1;
        let Station { begun, tiles, .. } = &mut self.stations[device];
        let left: VecDeque<usize> = reading.chain.tasks.iter().map(|task| task.0).collect();
        begun.push((self.clock, Begun { left, queued: 0 }));
        for tile in reading.inputs {
            tiles.insert(tile, self.clock);
        }
        while tiles.len() > self.capacity {
            let oldest = tiles.iter().min_by_key(|&(tile, used)| (*used, *tile));
            let Some(oldest) = oldest.map(|(tile, _)| *tile) else {
                break;
            };
            tiles.remove(&oldest);
        }
        if reading.chain.device == device {
            return None;
        }
        self.moved += reading.chain.tasks.len() as u64;
        Some(Next::Give(Chain {
            device,
            ..reading.chain
        }))
    }

    /// The number of the chain of which a device queues a task next: of those that have the most left, the first one, so that chains
    /// begun together are interleaved.
    fn ready(&self, device: usize) -> Option<u64> {
        let one = self.scheduler == Scheduler::Xkaapi;
        let begun = self.stations[device].begun.iter();
        let waits = |b: &Begun| one && b.queued > 0;
        let ready = begun.filter(|(_, b)| !b.left.is_empty() && !waits(b));
        let most = ready.max_by_key(|(number, b)| (b.left.len(), std::cmp::Reverse(*number)));
        most.map(|(number, _)| *number)
    }
}

impl Dealing for Stations {
    fn next(&mut self, _: f64) -> Next {
        if self.scheduler == Scheduler::Blasx {
            self.reserve();
        }
        // Devices take chains by turns, as if each had a thread.
        let mut order: Vec<usize> = (0..self.stations.len()).collect();
        loop {
            order.sort_by_key(|d| self.stations[*d].begun.len());
            let taken = order.iter().find_map(|&d| Some((d, self.take(d)?)));
            let Some((device, reading)) = taken else {
                break;
            };
            if let Some(give) = self.begin(device, reading) {
                return give;
            }
        }
        let able = (0..self.stations.len()).filter_map(|d| Some((d, self.ready(d)?)));
        let least = able.min_by_key(|(d, _)| self.stations[*d].queued.len());
        let Some((device, number)) = least else {
            let busy = |s: &Station| s.begun.iter().any(|(_, b)| !b.left.is_empty());
            let left = !self.queue.is_empty()
                || self
                    .stations
                    .iter()
                    .any(|s| busy(s) || !s.waiting.is_empty());
            let waits = self.stations.iter().position(|s| !s.queued.is_empty());
            return match waits.filter(|_| left) {
                Some(device) => Next::Wait { device },
                None => Next::Done,
            };
        };
        let station = &mut self.stations[device];
        let begun = station.begun.iter_mut().find(|(n, _)| *n == number);
        let Some(task) = begun.and_then(|(_, b)| {
            b.queued += 1;
            b.left.pop_front()
        }) else {
            return Next::Done;
        };
        station.queued.push_back(number);
        Next::Task { device, task }
    }

    fn completed(&mut self, device: usize, _: f64) -> Vec<Chain> {
        let Station { begun, queued, .. } = &mut self.stations[device];
        if let Some(number) = queued.pop_front()
            && let Some(at) = begun.iter().position(|(n, _)| *n == number)
        {
            let chain = &mut begun[at].1;
            chain.queued -= 1;
            if chain.queued == 0 && chain.left.is_empty() {
                begun.remove(at);
            }
        }
        Vec::new()
    }

    fn forget_time(&mut self) {}

    fn moved(&self) -> u64 {
        self.moved
    }

    fn spread(&self) -> f64 {
        0.0
    }

    fn rest(&self) -> Vec<usize> {
        let begun = self.stations.iter().flat_map(|s| &s.begun);
        let begun = begun.flat_map(|(_, b)| b.left.iter().copied());
        let waiting = self.stations.iter().flat_map(|s| &s.waiting);
        let others = waiting.chain(&self.queue).flat_map(|r| &r.chain.tasks);
        begun.chain(others.map(|task| task.0)).collect()
    }
}

#[cfg(test)]
mod tests;
