//! `dlclose`: code and static data may go.

#![expect(unsafe_code, reason = "exports a libc function")]

use core::ffi::{c_int, c_void};

use super::real::real;
use crate::sites;
use semcache::host::adopt;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dlclose(handle: *mut c_void) -> c_int {
    adopt::on_dlclose();
    // SAFETY: the program's argument.
    let result = unsafe { close(handle) };
    // The addresses of call sites may be those of other code from now on.
    sites::forget();
    result
}

/// libc's `dlclose`.
///
/// # Safety
/// A handle that was opened and not closed.
pub(crate) unsafe fn close(handle: *mut c_void) -> c_int {
    let real = real!(dlclose: unsafe extern "C-unwind" fn(*mut c_void) -> c_int);
    // SAFETY: the caller's.
    real.map_or(-1, |real| unsafe { real(handle) })
}
