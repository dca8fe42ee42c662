//! Retires the devices of a process that goes on: from then on every call runs on the host BLAS.

use std::sync::atomic::Ordering;
use std::time::Duration;

use semcache_fault::broken;
use semcache_fault::handler::mask;

use super::init::say;
use super::mode::{Mode, mode, set_mode};
use super::phase::stop;
use super::requests;
use super::secluded::SECLUDED;
use super::started::{get, hold};
use super::underway::{self, Underway};
use crate::base::counters::{Degraded, WhyHost, degrade};
use crate::host::{self, heap};
use crate::process::driver_scope::in_driver_scope;
use crate::process::signals_blocked::SignalsBlocked;

/// How long retiring waits for other threads' calls on devices.
const PATIENCE: Duration = Duration::from_secs(10);

/// Retires all devices while their memory can still be read: on return all results are written back, all pages are
/// accessible, and calls run on the host BLAS. One line on stderr and an entry of the report's `degraded`. Returns
/// whether the process now has no devices in use.
///
/// The caller is about to do what the devices do not survive. In a signal handler that interrupted this thread inside
/// the runtime nothing can be done: the devices are lost then, and with them bytes that only they have.
pub fn retire(why: Degraded) -> bool {
    if matches!(mode(), Mode::Forked | Mode::Ended) || in_driver_scope() || host::interrupted() {
        return false;
    }
    if give_up() {
        let _blocked = SignalsBlocked::new();
        tell(why);
    }
    true
}

/// Writes everything back and stops the use of devices. `false` if another thread is doing that, or has done it.
fn give_up() -> bool {
    let _blocked = SignalsBlocked::new();
    // From here on no further device comes up.
    stop();
    requests::stop();
    let retiring = {
        // Under the lock no fork happens, and no second thread retires at the same moment.
        let _still = hold();
        let first = matches!(mode(), Mode::On | Mode::Cold);
        first.then(|| {
            let retiring = Underway::whatever();
            set_mode(Mode::Off);
            retiring
        })
    };
    // Waits for the calls on devices, and for a thread that is already retiring them.
    underway::await_others(PATIENCE);
    let Some(_retiring) = retiring else {
        return false;
    };
    if let Some(cache) = get().and_then(|r| r.cache) {
        if let Err(error) = cache.flush_all() {
            log::error!("not all results were written back: {error:?}");
        }
        cache.backend().read_times();
    }
    host::pins::end();
    true
}

fn tell(why: Degraded) {
    let what = match why {
        Degraded::Sandbox => "the program restricts its own system calls",
        _ => "the program takes descriptors of the GPUs' driver",
    };
    if degrade(why) {
        say(&format!(
            "semcache: {what}; calls go to the host from now on"
        ));
    }
}

/// Before the program restricts its own system calls (seccomp): from then on semcache makes no system call that the
/// program would not make without semcache. All results are written back and the devices retired, glibc serves large
/// allocations, and the report, if one was asked for, is written now. A process without devices gets none later; the
/// line on stderr that says so comes at its first call that might have used one.
pub fn sandbox() {
    if broken!("break-guards") || in_driver_scope() || host::interrupted() {
        return;
    }
    let had = mode() == Mode::On;
    SECLUDED.store(true, Ordering::SeqCst);
    if matches!(mode(), Mode::Cold | Mode::On) {
        give_up();
    }
    let blocked = SignalsBlocked::new();
    // From here on, freeing a block that devices had used no longer notifies the cache.
    host::forget_users();
    heap::close();
    if had {
        tell(Degraded::Sandbox);
    }
    super::exit::write_report();
    drop(blocked);
    mask::no_longer();
}

/// Refuses devices to calls in a process that has restricted its system calls.
///
/// # Errors
/// The process has restricted its system calls; one line on stderr says so the first time.
pub(super) fn secluded() -> Result<(), WhyHost> {
    if !SECLUDED.load(Ordering::Relaxed) {
        return Ok(());
    }
    tell(Degraded::Sandbox);
    Err(WhyHost::NoDevice)
}
