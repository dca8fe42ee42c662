//! Where a call runs, and by which plan: gathers what the model needs to know of the operands and asks it
//! (decision D8).

use std::sync::{Mutex, PoisonError};

use super::args::Placed;
use crate::base::config::{Config, Devices, Offload, SimMachine};
use crate::base::counters::WhyHost;
use crate::base::{DeviceId, Rect};
use crate::cache::{Cache, Residency};
use crate::device::api::{Backend, Caps};
use crate::host::Block;
use crate::model::decide::{self, Decision, Floor, Mode, OperandState, Question, Reason};
use crate::model::machine::{HostRates, Machine as Rates};
use crate::model::observe::Refined;
use crate::plan::{self, Access, Plan, Problem, Shape};
use crate::topology;

/// The machine as the decision sees it.
#[derive(Debug)]
pub struct Machine {
    mode: Mode,
    tile: Option<usize>,
    devices: usize,
    memory: usize,
    rates: Mutex<Refined>,
}

impl Machine {
    /// Built-in rates for the devices of a backend. Simulated devices are predicted as the machine that
    /// they model.
    #[must_use]
    pub fn new(config: &Config, backend: Option<&'static dyn Backend>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let host = HostRates::of_cores(cores);
        let devices = backend.map_or(&[][..], |b| b.devices());
        let mode = match config.offload {
            Offload::Auto => Mode::Auto,
            Offload::Always => Mode::Always,
            Offload::Never => Mode::Never,
        };
        Self {
            mode,
            tile: config.tile,
            devices: devices.len(),
            memory: devices.iter().map(|c| c.memory).min().unwrap_or(0),
            rates: Mutex::new(Refined::new(rates(config, devices, host))),
        }
    }
}

/// Built-in figures: of the modelled machine for simulated devices, by the product's name for others.
fn rates(config: &Config, devices: &[Caps], host: HostRates) -> Rates {
    let mut rates = match &config.devices {
        Devices::Sim(SimMachine::Count(_)) => Rates::h200(host),
        Devices::Sim(SimMachine::Preset(name)) => match topology::preset(name) {
            Some(machine) => Rates::modelled(&machine, host),
            None => Rates::generic(host),
        },
        _ => Rates::by_name(devices.first().map_or("", |c| c.name.as_str()), host),
    };
    if let Some(gbs) = config.sim.link_gbs {
        let rate = gbs * 1e9;
        rates.device = rates.device.with_link(rate);
        rates.h2d_all = rate * devices.len().max(1) as f64;
        rates.d2h_all = rates.h2d_all;
    }
    rates
}

/// The plan of a call that is to run on devices.
///
/// # Errors
/// Why it is not.
pub fn decide(
    cache: &Cache,
    machine: &Machine,
    problem: &Problem,
    places: &[Placed],
    blocks: &[Option<Block>],
) -> Result<Plan, WhyHost> {
    let work = problem.work();
    let mut states = Vec::with_capacity(places.len());
    let mut on = vec![0_usize; machine.devices];
    for (i, (p, b)) in places.iter().zip(blocks).enumerate() {
        let access = problem.access(i);
        let (residency, history) = match b {
            Some(b) => {
                let rect = Rect::new(p.addr - b.start, p.width, p.stride, p.count);
                (cache.residency(b.id, &rect), cache.note_use(b.id, false))
            }
            None => (
                Residency::default(),
                crate::cache::history::History::TRANSIENT,
            ),
        };
        for (sum, n) in on.iter_mut().zip(&residency.resident) {
            *sum += n;
        }
        states.push(OperandState {
            bytes: p.bytes(),
            read: access != Access::Overwrite,
            written: access != Access::Read,
            resident: residency.union.min(p.bytes()),
            elsewhere: 0,
            stale: residency.stale,
            read_back: history.read_back(),
            seen: history.seen(),
        });
    }
    let prefer = on
        .iter()
        .enumerate()
        .max_by_key(|&(i, n)| (n, usize::MAX - i))
        .map_or(0, |(i, _)| i);
    // Level 1 and 2 run on one device: what the others hold must move.
    for (s, (p, b)) in states.iter_mut().zip(places.iter().zip(blocks)) {
        if let Some(b) = b {
            let rect = Rect::new(p.addr - b.start, p.width, p.stride, p.count);
            let here = cache
                .residency(b.id, &rect)
                .resident
                .get(prefer)
                .copied()
                .unwrap_or(0);
            s.elsewhere = s.resident.saturating_sub(here);
        }
    }
    let question = Question {
        work,
        operands: &states,
        devices: machine.devices,
        memory: machine.memory,
        mode: machine.mode,
        tile: machine.tile,
    };
    let rates = *machine
        .rates
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .machine();
    let tile = match decide::decide(&question, &rates, &Floor::default()) {
        Decision::Offload { tile, .. } => tile,
        Decision::Host(Reason::Off) => return Err(WhyHost::Never),
        Decision::Host(Reason::NoDevice) => return Err(WhyHost::NoDevice),
        Decision::Host(Reason::Small) => return Err(WhyHost::Small),
        Decision::Host(Reason::PredictedSlower) => return Err(WhyHost::PredictedSlower),
    };
    let mut shape = Shape::new(machine.devices, tile, machine.memory);
    shape.prefer = DeviceId(u8::try_from(prefer).unwrap_or(0));
    if machine.mode == Mode::Always {
        // Asked to use the devices whatever it costs, also to spread small problems over all of them.
        shape.grain = 1;
    }
    let plan = plan::lower(problem, &shape);
    if plan.fits {
        Ok(plan)
    } else {
        Err(WhyHost::OutOfMemory)
    }
}
