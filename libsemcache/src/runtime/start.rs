//! Start-up of devices: none is touched before the first call that is large enough to be worth it. Simulated devices
//! come up within that call. GPUs come up in the background, all at the same time, and calls run on the host BLAS until
//! they can be used.
//!
//! Two kinds of calls wait: under `SEMCACHE_OFFLOAD=always` every call waits for all devices, so that tests know where
//! their calls run; otherwise a call waits if its predicted host time is much longer than devices take to come up.
//!
//! No lock is held while the driver works. The lock of start-up is held only for the moment in which the runtime is
//! published, so that no fork happens in that moment: a child sees either no runtime or one that the fork handlers take
//! care of.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use once_cell::race::OnceBox;

use super::devices::{self, Rising};
use super::init::{self, say};
use super::mode::{Mode, promote, set_mode};
use super::phase::{Claim, PHASES, Phase};
use super::started::{RUNTIME, Runtime, get, hold};
use super::{rates, traced, valgrind};
use crate::base::config::{Config, CudaSet, Devices, Offload};
use crate::base::counters::{Degraded, WhyHost, degrade};
use crate::base::heuristics::Heuristic;
use crate::base::ids::MAX_DEVICES;
use crate::blas::Call;
use crate::blas::args::{self, Checked};
use crate::blas::offload_policy::Policy;
use crate::blas::plain::{self, Plain};
use crate::cache::Cache;
use crate::device::api::Backend;
use crate::process::background::Busy;
use crate::process::ending;
use crate::process::signals_blocked::SignalsBlocked;
use crate::process::spent::{Spending, Spent};
use crate::process::threads;
use crate::trace;
use semcache_fault::broken;

/// Time from the first large call to usable GPUs: driver and cuBLAS, and for each GPU its context. With one H100 that took 0.4 to 0.5 s, with
/// four 1.1 to 1.4 s.
const EXPECTED: Duration = Duration::from_millis(300);
const EXPECTED_EACH: Duration = Duration::from_millis(300);
/// Host time that calls must add up to before GPUs are brought up that the configuration does not name: the driver
/// keeps one core busy for as long as [`EXPECTED`], and a process that ends meanwhile waits for the driver. With an H100
/// a CG of order 4000 took 0.37 s instead of 0.12 with 10 ms.
const WORTH: Duration = Duration::from_millis(100);
/// How long a call that the host BLAS lacks waits for a device.
const NO_HOST: Duration = Duration::from_secs(2);
/// Stack of a start-up thread: enough for the driver and cuBLAS. Address space only; untouched pages cost no memory.
const STACK: usize = 8 << 20;

/// How long a call waits under `SEMCACHE_OFFLOAD=always`. The wait is bounded because a call from a library's
/// constructor holds the loader's lock, which the threads that bring devices up need.
const LONGEST: Duration = Duration::from_secs(30);

/// The runtime for a call; started now if the call is large enough to be worth it.
///
/// # Errors
/// Why the host must run the call.
pub(crate) fn for_call(call: &Call, must_run: bool) -> Result<&'static Runtime, WhyHost> {
    let config = init::config();
    let mut waited = false;
    loop {
        match PHASES.get() {
            Phase::Settled => return get().ok_or(WhyHost::NoDevice),
            Phase::Starting if waited => return Err(WhyHost::Starting),
            Phase::Cold if !must_run => weigh(config, call)?,
            _ => {}
        }
        match PHASES.claim() {
            Claim::Mine => {
                begin(config);
                continue;
            }
            // The calling thread is starting devices: the driver made this call.
            Claim::Inside => return Err(WhyHost::Starting),
            Claim::Inherited => {
                set_mode(Mode::Forked);
                return Err(WhyHost::Forked);
            }
            Claim::Theirs => {}
        }
        if PHASES.get() < Phase::Starting {
            PHASES.wait(Phase::Starting, None);
            continue;
        }
        waited = true;
        let patience = match config.offload {
            Offload::Always => LONGEST,
            _ if must_run => NO_HOST,
            _ => patience(config, call),
        };
        if !patience.is_zero() {
            let _spending = Spending::on(Spent::Starting);
            PHASES.wait(Phase::Settled, Some(Instant::now() + patience));
        }
    }
}

/// Starts the devices that the configuration names, unless that was begun.
pub(super) fn begin_now() {
    match PHASES.claim() {
        Claim::Mine => begin(init::config()),
        Claim::Inherited => set_mode(Mode::Forked),
        Claim::Inside | Claim::Theirs => {}
    }
}

