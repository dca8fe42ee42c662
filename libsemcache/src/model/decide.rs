//! The decision between host and devices: the shorter predicted time, given where the operands are and where they are
//! used next.

pub mod host_part;
mod offload;
mod question;

use super::exec::{device_s, host_s};
use super::rates::Rates;
use super::select::{Choice, Fetch};
use crate::base::work::{GRAIN, LEAST_PANEL, Work};
use crate::base::{DeviceSet, Routine, Side, TileSize};
pub use offload::Beside;
use offload::{Offload, Uploads};
pub use question::{Mode, OperandState, Planner, Question};

/// The least work for which a prediction is made. Below, a call takes microseconds on the host, less than the look-ups
/// that a prediction needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Floor {
    /// Real floating point operations of level 3.
    pub flops: f64,
    /// Bytes of memory traffic of levels 1 and 2.
    pub bytes: f64,
}

impl Default for Floor {
    /// A product of 80 x 80 matrices; vectors and matrices that fit into a core's own cache.
    fn default() -> Floor {
        Floor {
            flops: 1e6,
            bytes: 65536.0,
        }
    }
}

impl Floor {
    /// Whether the work is below the floor.
    #[must_use]
    pub fn below(&self, work: &Work) -> bool {
        if work.is_level3() {
            work.flops() < self.flops
        } else {
            work.traffic() < self.bytes
        }
    }
}

/// Why a call runs on the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// `SEMCACHE_OFFLOAD=never`.
    Off,
    /// No device can be used now.
    NoDevice,
    /// The work is below the floor.
    Small,
    /// The host is predicted to be faster.
    PredictedSlower,
}

impl Reason {
    /// The reason's key in the report.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Reason::Off => "off",
            Reason::NoDevice => "no_device",
            Reason::Small => "small",
            Reason::PredictedSlower => "predicted_slower",
        }
    }
}

/// Where a call runs, and for devices the predicted times.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack, once per call; a box would be an allocation"
)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decision {
    /// On the host.
    Host(Reason),
    /// On the devices.
    Offload {
        /// The devices.
        devices: DeviceSet,
        /// Tile size for level 3.
        tile: TileSize,
        /// Predicted seconds on the devices, the write-back of results that the CPU is likely to read included.
        predicted_s: f64,
        /// Predicted seconds on the host, the write-back of stale operands included.
        host_s: f64,
    },
}

/// Using more devices must shorten the prediction at least to this share, since predictions are no more exact than
/// that.
const WORTH_MORE_DEVICES: f64 = 0.95;
/// Moving a call away from the side that holds its operands must shorten the prediction at least to this share: so the
/// calls of a loop whose predictions are nearly equal stay on one side.
const WORTH_MOVING: f64 = 0.96;
/// Bytes of a panel: a call on the host takes a page fault for each panel.
const PANEL: f64 = (2 << 20) as f64;

/// Chooses between host and devices for one call.
#[must_use]
pub fn decide(q: &Question<'_>, machine: &Rates, floor: &Floor) -> Decision {
    if q.mode == Mode::Never {
        return Decision::Host(Reason::Off);
    }
    if q.devices.is_empty() {
        return Decision::Host(Reason::NoDevice);
    }
    // If a device has the newest bytes of an operand, even a small call may be faster there than after a write-back.
    let away = q.operands.iter().any(|o| o.stale > 0);
    if q.mode == Mode::Auto && !away && floor.below(&q.work) {
        return Decision::Host(Reason::Small);
    }
    let operands = counted(q);
    let q = &Question {
        operands: &operands,
        ..*q
    };
    let (devices, choice, amortised_s) = best(q, machine);
    let host_s = on_host(q, machine);
    let bytes: usize = q.operands.iter().map(|o| o.bytes).sum();
    let resident: usize = q.operands.iter().map(|o| o.resident).sum();
    let lean = if resident > bytes / 2 {
        1.0 / WORTH_MOVING
    } else {
        WORTH_MOVING
    };
    if q.mode == Mode::Auto && amortised_s >= host_s * lean {
        return Decision::Host(Reason::PredictedSlower);
    }
    Decision::Offload {
        devices,
        tile: choice.tile,
        predicted_s: choice.seconds,
        host_s,
    }
}

/// Whether the host, which takes `host_s` seconds, is faster even if a device holds all operands and no result is written
/// back. Such a call runs on the host if none of its operands is inaccessible, since an upload would never pay.
#[must_use]
pub fn hopeless(work: &Work, machine: &Rates, host_s: f64) -> bool {
    let kinds = machine.kinds.each().iter();
    let device = kinds
        .map(|rates| device_s(work, rates))
        .fold(f64::INFINITY, f64::min);
    machine.call_s + device >= host_s * WORTH_MOVING
}

/// How a call would run on devices: what [`decide`] compares with the host.
#[derive(Clone, PartialEq, Debug)]
pub struct OnDevices {
    /// The devices that the decision chose.
    pub devices: DeviceSet,
    /// Those of them that a plan uses.
    pub used: DeviceSet,
    /// Tile size, and seconds of the whole call.
    pub choice: Choice,
    /// What of these is not the time of copies and kernels.
    pub beside: Beside,
    /// Bytes that the call uses of each operand.
    pub bytes: Vec<usize>,
    /// How much of each operand moves, in multiples of these bytes.
    pub moved: Vec<Fetch>,
}

