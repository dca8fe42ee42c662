//! Hooks of I/O functions (`read`, `write`, `recv` and others), with which the kernel reads or writes the program's
//! buffers.
//!
//! The fault handler does not see the kernel's accesses: on an inaccessible page the kernel returns EFAULT, or moves
//! fewer bytes. So the panels of a buffer are made accessible before the call (results are written back first) and stay
//! accessible until the call is over. The guards are held without a destructor: a thread that is cancelled in the call
//! is unwound by force through this frame, in which no destructor may be pending.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{
    FILE, iovec, mmsghdr, mqd_t, msghdr, off_t, pid_t, sockaddr, socklen_t, ssize_t, timespec,
};

use super::buffers::{
    across, buffer, during, message, messages, named, one, several, vector, whole,
};
use super::real::{real, set_errno};
use crate::core::{self as runtime, IoGuards};

/// One line per function: its C declaration, its result if libc does not have it, the system call that takes the same
/// arguments, and its buffers.
macro_rules! io {
    ($(fn $name:ident $arguments:tt -> $result:ty, $failed:literal $(, $number:ident)?: $open:expr;)*) => {
        $(hook!($name $arguments -> $result, $failed: $open);)*

        /// The system calls of the table, by number.
        pub(super) const NUMBERED: &[c_long] = &[$($(libc::$number,)?)*];

        /// Makes the buffers of a system call accessible until the returned guards are dropped.
        pub(super) fn buffers(number: c_long, words: [usize; 6]) -> IoGuards {
            $($(if number == libc::$number {
                name!(words: $arguments);
                return $open;
            })?)*
            IoGuards::default()
        }
    };
}

macro_rules! hook {
    ($name:ident ($($arg:ident: $type:ty),* $(,)?) -> $result:ty, $failed:literal: $open:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            let Some(real) = real!($name: unsafe extern "C-unwind" fn($($type),*) -> $result) else {
                set_errno(libc::ENOSYS);
                return $failed;
            };
            // SAFETY: the program's arguments, passed on.
            let call = || unsafe { real($($arg),*) };
            if runtime::any_protected() {
                during(|| $open, call)
            } else {
                call()
            }
        }
    };
}

/// Names the argument words of a system call as the arguments of the libc function, with their types.
macro_rules! name {
    ($words:ident: ($($arg:ident: $type:ty),* $(,)?)) => {
        let mut words = $words.into_iter();
        $(let $arg = words.next().unwrap_or(0) as $type;)*
        let _ = ($($arg,)*);
    };
}

