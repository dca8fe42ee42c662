//! No devices from now on, in a process that had some, or was about to, and lives on.

use std::time::Duration;

use super::init::{self, say};
use super::underway::{self, Underway};
use super::{Mode, mode, set_mode, start};
use crate::base::counters::{Degraded, degrade};
use crate::base::inside::inside;
use crate::base::masked::Masked;
use crate::host;

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
    let _masked = Masked::new();
    // None comes up any more.
    start::stop();
    let retiring = {
        // Neither a fork nor another thread's wish at the same moment.
        let _still = start::hold();
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
        return true;
    };
    if let Some(cache) = init::get().and_then(|r| r.cache)
        && let Err(error) = cache.flush_all()
    {
        log::error!("not everything came home: {error:?}");
    }
    host::pins::end();
    if degrade(why) {
        say(
            "semcache: the program takes descriptors of the GPUs' driver; calls go to the host from now on",
        );
    }
    true
}
