//! Whether a trace is written.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether events are recorded: one relaxed load.
#[inline]
#[must_use]
pub fn on() -> bool {
    ON.load(Relaxed)
}

/// Begins or ends recording.
pub(super) fn set(on: bool) {
    ON.store(on, Relaxed);
}
