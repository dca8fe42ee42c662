//! The steps of start-up: reading the environment (configuration) at the first BLAS call, and building the cache over
//! devices once devices are there ([`super::start`]). A step may leave semcache with fewer features; none may fail the
//! program.

use std::sync::atomic::{AtomicU8, Ordering};

use once_cell::race::OnceBox;

use crate::process::signals_blocked::{SignalsBlocked, handlers_may_run};

use crate::base::DeviceId;
use crate::base::config::{Config, Gate as GateChoice, Offload, Pin, unknown_names};
use crate::base::counters::{Degraded, degrade, on_device};
use crate::blas::names;
use crate::cache::scan::Choice;
use crate::cache::{Cache, pins};
use crate::device::api::Backend;
use crate::device::traced::Traced;
use crate::host;
use crate::protect::{Gate, MprotectGate, WriteThroughGate, service};
use crate::trace;

/// Panels of a piece of a block that is page-locked at once: 64 MiB by default.
const PANELS_OF_A_PIECE: usize = 32;

/// The configuration, built by the first thread that needs it, or by several at once: no thread waits for another,
/// since in the child of a fork the other thread does not exist.
static CONFIG: OnceBox<Config> = OnceBox::new();
/// 0 = not read yet, 1 = calls below the floor go straight to the host BLAS, 2 = they do not.
static FLOOR_HOLDS: AtomicU8 = AtomicU8::new(0);

/// Writes one line to stderr with a system call, past the program's stdio buffers.
pub(crate) fn say(line: &str) {
    let text = format!("{line}\n");
    // If stderr is closed, the line is lost.
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

/// The parsed environment; each variable that was not understood gets one line on stderr, once.
pub fn config() -> &'static Config {
    if let Some(config) = CONFIG.get() {
        return config;
    }
    // A signal handler that jumps out would leave libc's environment locked, so signals are blocked.
    let _blocked = SignalsBlocked::new();
    let page = rustix::param::page_size();
    let (mut mine, mut warnings) = Config::parse(&environment, page);
    let present: Vec<String> = std::env::vars_os()
        .filter_map(|(k, _)| k.into_string().ok())
        .collect();
    warnings.extend(unknown_names(present.iter().map(String::as_str)));
    let unknown = names::unknown(&mine.disable).join(",");
    if !unknown.is_empty() {
        warnings.push(format!(
            "semcache: SEMCACHE_DISABLE={} is no routine that devices run (dgemm is one); ignored",
            unknown.escape_debug()
        ));
    }
    if secure() {
        mine.distrust_paths();
    }
    // Before the configuration is published, since its readers log; setting the logger twice does no harm.
    init_log(mine.log);
    // Before the configuration is published, so that the first call of every thread is in the trace.
    super::traced::begin(&mine);
    let mine = Box::new(mine);
    let at = &raw const *mine;
    let config = CONFIG.get_or_init(|| mine);
    if core::ptr::eq(config, at) {
        for w in warnings {
            say(&w);
        }
    }
    config
}

/// A variable of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]
#[must_use]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether the process has more rights than its user (set-user-ID and similar): the user must not choose files that it
/// reads, writes or loads.
#[expect(
    unsafe_code,
    reason = "getauxval has no safe wrapper that avoids libc's environment"
)]
pub(crate) fn secure() -> bool {
    // SAFETY: getauxval only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

struct StderrLog;

impl log::Log for StderrLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        say(&format!(
            "semcache: {}: {}",
            record.level().as_str().to_lowercase(),
            record.args()
        ));
    }
    fn flush(&self) {}
}

fn init_log(level: log::LevelFilter) {
    // This library links a private copy of `log`, so no other code can have set its logger.
    let _ = log::set_logger(&StderrLog);
    log::set_max_level(level);
}

/// Decides which allocations semcache owns, at the process's first allocation: only `SEMCACHE_OWN` is read.
pub fn configure_memory() {
    let own = environment(crate::base::config::OWN);
    let lookup = |name: &str| {
        if name == crate::base::config::OWN {
            own.clone()
        } else {
            None
        }
    };
    let (config, _) = Config::parse(&lookup, rustix::param::page_size());
    host::heap::configure(config.own);
    host::adopt::configure(config.own);
}

