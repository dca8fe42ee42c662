//! Whether the signal handler is installed: what faults for a reason of its own ([`crate::probe`]) asks before.

use core::sync::atomic::{AtomicBool, Ordering};

pub(super) static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether [`install`](super::install) has succeeded.
#[must_use]
pub fn installed() -> bool {
    INSTALLED.load(Ordering::Acquire)
}