/// The runtime on a machine given by the caller instead of the one that the configuration names.
pub fn start_on(backend: &'static dyn Backend) -> Option<&'static Runtime> {
    if PHASES.claim() == Claim::Mine {
        let config = init::config();
        super::fork::register();
        super::exit::register();
        publish(config, init::bring_up(config, backend));
    }
    get()
}

/// Whether the calls up to now are worth bringing devices up. Devices that the configuration names always are.
fn weigh(config: &Config, call: &Call) -> Result<(), WhyHost> {
    static SPENT: AtomicU64 = AtomicU64::new(0);
    if config.devices != Devices::Auto || config.offload != Offload::Auto {
        return Ok(());
    }
    let (host, _) = predicted(config, call)?;
    let spent = u64::try_from(host.as_nanos()).unwrap_or(u64::MAX);
    let before = SPENT.fetch_add(spent.min(1 << 60), Ordering::Relaxed);
    if u128::from(before) + host.as_nanos() >= WORTH.as_nanos() {
        Ok(())
    } else {
        Err(WhyHost::Small)
    }
}

/// How long the GPUs that the configuration names are expected to take until they can be used.
fn expected(config: &Config) -> Duration {
    let gpus = match &config.devices {
        Devices::Cuda(CudaSet::List(list)) => list.len(),
        // The driver lists a folder for each, before it is initialised.
        _ => std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(1, Iterator::count),
    };
    EXPECTED + EXPECTED_EACH * u32::try_from(gpus.clamp(1, MAX_DEVICES)).unwrap_or(1)
}

/// How long a call waits for devices: zero, or at most the predicted time of the call on the host.
fn patience(config: &Config, call: &Call) -> Duration {
    match predicted(config, call) {
        Ok((host, device)) if host > expected(config) + device => host,
        _ => Duration::ZERO,
    }
}

/// The predicted time of the call on the host, and on a device that holds none of its operands, before any device is
/// measured.
fn predicted(config: &Config, call: &Call) -> Result<(Duration, Duration), WhyHost> {
    // `OnceBox`, since no thread waits for its initialisation: in the child of a fork the initialising thread may not
    // exist.
    static MODEL: OnceBox<Policy> = OnceBox::new();
    // A signal handler that jumps out would leave the model locked, so signals are blocked.
    let _blocked = SignalsBlocked::new();
    let (problem, places) = match args::check(call) {
        Checked::Run(problem, places) => (problem, places),
        Checked::Bad => return Err(WhyHost::BadArgument),
        Checked::NoProduct | Checked::Host => return Err(WhyHost::Empty),
    };
    let model = MODEL.get_or_init(|| Box::new(policy(config, None)));
    let (host, device) = model.cold(&problem, &places);
    plain::set(Plain::new(host, false, 1));
    let time = |s: f64| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX / 4);
    Ok((time(host), time(device)))
}

/// Starts the devices that the configuration names. The caller has the claim: even if start-up panics the phase becomes
/// settled, so that other threads do not wait for ever; and no signal handler of the program may jump out.
fn begin(config: &'static Config) {
    let blocked = SignalsBlocked::new();
    let begun = catch_unwind(|| {
        if config.devices != Devices::None
            && valgrind::layers() > 0
            && !broken!("break-environment")
        {
            degrade(Degraded::Valgrind);
            say("semcache: this process runs under valgrind; computing on the host");
            return publish(config, None);
        }
        if config.devices != Devices::None {
            // Registered before start-up does anything that a fork or the end of the process could interrupt.
            super::fork::register();
            super::exit::register();
        }
        begin_devices(config);
    });
    if let Err(payload) = begun {
        failed_inside(payload);
        publish(config, None);
    }
    drop(blocked);
}

/// Reports a panic in start-up: a bug of semcache, which the program survives.
fn failed_inside(payload: Box<dyn Any + Send>) {
    // Dropping the payload could panic again, outside of `catch_unwind`.
    std::mem::forget(payload);
    degrade(Degraded::Internal);
    say("semcache: starting devices failed inside semcache; computing on the host");
}

fn begin_devices(config: &'static Config) {
    match &config.devices {
        Devices::None => publish(config, None),
        Devices::Sim(machine) => {
            let begun = trace::now();
            let cache = devices::simulated(config, machine).and_then(|b| init::bring_up(config, b));
            traced::step("simulated devices", begun);
            publish(config, cache);
        }
        Devices::Auto | Devices::Cuda(_) => {
            in_background(config, || devices::cuda(init::config()));
        }
    }
}

/// Opens a machine and brings its devices up on a background thread.
fn in_background(
    config: &'static Config,
    open: impl FnOnce() -> Option<&'static dyn Rising> + Send + 'static,
) {
    PHASES.advance(Phase::Starting);
    let started = spawn("semcache-start", move || {
        let risen = catch_unwind(AssertUnwindSafe(|| rise(config, open)));
        if let Err(payload) = risen {
            failed_inside(payload);
        }
        publish(config, None);
    });
    if let Err(e) = started {
        degrade(Degraded::NoDevices);
        say(&format!(
            "semcache: no thread to start devices ({e}); computing on the host"
        ));
        publish(config, None);
    }
}

