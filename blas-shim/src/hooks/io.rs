//! Functions that make the kernel read or write the program's buffers.
//!
//! The kernel does not take our faults: it answers EFAULT, or moves fewer bytes. So the panels of a buffer
//! are opened before and kept open until the call is over. The guards are held without a destructor (a
//! cancelled thread is unwound by force through this frame, past nothing that wants to run).

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::{c_int, c_void};
use core::iter;
use core::mem::ManuallyDrop;

use libc::{FILE, iovec, msghdr, off_t, sockaddr, socklen_t, ssize_t};

use super::real::{errno, real, set_errno};
use crate::core::{self as runtime, IoGuards};

/// Opens one buffer.
fn one(buffer: *const c_void, len: usize, written: bool) -> IoGuards {
    runtime::open_all(iter::once((buffer as usize, len)), written)
}

/// Opens the buffers of a vector.
fn vector(buffers: *const iovec, count: c_int, written: bool) -> IoGuards {
    many(buffers, usize::try_from(count).unwrap_or(0), written)
}

/// Opens the buffers of a message.
fn message(message: *const msghdr, written: bool) -> IoGuards {
    // SAFETY: the program's argument; it may be null, which the kernel then refuses.
    match unsafe { message.as_ref() } {
        Some(message) => many(message.msg_iov, message.msg_iovlen, written),
        None => IoGuards::default(),
    }
}

fn many(buffers: *const iovec, count: usize, written: bool) -> IoGuards {
    // The kernel refuses longer vectors (UIO_MAXIOV).
    if buffers.is_null() || count > 1024 {
        return IoGuards::default();
    }
    let each = (0..count).map(|index| {
        // SAFETY: the program's vector has that many elements.
        let buffer = unsafe { &*buffers.add(index) };
        (buffer.iov_base as usize, buffer.iov_len)
    });
    runtime::open_all(each, written)
}

/// One line per function: its C declaration, what it returns if libc has none, and its buffers.
macro_rules! io {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty, $failed:literal: $open:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            let Some(real) = real!($name: unsafe extern "C-unwind" fn($($type),*) -> $result) else {
                set_errno(libc::ENOSYS);
                return $failed;
            };
            if !runtime::any_protected() {
                // SAFETY: the program's arguments, passed on.
                return unsafe { real($($arg),*) };
            }
            let guards = ManuallyDrop::new($open);
            // SAFETY: the program's arguments, passed on.
            let result = unsafe { real($($arg),*) };
            let after = errno();
            drop(ManuallyDrop::into_inner(guards));
            set_errno(after);
            result
        }
    )*};
}

io! {
    fn read(fd: c_int, to: *mut c_void, len: usize) -> ssize_t, -1: one(to, len, true);
    fn __read_chk(fd: c_int, to: *mut c_void, len: usize, room: usize) -> ssize_t, -1:
        one(to, len, true);
    fn pread(fd: c_int, to: *mut c_void, len: usize, at: off_t) -> ssize_t, -1: one(to, len, true);
    fn pread64(fd: c_int, to: *mut c_void, len: usize, at: off_t) -> ssize_t, -1:
        one(to, len, true);
    fn __pread_chk(fd: c_int, to: *mut c_void, len: usize, at: off_t, room: usize) -> ssize_t, -1:
        one(to, len, true);
    fn __pread64_chk(fd: c_int, to: *mut c_void, len: usize, at: off_t, room: usize) -> ssize_t, -1:
        one(to, len, true);
    fn write(fd: c_int, from: *const c_void, len: usize) -> ssize_t, -1: one(from, len, false);
    fn pwrite(fd: c_int, from: *const c_void, len: usize, at: off_t) -> ssize_t, -1:
        one(from, len, false);
    fn pwrite64(fd: c_int, from: *const c_void, len: usize, at: off_t) -> ssize_t, -1:
        one(from, len, false);
    fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t, -1: vector(to, count, true);
    fn preadv(fd: c_int, to: *const iovec, count: c_int, at: off_t) -> ssize_t, -1:
        vector(to, count, true);
    fn preadv64(fd: c_int, to: *const iovec, count: c_int, at: off_t) -> ssize_t, -1:
        vector(to, count, true);
    fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t, -1:
        vector(from, count, false);
    fn pwritev(fd: c_int, from: *const iovec, count: c_int, at: off_t) -> ssize_t, -1:
        vector(from, count, false);
    fn pwritev64(fd: c_int, from: *const iovec, count: c_int, at: off_t) -> ssize_t, -1:
        vector(from, count, false);
    fn recv(fd: c_int, to: *mut c_void, len: usize, flags: c_int) -> ssize_t, -1:
        one(to, len, true);
    fn __recv_chk(fd: c_int, to: *mut c_void, len: usize, room: usize, flags: c_int) -> ssize_t, -1:
        one(to, len, true);
    fn recvfrom(
        fd: c_int, to: *mut c_void, len: usize, flags: c_int,
        address: *mut sockaddr, address_len: *mut socklen_t
    ) -> ssize_t, -1: one(to, len, true);
    fn __recvfrom_chk(
        fd: c_int, to: *mut c_void, len: usize, room: usize, flags: c_int,
        address: *mut sockaddr, address_len: *mut socklen_t
    ) -> ssize_t, -1: one(to, len, true);
    fn recvmsg(fd: c_int, to: *mut msghdr, flags: c_int) -> ssize_t, -1: message(to, true);
    fn send(fd: c_int, from: *const c_void, len: usize, flags: c_int) -> ssize_t, -1:
        one(from, len, false);
    fn sendto(
        fd: c_int, from: *const c_void, len: usize, flags: c_int,
        address: *const sockaddr, address_len: socklen_t
    ) -> ssize_t, -1: one(from, len, false);
    fn sendmsg(fd: c_int, from: *const msghdr, flags: c_int) -> ssize_t, -1: message(from, false);
    fn fread(to: *mut c_void, size: usize, n: usize, file: *mut FILE) -> usize, 0:
        one(to, size.saturating_mul(n), true);
    fn fread_unlocked(to: *mut c_void, size: usize, n: usize, file: *mut FILE) -> usize, 0:
        one(to, size.saturating_mul(n), true);
    fn __fread_chk(to: *mut c_void, room: usize, size: usize, n: usize, file: *mut FILE) -> usize, 0:
        one(to, size.saturating_mul(n), true);
    fn __fread_unlocked_chk(
        to: *mut c_void, room: usize, size: usize, n: usize, file: *mut FILE
    ) -> usize, 0: one(to, size.saturating_mul(n), true);
    fn fwrite(from: *const c_void, size: usize, n: usize, file: *mut FILE) -> usize, 0:
        one(from, size.saturating_mul(n), false);
    fn fwrite_unlocked(from: *const c_void, size: usize, n: usize, file: *mut FILE) -> usize, 0:
        one(from, size.saturating_mul(n), false);
}
