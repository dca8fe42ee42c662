//! The end of the process: from the driver's exit handler on, calls of the stand-in abort the process.

#![expect(
    unsafe_code,
    reason = "registers a function for the end of the process"
)]

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whether the process is ending and the driver's own exit handler has run.
pub(crate) static ENDED: AtomicBool = AtomicBool::new(false);

/// Registers the driver's exit handler, as NVIDIA's driver does when it is initialised, and cuBLAS at its first kernel.
/// The handler runs before all handlers that were registered earlier. From then on the driver's functions cannot be
/// called any more, and threads that are in one of them crash.
pub(crate) fn end_with_process() {
    extern "C" fn end() {
        ENDED.store(true, SeqCst);
        // NVIDIA's handler takes about this long.
        std::thread::sleep(core::time::Duration::from_millis(20));
    }
    // SAFETY: a function of this library, which stays loaded.
    unsafe { libc::atexit(end) };
}
