//! Whether the process is on its way out: what takes long and is not needed any more looks here before it begins.

use core::sync::atomic::{AtomicBool, Ordering};

static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the process ends: no further device is brought up.
#[must_use]
pub fn ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Says that the process ends. Never taken back.
pub fn end() {
    ENDING.store(true, Ordering::SeqCst);
}