io! {
    fn read(fd: c_int, to: *mut c_void, len: usize) -> ssize_t, -1, SYS_read: one(to, len, true);
    fn __read_chk(fd: c_int, to: *mut c_void, len: usize, room: usize) -> ssize_t, -1:
        one(to, len, true);
    fn pread(fd: c_int, to: *mut c_void, len: usize, at: off_t) -> ssize_t, -1: one(to, len, true);
    fn pread64(fd: c_int, to: *mut c_void, len: usize, at: off_t) -> ssize_t, -1, SYS_pread64:
        one(to, len, true);
    fn __pread_chk(fd: c_int, to: *mut c_void, len: usize, at: off_t, room: usize) -> ssize_t, -1:
        one(to, len, true);
    fn __pread64_chk(fd: c_int, to: *mut c_void, len: usize, at: off_t, room: usize) -> ssize_t, -1:
        one(to, len, true);
    fn write(fd: c_int, from: *const c_void, len: usize) -> ssize_t, -1, SYS_write: one(from, len, false);
    fn pwrite(fd: c_int, from: *const c_void, len: usize, at: off_t) -> ssize_t, -1:
        one(from, len, false);
    fn pwrite64(fd: c_int, from: *const c_void, len: usize, at: off_t) -> ssize_t, -1, SYS_pwrite64:
        one(from, len, false);
    fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t, -1, SYS_readv: vector(to, count, true);
    fn preadv(fd: c_int, to: *const iovec, count: c_int, at: off_t) -> ssize_t, -1, SYS_preadv:
        vector(to, count, true);
    fn preadv64(fd: c_int, to: *const iovec, count: c_int, at: off_t) -> ssize_t, -1:
        vector(to, count, true);
    fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t, -1, SYS_writev:
        vector(from, count, false);
    fn pwritev(fd: c_int, from: *const iovec, count: c_int, at: off_t) -> ssize_t, -1, SYS_pwritev:
        vector(from, count, false);
    fn pwritev64(fd: c_int, from: *const iovec, count: c_int, at: off_t) -> ssize_t, -1:
        vector(from, count, false);
    fn recv(fd: c_int, to: *mut c_void, len: usize, flags: c_int) -> ssize_t, -1:
        one(to, len, true);
    fn __recv_chk(fd: c_int, to: *mut c_void, len: usize, room: usize, flags: c_int) -> ssize_t, -1:
        one(to, len, true);
    fn recvfrom(
        fd: c_int, to: *mut c_void, len: usize, flags: c_int,
        from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t, -1, SYS_recvfrom: several([buffer(to, len, true), buffer(from, named(from_len), true), whole(from_len)]);
    fn __recvfrom_chk(
        fd: c_int, to: *mut c_void, len: usize, room: usize, flags: c_int,
        from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t, -1: several([buffer(to, len, true), buffer(from, named(from_len), true), whole(from_len)]);
    fn recvmsg(fd: c_int, to: *mut msghdr, flags: c_int) -> ssize_t, -1, SYS_recvmsg: message(to, true);
    fn getsockopt(fd: c_int, level: c_int, name: c_int, to: *mut c_void, len: *mut socklen_t) -> c_int, -1, SYS_getsockopt:
        several([buffer(to, named(len), true), whole(len)]);
    fn send(fd: c_int, from: *const c_void, len: usize, flags: c_int) -> ssize_t, -1:
        one(from, len, false);
    fn sendto(
        fd: c_int, from: *const c_void, len: usize, flags: c_int,
        to: *const sockaddr, to_len: socklen_t
    ) -> ssize_t, -1, SYS_sendto: several([buffer(from, len, false), buffer(to, to_len as usize, false)]);
    fn sendmsg(fd: c_int, from: *const msghdr, flags: c_int) -> ssize_t, -1, SYS_sendmsg: message(from, false);
    fn preadv2(fd: c_int, to: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, -1, SYS_preadv2:
        vector(to, count, true);
    fn preadv64v2(fd: c_int, to: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, -1:
        vector(to, count, true);
    fn pwritev2(fd: c_int, from: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, -1, SYS_pwritev2:
        vector(from, count, false);
    fn pwritev64v2(fd: c_int, from: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, -1:
        vector(from, count, false);
    fn recvmmsg(
        fd: c_int, to: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int, -1, SYS_recvmmsg: {
        let mut guards = messages(to, count, true);
        guards.add(whole(timeout));
        guards
    };
    fn sendmmsg(fd: c_int, from: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int, -1, SYS_sendmmsg:
        messages(from, count, false);
    fn vmsplice(fd: c_int, pages: *const iovec, count: usize, flags: c_uint) -> ssize_t, -1, SYS_vmsplice:
        vector(pages, c_int::try_from(count).unwrap_or(0), false);
    fn process_vm_readv(
        pid: pid_t, local: *const iovec, locals: u64, remote: *const iovec, remotes: u64, flags: u64
    ) -> ssize_t, -1, SYS_process_vm_readv: across(pid, (local, locals as usize), (remote, remotes as usize), true);
    fn process_vm_writev(
        pid: pid_t, local: *const iovec, locals: u64, remote: *const iovec, remotes: u64, flags: u64
    ) -> ssize_t, -1, SYS_process_vm_writev: across(pid, (local, locals as usize), (remote, remotes as usize), false);
    fn getdents64(fd: c_int, to: *mut c_void, len: usize) -> ssize_t, -1, SYS_getdents64:
        one(to, len, true);
    fn getrandom(to: *mut c_void, len: usize, flags: c_uint) -> ssize_t, -1, SYS_getrandom: one(to, len, true);
    fn getentropy(to: *mut c_void, len: usize) -> c_int, -1: one(to, len, true);
    fn msgsnd(queue: c_int, from: *const c_void, len: usize, flags: c_int) -> c_int, -1, SYS_msgsnd:
        one(from, len.saturating_add(size_of::<c_long>()), false);
    fn msgrcv(queue: c_int, to: *mut c_void, len: usize, kind: c_long, flags: c_int) -> ssize_t, -1, SYS_msgrcv:
        one(to, len.saturating_add(size_of::<c_long>()), true);
    fn mq_send(queue: mqd_t, from: *const c_char, len: usize, priority: c_uint) -> c_int, -1:
        one(from, len, false);
    fn mq_timedsend(
        queue: mqd_t, from: *const c_char, len: usize, priority: c_uint, until: *const timespec
    ) -> c_int, -1, SYS_mq_timedsend: one(from, len, false);
    fn mq_receive(queue: mqd_t, to: *mut c_char, len: usize, priority: *mut c_uint) -> ssize_t, -1:
        several([buffer(to, len, true), whole(priority)]);
    fn mq_timedreceive(
        queue: mqd_t, to: *mut c_char, len: usize, priority: *mut c_uint, until: *const timespec
    ) -> ssize_t, -1, SYS_mq_timedreceive: several([buffer(to, len, true), whole(priority)]);
    fn mlock(at: *const c_void, len: usize) -> c_int, -1, SYS_mlock: one(at, len, true);
    fn mlock2(at: *const c_void, len: usize, flags: c_uint) -> c_int, -1, SYS_mlock2: one(at, len, true);
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

/// libc's function ends the process if the kernel returns EFAULT, so the buffer is always made accessible before. Older
/// glibc versions do not have the function: then this hook reads the same bytes from the kernel.
#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random_buf(to: *mut c_void, len: usize) {
    let guards = if runtime::any_protected() {
        one(to, len, true)
    } else {
        runtime::IoGuards::default()
    };
    match real!(arc4random_buf: unsafe extern "C" fn(*mut c_void, usize)) {
        // SAFETY: the program's arguments, passed on.
        Some(real) => unsafe { real(to, len) },
        None => {
            let mut done = 0;
            while done < len {
                // SAFETY: inside the program's buffer.
                let n = unsafe { libc::getrandom(to.byte_add(done), len - done, 0) };
                done += usize::try_from(n).unwrap_or(0);
            }
        }
    }
    drop(guards);
}
