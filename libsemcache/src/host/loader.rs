#![expect(unsafe_code, reason = "asks the dynamic linker")]
//! The list of loaded objects (`dl_iterate_phdr`). Reading it takes the dynamic linker's lock of the list (`dl_load_write_lock`), which
//! glibc does not release in the child if another thread forks meanwhile; so a fork waits until no thread reads the list.

use core::ffi::{c_int, c_void};

use super::lock::Lock;
use crate::process::signals_blocked::SignalsBlocked;

static READING: Lock<()> = Lock::new(());

pub(super) fn lock_for_fork() -> &'static Lock<()> {
    &READING
}

/// The function that is called for each object; a return value other than 0 ends the walk.
pub type Visit =
    unsafe extern "C" fn(info: *mut libc::dl_phdr_info, size: usize, data: *mut c_void) -> c_int;

/// Calls `visit` for each loaded object, in load order.
///
/// # Safety
/// `visit` may be called with `data`; it does not call the dynamic linker, whose lock is held meanwhile.
pub unsafe fn objects(visit: Visit, data: *mut c_void) {
    // A signal handler of the program that runs on this thread could read the list too, and would wait for this thread.
    let _blocked = SignalsBlocked::new();
    let _reading = READING.lock();
    // SAFETY: the caller's.
    unsafe { libc::dl_iterate_phdr(Some(visit), data) };
}

/// How many objects have been loaded and unloaded since the process began.
#[must_use]
pub fn changes() -> (u64, u64) {
    unsafe extern "C" fn read(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record, and `out` is what `changes` passed.
        unsafe { *out.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut now = (0u64, 0u64);
    // SAFETY: the callback writes to `now`, which outlives the call.
    unsafe { objects(read, (&raw mut now).cast()) };
    now
}
