//! Switches the process to write-through for good, when code in the process accesses memory in ways that page
//! protection does not notice ([`go_write_through`]).
//!
//! Results are copied to the host before their calls return and inputs are sent at each call, as under
//! `SEMCACHE_GATE=eager`. The switch may be asked for at any time: before devices are started it costs an atomic store,
//! and the line on stderr comes when devices come into use, if ever.

use std::sync::atomic::{AtomicU64, Ordering};

use super::init::{self, say};
use super::mode::{Mode, mode};
use super::started::{get, hold};
use crate::base::config::Gate;
use crate::base::counters::{Degraded, degrade};
use crate::cache::Cache;
use crate::process::signals_blocked::SignalsBlocked;

/// The reasons for the switch, one bit each.
static WANTED: AtomicU64 = AtomicU64::new(0);
/// The reasons that were applied to the cache.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Ends page protection for the rest of the process: on return all results are written back and all pages are
/// accessible, and they stay so, whatever other threads do. One line on stderr and an entry of the report's `degraded`
/// per reason.
///
/// The caller holds no lock that a device's driver, or a thread that works for a device, might want.
pub fn go_write_through(why: Degraded) {
    if DONE.load(Ordering::Acquire) & bit(why) != 0 {
        return;
    }
    WANTED.fetch_or(bit(why), Ordering::SeqCst);
    // A child of fork and a process at its end have no data on devices.
    if matches!(mode(), Mode::Forked | Mode::Ended) {
        return;
    }
    // After this lock was held once, a runtime that was being published has seen `WANTED`, or is visible here.
    drop({
        let blocked = SignalsBlocked::new();
        let still = hold();
        (still, blocked)
    });
    if let Some(cache) = get().and_then(|r| r.cache) {
        apply(cache);
    }
}

/// Applies the reasons in `WANTED` to the cache.
pub(super) fn apply(cache: &Cache) {
    let wanted = WANTED.load(Ordering::SeqCst);
    if wanted & !DONE.load(Ordering::Acquire) == 0 {
        return;
    }
    if let Err(error) = cache.go_write_through() {
        log::error!("not everything could be opened: {error:?}");
    }
    if wanted & bit(Degraded::OtherCuda) != 0 {
        cache.unpin_for_good();
    }
    // Reading the environment and writing to the log take locks, so signals are blocked.
    let _blocked = SignalsBlocked::new();
    for &why in Degraded::ALL.iter().filter(|w| wanted & bit(**w) != 0) {
        // Under `SEMCACHE_GATE=eager` nothing is lost, so nothing is said; of an MPI job only rank 0 says it.
        let speaks = super::ranks::of(&init::environment).is_none_or(|r| r.rank == 0);
        if degrade(why) && speaks && init::config().gate != Gate::Eager {
            say(&format!(
                "semcache: {}; results are written back at once",
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
        Degraded::OtherCuda => "other code in the process uses CUDA",
        Degraded::AsyncIo => "asynchronous I/O (io_uring, AIO) is in use",
        Degraded::Mpi => "an MPI library is in use that is not known, or linked statically",
        _ => why.name(),
    }
}
