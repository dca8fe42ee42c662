//! The end of the process, as the driver sees it.

#![expect(
    unsafe_code,
    reason = "registers a function for the end of the process"
)]

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The process ends, and the driver's own handler for that has run.
pub(crate) static ENDED: AtomicBool = AtomicBool::new(false);

/// As NVIDIA's driver does when it is initialised, and cuBLAS at its first kernel: from its handler on, which runs before
/// all that were registered earlier, its functions are not there any more, nor for threads that are in one.
pub(crate) fn end_with_process() {
    extern "C" fn end() {
        ENDED.store(true, SeqCst);
        // It takes about as long.
        std::thread::sleep(core::time::Duration::from_millis(20));
    }
    // SAFETY: a function of this library, which stays loaded.
    unsafe { libc::atexit(end) };
}
