//! `ioctl`: its structure may lie in a closed page; and a userfaultfd of the program's is refused memory that we watch
//! with ours, which is given up for it.
//!
//! As for other small structures it is asked again: after EFAULT and after EBUSY nothing has happened.

#![expect(
    unsafe_code,
    reason = "exports a libc function; follows the program's pointer"
)]

use core::ffi::{c_int, c_ulong, c_void};

use super::buffers::{during, one};
use super::real::{errno, real, set_errno};
use crate::core::{self as runtime, IoGuards};

/// Where a request's number has the size of its structure, and how wide that field is.
const SIZE: (u32, c_ulong) = (16, (1 << 14) - 1);
/// The largest structure of requests that are older than that field.
const OLD: usize = 256;

/// `UFFDIO_REGISTER`, and the beginning of its structure: `struct uffdio_range`.
const UFFDIO_REGISTER: c_ulong = 0xC020_AA00;
type Range = [u64; 2];

/// Variadic in C: the kernel takes one word more, whatever it means to the request.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, of: *mut c_void) -> c_int {
    type Ioctl = unsafe extern "C-unwind" fn(c_int, c_ulong, *mut c_void) -> c_int;
    let Some(real) = real!(ioctl: Ioctl) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    let before = errno();
    // SAFETY: the program's arguments, passed on.
    let result = unsafe { real(fd, request, of) };
    if result != -1 {
        return result;
    }
    let len = (request >> SIZE.0 & SIZE.1) as usize;
    let guards = match errno() {
        libc::EFAULT if runtime::any_protected() => one(of, len.max(OLD), true),
        libc::EBUSY if request == UFFDIO_REGISTER => {
            // SAFETY: the kernel has just read it.
            let [start, len] = unsafe { of.cast::<Range>().read_unaligned() };
            runtime::leave_to_userfaultfd(start as usize, len as usize);
            IoGuards::default()
        }
        _ => return result,
    };
    // Where it now succeeds, `errno` is what it was.
    set_errno(before);
    // SAFETY: as above.
    during(|| guards, || unsafe { real(fd, request, of) })
}
