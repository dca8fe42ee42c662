//! Host or devices: the shorter prediction, given where the operands are and where they will be wanted.

use super::exec::{device_s, host_s};
use super::machine::Machine;
use super::select::{Choice, Fetch, predict, select};
use super::work::{GRAIN, LEAST_PANEL, Work};
use crate::base::{Routine, Side};

/// `SEMCACHE_OFFLOAD`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// By prediction.
    #[default]
    Auto,
    /// Whatever the prediction and the floor say.
    Always,
    /// Not at all.
    Never,
}

/// Work below which a call goes to the host without a prediction: it takes microseconds there, less than
/// the look-ups that a prediction needs.
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

/// What is known of one operand before a call.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OperandState<'a> {
    /// Its bytes, gaps not counted.
    pub bytes: usize,
    /// The call reads it.
    pub read: bool,
    /// The call writes it.
    pub written: bool,
    /// Bytes that are valid on some device.
    pub resident: usize,
    /// Bytes that are valid on each device. Empty: the resident ones are where they will be used.
    pub on: &'a [usize],
    /// Bytes that must be page-locked first: what is not, passes through staging memory, which costs as much.
    pub unpinned: usize,
    /// Bytes whose newest copy is on devices only; the host BLAS would have to wait for them.
    pub stale: usize,
    /// How much of the result the CPU is likely to read before a device does: the share of earlier results in this
    /// place that it did read, 1 for a result that must be home when the call returns.
    pub read_back: f64,
    /// How likely the CPU looks at any of the result: each look is waited for.
    pub looked: f64,
    /// Seconds that the last uses of as many bytes of it by devices took beyond what was predicted, with the faults of the
    /// CPU that followed.
    pub beyond_s: f64,
    /// For how many calls in a row the same call, and no other, has used these bytes. If they move, they move once.
    pub alone: u32,
    /// Earlier calls that read these bytes since the CPU last wrote them. An upload is an investment: its
    /// cost is shared among the calls that are expected to use it, as many more as there have been.
    pub seen: u32,
}

/// A call to decide upon.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Question<'a> {
    /// Amount of work.
    pub work: Work,
    /// The operands in kernel order.
    pub operands: &'a [OperandState<'a>],
    /// Devices that can be used now, those from zero on.
    pub devices: usize,
    /// Where a call that uses one device runs.
    pub prefer: usize,
    /// Bytes of memory of each.
    pub memory: usize,
    /// The user's choice.
    pub mode: Mode,
    /// The user's tile size, if any.
    pub tile: Option<usize>,
}

/// Why a call stays on the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// `SEMCACHE_OFFLOAD=never`.
    Off,
    /// No device can be used.
    NoDevice,
    /// Below the floor.
    Small,
    /// The host is predicted to be faster.
    PredictedSlower,
}

impl Reason {
    /// Its key in the report.
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

/// Where a call runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decision {
    /// On the host.
    Host(Reason),
    /// On the devices.
    Offload {
        /// How many of them: those from zero on, or the preferred one.
        devices: usize,
        /// Tile size for level 3.
        tile: usize,
        /// Predicted seconds on the devices, results that will be wanted at home included.
        predicted_s: f64,
        /// Predicted seconds on the host, operands that would have to come home included.
        host_s: f64,
    },
}

/// The tile of routines that are not tiled: what a following matrix product would be likely to use.
const PLAIN_TILE: usize = 2048;

/// Twice as many devices must be worth that much: the predictions are no better.
const WORTH_MORE_DEVICES: f64 = 0.95;
/// The same for moving a call from where its operands are: a loop whose predictions are nearly equal stays.
const WORTH_MOVING: f64 = 0.96;
/// Results of at most so many bytes are left readable when the call returns.
const LANDED: usize = 1 << 20;
/// Panels that a call on the host faults one by one.
const PANEL: f64 = (2 << 20) as f64;

/// Decides.
#[must_use]
pub fn decide(q: &Question<'_>, machine: &Machine, floor: &Floor) -> Decision {
    if q.mode == Mode::Never {
        return Decision::Host(Reason::Off);
    }
    if q.devices == 0 {
        return Decision::Host(Reason::NoDevice);
    }
    // What lives on a device may be worth using there however small the call is.
    let away = q.operands.iter().any(|o| o.stale > 0);
    if q.mode == Mode::Auto && !away && floor.below(&q.work) {
        return Decision::Host(Reason::Small);
    }
    let mut operands = q.operands.to_vec();
    triangles(q.work.routine, &mut operands);
    let q = &Question {
        operands: &operands,
        ..*q
    };
    let (devices, choice, invested) = best(q, machine);
    let host_s = on_host(q, machine);
    let bytes: usize = q.operands.iter().map(|o| o.bytes).sum();
    let resident: usize = q.operands.iter().map(|o| o.resident).sum();
    let lean = if resident > bytes / 2 {
        1.0 / WORTH_MOVING
    } else {
        WORTH_MOVING
    };
    if q.mode == Mode::Auto && invested >= host_s * lean {
        return Decision::Host(Reason::PredictedSlower);
    }
    Decision::Offload {
        devices,
        tile: choice.tile,
        predicted_s: choice.seconds,
        host_s,
    }
}

