//! Stands in for the runtime until it is there: same names, every call goes to the host.
//!
//! With the feature `naive-core` calls are computed with plain loops, which is how the tests see that every
//! spelling and layout was decoded rightly.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

#[cfg(not(feature = "naive-core"))]
use semcache::blas::{Call, Outcome};

/// What the shim knows of a call beyond its arguments.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "for the runtime")]
pub(crate) struct Facts {
    /// No host BLAS has the routine: it must not be sent back.
    pub(crate) must_run: bool,
    /// Below the floor; it is here because one of its operands may be on a device.
    pub(crate) small: bool,
}

/// One if small calls go to the host unseen: `SEMCACHE_OFFLOAD` was read and is not `always`. The stubs read
/// it; [`has_floor`] sets it.
pub(crate) static FLOOR_HOLDS: AtomicU8 = AtomicU8::new(0);

/// Panels that are closed or read-only. The stubs read it.
pub(crate) static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// Whether small calls go to the host unseen.
pub(crate) fn has_floor() -> bool {
    if FLOOR_HOLDS.load(Ordering::Relaxed) == 0 {
        let always = std::env::var_os("SEMCACHE_OFFLOAD").is_some_and(|v| v == "always");
        FLOOR_HOLDS.store(1 + u8::from(always), Ordering::Relaxed);
    }
    FLOOR_HOLDS.load(Ordering::Relaxed) == 1
}

/// Whether any panel is closed or read-only.
#[inline]
pub(crate) fn any_protected() -> bool {
    PROTECTED.load(Ordering::Relaxed) != 0
}

/// Whether the byte at an address may be valid on a device.
#[inline]
pub(crate) fn is_tracked(_address: usize) -> bool {
    false
}

/// Runs a call on the devices if that pays.
#[cfg(not(feature = "naive-core"))]
pub(crate) fn call(_call: &Call, _facts: &Facts) -> Outcome {
    Outcome::Host
}

#[cfg(feature = "naive-core")]
pub(crate) use crate::naive::call;

/// Keeps the panels of a buffer open while it lives.
#[derive(Debug)]
pub(crate) struct IoGuard;

/// Makes a buffer accessible to the kernel.
pub(crate) fn open_for_io(_address: usize, _len: usize, _will_write: bool) -> IoGuard {
    IoGuard
}
