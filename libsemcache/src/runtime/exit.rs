//! The end of the process (exit): results are written back while threads and devices still exist; the report is written
//! last.
#![expect(unsafe_code, reason = "atexit")]

use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semcache_fault::arithmetic::Usual;
use semcache_fault::broken;

use crate::process::signals_blocked::SignalsBlocked;

use super::mode::{Mode, mode, set_mode};
use super::phase::stop;
use super::publish::publish;
use super::requests;
use super::secluded::is_secluded;
use super::started::get;
use super::{counted, init, underway};
use crate::base::config;
use crate::base::counters::{PAGE, PASSED, WhyHost};
use crate::blas::names;

/// How long the end of the process waits for other threads' calls on devices.
const PATIENCE: Duration = Duration::from_secs(10);

/// Registers the flush with `atexit`: before devices come up, so that a process that ends meanwhile waits for the
/// driver; again once devices are in use, after the driver's own exit handlers; and after each handler that the
/// driver's libraries register later ([`handler`]). Exit handlers run newest first: those that the program registered
/// before find all host memory accessible, and those that it registers later still fault and are served.
pub(crate) fn register() {
    extern "C" fn end() {
        flush(core::ptr::null_mut());
    }
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { libc::atexit(end) };
}

/// The flush, for the hook of a driver's library that has just registered an exit handler: registered after that one,
/// the flush runs before it. None if devices are neither in use nor coming up.
#[must_use]
pub fn handler() -> Option<unsafe extern "C" fn(*mut c_void)> {
    (matches!(mode(), Mode::Cold | Mode::On) && !broken!("break-ends")).then_some(flush)
}

extern "C" fn flush(_: *mut c_void) {
    let _usual = Usual::new();
    let cache = || get().and_then(|r| r.cache);
    match mode() {
        Mode::Forked | Mode::Ended => return,
        Mode::Off if cache().is_none() || is_secluded() => return,
        // Off: devices that were retired, or are being retired at this moment.
        Mode::Cold | Mode::On | Mode::Off => {}
    }
    stop();
    requests::stop();
    underway::await_others(PATIENCE);
    // With signals blocked no handler of the program runs on this thread: at an inaccessible page the handler would
    // wait for bytes that this very thread writes back.
    let _blocked = SignalsBlocked::new();
    if let Some(cache) = cache() {
        if let Err(e) = cache.flush_all() {
            log::error!("at exit: {e:?}");
        }
        cache.backend().read_times();
    }
    set_mode(Mode::Ended);
    // The devices' own end comes next and unpins all host memory.
    crate::host::pins::end();
}

static WRITTEN: AtomicBool = AtomicBool::new(false);

/// Before the process ends by `_exit`: the trace is written to its end, and the report as at an exit.
pub fn leave() {
    crate::trace::leave();
    // A child that shares its parent's memory (vfork) does not end the parent's counting; a signal handler may have interrupted
    // this thread in the runtime.
    if !is_secluded()
        && counted::is_own()
        && !crate::host::interrupted()
        && !WRITTEN.swap(true, Ordering::Relaxed)
    {
        let _blocked = SignalsBlocked::new();
        let _usual = Usual::new();
        publish_if_wanted();
    }
}

/// Ends the counting of this process, and writes the report if one was asked for. Called by the library's own destructor, after
/// the program's destructors.
pub fn write_report() {
    if WRITTEN.swap(true, Ordering::Relaxed) {
        return;
    }
    // The report computes with times, on a thread where floating-point exceptions may be unmasked.
    let _usual = Usual::new();
    let passed = passed();
    if !passed.is_empty() && init::wants_trace() {
        // All calls were so small that no earlier one has read the configuration.
        init::config();
    }
    super::traced::end(&passed);
    publish_if_wanted();
}

fn publish_if_wanted() {
    counted::end();
    // A process that was not asked for a report, or made no call and is not the first one, reads nothing else of its environment.
    let own = std::process::id();
    let first = init::environment(config::MAIN_PID).and_then(|pid| pid.parse().ok());
    let first = first.unwrap_or(own);
    if init::wants_report()
        && counted::writes(first == own)
        && let Some(template) = &init::config().report
    {
        publish(template, first);
    }
}

/// The calls that were passed to the host BLAS without a decision: plain name, reason, number.
fn passed() -> Vec<(&'static str, WhyHost, u64)> {
    let counted = PAGE.calls.all_passed(&PAGE.sites);
    let routines = names::all().into_iter().zip(counted);
    let all = routines.flat_map(|(name, counts)| {
        let of = move |(why, n): (&WhyHost, u64)| (name, *why, n);
        PASSED.iter().zip(counts).map(of)
    });
    all.filter(|(_, _, calls)| *calls > 0).collect()
}
