//! The offload policy: the user's choice, the rates of host and devices, and what was learned from earlier calls.
//! `offload` decides by it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::call::Call;
use super::kernel_loads::KernelLoads;
use super::replay::{self, Known, Sites};
use super::tilings::Tilings;
use crate::base::config::{Config, Devices, HostShare, Offload, Scheduler, SimMachine, Window};
use crate::base::counters::on_device;
use crate::base::dense::DenseKernel;
use crate::base::heuristics::{Heuristic, Without};
use crate::base::{DeviceId, DeviceSet, Links, Rect, Work, timed};
use crate::device::api::{self, Backend};
use crate::model::decide::{self, Decision, Floor, Mode, OperandState, Question};
use crate::model::drift::Drift;
use crate::model::exec;
use crate::model::first::{self, Gpu};
use crate::model::observe::Refined;
use crate::model::ports::Ports;
use crate::model::rates::{HostRates, Rates, Total, Vectors};
use crate::model::rates_file::Given;
use crate::plan::{Access, Problem};
use crate::policy::ab_probe::Where;
use crate::policy::host_times::HostTimes;
use crate::process::signals_blocked::if_handlers;
use crate::sched::virtual_time::VirtualTime;
use crate::topology;

/// Tasks of each device in flight: one that runs, one whose operands arrive meanwhile, and one more, so that a device is busy while
/// the thread looks at the others.
const AHEAD: usize = 3;

/// What the decision between host and devices depends on, besides the call.
#[derive(Debug)]
pub struct Policy {
    pub(super) mode: Mode,
    pub(super) tile: Option<usize>,
    pub(super) host_share: HostShare,
    pub(super) window: Window,
    /// How such a call's tasks are dealt to devices.
    pub(super) scheduler: Scheduler,
    /// Bytes of memory of each device.
    pub(super) memory: Vec<usize>,
    /// How the devices read each other's memory.
    pub(super) links: Links,
    /// Whether measured times say anything about this machine: those of simulated devices do not.
    pub(super) real: bool,
    /// Whether the user gave rates of the host BLAS.
    pub(super) host_given: bool,
    learned: Mutex<Learned>,
    /// Apart from what is learned, since plans ask for it.
    drift: Mutex<Drift>,
    tilings: Mutex<Tilings>,
    /// What is known of calls that the program makes again.
    pub(super) sites: Sites,
    pub(super) kernel_loads: KernelLoads,
    without: Without,
    /// The clock of A/B probes starts here.
    began: Instant,
}

/// What was learned from earlier calls.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) rates: Refined,
    pub(super) host_times: HostTimes,
}

impl Learned {
    fn new(rates: Rates) -> Learned {
        Learned {
            rates: Refined::new(rates),
            host_times: HostTimes::default(),
        }
    }
}

impl Policy {
    /// The policy for the devices of a backend and a host BLAS with `threads` threads, with built-in rates, or those that
    /// a file gives. Simulated devices get the rates of the machine that they model.
    #[must_use]
    pub fn new(
        config: &Config,
        backend: Option<&'static dyn Backend>,
        threads: usize,
        given: Option<&Given>,
    ) -> Self {
        let host = host_rates(threads);
        let devices = backend.map_or(&[][..], |b| b.devices());
        let first = backend.and_then(|b| b.hardware(DeviceId::at(0)));
        let first_launch = first.map(|known| known.first_launch_s);
        let mode = match config.offload {
            Offload::Auto => Mode::Auto,
            Offload::Always => Mode::Always,
            Offload::Never => Mode::Never,
        };
        Self {
            mode,
            tile: config.tile,
            host_share: config.host_share,
            window: config.window,
            scheduler: config.scheduler,
            memory: devices.iter().map(|c| c.memory).collect(),
            links: api::links(devices).used(config.peers, config.joins),
            real: devices.first().is_some_and(|c| c.kind == "cuda"),
            host_given: given.is_some_and(|given| given.has("host.gemm_flops")),
            drift: Mutex::default(),
            learned: Mutex::new(Learned::new(rates(config, backend, host, given))),
            tilings: Mutex::default(),
            sites: Sites::new(config.without),
            kernel_loads: KernelLoads::new(first_launch.unwrap_or(0.0)),
            without: config.without,
            began: Instant::now(),
        }
    }

