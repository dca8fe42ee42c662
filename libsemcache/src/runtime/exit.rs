//! The end of the process (exit): results are written back while threads and devices still exist; the report is written
//! last.
#![expect(unsafe_code, reason = "atexit")]

use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semcache_fault::arithmetic::Usual;
use semcache_fault::broken;

use crate::process::signals_blocked::SignalsBlocked;

use super::mode::{Mode, is_secluded, mode, set_mode};
use super::phase::stop;
use super::report::file::{is_main, publish};
use super::report::{self, Device, Report, VirtualTime};
use super::requests;
use super::started::get;
use super::{init, underway};
use crate::base::DeviceId;
use crate::base::counters::{self, COUNTERS, WhyHost};
use crate::blas::names;
use crate::device::api::Caps;

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

/// Writes the report if one was asked for. Called by the library's own destructor, after the program's destructors.
/// `more` are calls that other code counted: plain name, reason, number.
pub fn write_report(more: &[(String, WhyHost, u64)]) {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    if WRITTEN.swap(true, Ordering::Relaxed) {
        return;
    }
    // The report computes with times, on a thread where floating-point exceptions may be unmasked.
    let _usual = Usual::new();
    if !more.is_empty() && init::wants_trace() {
        // All calls were so small that no earlier one has read the configuration.
        init::config();
    }
    super::traced::end(more);
    // A process that was not asked for a report reads nothing else of its environment.
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
        devices: devices
            .into_iter()
            .flatten()
            .enumerate()
            .map(device)
            .collect(),
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
    let saved = i128::from(bytes.per_call)
        - i128::from(bytes.h2d)
        - i128::from(bytes.d2h)
        - i128::from(bytes.mapped);
    bytes.saved = i64::try_from(saved).unwrap_or(if saved < 0 { i64::MIN } else { i64::MAX });
    let faults = &mut report.counts.faults;
    let latency =
        |percent| semcache_fault::latency::percentile(percent).map_or(0.0, |ns| ns as f64 / 1e3);
    (faults.p50_us, faults.p99_us) = (latency(50.0), latency(99.0));
    publish(template, &report, is_main(config.main_pid, pid));
}

fn device((i, caps): (usize, &Caps)) -> Device {
    let did = counters::devices::on(DeviceId::at(i));
    let [kernels_ns, uploads_ns, write_backs_ns, peers_ns, end_ns] =
        did.in_virtual_time.all().map(|n| n.get());
    Device {
        name: caps.name.clone(),
        kind: caps.kind.to_owned(),
        memory: caps.memory,
        calls: did.calls.get(),
        tasks: did.tasks.get(),
        h2d: did.h2d.get(),
        d2h: did.d2h.get(),
        p2p: did.p2p.get(),
        virtual_time: VirtualTime {
            kernels_ns,
            uploads_ns,
            write_backs_ns,
            peers_ns,
            end_ns,
        },
        left_out: did.reasons(),
    }
}
