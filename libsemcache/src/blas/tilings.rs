//! The tilings that were chosen so far, by the shape of the call, what of its operands had to move, and the rates.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::base::{DeviceId, DeviceSet, Dtype, Form, Op, Routine, TileSize};
use crate::model::rates::Rates;
use crate::model::select::{Choice, Fetch};
use crate::plan::{Problem, Tiling};

/// Choices that are kept; when there are more, all are forgotten.
const MOST_KEPT: usize = 256;
/// A choice is made again when a rate has changed by more than this share.
const DRIFT: f64 = 0.1;

/// What a choice depends on, besides the rates.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    routine: Routine,
    dtype: Dtype,
    form: Form,
    ops: (Op, Op),
    sizes: [usize; 3],
    overwrites: bool,
    /// The kind of each device.
    devices: SmallVec<[u8; 8]>,
    /// The memory of the device that has the least.
    memory: usize,
    tile: Option<TileSize>,
    /// For each operand, sixteenths of it that are sent, and that are written back.
    moved: SmallVec<[(u32, u32); 3]>,
    /// Columns of the output that the host computes beside these.
    host_columns: usize,
}

impl Key {
    pub(super) fn new(
        problem: &Problem,
        (devices, memory): (&DeviceSet, usize),
        rates: &Rates,
        tile: Option<TileSize>,
        moved: &[Fetch],
        host_columns: usize,
    ) -> Key {
        let class = |share: f64| (share * 16.0).round() as u32;
        Key {
            routine: problem.routine,
            dtype: problem.dtype,
            form: problem.form,
            ops: (problem.op_a, problem.op_b),
            sizes: [problem.m, problem.n, problem.k],
            overwrites: problem.beta.is_zero(),
            devices: devices.ids().map(|id| kind(rates, id)).collect(),
            memory,
            tile,
            moved: moved.iter().map(|m| (class(m.get), class(m.set))).collect(),
            host_columns,
        }
    }
}

fn kind(rates: &Rates, device: DeviceId) -> u8 {
    u8::try_from(rates.kinds.kind(device)).unwrap_or(u8::MAX)
}

/// What was chosen for a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Chosen {
    pub(super) choice: Choice,
    /// Tiles and blocks, if the operands exceed the memory.
    pub(super) tiling: Option<Tiling>,
}

/// A choice, and the rates by which it was made. `None` where the timeline does not choose.
#[derive(Clone, Copy, Debug)]
struct Kept {
    chosen: Option<Chosen>,
    rates: [f64; 4],
}

/// The choices made so far.
#[derive(Debug, Default)]
pub(super) struct Tilings(HashMap<Key, Kept>);

impl Tilings {
    /// The choice for calls of this kind, unless the rates have changed since it was made.
    pub(super) fn get(&self, key: &Key, rates: &Rates) -> Option<Option<Chosen>> {
        let kept = self.0.get(key)?;
        let mut pairs = kept.rates.iter().zip(of(key, rates));
        let same = pairs.all(|(then, now)| (now / then - 1.0).abs() <= DRIFT);
        same.then_some(kept.chosen)
    }

    pub(super) fn put(&mut self, key: Key, rates: &Rates, chosen: Option<Chosen>) {
        if self.0.len() >= MOST_KEPT {
            self.0.clear();
        }
        let rates = of(&key, rates);
        self.0.insert(key, Kept { chosen, rates });
    }
}

/// The rates that decide between tilings.
fn of(key: &Key, rates: &Rates) -> [f64; 4] {
    let fastest = key.devices.first().copied().unwrap_or(0);
    let device = rates.kinds.of_kind(usize::from(fastest));
    let products = device.gemm(key.dtype).peak_flops;
    let host = rates.host.gemm_flops[key.dtype as usize];
    [
        products,
        device.h2d.bytes_per_s,
        device.d2h.bytes_per_s,
        host,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Value;
    use crate::model::HostRates;

    #[test]
    fn a_choice_is_kept_until_a_rate_changes() {
        let problem = Problem {
            routine: Routine::Gemm,
            dtype: Dtype::D,
            form: Form::default(),
            op_a: Op::None,
            op_b: Op::None,
            m: 3000,
            n: 3000,
            k: 3000,
            alpha: Value::ONE,
            beta: Value::ONE,
            operands: Vec::new(),
        };
        let known = Rates::h200(HostRates::of_cores(4));
        let key = |devices, get| {
            let moved = [Fetch { get, set: 0.0 }];
            let devices = DeviceSet::equal(devices);
            Key::new(&problem, (&devices, 1 << 30), &known, None, &moved, 0)
        };
        let mut rates = known;
        let choice = Choice {
            tile: TileSize::square(1024),
            seconds: 1.0,
        };
        let chosen = Some(Chosen {
            choice,
            tiling: None,
        });
        let mut tilings = Tilings::default();
        assert_eq!(tilings.get(&key(1, 1.0), &rates), None);
        tilings.put(key(1, 1.0), &rates, chosen);
        tilings.put(key(2, 1.0), &rates, None);
        assert_eq!(tilings.get(&key(1, 1.0), &rates), Some(chosen));
        assert_eq!(tilings.get(&key(1, 0.99), &rates), Some(chosen));
        assert_eq!(tilings.get(&key(1, 0.5), &rates), None);
        assert_eq!(tilings.get(&key(2, 1.0), &rates), Some(None));
        rates.kinds.each_mut()[0].h2d.bytes_per_s *= 0.95;
        assert_eq!(tilings.get(&key(1, 1.0), &rates), Some(chosen));
        rates.kinds.each_mut()[0].h2d.bytes_per_s *= 0.9;
        assert_eq!(tilings.get(&key(1, 1.0), &rates), None);
        tilings.put(key(1, 1.0), &rates, None);
        assert_eq!(tilings.get(&key(1, 1.0), &rates), Some(None));
    }
}
