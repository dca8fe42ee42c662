//! The predicted time of a call on devices, with all transfers that it causes.

use smallvec::SmallVec;

use super::question::{OperandState, Question};
use crate::base::{DeviceSet, TileSize, Work};
use crate::model::exec::device_s;
use crate::model::predictor::pipeline::{Pipeline, Stream};
use crate::model::rates::{DeviceRates, Rates};
use crate::model::select::{Choice, Fetch, Product, part, places};

/// The share of a device's memory that operands may take.
const USABLE: f64 = 0.9;
/// The tile size reported for routines that are not tiled: what a matrix product that follows would be likely to use.
const PLAIN_TILE: usize = 2048;
/// The largest result, in bytes, whose write-back a call waits for, so that the result is readable when the call
/// returns.
pub(super) const LANDED: usize = 1 << 20;

/// The share of the memory's rate that copies to staging memory reach: 23 GB/s on an H100 machine with 64 cores.
const STAGED: f64 = 0.11;

/// How much of an upload's time counts for this call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Uploads {
    /// The whole time of each upload.
    Whole,
    /// Its share; the calls that are expected to use the bytes later pay the rest (upload amortisation, see
    /// [`OperandState::seen`]).
    Shared,
}

/// What a call on devices costs besides its copies and kernels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// Seconds of page-locking host memory, or of copying it to staging memory where that is faster.
    pub locking_s: f64,
    /// Seconds of the runtime itself: of the call, of issuing the first task of each device, of copies between devices of what
    /// only some of them hold, and of waiting for results that the CPU reads.
    pub runtime_s: f64,
}

/// A call that is to run on devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offload<'a> {
    q: &'a Question<'a>,
    machine: &'a Rates,
    /// The devices that the call uses.
    devices: DeviceSet,
    /// How many these are.
    used: usize,
    /// Bytes of memory of the one that has the least.
    memory: usize,
    /// The rates of a device of mean speed while all of them transfer at once.
    rates: DeviceRates,
    /// Bytes of the largest operand, which is distributed over the devices. Each device needs all other operands.
    largest: usize,
    /// Whether operands stay on the devices after the call. Operands that do not fit are sent again at every call.
    stays: bool,
}

impl<'a> Offload<'a> {
    /// The call on these devices, at least one.
    pub(super) fn new(q: &'a Question<'a>, machine: &'a Rates, devices: DeviceSet) -> Offload<'a> {
        let (used, memory) = (devices.len(), q.memory_of(&devices));
        let largest = q.operands.iter().map(|o| o.bytes).max().unwrap_or(0);
        Offload {
            q,
            machine,
            devices,
            used,
            memory,
            rates: machine.among(&devices),
            largest,
            stays: largest as f64 / used as f64 <= USABLE * memory as f64,
        }
    }

    /// Whether each device holds its part of the largest operand and all of the others.
    pub(super) fn fits(&self) -> bool {
        let all: usize = self.q.operands.iter().map(|o| o.bytes).sum();
        let share = (all - self.largest) as f64 + self.largest as f64 / self.used as f64;
        share <= USABLE * self.memory as f64
    }

    /// The given tile, or the best one, and the predicted seconds of the call with that tile: by the timeline of its plan
    /// where there is a planner, else by CoCoPeLia's equations.
    pub(super) fn choice(&self, tile: Option<TileSize>, uploads: Uploads) -> Choice {
        let closed_form = || match places(&self.q.work, self.q.operands) {
            Some(places) => self.product(places, tile, uploads),
            None => Choice {
                tile: tile.unwrap_or(TileSize::square(PLAIN_TILE)),
                seconds: self.one_kernel(uploads),
            },
        };
        let planned = self
            .q
            .planner
            .and_then(|planner| planner.choice(&self.devices, tile, &self.moved_of_each(uploads)));
        let Work { m, n, k, .. } = self.q.work;
        let several = |choice: Choice| choice.tile.products(m, n, k) > 1;
        let by_task = self.q.devices.len() == 1 && planned.is_some_and(several);
        let mut choice = planned.unwrap_or_else(closed_form);
        let beside = self.beside(uploads);
        // On one device, what a task uses is page-locked beside copies and kernels of the tasks before it.
        choice.seconds = if by_task {
            choice.seconds.max(beside.locking_s)
        } else {
            choice.seconds + beside.locking_s
        };
        choice.seconds += beside.runtime_s;
        choice
    }

    /// What the call costs besides its copies and kernels.
    pub(super) fn beside(&self, uploads: Uploads) -> Beside {
        // One thread issues all tasks, so the last device gets its first task after all other devices got theirs.
        let issue = (self.rates.launch_s + self.machine.task_s) * (self.used - 1) as f64;
        let beyond: f64 = self.q.operands.iter().map(|o| o.beyond_s).sum();
        Beside {
            locking_s: self.locked(uploads),
            runtime_s: self.machine.call_s + issue + self.moved(uploads) + self.looks() + beyond,
        }
    }

    /// How much of each operand has to move, in multiples of what the call uses of it.
    pub(super) fn moved_of_each(&self, uploads: Uploads) -> Vec<Fetch> {
        let operands = self.q.operands.iter();
        operands.map(|o| self.moved_of(o, uploads)).collect()
    }

    /// How much of an operand has to move, in multiples of what the call uses of it.
    fn moved_of(&self, o: &OperandState<'_>, uploads: Uploads) -> Fetch {
        let bytes = o.bytes.max(1) as f64;
        Fetch {
            get: self.sent(o) * self.share(o, uploads) / bytes,
            set: written_back(o) / bytes,
        }
    }

    /// The tile and time of a product of matrices, which is cut into tiles.
    fn product(
        &self,
        places: [Option<&OperandState<'_>>; 3],
        tile: Option<TileSize>,
        uploads: Uploads,
    ) -> Choice {
        let work = &self.q.work;
        let moved = |o: &OperandState<'_>| (self.sent(o) * self.share(o, uploads), written_back(o));
        let fetch = Product::fetch(work, places.map(|place| place.map(moved)));
        let product = Product::new(work, fetch, self.used, &self.rates, self.machine.task_s);
        match tile {
            Some(tile) => Choice {
                tile,
                seconds: product.seconds(tile.longest()),
            },
            None => product.select(self.memory),
        }
    }

    /// Seconds of a routine of level 1 or 2: one kernel per device, after its uploads and before its write-back.
    /// Nothing overlaps (Eq. 2 with k = 1).
    fn one_kernel(&self, uploads: Uploads) -> f64 {
        let (operands, rates) = (self.q.operands, &self.rates);
        let each = |bytes: f64, o: &OperandState<'_>| {
            if o.bytes == self.largest {
                bytes / self.used as f64
            } else {
                bytes
            }
        };
        let stream = |o: &OperandState<'_>| Stream {
            get: true,
            set: o.written,
            tiles: 1.0,
            h2d_s: rates.h2d.time(each(self.sent(o), o)) * self.share(o, uploads),
            d2h_s: each(written_back(o), o) / rates.d2h.bytes_per_s,
        };
        let streams: SmallVec<[Stream; 4]> = operands.iter().map(stream).collect();
        // The calling thread waits for the value of a reduction.
        let value = if operands.iter().any(|o| o.written) {
            0.0
        } else {
            rates.d2h.latency_s
        };
        let pipeline = Pipeline {
            streams: &streams,
            gpu_s: device_s(&part(&self.q.work, self.used), rates),
            k: 1.0,
            slow_h2d: 1.0,
            slow_d2h: 1.0,
        };
        pipeline.data_location() + value
    }

