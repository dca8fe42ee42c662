//! Whether the process is about to exit: long operations whose result is not needed any more ask before they begin.

use core::sync::atomic::{AtomicBool, Ordering};

static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the process is about to exit: then no further device is started.
#[must_use]
pub fn ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Notes that the process is about to exit. Never undone.
pub fn end() {
    ENDING.store(true, Ordering::SeqCst);
}