/// How a call would run on devices, whether the host is faster or not. `None` if there is no device.
#[must_use]
pub fn on_devices(q: &Question<'_>, machine: &Rates) -> Option<OnDevices> {
    if q.devices.is_empty() {
        return None;
    }
    let operands = counted(q);
    let q = &Question {
        operands: &operands,
        ..*q
    };
    let (devices, choice, _) = best(q, machine);
    let used = used(q, &devices);
    let call = Offload::new(q, machine, used);
    Some(OnDevices {
        devices,
        used,
        choice,
        beside: call.beside(Uploads::Whole),
        bytes: operands.iter().map(|o| o.bytes).collect(),
        moved: call.moved_of_each(Uploads::Whole),
    })
}

/// The operands with the bytes that the call uses.
fn counted<'a>(q: &Question<'a>) -> Vec<OperandState<'a>> {
    let mut operands = q.operands.to_vec();
    triangles(q.work.routine, &mut operands);
    operands
}

/// The devices of a set that a plan uses: no more than the work is worth.
fn used(q: &Question<'_>, devices: &DeviceSet) -> DeviceSet {
    match devices.len().min(most_devices(&q.work)) {
        1 if devices.len() > 1 => DeviceSet::only(q.prefer),
        used => devices.first(used),
    }
}

/// For operands of which only a triangle is used, counts the bytes of the stored triangle alone.
fn triangles(routine: Routine, operands: &mut [OperandState<'_>]) {
    for (slot, operand) in routine.operands().iter().zip(operands) {
        if slot.extent.is_triangle() {
            operand.bytes /= 2;
            operand.resident = operand.resident.min(operand.bytes);
        }
    }
}

/// The devices with the smallest prediction; that prediction; and the same with amortised uploads. Under [`Mode::Always`] all
/// devices. Fewer devices whose memory does not hold a product's operands are no choice where all of them hold these: what the
/// product would take on them is not predicted.
fn best(q: &Question<'_>, machine: &Rates) -> (DeviceSet, Choice, f64) {
    let worth = most_devices(&q.work);
    let call = |devices: &DeviceSet| Offload::new(q, machine, used(q, devices));
    let of = |devices: DeviceSet| {
        let call = call(&devices);
        let choice = call.choice(q.tile.map(TileSize::square), Uploads::Whole);
        let amortised_s = call.choice(Some(choice.tile), Uploads::Shared).seconds;
        (devices, choice, amortised_s)
    };
    if q.mode == Mode::Always || q.exceeds() {
        return of(q.devices);
    }
    let held = q.work.is_level3() && call(&q.devices).fits();
    let mut best: Option<(DeviceSet, Choice, f64)> = None;
    for devices in candidates(q, machine) {
        let all = devices.len() == q.devices.len();
        let no_more = |best: &(DeviceSet, _, _)| {
            devices.len() > 1 && devices.len().min(worth) <= best.0.len()
        };
        if best.as_ref().is_some_and(no_more) || (held && !all && !call(&devices).fits()) {
            continue;
        }
        let found = of(devices);
        let pays = |best: &(_, _, f64)| found.2 < best.2 * WORTH_MORE_DEVICES;
        if best.as_ref().is_none_or(pays) {
            best = Some(found);
        }
    }
    best.unwrap_or_else(|| of(q.devices))
}

/// The sets of devices that are compared, the smallest first: the preferred device, the fastest one, and of the fastest ones a
/// power of two, all that are equally fast, or all.
fn candidates(q: &Question<'_>, machine: &Rates) -> Vec<DeviceSet> {
    let (all, count) = (&q.devices, q.devices.len());
    let kind = |at: usize| machine.kinds.kind(all.id(at));
    let mut sets = vec![DeviceSet::only(q.prefer)];
    if machine.kinds.kind(q.prefer) != kind(0) {
        sets.push(DeviceSet::only(all.id(0)));
    }
    let worth_a_look = |n: usize| n.is_power_of_two() || n == count || kind(n) != kind(n - 1);
    let more = (2..=count).filter(|&n| worth_a_look(n));
    sets.extend(more.map(|n| all.first(n)));
    sets
}

/// Predicted seconds of the host BLAS, after the write-back of all stale operands. Results of which devices hold copies
/// are read-only on the host: the host BLAS takes a page fault for each panel, and the bytes that it writes become
/// invalid on the devices. In a loop of one call that happens once.
#[must_use]
pub fn on_host(q: &Question<'_>, machine: &Rates) -> f64 {
    let extra_s = |o: &OperandState<'_>| {
        let once = if o.stale > 0 {
            machine.fault_s + machine.of(q.prefer).d2h.time(o.stale as f64)
        } else if o.written {
            machine.fault_s * (o.resident as f64 / PANEL).ceil()
        } else {
            0.0
        };
        // The bytes that the host BLAS wrote must be sent again to the device for later calls that use them there.
        let back = if o.written && o.resident > 0 {
            machine.of(q.prefer).h2d.time(o.bytes as f64)
        } else {
            0.0
        };
        (once + back) / (1.0 + f64::from(o.alone.min(o.seen)))
    };
    let plain_s = q.host_s.unwrap_or_else(|| host_s(&q.work, &machine.host));
    plain_s + q.operands.iter().map(extra_s).sum::<f64>()
}

/// The largest number of devices that a plan would use.
#[must_use]
pub fn most_devices(work: &Work) -> usize {
    let routine = work.routine;
    let worth = match (routine.level(), routine.triangle().is_some(), work.side) {
        (3, true, Side::Left) => work.n / LEAST_PANEL,
        (3, true, Side::Right) => work.m / LEAST_PANEL,
        (3, false, _) => work.m.max(work.n) / LEAST_PANEL,
        (2, false, _) => (work.traffic() / GRAIN as f64) as usize,
        _ => 1,
    };
    worth.max(1)
}

#[cfg(test)]
mod tests;
