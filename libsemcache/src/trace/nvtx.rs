//! NVTX, NVIDIA's annotation interface: where a tool (Nsight Systems, a library of one's own) is attached to the
//! process, each call is a range of the calling thread, and a call that goes to the host BLAS is a mark with the reason.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::process::signals_blocked::SignalsBlocked;

static ATTACHED: AtomicBool = AtomicBool::new(false);

/// A tool is attached: its library is loaded at the first range.
pub fn attach() {
    ATTACHED.store(true, Relaxed);
}

/// Whether a tool is attached: one relaxed load.
#[inline]
#[must_use]
pub fn attached() -> bool {
    ATTACHED.load(Relaxed)
}

/// Begins a range of the calling thread that the program has named.
pub(super) fn begin(name: &str) {
    let _blocked = SignalsBlocked::new();
    nvtx::range_push!("{name}");
}

/// Begins a range of the calling thread for a call of this routine with these sizes m, n and k.
pub(super) fn push(name: &str, [m, n, k]: [u32; 3]) {
    // The tool's code runs with locks of its own, which a signal handler that leaves by a jump would keep taken.
    let _blocked = SignalsBlocked::new();
    nvtx::range_push!("{name} {m} x {n} x {k}");
}

/// Ends the calling thread's innermost range.
pub(super) fn pop() {
    let _blocked = SignalsBlocked::new();
    nvtx::range_pop!();
}

/// Marks that a call of this routine goes to the host BLAS, and why.
pub fn mark(name: &str, why: &str) {
    let _blocked = SignalsBlocked::new();
    nvtx::mark!("{name} on the host BLAS: {why}");
}
