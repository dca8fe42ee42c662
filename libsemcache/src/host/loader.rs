#![expect(unsafe_code, reason = "asks the dynamic linker")]
//! The list of loaded objects. The loader's lock is taken to read it, which glibc does not give back in the child of a
//! fork by another thread; so a fork waits until nobody reads.

use core::ffi::{c_int, c_void};

use super::lock::Lock;
use crate::process::masked::Masked;

static READING: Lock<()> = Lock::new(());

pub(super) fn lock_for_fork() -> &'static Lock<()> {
    &READING
}

/// What is called for each object; it ends the walk by a value other than 0.
pub type Visit =
    unsafe extern "C" fn(info: *mut libc::dl_phdr_info, size: usize, data: *mut c_void) -> c_int;

/// Calls `visit` for each loaded object, in load order.
///
/// # Safety
/// `visit` may be called with `data`; it does not call the dynamic linker, whose lock is held meanwhile.
pub unsafe fn objects(visit: Visit, data: *mut c_void) {
    // A handler of the program could want the same.
    let _masked = Masked::new();
    let _reading = READING.lock();
    // SAFETY: the caller's.
    unsafe { libc::dl_iterate_phdr(Some(visit), data) };
}
