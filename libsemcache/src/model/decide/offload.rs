//! What a call takes on devices, with all that moves for it.

use super::question::{OperandState, Question};
use crate::base::Side;
use crate::base::Work;
use crate::model::exec::device_s;
use crate::model::rates::{DeviceRates, Rates};
use crate::model::select::{Choice, Fetch, Product};

/// The share of a device's memory that operands may take.
const USABLE: f64 = 0.9;
/// The tile of routines that are not tiled: what a following matrix product would be likely to use.
const PLAIN_TILE: usize = 2048;
/// The largest result, in bytes, that a call waits for and leaves readable when it returns.
const LANDED: usize = 1 << 20;

/// What a call pays for the uploads that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Uploads {
    /// All of it.
    Whole,
    /// Its share, the expected calls paying the rest: see [`OperandState::seen`].
    Shared,
}

/// A call on devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offload<'a> {
    q: &'a Question<'a>,
    machine: &'a Rates,
    /// Devices that it uses.
    used: usize,
    /// The rates of each while all of them transfer.
    rates: DeviceRates,
    /// Bytes of the largest operand. It is distributed over the devices; every one of them needs the others.
    largest: usize,
    /// Whether operands stay on the devices after the call. What does not fit passes through at every call.
    stays: bool,
}

impl<'a> Offload<'a> {
    /// The call on `used` devices, of which there is at least one.
    pub(super) fn new(q: &'a Question<'a>, machine: &'a Rates, used: usize) -> Offload<'a> {
        let largest = q.operands.iter().map(|o| o.bytes).max().unwrap_or(0);
        Offload {
            q,
            machine,
            used,
            rates: machine.among(used),
            largest,
            stays: largest as f64 / used as f64 <= USABLE * q.memory as f64,
        }
    }

    /// The tile, which is the best one unless it is given, and the seconds of the call with it.
    pub(super) fn choice(&self, tile: Option<usize>, uploads: Uploads) -> Choice {
        let mut choice = match places(&self.q.work, self.q.operands) {
            Some(places) => self.product(places, tile, uploads),
            None => Choice {
                tile: tile.unwrap_or(PLAIN_TILE),
                seconds: self.one_kernel(uploads),
            },
        };
        // The last device gets its first task after all others got theirs.
        let issue = (self.rates.launch_s + self.machine.task_s) * (self.used - 1) as f64;
        let beyond: f64 = self.q.operands.iter().map(|o| o.beyond_s).sum();
        choice.seconds += self.machine.call_s
            + issue
            + self.locked(uploads)
            + self.moved()
            + self.looks()
            + beyond;
        choice
    }

    /// A product of matrices, in tiles.
    fn product(
        &self,
        [a, b, c]: [Option<&OperandState<'_>>; 3],
        tile: Option<usize>,
        uploads: Uploads,
    ) -> Choice {
        let work = &self.q.work;
        let (m, n, k) = (work.m as f64, work.n as f64, work.k as f64);
        let passes = self.passes();
        let all = [(a, m * k, passes.0), (b, k * n, passes.1), (c, m * n, 1.0)];
        let fetch = all.map(|(operand, elements, passes)| {
            let Some(o) = operand else {
                return Fetch::default();
            };
            let whole = (elements * work.dtype.size() as f64).max(1.0);
            let get = if passes > 1.0 {
                passes * o.bytes as f64
            } else {
                self.sent(o) * self.share(o, uploads)
            };
            Fetch {
                get: get / whole,
                set: home(o) / whole,
            }
        });
        let product = Product::new(work, fetch, self.used, &self.rates, self.machine.task_s);
        match tile {
            Some(tile) => Choice {
                tile,
                seconds: product.seconds(tile),
            },
            None => product.select(self.q.memory),
        }
    }

    /// Any other routine: one kernel per device, between its copies. Nothing overlaps (Eq. 2 with k = 1).
    fn one_kernel(&self, uploads: Uploads) -> f64 {
        let (operands, rates) = (self.q.operands, &self.rates);
        let each = |bytes: f64, o: &OperandState<'_>| {
            if o.bytes == self.largest {
                bytes / self.used as f64
            } else {
                bytes
            }
        };
        let t_in: f64 = operands
            .iter()
            .map(|o| rates.h2d.time(each(self.sent(o), o)) * self.share(o, uploads))
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
        let work = self.q.work;
        let part = if work.routine.level() == 1 {
            work
        } else {
            Work {
                n: work.n.div_ceil(self.used),
                ..work
            }
        };
        t_in + device_s(&part, rates) + t_out + value
    }

    /// Bytes of an operand to send.
    fn sent(&self, o: &OperandState<'_>) -> f64 {
        match (o.read, self.stays) {
            (false, _) => 0.0,
            (true, true) => o.bytes.saturating_sub(o.resident) as f64,
            (true, false) => o.bytes as f64,
        }
    }

    /// What share of the time that takes is this call's.
    fn share(&self, o: &OperandState<'_>, uploads: Uploads) -> f64 {
        if uploads == Uploads::Shared && self.stays {
            1.0 / (1.0 + f64::from(o.seen))
        } else {
            1.0
        }
    }

    /// Seconds of page-locking.
    fn locked(&self, uploads: Uploads) -> f64 {
        let operands = self.q.operands.iter();
        let bytes = operands.map(|o| o.unpinned as f64 * self.share(o, uploads));
        // Every context that is alive makes it slower, used or not.
        bytes.sum::<f64>() / self.machine.pin.of(self.q.devices)
    }

    /// Seconds in which inputs move from device to device.
    fn moved(&self) -> f64 {
        let read = self.q.operands.iter().filter(|o| o.read);
        read.map(|o| self.rates.p2p.time(self.lacking(o))).sum()
    }

    /// Bytes of an operand that some device has, but the one does not that lacks most.
    fn lacking(&self, o: &OperandState<'_>) -> f64 {
        let parts = if o.bytes == self.largest {
            self.used
        } else {
            1
        };
        let needed = o.resident / parts;
        let on = if self.used == 1 {
            o.on.get(self.q.prefer..=self.q.prefer)
        } else {
            o.on.get(..self.used)
        };
        let least = on.and_then(|on| on.iter().min());
        least.map_or(0.0, |&n| needed.saturating_sub(n) as f64)
    }

    /// Seconds in which the CPU looks at results: a look at a small one waits in the call, at another one in a fault.
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

    /// How often A and B pass through a device: once, unless the operands exceed its memory. Then half of the
    /// memory holds a square block of C at a time, and each block needs its rows of A and columns of B again.
    fn passes(&self) -> (f64, f64) {
        let (q, used) = (self.q, self.used as f64);
        let bytes: f64 = q.operands.iter().map(|o| o.bytes as f64).sum();
        if bytes / used <= USABLE * q.memory as f64 {
            return (1.0, 1.0);
        }
        let side = (q.memory as f64 / 2.0 / q.work.dtype.size() as f64)
            .sqrt()
            .max(1.0);
        let (m, n) = (q.work.m as f64, q.work.n as f64 / used);
        ((n / side).ceil().max(1.0), (m / side).ceil().max(1.0))
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

/// Bytes of a result that are expected to go home.
fn home(o: &OperandState<'_>) -> f64 {
    if o.written {
        o.bytes as f64 * o.read_back.clamp(0.0, 1.0)
    } else {
        0.0
    }
}
