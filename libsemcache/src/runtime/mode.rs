//! The mode of this process: whether BLAS calls may run on devices, from the process's start to its end.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{counted, present};
use crate::host;
use crate::process::{descriptors, loads};

/// Whether BLAS calls may run on devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Devices were not started yet.
    Cold = 0,
    /// Devices are in use.
    On = 1,
    /// There are no devices, or they are not wanted: every call runs on the host BLAS.
    Off = 2,
    /// The child of a process with devices: every call runs on the host BLAS.
    Forked = 3,
    /// The process is ending; all results were written back.
    Ended = 4,
}

static MODE: AtomicU8 = AtomicU8::new(Mode::Cold as u8);

/// The current mode.
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

/// Sets the first mode after [`Mode::Cold`], unless the process has forked or ended meanwhile.
pub(super) fn promote(to: Mode) {
    // An error means that the mode is no longer `Cold` and stays.
    let _ = MODE.compare_exchange(
        Mode::Cold as u8,
        to as u8,
        Ordering::SeqCst,
        Ordering::SeqCst,
    );
}

/// Called at the first BLAS call in a child that a bare system call (`fork`, `clone`) made, where no fork handler ran:
/// the child computes on the host. Other threads of the parent may have held any lock; data that they were changing is
/// as broken as in libc's own allocator.
#[cold]
fn orphan() {
    loads::alone();
    present::alone();
    descriptors::forget_all();
    host::after_fork_child();
    set_mode(Mode::Forked);
    host::forget_users();
    counted::child();
}
