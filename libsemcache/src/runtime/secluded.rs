//! Whether the process has restricted its own system calls (seccomp).

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the process has restricted its system calls, or is about to.
pub(super) static SECLUDED: AtomicBool = AtomicBool::new(false);

/// Whether the process has restricted its system calls. All results were written back then, and the end of the process
/// has nothing left to do.
#[must_use]
pub fn is_secluded() -> bool {
    SECLUDED.load(Ordering::Relaxed)
}
