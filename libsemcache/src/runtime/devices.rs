//! Opens the devices that the configuration names. Having no device is a normal state: one line on stderr if devices
//! were named, none otherwise.

use super::init::{self, host_threads, say};
use super::{ranks, rates};
use crate::base::config::{Config, CudaSet, Devices, Fail, Ranks, SimMachine};
use crate::base::counters::{Degraded, degrade};
use crate::blas::offload_policy::virtual_time;
use crate::device::api::Backend;
use crate::device::clocked::Clocked;
use crate::device::cuda::{self, CudaError, CudaMachine, Hooks};
use crate::device::sim::{self, SimConfig};

/// A machine whose devices come up in the order of their numbers.
pub(crate) trait Rising: Send + Sync {
    /// The machine. Its list of devices is complete; [`Backend::usable`] grows.
    fn backend(&'static self) -> &'static dyn Backend;
    /// Makes a device ready. Several threads may do this for different devices at the same time.
    ///
    /// # Errors
    /// Why the device cannot be used.
    fn make(&self, device: usize) -> Result<(), String>;
    /// Lets calls use a device that is ready, as all before it may be used.
    fn admit(&self, device: usize);
    /// Gives back a device that is ready and will not be used.
    fn discard(&self, device: usize);
    /// Whether copies to or from inaccessible pages take a slower path (staged) on some device.
    fn staged(&self) -> bool;
}

impl Rising for CudaMachine {
    fn backend(&'static self) -> &'static dyn Backend {
        self
    }
    fn make(&self, device: usize) -> Result<(), String> {
        CudaMachine::make(self, device).map_err(|e| e.to_string())
    }
    fn admit(&self, device: usize) {
        CudaMachine::admit(self, device);
    }
    fn discard(&self, device: usize) {
        CudaMachine::discard(self, device);
    }
    fn staged(&self) -> bool {
        CudaMachine::staged(self)
    }
}

/// Of the devices that this process sees, which are some of the machine's, those that it uses, and how many ranks of its MPI job use
/// each: they share the devices out.
fn mine(all: &[usize], of_machine: usize) -> (Vec<usize>, usize) {
    match ranks::of(&init::environment) {
        Some(local) if init::config().ranks == Ranks::Share => {
            let machine = all.len().max(of_machine).max(1);
            (local.share(all), local.of.div_ceil(machine))
        }
        Some(local) => (all.to_vec(), local.of),
        None => (all.to_vec(), 1),
    }
}

/// The GPUs that this process uses. Unless they are named, the launcher may let each rank see one of the machine's GPUs only.
fn my_gpus(all: &[usize]) -> (Vec<usize>, usize) {
    let of_machine = match &init::config().devices {
        Devices::Cuda(CudaSet::List(_)) => 0,
        _ => std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count),
    };
    mine(all, of_machine)
}

/// The GPUs, of which none is usable yet. Takes a while: the driver is loaded.
pub(crate) fn cuda(config: &Config) -> Option<&'static dyn Rising> {
    let (set, named) = match &config.devices {
        Devices::Cuda(set) => (set.clone(), true),
        _ => (CudaSet::All, false),
    };
    let hooks = Hooks {
        environment: init::environment,
        choose: my_gpus,
        secure: init::secure(),
    };
    match cuda::open(&set, config.memory, &hooks) {
        Ok(machine) => Some(Box::leak(Box::new(machine))),
        Err(CudaError::NoDriver) if !named => None,
        Err(error) => {
            degrade(match error {
                CudaError::NoSuchGpu(_) => Degraded::NoDevices,
                _ => Degraded::NoDriver,
            });
            say(&format!("semcache: {error}; computing on the host"));
            None
        }
    }
}

/// A simulated machine, ready for use.
pub(crate) fn simulated(config: &Config, machine: &SimMachine) -> Option<&'static dyn Backend> {
    let mut processes = 1;
    let mut cfg = match machine {
        SimMachine::Count(n) => {
            let devices;
            (devices, processes) = mine(&(0..*n).collect::<Vec<_>>(), *n);
            SimConfig {
                devices: devices.len(),
                first: devices.first().copied().unwrap_or(0),
                ..SimConfig::default()
            }
        }
        SimMachine::Preset(name) => match SimConfig::preset(name) {
            Some(cfg) => cfg,
            None => {
                degrade(Degraded::NoDevices);
                say(&format!(
                    "semcache: no simulated machine is called {name}; computing on the host"
                ));
                return None;
            }
        },
    };
    cfg.memory = config.memory.of(cfg.memory, processes);
    cfg.late = config.sim.late;
    cfg.poison = config.sim.poison;
    cfg.seed = config.sim.seed;
    // In virtual time a clock says what copies take, and no thread sleeps.
    let link_gbs = config.sim.link_gbs.filter(|_| !config.sim.virtual_time);
    cfg.link_gbs = link_gbs.or(cfg.link_gbs);
    cfg.fail = config.sim.fail.map(|f| match f {
        Fail::Refuse(n) => sim::Fail::Refuse(n),
        Fail::Lost(n) => sim::Fail::Lost(n),
        Fail::Launches(n) => sim::Fail::Launches(n),
    });
    cfg.on_thread_start = Some(crate::process::threads::enter);
    cfg.hollow = config.sim.hollow;
    match sim::SimMachine::new(cfg) {
        Ok(m) if config.sim.virtual_time => {
            let given = rates::given(config, m.devices());
            let clock = virtual_time(config, &m, host_threads(), given.as_deref());
            Some(Box::leak(Box::new(Clocked::new(m, Box::new(clock)))))
        }
        Ok(m) => Some(Box::leak(Box::new(m))),
        Err(e) => {
            degrade(Degraded::NoProcMem);
            say(&format!(
                "semcache: no simulated devices: {e}; computing on the host"
            ));
            None
        }
    }
}
