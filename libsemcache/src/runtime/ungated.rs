//! Without a gate from now on: what somebody in the process does could be noticed by none ([`go_eager`]).
//!
//! Results go home before their calls return and inputs are sent at each call, as under `SEMCACHE_GATE=eager`. It may
//! be asked for at any time: before anything was started it costs an atomic store, and the line on stderr is said when
//! devices come into use, if ever.

use std::sync::atomic::{AtomicU64, Ordering};

use super::init::{self, say};
use super::mode::{Mode, mode};
use super::started::{get, hold};
use crate::base::config::Gate;
use crate::base::counters::{Degraded, degrade};
use crate::cache::Cache;
use crate::process::masked::Masked;

/// Why, one bit for each reason.
static WANTED: AtomicU64 = AtomicU64::new(0);
/// The reasons that the cache was told of.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Gives page protection up for the rest of the process: everything is home and open when this returns, and stays so,
/// whatever other threads do. One line on stderr and an entry of the report's `degraded` per reason.
///
/// The caller holds no lock that a device's driver, or a thread that works for one, might want.
pub fn go_eager(why: Degraded) {
    if DONE.load(Ordering::Acquire) & bit(why) != 0 {
        return;
    }
    WANTED.fetch_or(bit(why), Ordering::SeqCst);
    // A child of fork and a process at its end have nothing on devices.
    if matches!(mode(), Mode::Forked | Mode::Ended) {
        return;
    }
    // A runtime that appears at this moment has seen the wish, or is there now.
    drop({
        let masked = Masked::new();
        let still = hold();
        (still, masked)
    });
    if let Some(cache) = get().and_then(|r| r.cache) {
        apply(cache);
    }
}

/// Tells the cache what was asked for.
pub(super) fn apply(cache: &Cache) {
    let wanted = WANTED.load(Ordering::SeqCst);
    if wanted & !DONE.load(Ordering::Acquire) == 0 {
        return;
    }
    if let Err(error) = cache.go_eager() {
        log::error!("not everything could be opened: {error:?}");
    }
    if wanted & bit(Degraded::OtherCuda) != 0 {
        cache.unpin_for_good();
    }
    // The environment and the log have locks.
    let _masked = Masked::new();
    for &why in Degraded::ALL.iter().filter(|w| wanted & bit(**w) != 0) {
        // Who asked for eager anyway has lost nothing; of an MPI job one rank says it.
        let speaks = super::ranks::of(&init::environment).is_none_or(|r| r.rank == 0);
        if degrade(why) && speaks && init::config().gate != Gate::Eager {
            say(&format!(
                "semcache: {}; results go home at once",
                describe(why)
            ));
        }
    }
    DONE.fetch_or(wanted, Ordering::AcqRel);
}

fn bit(why: Degraded) -> u64 {
    1 << (why as u8)
}

fn describe(why: Degraded) -> &'static str {
    match why {
        Degraded::OtherCuda => "somebody else in the process uses CUDA",
        Degraded::AsyncIo => "asynchronous I/O (io_uring, AIO) is in use",
        Degraded::Mpi => "MPI is in use",
        _ => why.name(),
    }
}
