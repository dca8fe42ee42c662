//! Processes in which memory is used behind our back: results go home at once there, from the first sign of it on.

use std::sync::atomic::{AtomicU8, Ordering, fence};

use semcache_fault::handler::mask::Masked;

use super::init::{self, say};
use super::{Mode, mode};
use crate::base::counters::{Degraded, degrade};
use crate::cache::Cache;

/// Who uses memory so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The kernel, after the system call that asked for it (io_uring, asynchronous I/O).
    AsyncIo,
    /// Other processes of an MPI job, which copy from here and to here, and network devices.
    Mpi,
}

impl Why {
    const ALL: [Why; 2] = [Why::AsyncIo, Why::Mpi];

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What was seen, by [`Why::bit`].
static SEEN: AtomicU8 = AtomicU8::new(0);

/// Somebody does. Called before it happens, by a thread of the program's that holds no lock of a driver's.
pub fn switch(why: Why) {
    if SEEN.load(Ordering::Relaxed) & why.bit() != 0 {
        return;
    }
    SEEN.fetch_or(why.bit(), Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if mode() == Mode::On
        && let Some(cache) = init::get().and_then(|r| r.cache)
    {
        apply(cache, why);
    }
}

/// The runtime is there: what was seen before counts.
pub(crate) fn at_start(cache: &'static Cache) {
    fence(Ordering::SeqCst);
    let seen = SEEN.load(Ordering::SeqCst);
    for why in Why::ALL {
        if seen & why.bit() != 0 {
            apply(cache, why);
        }
    }
}

fn apply(cache: &'static Cache, why: Why) {
    // A handler that jumps out would leave the cache locked.
    let masked = Masked::new();
    let stopped = cache.stop_trapping();
    drop(masked);
    let news = stopped.unwrap_or_else(|e| {
        log::error!("results stay on devices: {e:?}");
        true
    });
    let (what, text) = match why {
        Why::AsyncIo => (Degraded::AsyncIo, "asynchronous I/O (io_uring, AIO)"),
        Why::Mpi => (Degraded::Mpi, "MPI"),
    };
    // Once for a job, not for each of its ranks.
    degrade(what);
    if news && super::ranks::of(&init::environment).is_none_or(|r| r.rank == 0) {
        say(&format!(
            "semcache: {text} is in use; results go home at once"
        ));
    }
}
