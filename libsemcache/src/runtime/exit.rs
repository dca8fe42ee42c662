//! The end of the process: results come home while threads and devices still exist; the report is written
//! last.
#![expect(unsafe_code, reason = "atexit")]

use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semcache_fault::arithmetic::Usual;
use semcache_fault::broken;

use crate::process::masked::Masked;

use super::mode::{Mode, is_secluded, mode, set_mode};
use super::phase::stop;
use super::report::file::{is_main, publish};
use super::report::{self, Device, Report};
use super::started::get;
use super::{init, underway};
use crate::base::counters::{self, COUNTERS, WhyHost};
use crate::blas::names;
use crate::device::api::Caps;

/// How long calls of other threads may go on when the process ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// Registers the flush: before devices come up, so that a process that ends meanwhile waits for the driver, again once
/// they are in use, after the driver's own handlers, and after each that its libraries register later ([`handler`]).
/// Handlers run newest first, so those that the program registered before see host memory that is all open, and later
/// ones fault as before.
pub(crate) fn register() {
    extern "C" fn end() {
        flush(core::ptr::null_mut());
    }
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { libc::atexit(end) };
}

/// What is to run when the process ends, before what a library of a driver's has just registered for that; none where no
/// devices are in use or coming up.
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
        // Off: devices that were given up, or are at this moment.
        Mode::Cold | Mode::On | Mode::Off => {}
    }
    stop();
    underway::await_others(PATIENCE);
    // No handler of the program may run on this thread now: on a closed page it would wait for what this thread brings
    // home.
    let _masked = Masked::new();
    if let Some(cache) = cache()
        && let Err(e) = cache.flush_all()
    {
        log::error!("at exit: {e:?}");
    }
    set_mode(Mode::Ended);
    // The devices' own end comes next: it takes all pins with it.
    crate::host::pins::end();
}

/// Writes the report if one was asked for. Called by the library's own destructor, after the program's.
/// `more` are calls that were counted elsewhere: plain name, reason, how many.
pub fn write_report(more: &[(String, WhyHost, u64)]) {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    if WRITTEN.swap(true, Ordering::Relaxed) {
        return;
    }
    // The report computes with times, on a thread that may have unmasked floating-point exceptions.
    let _usual = Usual::new();
    // A process that was not asked reads nothing else of its environment.
    if !init::wants_report() {
        return;
    }
    let config = init::config();
    let Some(template) = &config.report else {
        return;
    };
    let pid = rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs();
    let devices = get().and_then(|r| r.cache).map(|c| c.backend().devices());
    let mut report = Report {
        version: report::VERSION,
        pid,
        devices: devices.into_iter().flatten().map(device).collect(),
        calls: counters::calls(&names::all()),
        counts: COUNTERS.values(),
        degraded: counters::degraded()
            .iter()
            .map(|d| d.name().to_owned())
            .collect(),
    };
    for (name, why, calls) in more {
        report
            .calls
            .entry(name.clone())
            .or_default()
            .add_host(why.name(), *calls);
    }
    let bytes = &mut report.counts.bytes;
    bytes.saved = (bytes.per_call as i64) - (bytes.h2d as i64) - (bytes.d2h as i64);
    let faults = &mut report.counts.faults;
    let latency =
        |percent| semcache_fault::latency::percentile(percent).map_or(0.0, |ns| ns as f64 / 1e3);
    (faults.p50_us, faults.p99_us) = (latency(50.0), latency(99.0));
    publish(template, &report, is_main(config.main_pid, pid));
}

fn device(caps: &Caps) -> Device {
    Device {
        name: caps.name.clone(),
        kind: caps.kind.to_owned(),
        memory: caps.memory,
    }
}
