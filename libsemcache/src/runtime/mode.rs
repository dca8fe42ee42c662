//! What this process does with calls, from its start to its end.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::present;
use crate::host;
use crate::process::{descriptors, loads};

/// What this process does with calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Nothing was started yet.
    Cold = 0,
    /// Devices are in use.
    On = 1,
    /// No devices, or not wanted: the host runs everything.
    Off = 2,
    /// The child of a process with devices: the host runs everything.
    Forked = 3,
    /// The process is ending; everything was brought home.
    Ended = 4,
}

static MODE: AtomicU8 = AtomicU8::new(Mode::Cold as u8);

/// The mode now.
#[must_use]
pub fn mode() -> Mode {
    match MODE.load(Ordering::SeqCst) {
        0 => Mode::Cold,
        1 if semcache_fault::lineage::orphaned() => {
            orphan();
            Mode::Forked
        }
        1 => Mode::On,
        3 => Mode::Forked,
        4 => Mode::Ended,
        _ => Mode::Off,
    }
}

pub(crate) fn set_mode(mode: Mode) {
    MODE.store(mode as u8, Ordering::SeqCst);
}

/// The first mode after [`Mode::Cold`]: a process that forked or ended meanwhile keeps that.
pub(super) fn promote(to: Mode) {
    // Failure: that.
    let _ = MODE.compare_exchange(
        Mode::Cold as u8,
        to as u8,
        Ordering::SeqCst,
        Ordering::SeqCst,
    );
}

/// In a child that a bare system call made, when its first call shows: it computes on the host. Its parent's other
/// threads may have held any lock; what they were at is as broken as in libc's own allocator.
#[cold]
fn orphan() {
    loads::alone();
    present::alone();
    descriptors::forget_all();
    host::after_fork_child();
    set_mode(Mode::Forked);
    host::forget_users();
    crate::base::counters::reset();
}

/// Whether the process has restricted its system calls, or is about to.
pub(super) static SECLUDED: AtomicBool = AtomicBool::new(false);

/// Whether the process has restricted its system calls. Then everything is home, and its end has nothing left to do.
pub(super) fn is_secluded() -> bool {
    SECLUDED.load(Ordering::Relaxed)
}