/// What is done before a driver's libraries are loaded, on the background thread.
static AHEAD: OnceLock<fn()> = OnceLock::new();

/// Has `act` called once before a driver's libraries are loaded: the dynamic linker's lock is held for hundreds of milliseconds
/// then, and threads of the program that want it wait.
pub fn ahead_of_libraries(act: fn()) {
    let _ = AHEAD.set(act);
}

/// Whether the host BLAS leaves background threads a core each.
pub fn spares_cores() -> bool {
    init::config().without.uses(Heuristic::SpareCores)
}

/// The body of the background thread.
fn rise(config: &'static Config, open: impl FnOnce() -> Option<&'static dyn Rising>) {
    let busy = Busy::new();
    let begun = trace::now();
    if let Some(act) = AHEAD.get() {
        act();
    }
    traced::step("bindings of the host BLAS", begun);
    let begun = trace::now();
    let machine = open();
    traced::step("driver and list of GPUs", begun);
    let Some(machine) = machine else {
        return;
    };
    if ending::ending() {
        return;
    }
    let backend = machine.backend();
    let Some(cache) = init::bring_up(config, backend) else {
        return;
    };
    drop(busy);
    let outcome = bring_up(machine);
    if machine.staged() {
        degrade(Degraded::DmaSelfTest);
    }
    if let Err(why) = outcome
        && !ending::ending()
    {
        degrade(Degraded::NoDevices);
        say(&match backend.usable() {
            0 => format!("semcache: {why}; computing on the host"),
            n => format!(
                "semcache: {why}; using {n} of {} GPUs",
                backend.devices().len()
            ),
        });
    }
    if backend.usable() > 0 {
        // Registered once more, after the driver's libraries registered their exit handlers: the flush must run before
        // those.
        super::exit::register();
        semcache_fault::handler::settle();
        publish(config, Some(cache));
    }
}

/// Brings all devices up at the same time. The runtime is published when all are made or have failed: until the last context stands, the driver
/// holds up whatever a call asks of the first one, and the call would use that one only. Devices from the first one that fails on
/// are not used.
///
/// # Errors
/// Why that one failed.
fn bring_up(machine: &'static dyn Rising) -> Result<(), String> {
    let make = move |device| {
        // The end of the process waits for this thread.
        if ending::ending() {
            return Err("the process ends".into());
        }
        let _busy = Busy::new();
        let begun = trace::now();
        let made = machine.make(device);
        traced::step("context, cuBLAS and self-test", begun);
        made
    };
    let begin = |device| (device, spawn("semcache-up", move || make(device)));
    let all = 0..machine.backend().devices().len();
    let begun: Vec<_> = all.map(begin).collect();
    let mut outcome = Ok(());
    for (device, thread) in begun {
        let made = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|payload| {
                std::mem::forget(payload);
                degrade(Degraded::Internal);
                Err("bringing devices up failed inside semcache".into())
            }),
            Err(_) => make(device),
        };
        match made {
            Ok(()) if outcome.is_ok() => machine.admit(device),
            Ok(()) => machine.discard(device),
            Err(why) => outcome = outcome.and(Err(why)),
        }
    }
    outcome
}

/// The offload policy, with the rates of the file that the configuration names, or of the one that was measured on this machine.
fn policy(config: &Config, backend: Option<&'static dyn Backend>) -> Policy {
    let threads = init::host_threads();
    let devices = backend.map_or(&[][..], Backend::devices);
    let given = rates::given(config, devices);
    Policy::new(config, backend, threads, given.as_deref())
}

/// Makes the runtime visible, once, and ends start-up: later calls change nothing.
fn publish(config: &'static Config, cache: Option<&'static Cache>) {
    // With signals blocked no handler of the program can fork while this thread holds the lock.
    let blocked = SignalsBlocked::new();
    let policy = policy(config, cache.map(Cache::backend));
    {
        let _still = hold();
        let on = cache.is_some();
        // Threads that ask for eager mode after this point find the runtime; what was asked for earlier is applied
        // here.
        if let Some(cache) = cache {
            super::ungated::apply(cache);
        }
        let runtime = Runtime {
            config,
            cache,
            policy,
        };
        if RUNTIME.set(runtime).is_ok() {
            promote(if on { Mode::On } else { Mode::Off });
        }
    }
    drop(blocked);
    PHASES.advance(Phase::Settled);
}

/// Spawns a thread of start-up.
fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    /// Unregisters the thread, also when `run` panics.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            PHASES.leave();
        }
    }
    threads::spawn(name, STACK, move || {
        PHASES.enter();
        let _leave = Leave;
        run()
    })
}

#[cfg(test)]
mod tests;
