//! Settings of a simulated machine: size, link rate, and misbehaviours for tests (late, poison, failures).

use crate::base::{Link, Links};
use crate::topology::{self, Machine};

/// An injected failure. The calls alloc, upload, download, `copy_peer` and launch are counted together from 1, over the
/// whole machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fail {
    /// The Nth call is refused and changes nothing.
    Refuse(u64),
    /// At the Nth call its device is lost (for a peer copy: the receiving device).
    Lost(u64),
    /// Every Nth launch, counted by itself, is refused and changes nothing.
    Launches(u64),
}

/// Settings of a [`SimMachine`](super::SimMachine).
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Number of devices, at most [`MAX_DEVICES`](crate::base::ids::MAX_DEVICES).
    pub devices: usize,
    /// The number of the first device, used in its name.
    pub first: usize,
    /// Bytes of memory of each device. Address space is reserved at once, memory is used when a page is first touched.
    pub memory: usize,
    /// An operation is executed only when a thread waits for its ticket, or for a ticket of an operation that comes
    /// after it.
    pub late: bool,
    /// Fresh and invalid device memory is overwritten by NaN.
    pub poison: bool,
    /// If not zero: operations are delayed at random, reproducibly per stream up to thread timing.
    pub seed: u64,
    /// Copies take at least the time of their bytes at this rate, in GB/s.
    pub link_gbs: Option<f64>,
    /// An injected failure.
    pub fail: Option<Fail>,
    /// Copies and kernels move and compute nothing: results are never computed, and no device memory is used.
    pub hollow: bool,
    /// The machine that is modelled: names, peers and figures for predictions. Does not slow down copies or kernels.
    pub preset: Option<Machine>,
    /// Called on every thread of the machine as it starts.
    pub on_thread_start: Option<fn()>,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            devices: 1,
            first: 0,
            memory: 4 << 30,
            late: false,
            poison: false,
            seed: 0,
            link_gbs: None,
            fail: None,
            hollow: false,
            preset: None,
            on_thread_start: None,
        }
    }
}

impl SimConfig {
    /// A machine by name ([`topology::NAMES`]): its number of devices and the memory of the smallest.
    #[must_use]
    pub fn preset(name: &str) -> Option<SimConfig> {
        let machine = topology::preset(name)?;
        Some(SimConfig {
            devices: machine.engines.len(),
            memory: machine.engines.iter().map(|e| e.memory).min()?,
            preset: Some(machine),
            ..SimConfig::default()
        })
    }

    /// How the devices read each other's memory: as the modelled machine does, else all over fast links.
    #[must_use]
    pub fn links(&self) -> Links {
        Links::new((0..self.devices).map(|to| {
            match &self.preset {
                Some(machine) => machine.topology.classes(to),
                None => (0..self.devices)
                    .map(|from| match from == to {
                        true => Link::None,
                        false => Link::Faster(0),
                    })
                    .collect(),
            }
        }))
    }
}
