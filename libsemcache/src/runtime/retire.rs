//! No devices from now on, in a process that had some and lives on.

use std::time::Duration;

use super::init::{self, say};
use super::{Mode, mode, set_mode, start, underway};
use crate::base::counters::{Degraded, degrade};
use crate::base::inside::inside;
use crate::base::masked::Masked;
use crate::host;

/// How long calls of other threads may go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives all devices up while they can still be asked for what they have: when this returns everything is home and open,
/// and calls go to the host. One line on stderr and an entry of the report's `degraded`.
///
/// The caller is about to do what the devices do not survive. In a handler that interrupted this thread in here nothing
/// can be done: the devices are lost then, and with them what only they have.
pub fn retire(why: Degraded) {
    if mode() != Mode::On || inside() || host::interrupted() {
        return;
    }
    let masked = Masked::new();
    {
        // Neither a fork nor another thread's wish at the same moment.
        let _still = start::hold();
        if mode() != Mode::On {
            return;
        }
        set_mode(Mode::Off);
    }
    underway::await_others(PATIENCE);
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
    drop(masked);
}
