//! No devices from now on, in a process that had some, or was about to, and lives on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use semcache_fault::broken;
use semcache_fault::handler::mask;

use super::init::say;
use super::mode::{Mode, SECLUDED, mode, set_mode};
use super::phase::stop;
use super::started::{get, hold};
use super::underway::{self, Underway};
use crate::base::counters::{Degraded, WhyHost, degrade};
use crate::host::{self, heap};
use crate::process::inside::inside;
use crate::process::masked::Masked;

/// How long calls of other threads may go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives all devices up while they can still be asked for what they have: when this returns everything is home and open,
/// and calls go to the host. One line on stderr and an entry of the report's `degraded`. Whether there are none now.
///
/// The caller is about to do what the devices do not survive. In a handler that interrupted this thread in here nothing
/// can be done: the devices are lost then, and with them what only they have.
pub fn retire(why: Degraded) -> bool {
    if matches!(mode(), Mode::Forked | Mode::Ended) || inside() || host::interrupted() {
        return false;
    }
    if give_up() {
        let _masked = Masked::new();
        tell(why);
    }
    true
}

/// Gives the devices up. `false` if another thread is doing that, or has done it.
fn give_up() -> bool {
    let _masked = Masked::new();
    // None comes up any more.
    stop();
    let retiring = {
        // Neither a fork nor another thread's wish at the same moment.
        let _still = hold();
        let first = matches!(mode(), Mode::On | Mode::Cold);
        first.then(|| {
            let retiring = Underway::whatever();
            set_mode(Mode::Off);
            retiring
        })
    };
    // The calls under way, and whoever does this already.
    underway::await_others(PATIENCE);
    let Some(_retiring) = retiring else {
        return false;
    };
    if let Some(cache) = get().and_then(|r| r.cache)
        && let Err(error) = cache.flush_all()
    {
        log::error!("not everything came home: {error:?}");
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

/// Before the program restricts its own system calls: from then on nothing of ours makes a system call that the program
/// would not make without semcache. All results are brought home and the devices given up, glibc serves large
/// allocations, and the report, where one was asked for, is written now. A process that has no devices yet gets none;
/// the line on stderr that says so comes at its first call that might have used one.
pub fn sandbox() {
    if broken!("break-guards") || inside() || host::interrupted() {
        return;
    }
    let had = mode() == Mode::On;
    SECLUDED.store(true, Ordering::SeqCst);
    if matches!(mode(), Mode::Cold | Mode::On) {
        give_up();
    }
    let masked = Masked::new();
    // When a block that devices had used is freed, the cache is no longer asked.
    host::forget_users();
    heap::close();
    if had {
        tell(Degraded::Sandbox);
    }
    super::exit::write_report(&[]);
    drop(masked);
    mask::no_longer();
}

/// Refuses devices to calls in a process that has restricted its system calls.
///
/// # Errors
/// It has; one line on stderr says so the first time.
pub(super) fn secluded() -> Result<(), WhyHost> {
    if !SECLUDED.load(Ordering::Relaxed) {
        return Ok(());
    }
    tell(Degraded::Sandbox);
    Err(WhyHost::NoDevice)
}
