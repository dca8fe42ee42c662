//! Hooks of `setrlimit` and its kin: a program that limits its address space must not find that the runtime's reserved
//! address range has used the limit up.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::{c_int, c_uint};

use super::buffers::{buffer, during, one, several, whole};
use super::pointers::{asked_again, failed};
use super::real::{real, set_errno};
use crate::core::any_protected;
use semcache::host::heap;
use semcache_fault::broken;

/// Returns the runtime's reserved address range to the system, beyond a share of the limit that is about to be set.
///
/// # Safety
/// `to` is null or valid for reads.
unsafe fn announce(resource: c_uint, to: *const libc::rlimit) {
    if resource == libc::RLIMIT_AS && !to.is_null() {
        // SAFETY: the program's argument.
        let limit = unsafe { (*to).rlim_cur };
        if limit != libc::RLIM_INFINITY {
            heap::limit_address_space(limit);
        }
    }
}

macro_rules! limits {
    ($($set:ident, $of:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set(resource: c_uint, to: *const libc::rlimit) -> c_int {
            let Some(real) = real!($set: unsafe extern "C" fn(c_uint, *const libc::rlimit) -> c_int)
            else {
                set_errno(libc::ENOSYS);
                return -1;
            };
            // SAFETY: the program's arguments.
            unsafe {
                announce(resource, to);
                asked_again(failed, || one(to, size_of::<libc::rlimit>(), false), || real(resource, to))
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $of(
            process: libc::pid_t, resource: c_uint, to: *const libc::rlimit, was: *mut libc::rlimit,
        ) -> c_int {
            type Of = unsafe extern "C" fn(
                libc::pid_t, c_uint, *const libc::rlimit, *mut libc::rlimit,
            ) -> c_int;
            let Some(real) = real!($of: Of) else {
                set_errno(libc::ENOSYS);
                return -1;
            };
            // SAFETY: the program's arguments.
            unsafe {
                if process == 0 || process == libc::getpid() {
                    announce(resource, to);
                }
                // The kernel sets the new limit before it fails to write the old one, so a second call would be too
                // late: the memory is made accessible before the call.
                if any_protected() && !broken!("break-look") {
                    during(|| several([buffer(to, size_of::<libc::rlimit>(), false), whole(was)]), || real(process, resource, to, was))
                } else {
                    real(process, resource, to, was)
                }
            }
        }
    )*};
}

limits! {
    setrlimit, prlimit;
    setrlimit64, prlimit64;
}