    /// The policy of a machine that is described and not present, with nothing learned.
    pub(super) fn of_machine(
        rates: Rates,
        links: &Links,
        memory: &[usize],
        tile: Option<usize>,
    ) -> Self {
        let config = Config {
            tile,
            ..Config::default()
        };
        Self {
            memory: memory.to_vec(),
            links: links.clone().used(config.peers, config.joins),
            learned: Mutex::new(Learned::new(rates)),
            ..Self::new(&config, None, 1, None)
        }
    }

    /// Bytes of memory of the device of a set that has the least; 0 if there is no device.
    pub(super) fn memory_of(&self, set: &DeviceSet) -> usize {
        let each = set.ids().filter_map(|id| self.memory.get(id.index()));
        each.min().copied().unwrap_or(0)
    }

    pub(super) fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tilings chosen so far. No other lock is taken while this one is held.
    pub(super) fn tilings(&self) -> MutexGuard<'_, Tilings> {
        self.tilings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present rates, corrected by all times that were measured until now.
    pub(super) fn rates(&self) -> Rates {
        *self.corrected().rates.machine()
    }

    /// What was learned, with the rates corrected by all times that were measured until now.
    fn corrected(&self) -> MutexGuard<'_, Learned> {
        let mut learned = self.learned();
        if self.real && self.without.uses(Heuristic::Corrections) {
            let rates = &mut learned.rates;
            let mut corrected = false;
            timed::take(&mut |timed| {
                corrected |= rates.observe(timed, self.memory.len());
            });
            if corrected && rates.have_moved() {
                self.sites.decide_again();
            }
        }
        learned
    }

    /// Notes the seconds that the host BLAS took for its part of a call, and corrects its rates by them.
    pub fn host_took(&self, work: Work, seconds: f64) {
        self.note_host_time(work, seconds, |_| true);
    }

    /// Notes the seconds that the host BLAS took for a whole call. The fastest of a kind correct the rates, too: others may include
    /// page faults, or threads of the library that were asleep.
    pub fn host_took_all(&self, work: Work, seconds: f64) {
        self.note_host_time(work, seconds, |confirms| confirms);
    }

    /// Notes the seconds that the host BLAS took. They correct its rates if `corrects`, given whether they confirm an earlier time.
    fn note_host_time(&self, work: Work, seconds: f64, corrects: impl FnOnce(bool) -> bool) {
        if self.real {
            let mut learned = self.learned();
            let predicted_s = exec::host_s(&work, &learned.rates.machine().host);
            let confirms = learned.host_times.took(&work, seconds, predicted_s);
            if corrects(confirms) && self.without.uses(Heuristic::Corrections) {
                let corrected = learned.rates.host(&work, seconds);
                if corrected && learned.rates.have_moved() {
                    self.sites.decide_again();
                }
            }
        }
    }

    /// Whether a single call, for which `place` is predicted to be faster, runs on the host with its time taken; `host_s` are
    /// the predicted seconds there.
    pub(super) fn times_host(
        &self,
        work: &Work,
        place: Where,
        predicted_s: f64,
        host_s: f64,
    ) -> bool {
        let mut learned = self.learned();
        self.times_hosts() && learned.host_times.due(work, place, predicted_s, host_s)
    }

    /// The longest that the host may be found to take for a call whose kind was not timed ([`HostTimes::bound`]).
    pub(super) fn host_bound(&self, work: &Work, predicted_s: f64) -> Option<f64> {
        let times = self.times_hosts().then(|| self.learned());
        times?.host_times.bound(work, predicted_s)
    }

    /// Whether measured times may overrule predictions.
    fn tries(&self) -> bool {
        self.real && self.mode == Mode::Auto
    }

    /// Whether A/B probes check predictions.
    pub(super) fn probes(&self) -> bool {
        self.tries() && self.without.uses(Heuristic::AbProbes)
    }

    fn times_hosts(&self) -> bool {
        self.tries() && self.without.uses(Heuristic::HostTimes)
    }

    /// What earlier uses of blocks took beyond their predictions counts.
    pub(super) fn expects_errors(&self) -> bool {
        self.real && self.without.uses(Heuristic::PredictionError)
    }

    /// Blocks may become write-through where earlier uses took longer than predicted.
    pub(super) fn writes_through(&self) -> bool {
        self.mode == Mode::Auto
            && self.expects_errors()
            && self.without.uses(Heuristic::WriteThrough)
    }

    /// How many calls of this kind may follow one that was not timed ([`HostTimes::untimed`]).
    pub(super) fn untimed(&self, work: &Work) -> Option<u64> {
        let times = self.times_hosts().then(|| self.learned());
        times?.host_times.untimed(work)
    }

    /// The measured seconds that the host BLAS takes for such a call, if it was timed; `rates` predict what it takes.
    pub(super) fn host_s(&self, work: &Work, rates: &HostRates) -> Option<f64> {
        let predicted_s = exec::host_s(work, rates);
        let times = self.times_hosts().then(|| self.learned());
        times?.host_times.seconds(work, predicted_s)
    }

    /// Whether that was measured more than once.
    pub(super) fn host_s_is_sure(&self, work: &Work) -> bool {
        self.times_hosts() && self.learned().host_times.is_sure(work)
    }

    /// Whether calls stay on the host while the code of their kernels is not loaded.
    pub(super) fn awaits_code(&self) -> bool {
        self.tries() && self.without.uses(Heuristic::KernelLoads)
    }

    /// Whether a dense system stays on the host because a device that is predicted to be `gain_s` seconds faster has not loaded the
    /// code of its kernels; a thread may begin to load it.
    pub fn solver_awaited(
        &self,
        backend: &'static dyn Backend,
        kernels: &[DenseKernel],
        device: DeviceId,
        gain_s: f64,
    ) -> bool {
        self.awaits_code() && (self.kernel_loads).solver_awaited(backend, kernels, device, gain_s)
    }

    /// At the end of the process, or of its use of devices: no more code is loaded, and none is in the middle of it. Returns after
    /// `patience` at the latest.
    pub fn stop_loads(&self, patience: Duration) {
        self.kernel_loads.stop(patience);
    }

    /// Notes that the host BLAS runs `calls` calls, of the group with this key, in `host_s` seconds. The same ones run there again
    /// without a decision, `most` times at most.
    pub(super) fn left_to_host(&self, key: u64, calls: usize, host_s: f64, most: u64) {
        let now = self.now();
        let left = self.sites.with(key, |site| {
            // A replay would go to devices without a decision.
            site.set_replay(None, false, 0);
            site.computed = false;
            // During an A/B probe, too, every call gets a decision of its own.
            let left = match site.probe.probing() {
                true => 0,
                false => site.stay_on_host(calls, host_s, most),
            };
            if self.probes() {
                site.probe.went(now, Where::Host, left);
            }
            left
        });
        if let Some(left) = left.filter(|_| self.times_hosts()) {
            self.learned().host_times.repeats(left);
        }
    }

    /// Notes that devices run the calls of the group with this key.
    pub(super) fn left_to_devices(&self, key: u64) {
        if self.probes() {
            let now = self.now();
            self.sites.with(key, |site| {
                let mark = site.replayed();
                site.probe.went(now, Where::Devices, mark);
            });
        }
    }

    /// A call that can be replayed. Takes no lock.
    #[must_use]
    pub fn replays<'a>(&'a self, call: &'a Call, key: u64) -> Option<Known<'a>> {
        replay::known(&self.sites, call, key)
    }

    /// No other lock is taken while this one is held.
    fn drift(&self) -> MutexGuard<'_, Drift> {
        self.drift.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tasks a call of level 3 on these devices queues ahead of each, if it does not queue all of them at once. Unless the
    /// user sets that, calls do so on several devices of different speeds, or that do not keep the pace by which work is divided
    /// among them.
    pub(super) fn ahead(&self, devices: &DeviceSet) -> Option<usize> {
        let drifts = || self.real && self.drift().is_seen(devices, &sampled);
        if self.scheduler != Scheduler::Planned {
            return Some(AHEAD);
        }
        match self.window {
            Window::Off => None,
            Window::Tasks(ahead) => Some(ahead),
            Window::Auto => {
                (devices.len() > 1 && (!devices.is_equal() || drifts())).then_some(AHEAD)
            }
        }
    }

    /// Notes by which share the paces of devices lay apart, each compared with what was predicted.
    pub(super) fn drifted(&self, share: f64) {
        self.drift().found(share);
    }

    pub(super) fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Whether the host runs the call faster even if the devices hold all operands already. The time of writing back
    /// operands is left out: the caller asks only if none of the operands is inaccessible to the CPU.
    #[must_use]
    pub fn hopeless(&self, call: &Call) -> bool {
        self.mode == Mode::Auto
            && call.work().is_some_and(|work| {
                // A handler of the program that interrupted this thread might wait for the same lock, so signals are
                // blocked once the program has a handler.
                let _blocked = if_handlers();
                let mut learned = self.corrected();
                let times = self.times_hosts();
                let predicted_s = exec::host_s(&work, &learned.rates.machine().host);
                let known = times.then(|| learned.host_times.seconds(&work, predicted_s));
                let measured_s = known.flatten();
                let host_s = measured_s.unwrap_or_else(|| {
                    if times {
                        learned.host_times.at_most(&work, predicted_s)
                    } else {
                        predicted_s
                    }
                });
                decide::hopeless(&work, learned.rates.machine(), host_s)
                    && !(times && !work.routine.reduces() && learned.host_times.wants(&work))
            })
    }

    /// Whether a recent decision chose the host for the calls of the group with this key, so that they run there again without a
    /// decision. Takes no lock.
    #[must_use]
    pub fn stays_on_host(&self, key: u64) -> bool {
        self.mode == Mode::Auto && self.sites.stays_on_host(key)
    }

    /// The call's predicted seconds on the host, and on one device that holds no operand, with operands that are not
    /// yet page-locked and a result that the CPU reads.
    #[must_use]
    pub fn cold(&self, problem: &Problem, places: &[Rect]) -> (f64, f64) {
        let states: Vec<OperandState<'_>> = places
            .iter()
            .enumerate()
            .map(|(i, p)| OperandState {
                unpinned: p.bytes(),
                read_back: 1.0,
                looked: 1.0,
                ..state(problem, i, p.bytes())
            })
            .collect();
        let one = DeviceSet::equal(1);
        let question = Question {
            work: problem.work(),
            host_s: None,
            operands: &states,
            devices: one,
            prefer: one.id(0),
            memory: &self.memory,
            mode: Mode::Always,
            tile: self.tile,
            planner: None,
        };
        let rates = *self.learned().rates.machine();
        let host = decide::on_host(&question, &rates);
        match decide::decide(&question, &rates, &Floor::default()) {
            Decision::Offload { predicted_s, .. } => (host, predicted_s),
            Decision::Host(_) => (host, f64::INFINITY),
        }
    }
}