/// See [`super::has_floor`].
pub(crate) fn has_floor() -> bool {
    match FLOOR_HOLDS.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            let floor = config().offload != Offload::Always;
            FLOOR_HOLDS.store(if floor { 1 } else { 2 }, Ordering::Relaxed);
            floor
        }
    }
}

/// In the child of a fork: the trace, if one is asked for, begins anew.
pub(super) fn child() {
    if let Some(config) = CONFIG.get() {
        super::traced::child(config);
    }
}

/// Whether the environment names a destination for the report.
#[must_use]
pub(crate) fn wants_report() -> bool {
    environment(crate::base::config::REPORT).is_some()
}

/// Whether the environment names a destination for the trace.
#[must_use]
pub(crate) fn wants_trace() -> bool {
    environment(crate::base::config::TRACE).is_some()
}

/// Number of cores that the host BLAS computes with.
pub(crate) fn host_threads() -> usize {
    // `available_parallelism` respects the process's affinity and the quota of its control group.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    crate::blas::offload_policy::host_threads(&environment, cores)
}

/// Builds the cache over the devices; none if the thread that answers page faults cannot be started.
pub(crate) fn bring_up(
    config: &'static Config,
    backend: &'static dyn Backend,
) -> Option<&'static Cache> {
    if semcache_fault::handler::deferral::any_bare_handler() {
        // The program has a signal handler that the kernel calls directly, perhaps installed past the hooks of
        // `sigaction`.
        handlers_may_run(true);
    }
    let mut traps = config.gate != GateChoice::Eager;
    if traps && let Err(e) = semcache_fault::handler::install() {
        traps = false;
        degrade(Degraded::NoHandler);
        say(&format!(
            "semcache: cannot handle SIGSEGV ({e}); results are written back at once"
        ));
    }
    for (i, caps) in backend.devices().iter().enumerate() {
        let device = on_device(DeviceId::at(i));
        device.name.set(caps.name.as_bytes());
        device.kind.set(caps.kind.as_bytes());
        device.memory.set(caps.memory as u64);
    }
    let backend = if trace::on() {
        let names = backend.devices().iter().map(|caps| caps.name.clone());
        trace::devices(names.collect());
        Box::leak(Box::new(Traced::new(backend)))
    } else {
        backend
    };
    let gate: &'static dyn Gate = if traps {
        Box::leak(Box::new(MprotectGate::new()))
    } else {
        Box::leak(Box::new(WriteThroughGate))
    };
    // Whole panels: with small panels, as the suites have them, small blocks have several pieces, too.
    pins::set_piece(config.panel * PANELS_OF_A_PIECE);
    // Page-locking would fill memory that hollow devices never look at.
    pins::set_when(match config.sim.hollow {
        true => Pin::Off,
        false => config.pin,
    });
    let mut cache = Cache::new(backend, gate, config.panel, rustix::param::page_size())
        .with_peers(config.peers, config.joins)
        .with_heuristics(config.without)
        .with_turns(config.gate == GateChoice::Mixed);
    let scans = match config.gate {
        _ if !traps => Choice::Never,
        GateChoice::Auto | GateChoice::Mixed => Choice::ByUse,
        GateChoice::WpAsync => Choice::Always,
        GateChoice::Mprotect | GateChoice::Eager => Choice::Never,
    };
    if !cache.scan(scans) {
        degrade(Degraded::NoGate);
        say("semcache: the wp-async gate is not available; using mprotect");
    }
    let cache: &'static Cache = Box::leak(Box::new(cache));
    if traps && let Err(e) = service::spawn(cache) {
        degrade(Degraded::NoHandler);
        say(&format!(
            "semcache: no thread for faults ({e}); computing on the host"
        ));
        return None;
    }
    host::set_observer(cache);
    Some(cache)
}
