//! Functions that make the kernel read or write a small structure of the program's: one may lie in a closed page where the
//! program keeps matrices and structures in the same pool.
//!
//! They are asked again after EFAULT, with the structure opened: nothing has happened then. So they cost nothing
//! otherwise. What has happened even so (a child waited for, a connection accepted) is not here, nor are paths and other
//! strings, which nobody keeps beside matrices.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::{c_char, c_int, c_uint};
use core::ptr;

use libc::{
    epoll_event, fd_set, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval, utsname,
};

use super::buffers::{buffer, during, named, several, whole};
use super::real::{errno, real, set_errno};
use crate::core::{self as runtime, IoGuards};

/// One line per function: its C declaration, what it returns on failure, and its structures.
macro_rules! small {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty, $failed:expr => $($structure:expr),+;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            let Some(real) = real!($name: unsafe extern "C-unwind" fn($($type),*) -> $result) else {
                set_errno(libc::ENOSYS);
                return $failed;
            };
            // SAFETY: the program's arguments, passed on.
            asked_again($failed, || several([$($structure),+]), || unsafe { real($($arg),*) })
        }
    )*};
}

/// Calls libc's function, and again with its structures open where the kernel could not reach them.
pub(super) fn asked_again<T: PartialEq>(
    failed: T,
    open: impl FnOnce() -> IoGuards,
    call: impl Fn() -> T,
) -> T {
    let before = errno();
    let result = call();
    if result != failed || errno() != libc::EFAULT || !runtime::any_protected() {
        return result;
    }
    // Where it now succeeds, `errno` is what it was.
    set_errno(before);
    during(open, call)
}

small! {
    fn stat(path: *const c_char, to: *mut libc::stat) -> c_int, -1 => whole(to);
    fn __xstat(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int, -1 => whole(to);
    fn stat64(path: *const c_char, to: *mut libc::stat64) -> c_int, -1 => whole(to);
    fn __xstat64(version: c_int, path: *const c_char, to: *mut libc::stat64) -> c_int, -1 => whole(to);
    fn lstat(path: *const c_char, to: *mut libc::stat) -> c_int, -1 => whole(to);
    fn __lxstat(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int, -1 => whole(to);
    fn lstat64(path: *const c_char, to: *mut libc::stat64) -> c_int, -1 => whole(to);
    fn __lxstat64(version: c_int, path: *const c_char, to: *mut libc::stat64) -> c_int, -1 => whole(to);
    fn fstat(fd: c_int, to: *mut libc::stat) -> c_int, -1 => whole(to);
    fn __fxstat(version: c_int, fd: c_int, to: *mut libc::stat) -> c_int, -1 => whole(to);
    fn fstatat(fd: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int, -1 => whole(to);
    fn __fxstatat(
        version: c_int, fd: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int
    ) -> c_int, -1 => whole(to);
    fn statfs(path: *const c_char, to: *mut libc::statfs) -> c_int, -1 => whole(to);
    fn fstatfs(fd: c_int, to: *mut libc::statfs) -> c_int, -1 => whole(to);
    fn fstat64(fd: c_int, to: *mut libc::stat64) -> c_int, -1 => whole(to);
    fn __fxstat64(version: c_int, fd: c_int, to: *mut libc::stat64) -> c_int, -1 => whole(to);
    fn fstatat64(fd: c_int, path: *const c_char, to: *mut libc::stat64, flags: c_int) -> c_int, -1 => whole(to);
    fn __fxstatat64(
        version: c_int, fd: c_int, path: *const c_char, to: *mut libc::stat64, flags: c_int
    ) -> c_int, -1 => whole(to);
    fn statfs64(path: *const c_char, to: *mut libc::statfs64) -> c_int, -1 => whole(to);
    fn fstatfs64(fd: c_int, to: *mut libc::statfs64) -> c_int, -1 => whole(to);
    fn statx(fd: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut libc::statx) -> c_int, -1 => whole(to);
    fn uname(to: *mut utsname) -> c_int, -1 => whole(to);
    fn readlink(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t, -1 => buffer(to, len, true);
    fn readlinkat(fd: c_int, path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t, -1 => buffer(to, len, true);
    fn getcwd(to: *mut c_char, len: size_t) -> *mut c_char, ptr::null_mut() => buffer(to, len, true);
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, to: *mut c_int) -> c_int, -1 =>
        buffer(to, 2 * size_of::<c_int>(), true);
    fn getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int, -1 =>
        buffer(to, named(len), true), whole(len);
    fn getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int, -1 =>
        buffer(to, named(len), true), whole(len);
    fn poll(of: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int, -1 =>
        buffer(of, (count as usize).saturating_mul(size_of::<pollfd>()), true);
    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval
    ) -> c_int, -1 => whole(read), whole(write),
        whole(except), whole(timeout);
    fn epoll_wait(fd: c_int, to: *mut epoll_event, count: c_int, timeout: c_int) -> c_int, -1 =>
        buffer(to, usize::try_from(count).unwrap_or(0) * size_of::<epoll_event>(), true);
}
