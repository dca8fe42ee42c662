//! The buffers of a system call: the memory that the kernel reads and writes through the call's arguments.

#![expect(unsafe_code, reason = "follows the program's pointers")]

use core::ffi::{c_int, c_uint};
use core::mem::ManuallyDrop;

use libc::{iovec, mmsghdr, msghdr, socklen_t};

use super::real::{errno, set_errno};
use crate::core::{Buffer, IoGuards, open_all};
use semcache_fault::{broken, cancel};

/// The most elements of a vector (`iovec`) that the kernel takes (`UIO_MAXIOV`); it refuses longer vectors.
const LONGEST: usize = 1024;

/// A buffer of `len` bytes, which the kernel writes if `written` is true.
pub(super) fn buffer<T>(at: *const T, len: usize, written: bool) -> Buffer {
    Buffer {
        addr: at as usize,
        len,
        written,
    }
}

/// A buffer that is a whole structure, which the kernel writes.
pub(super) fn whole<T>(at: *const T) -> Buffer {
    buffer(at, size_of::<T>(), true)
}

/// The length that a pointer argument points to, at most 4096.
pub(super) fn named(len: *const socklen_t) -> usize {
    // SAFETY: the program's argument; null is dealt with.
    unsafe { len.as_ref() }.map_or(0, |len| (*len as usize).min(4096))
}

/// Makes the pages of one buffer accessible until the returned guards are dropped.
pub(super) fn one<T>(at: *const T, len: usize, written: bool) -> IoGuards {
    several([buffer(at, len, written)])
}

/// Makes the pages of several buffers accessible until the returned guards are dropped.
pub(super) fn several<const N: usize>(buffers: [Buffer; N]) -> IoGuards {
    if broken!("break-io") {
        return IoGuards::default();
    }
    open_all(buffers)
}

/// Makes a call while the pages of its buffers are accessible. No destructor is pending during the call, so a thread
/// that is cancelled inside the call can be unwound. Writing results back to the pages and protecting the pages again
/// does not change `errno`: afterwards `errno` has the value that the call gave it.
pub(super) fn during<T>(open: impl FnOnce() -> IoGuards, call: impl FnOnce() -> T) -> T {
    let cancellation = cancel::deferred();
    let before = errno();
    let guards = ManuallyDrop::new(open());
    set_errno(before);
    cancellation.restore();
    let result = call();
    let after = errno();
    let cancellation = cancel::deferred();
    drop(ManuallyDrop::into_inner(guards));
    set_errno(after);
    cancellation.restore();
    result
}

/// Makes accessible: a vector (`iovec`), and the buffers that it lists.
pub(super) fn vector(of: *const iovec, count: c_int, written: bool) -> IoGuards {
    let mut guards = IoGuards::default();
    many(
        &mut guards,
        of,
        usize::try_from(count).unwrap_or(0),
        written,
    );
    guards
}

fn many(guards: &mut IoGuards, of: *const iovec, count: usize, written: bool) {
    if of.is_null() || count > LONGEST {
        return;
    }
    guards.add(buffer(of, count * size_of::<iovec>(), false));
    for index in 0..count {
        // SAFETY: the program's vector has that many elements.
        let each = unsafe { &*of.add(index) };
        guards.add(buffer(each.iov_base, each.iov_len, written));
    }
}

/// Makes accessible: a message's buffers, its address and its control data, and its header, which the kernel writes
/// when it receives a message.
pub(super) fn message(of: *const msghdr, written: bool) -> IoGuards {
    let mut guards = IoGuards::default();
    add_message(&mut guards, of, written);
    guards
}

fn add_message(guards: &mut IoGuards, of: *const msghdr, written: bool) {
    // SAFETY: the program's argument; it may be null, which the kernel then refuses.
    let Some(message) = (unsafe { of.as_ref() }) else {
        return;
    };
    guards.add(buffer(of, size_of::<msghdr>(), written));
    guards.add(buffer(
        message.msg_name,
        message.msg_namelen as usize,
        written,
    ));
    guards.add(buffer(message.msg_control, message.msg_controllen, written));
    many(guards, message.msg_iov, message.msg_iovlen, written);
}

/// Makes accessible what [`message`] does, for each of several messages, up to the number that the kernel sends at
/// once. When messages are sent, the kernel writes their headers, too: the number of bytes sent of each.
pub(super) fn messages(of: *const mmsghdr, count: c_uint, written: bool) -> IoGuards {
    let mut guards = IoGuards::default();
    if of.is_null() {
        return guards;
    }
    let count = (count as usize).min(LONGEST);
    guards.add(buffer(of, count * size_of::<mmsghdr>(), true));
    for index in 0..count {
        // SAFETY: the program's array has that many elements; no reference to its first field is kept.
        add_message(
            &mut guards,
            unsafe { &raw const (*of.add(index)).msg_hdr },
            written,
        );
    }
    guards
}

/// Makes accessible, for a copy between two processes: a vector of this process with its buffers, and the vector that
/// lists memory of the other process; the buffers of that vector, too, if the other process is this process.
pub(super) fn across(
    pid: libc::pid_t,
    local: (*const iovec, usize),
    remote: (*const iovec, usize),
    local_written: bool,
) -> IoGuards {
    let mut guards = IoGuards::default();
    many(&mut guards, local.0, local.1, local_written);
    if pid == rustix::process::getpid().as_raw_nonzero().get() {
        many(&mut guards, remote.0, remote.1, !local_written);
    } else if !remote.0.is_null() && remote.1 <= LONGEST {
        guards.add(buffer(remote.0, remote.1 * size_of::<iovec>(), false));
    }
    guards
}
