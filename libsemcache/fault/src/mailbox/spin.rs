//! Spinning before sleeping, in posters and in the service thread.

#[cfg(not(loom))]
use crate::sync;
#[cfg(not(loom))]
use core::sync::atomic::{AtomicBool, Ordering};

/// How long each side spins before it sleeps, in nanoseconds: waking an idle CPU costs more than this.
pub(super) const SPIN: u64 = 40_000;

/// How long an owner spins while the service thread works on its fault and on no other. Writing 2 MiB back takes 35 to 60
/// us on a link of 55 GB/s, which [`SPIN`] just misses, and the wake-up took another 40 us on a machine of which the host
/// BLAS's threads keep all CPUs awake (`bench/results/h100-grid.md`).
pub(super) const SPIN_ALONE: u64 = 200_000;

/// Whether the process has a single CPU, where spinning only delays the thread that is waited for ([`tune`]).
#[cfg(not(loom))]
static SINGLE: AtomicBool = AtomicBool::new(false);

/// Whether to look at the word again at once, until `spin` nanoseconds have passed since the first call.
#[cfg(not(loom))]
pub(super) fn keep_spinning(since: &mut Option<u64>, spin: u64) -> bool {
    if SINGLE.load(Ordering::Relaxed) {
        return false;
    }
    let until = since.get_or_insert_with(sync::now_ns).saturating_add(spin);
    // Reading the clock costs as much as a few pauses; the caller reads the word again between two looks at the clock.
    for _ in 0..8 {
        sync::pause();
    }
    sync::now_ns() < until
}

/// The model does not spin: sleeping at once has more interleavings to check.
#[cfg(loom)]
pub(super) fn keep_spinning(_since: &mut Option<u64>, _spin: u64) -> bool {
    false
}

/// Turns spinning off if the process has a single CPU.
#[cfg(not(loom))]
pub(crate) fn tune() {
    let single = rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() == 1);
    SINGLE.store(single, Ordering::Relaxed);
}