/// The work and the nanoseconds of the kernels of a device that were timed.
fn sampled(device: DeviceId) -> (u64, u64) {
    let device = on_device(device);
    (device.sampled_work.get(), device.sampled_ns.get())
}

/// Number of threads of the host BLAS: as the user sets it in the environment variables of the BLAS libraries, at most
/// the number of cores.
#[must_use]
pub fn host_threads(environment: &dyn Fn(&str) -> Option<String>, cores: usize) -> usize {
    // OpenBLAS reads its variables in this order; each other library has one name of its own.
    const NAMES: [&str; 5] = [
        "OPENBLAS_NUM_THREADS",
        "GOTO_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "OMP_NUM_THREADS",
    ];
    let said = NAMES.iter().find_map(|name| {
        let value = environment(name)?;
        // OMP_NUM_THREADS may list one number for each level of nesting.
        let first: usize = value.split(',').next()?.trim().parse().ok()?;
        (first > 0).then_some(first)
    });
    said.unwrap_or(cores).clamp(1, cores.max(1))
}

/// The built-in rates of a host BLAS with this number of threads on this processor.
#[must_use]
pub fn host_rates(threads: usize) -> HostRates {
    HostRates::of(threads, vectors())
}

fn vectors() -> Vectors {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            return Vectors::Avx512;
        }
        if !std::is_x86_feature_detected!("fma") {
            return Vectors::Sse;
        }
    }
    Vectors::Avx2
}

