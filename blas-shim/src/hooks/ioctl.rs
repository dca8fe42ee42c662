//! Hook of `ioctl`. If the kernel returns EFAULT, the request's structure is made accessible and the call is repeated,
//! since a request that failed so has changed nothing. Before the program registers memory with a userfaultfd of its
//! own (`UFFDIO_REGISTER`), the newest contents of that memory are written back to the host and the runtime's own
//! userfaultfd is unregistered from it: the program guards that memory from then on.

#![expect(
    unsafe_code,
    reason = "exports a libc function; follows the program's pointer"
)]

use core::ffi::{c_int, c_long, c_ulong, c_void};

use super::buffers::{during, one};
use super::raw_syscall::call;
use super::real::{errno, real, set_errno};
use crate::core::{self as runtime, IoGuards};
use semcache::host::guards;

/// Position and mask of the field of a request's number that holds the size of its structure.
const SIZE: (u32, c_ulong) = (16, (1 << 14) - 1);
/// The largest structure of requests that are older than this field.
const OLD: usize = 256;

/// Requests to a userfaultfd, whose structures begin with a `struct uffdio_range`.
const UFFDIO_REGISTER: c_ulong = 0xC020_AA00;
const UFFDIO_UNREGISTER: c_ulong = 0x8010_AA01;
type Range = [u64; 2];

/// The address and length in a request's structure; `None` if the kernel cannot read the structure.
fn range(of: *mut c_void) -> Option<(usize, usize)> {
    let mut range: Range = [0; 2];
    let len = size_of::<Range>();
    let words = |at: *mut c_void| [at as usize, len];
    let (to, from) = (words((&raw mut range).cast()), words(of));
    // SAFETY: no conditions.
    let own = unsafe { libc::getpid() } as usize;
    // The kernel copies the structure, and returns an error where a load by this function would fault.
    let arguments = [own, to.as_ptr() as usize, 1, from.as_ptr() as usize, 1, 0];
    // SAFETY: one vector for the variable above, and one for the program's address, which the kernel checks.
    let read = unsafe { call(libc::SYS_process_vm_readv, arguments) };
    let [start, count] = range;
    (read == len as c_long).then_some((start as usize, count as usize))
}

/// Makes a request that registers pages with a userfaultfd of the program's, or unregisters them, and notes that the
/// pages are guarded or no longer guarded.
fn userfault(fd: c_int, request: c_ulong, of: *mut c_void, ask: impl Fn() -> c_int) -> c_int {
    let before = errno();
    let Some((start, len)) = range(of) else {
        set_errno(before);
        return ask();
    };
    let new = request == UFFDIO_REGISTER && guards::before_register(start, len, fd);
    let result = ask();
    let unguarded = if request == UFFDIO_REGISTER {
        new && result == -1
    } else {
        result != -1
    };
    if unguarded {
        let after = errno();
        guards::unwatch(start, len);
        set_errno(after);
    }
    result
}

/// Variadic in C: the kernel takes one word more, whose meaning depends on the request.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn ioctl(
    fd: c_int,
    request: c_ulong,
    of: *mut c_void,
) -> c_int {
    type Ioctl = unsafe extern "C-unwind" fn(c_int, c_ulong, *mut c_void) -> c_int;
    let Some(real) = real!(ioctl: Ioctl) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    // SAFETY: the program's arguments, passed on.
    let ask = || unsafe { real(fd, request, of) };
    let len = (request >> SIZE.0 & SIZE.1) as usize;
    let opened = || one(of, len.max(OLD), true);
    if matches!(request, UFFDIO_REGISTER | UFFDIO_UNREGISTER) {
        let guards = if runtime::any_protected() {
            opened()
        } else {
            IoGuards::default()
        };
        return during(|| guards, || userfault(fd, request, of, ask));
    }
    let before = errno();
    let result = ask();
    if result != -1 || errno() != libc::EFAULT || !runtime::any_protected() {
        return result;
    }
    // A request that succeeds at the first attempt leaves `errno` unchanged, so the second attempt starts with the old
    // value.
    set_errno(before);
    during(opened, ask)
}
