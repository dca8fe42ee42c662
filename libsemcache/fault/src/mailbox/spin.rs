//! Spinning before sleeping, in posters and in the service thread.

#[cfg(not(loom))]
use crate::sync;
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};

/// How long each side spins before it sleeps: waking an idle CPU costs more than this.
#[cfg(not(loom))]
const SPIN: u64 = 40_000;

/// [`SPIN`] in nanoseconds once [`tune`] has found more than one CPU; 0 on one CPU, where spinning only delays the
/// thread that is waited for.
#[cfg(not(loom))]
static SPIN_NS: AtomicU64 = AtomicU64::new(SPIN);

/// Whether to look at the word again at once; the first call starts the clock.
#[cfg(not(loom))]
pub(super) fn keep_spinning(until: &mut Option<u64>) -> bool {
    let spin = SPIN_NS.load(Ordering::Relaxed);
    if spin == 0 {
        return false;
    }
    let until = *until.get_or_insert_with(|| sync::now_ns().saturating_add(spin));
    // Reading the clock costs as much as a few pauses; the caller reads the word again between two looks at the clock.
    for _ in 0..8 {
        sync::pause();
    }
    sync::now_ns() < until
}

/// The model does not spin: sleeping at once has more interleavings to check.
#[cfg(loom)]
pub(super) fn keep_spinning(_until: &mut Option<u64>) -> bool {
    false
}

/// Turns spinning off if the process has a single CPU.
#[cfg(not(loom))]
pub(crate) fn tune() {
    let alone = rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() == 1);
    SPIN_NS.store(if alone { 0 } else { SPIN }, Ordering::Relaxed);
}