/// Whether the host is faster also with everything on a device and nothing to come home. True of a call whose
/// operands are all at home and open, it goes to the host, and an upload would never pay.
#[must_use]
pub fn hopeless(work: &Work, machine: &Machine) -> bool {
    machine.call_s + device_s(work, &machine.device) >= host_s(work, &machine.host) * WORTH_MOVING
}

/// Leaves the stored triangle of matrices of which only that is used.
fn triangles(routine: Routine, operands: &mut [OperandState<'_>]) {
    for (slot, operand) in routine.operands().iter().zip(operands) {
        if slot.extent.is_triangle() {
            operand.bytes /= 2;
            operand.resident = operand.resident.min(operand.bytes);
        }
    }
}

/// The operands of a level-3 routine in the places of A, B and C in `C := A B + C`. What is read and written is C
/// alone, for it is fetched once.
fn places<'a>(
    work: &Work,
    operands: &'a [OperandState<'a>],
) -> Option<[Option<&'a OperandState<'a>>; 3]> {
    let right = work.side == Side::Right;
    match operands {
        _ if !work.is_level3() => None,
        [a, b, c] if right => Some([Some(b), Some(a), Some(c)]),
        [a, b, c] => Some([Some(a), Some(b), Some(c)]),
        [a, c] if right => Some([None, Some(a), Some(c)]),
        [a, c] => Some([Some(a), None, Some(c)]),
        _ => None,
    }
}

/// The number of devices, among powers of two and all, with the smallest prediction, and that prediction as a
/// whole and as an investment. Under [`Mode::Always`] all of them.
fn best(q: &Question<'_>, machine: &Machine) -> (usize, Choice, f64) {
    let of = |devices| {
        let choice = offload(q, machine, devices, None);
        let invested = offload(q, machine, devices, Some(choice.tile)).seconds;
        (devices, choice, invested)
    };
    if q.mode == Mode::Always {
        return of(q.devices);
    }
    let mut best = of(1);
    let mut devices = 1;
    while devices < q.devices {
        devices = (devices * 2).min(q.devices);
        if used(&q.work, devices) <= best.0 {
            continue;
        }
        let more = of(devices);
        if more.2 < best.2 * WORTH_MORE_DEVICES {
            best = more;
        }
    }
    best
}

/// The host BLAS, after everything that is only on devices came home. Results that devices hold as well are
/// read-only on the host: its threads fault in every panel, and what they write is the device's no more. In a loop of one
/// call that happens once.
#[must_use]
pub fn on_host(q: &Question<'_>, machine: &Machine) -> f64 {
    let home = |o: &OperandState<'_>| {
        let once = if o.stale > 0 {
            machine.fault_s + machine.device.d2h.time(o.stale as f64)
        } else if o.written {
            machine.fault_s * (o.resident as f64 / PANEL).ceil()
        } else {
            0.0
        };
        // Other calls will want it back.
        let back = if o.written && o.resident > 0 {
            machine.device.h2d.time(o.bytes as f64)
        } else {
            0.0
        };
        (once + back) / (1.0 + f64::from(o.alone.min(o.seen)))
    };
    host_s(&q.work, &machine.host) + q.operands.iter().map(home).sum::<f64>()
}