/// The clock of a simulated machine in virtual time, with the rates of [`rates`].
#[must_use]
pub fn virtual_time(
    config: &Config,
    backend: &dyn Backend,
    threads: usize,
    given: Option<&Given>,
) -> VirtualTime {
    let rates = rates(config, Some(backend), host_rates(threads), given);
    let devices = backend.devices();
    VirtualTime::new(&rates, api::links(devices), devices.len(), config.sim.slow)
}

/// Built-in rates: those of the modelled machine for simulated devices, those found by product name for others; and in
/// their places the figures that are given. The link speed of simulated devices (`SEMCACHE_SIM=link`) comes last.
#[must_use]
pub fn rates(
    config: &Config,
    backend: Option<&dyn Backend>,
    host: HostRates,
    given: Option<&Given>,
) -> Rates {
    let devices = backend.map_or(&[][..], |b| b.devices());
    let gpus = devices.iter().enumerate().map(|(i, caps)| Gpu {
        name: &caps.name,
        hardware: backend.and_then(|b| b.hardware(DeviceId::at(i))),
    });
    let gpus: Vec<_> = gpus.collect();
    let mut rates = match &config.devices {
        Devices::Sim(SimMachine::Count(_)) => Rates::h200(host),
        Devices::Sim(SimMachine::Preset(name)) => match topology::preset(name) {
            Some(machine) => Rates::modelled(&machine, host),
            None => Rates::generic(host),
        },
        _ => first::machine(&gpus, host),
    };
    if let Some(given) = given {
        rates = given.over(rates);
    }
    if let Some(gbs) = config.sim.link_gbs {
        let rate = gbs * 1e9;
        for device in rates.kinds.each_mut() {
            *device = device.with_link(rate);
        }
        rates.h2d_all = Total([1.0, 2.0, 4.0, devices.len().max(1) as f64].map(|n| n * rate));
        rates.d2h_all = rates.h2d_all;
        rates.ports = Ports::NONE;
    }
    rates
}

