//! Stands in for `semcache_fault::handler`.

#![expect(unsafe_code, reason = "has the signatures of the real thing")]

use core::ffi::c_int;

/// The program's disposition of the runtime's signals; `None`: not one of them.
///
/// # Safety
/// As `sigaction`.
pub(super) unsafe fn virtual_sigaction(
    _signal: c_int,
    _new: *const libc::sigaction,
    _old: *mut libc::sigaction,
) -> Option<c_int> {
    None
}

/// A copy of a set without the runtime's signals.
///
/// # Safety
/// `set` is valid for reads.
pub(super) unsafe fn strip(set: *const libc::sigset_t) -> libc::sigset_t {
    // SAFETY: by the contract.
    let mut copy = unsafe { set.read() };
    // SAFETY: a valid set and two signals.
    unsafe {
        libc::sigdelset(&raw mut copy, libc::SIGSEGV);
        libc::sigdelset(&raw mut copy, libc::SIGBUS);
    }
    copy
}