/// The devices. With `invest` (a tile that is chosen already) uploads count only for the share of this
/// call among the expected ones.
fn offload(q: &Question<'_>, machine: &Machine, devices: usize, invest: Option<usize>) -> Choice {
    let used = used(&q.work, devices);
    let rates = machine.among(used);
    let largest = q.operands.iter().map(|o| o.bytes).max().unwrap_or(0);
    // What does not fit passes through at every call.
    let stays = largest as f64 / used as f64 <= USABLE * q.memory as f64;
    let share = |o: &OperandState<'_>| {
        if invest.is_some() && stays {
            1.0 / (1.0 + f64::from(o.seen))
        } else {
            1.0
        }
    };
    // Bytes to send, and what share of the time that takes is this call's.
    let sent = |o: &OperandState<'_>| match (o.read, stays) {
        (false, _) => (0.0, 1.0),
        (true, true) => (o.bytes.saturating_sub(o.resident) as f64, share(o)),
        (true, false) => (o.bytes as f64, 1.0),
    };
    let missing = |o: &OperandState<'_>| sent(o).0 * sent(o).1;
    let home = |o: &OperandState<'_>| {
        if o.written {
            o.bytes as f64 * o.read_back.clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    let moved: f64 = q
        .operands
        .iter()
        .filter(|o| o.read)
        .map(|o| {
            rates
                .p2p
                .time(lacking(o, used, q.prefer, o.bytes == largest))
        })
        .sum();
    // Every context that is alive makes it slower, used or not.
    let locked: f64 = q
        .operands
        .iter()
        .map(|o| o.unpinned as f64 * share(o))
        .sum::<f64>()
        / machine.pin.of(q.devices);
    let mut choice = match places(&q.work, q.operands) {
        Some([a, b, c]) => {
            let (m, n, k) = (q.work.m as f64, q.work.n as f64, q.work.k as f64);
            let times = passes(q, used);
            let all = [(a, m * k, times.0), (b, k * n, times.1), (c, m * n, 1.0)];
            let fetch = all.map(|(operand, elements, times)| {
                let Some(o) = operand else {
                    return Fetch::default();
                };
                let whole = (elements * q.work.dtype.size() as f64).max(1.0);
                Fetch {
                    get: if times > 1.0 {
                        times * o.bytes as f64 / whole
                    } else {
                        missing(o) / whole
                    },
                    set: home(o) / whole,
                }
            });
            match invest.or(q.tile) {
                Some(tile) => Choice {
                    tile,
                    seconds: predict(&q.work, &fetch, machine, used, tile),
                },
                None => select(&q.work, &fetch, machine, used, q.memory),
            }
        }
        None => {
            let operands = q.operands;
            // One kernel per device: nothing overlaps (Eq. 2 with k = 1). The matrix is distributed.
            let each = |bytes: f64, o: &OperandState<'_>| {
                if o.bytes == largest {
                    bytes / used as f64
                } else {
                    bytes
                }
            };
            let t_in: f64 = operands
                .iter()
                .map(|o| rates.h2d.time(each(sent(o).0, o)) * sent(o).1)
                .sum();
            let t_out: f64 = operands
                .iter()
                .filter(|o| o.written)
                .map(|o| each(home(o), o) / rates.d2h.bytes_per_s)
                .sum();
            // A function's value is waited for.
            let value = if operands.iter().any(|o| o.written) {
                0.0
            } else {
                rates.d2h.latency_s
            };
            let part = if q.work.routine.level() == 1 {
                q.work
            } else {
                Work {
                    n: q.work.n.div_ceil(used),
                    ..q.work
                }
            };
            Choice {
                tile: q.tile.unwrap_or(PLAIN_TILE),
                seconds: t_in + device_s(&part, &rates) + t_out + value,
            }
        }
    };
    // A look at a result waits for it, for a small one in the call, else in a fault.
    let looks: f64 = q
        .operands
        .iter()
        .filter(|o| o.written)
        .map(|o| {
            let wait = if o.bytes <= LANDED {
                machine.landing_s
            } else {
                machine.fault_s
            };
            o.looked.clamp(0.0, 1.0) * (rates.d2h.latency_s + wait)
        })
        .sum();
    let beyond: f64 = q.operands.iter().map(|o| o.beyond_s).sum();
    // The last device gets its first task after all others got theirs.
    let issue = (rates.launch_s + machine.task_s) * (used - 1) as f64;
    choice.seconds += machine.call_s + issue + locked + moved + looks + beyond;
    choice
}

/// The share of a device's memory that operands may take.
const USABLE: f64 = 0.9;

/// Bytes of an operand that some device has, but the one does not that lacks most. A distributed operand is
/// needed in equal shares, any other by every device.
fn lacking(o: &OperandState<'_>, used: usize, prefer: usize, distributed: bool) -> f64 {
    let parts = if distributed { used } else { 1 };
    let needed = o.resident / parts;
    let on = if used == 1 {
        o.on.get(prefer..=prefer)
    } else {
        o.on.get(..used)
    };
    let least = on.and_then(|on| on.iter().min());
    least.map_or(0.0, |&n| needed.saturating_sub(n) as f64)
}

/// How often A and B pass through a device: once, unless the operands exceed its memory. Then half of the
/// memory holds a square block of C at a time, and each block needs its rows of A and columns of B again.
fn passes(q: &Question<'_>, used: usize) -> (f64, f64) {
    let bytes: f64 = q.operands.iter().map(|o| o.bytes as f64).sum();
    if bytes / used as f64 <= USABLE * q.memory as f64 {
        return (1.0, 1.0);
    }
    let side = (q.memory as f64 / 2.0 / q.work.dtype.size() as f64)
        .sqrt()
        .max(1.0);
    let (m, n) = (q.work.m as f64, q.work.n as f64 / used as f64);
    ((n / side).ceil().max(1.0), (m / side).ceil().max(1.0))
}

/// Devices that a plan would use.
fn used(work: &Work, devices: usize) -> usize {
    let routine = work.routine;
    let worth = match (routine.level(), routine.triangle().is_some(), work.side) {
        (3, true, Side::Left) => work.n / LEAST_PANEL,
        (3, true, Side::Right) => work.m / LEAST_PANEL,
        (3, false, _) => work.m.max(work.n) / LEAST_PANEL,
        (2, false, _) => (work.traffic() / GRAIN as f64) as usize,
        _ => 1,
    };
    worth.clamp(1, devices)
}

#[cfg(test)]
mod tests;