/// An operand of which nothing is known.
pub(super) fn state(problem: &Problem, operand: usize, bytes: usize) -> OperandState<'static> {
    OperandState {
        bytes,
        read: problem.fetches(operand),
        written: problem.access(operand) != Access::Read,
        ..OperandState::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_rates_holds_for_every_kind_of_device() {
        let given = Given::parse("version = 1\ndevice.h2d.bytes_per_s = 12e9\nd2h_all = [3e9]");
        let given = given.expect("a file");
        let host = HostRates::of_cores(8);
        let kinds = [
            Devices::Auto,
            Devices::Sim(SimMachine::Count(2)),
            Devices::Sim(SimMachine::Preset("dgx-1".into())),
        ];
        for devices in kinds {
            let mut config = Config {
                devices,
                ..Config::default()
            };
            let plain = rates(&config, None, host, None);
            let found = rates(&config, None, host, Some(&given));
            assert_eq!(found, given.over(plain));
            assert_ne!(found, plain);
            config.sim.link_gbs = Some(20.0);
            let linked = rates(&config, None, host, Some(&given));
            assert_eq!(linked.of(DeviceId(0)).h2d.bytes_per_s, 20e9);
            assert_eq!(linked.d2h_all.of(1), 20e9);
        }
    }

    #[test]
    fn threads_of_the_host() {
        let with = |set: &[(&str, &str)], cores| {
            let lookup = |name: &str| {
                let found = set.iter().find(|(n, _)| *n == name);
                found.map(|(_, v)| (*v).to_owned())
            };
            host_threads(&lookup, cores)
        };
        assert_eq!(with(&[], 16), 16);
        assert_eq!(with(&[("OMP_NUM_THREADS", "4,2")], 16), 4);
        assert_eq!(
            with(
                &[("OMP_NUM_THREADS", "4"), ("OPENBLAS_NUM_THREADS", " 8 ")],
                16
            ),
            8
        );
        assert_eq!(
            with(
                &[("OPENBLAS_NUM_THREADS", "0"), ("OMP_NUM_THREADS", "3")],
                16
            ),
            3
        );
        assert_eq!(with(&[("MKL_NUM_THREADS", "many")], 2), 2);
        assert_eq!(with(&[("OPENBLAS_NUM_THREADS", "64")], 2), 2);
        assert_eq!(with(&[], 0), 1);
    }
}