    /// Bytes of an operand to upload.
    fn sent(&self, o: &OperandState<'_>) -> f64 {
        match (o.read, self.stays) {
            (false, _) => 0.0,
            (true, true) => o.bytes.saturating_sub(o.resident) as f64,
            (true, false) => o.bytes as f64,
        }
    }

    /// The share of an upload's time that counts for this call.
    fn share(&self, o: &OperandState<'_>, uploads: Uploads) -> f64 {
        if uploads == Uploads::Shared && self.stays {
            1.0 / (1.0 + f64::from(o.seen))
        } else {
            1.0
        }
    }

    /// Seconds of page-locking host memory, or of copying it to staging memory where that is faster.
    fn locked(&self, uploads: Uploads) -> f64 {
        // Every live context makes page-locking slower, whether the call uses its device or not.
        let contexts = self.q.devices.len();
        let pin = self.machine.pin.of(contexts);
        let stage = self.machine.host.memory_bandwidth * STAGED;
        let seconds = |o: &OperandState<'_>| {
            let staged = contexts > 1 && !o.written;
            let rate = if staged { pin.max(stage) } else { pin };
            let share = match uploads {
                Uploads::Shared => 1.0 / (1.0 + f64::from(o.calls)),
                Uploads::Whole => 1.0,
            };
            o.unpinned as f64 * share / rate
        };
        self.q.operands.iter().map(seconds).sum()
    }

    /// Seconds of copying inputs from device to device, which later calls share as they share uploads.
    fn moved(&self, uploads: Uploads) -> f64 {
        if self.q.exceeds() {
            // The timeline counts these copies.
            return 0.0;
        }
        let read = self.q.operands.iter().filter(|o| o.read);
        read.map(|o| self.rates.p2p.time(self.lacking(o)) * self.share(o, uploads))
            .sum()
    }

    /// Bytes of an operand that must come from another device, for the device that lacks most of them.
    fn lacking(&self, o: &OperandState<'_>) -> f64 {
        let parts = if o.bytes == self.largest {
            self.used
        } else {
            1
        };
        let needed = o.resident / parts;
        if o.on.is_empty() {
            return 0.0;
        }
        let on = self.devices.ids().map(|id| o.on.get(id.index()));
        let least = on.map(|on| on.copied().unwrap_or(0)).min();
        least.map_or(0.0, |n| needed.saturating_sub(n) as f64)
    }

    /// Seconds that the CPU waits to read results: for a small result within the call, for a larger one in a page
    /// fault.
    fn looks(&self) -> f64 {
        let written = self.q.operands.iter().filter(|o| o.written);
        let look = |o: &OperandState<'_>| {
            let wait = if o.bytes <= LANDED {
                self.machine.landing_s
            } else {
                self.machine.fault_s
            };
            o.looked.clamp(0.0, 1.0) * (self.rates.d2h.latency_s + wait)
        };
        written.map(look).sum()
    }
}

/// Bytes of a result that are expected to be written back.
fn written_back(o: &OperandState<'_>) -> f64 {
    if o.written {
        o.bytes as f64 * o.read_back.clamp(0.0, 1.0)
    } else {
        0.0
    }
}
