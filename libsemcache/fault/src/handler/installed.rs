//! Whether the fault handler is installed: asked by code that faults on purpose ([`crate::probe`]).

use core::sync::atomic::{AtomicBool, Ordering};

pub(super) static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether [`install`](super::install) has succeeded.
#[must_use]
pub fn installed() -> bool {
    INSTALLED.load(Ordering::Acquire)
}
