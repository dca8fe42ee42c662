//! Hooks that protect the file descriptors of a device's driver, in a program that may close any number or take it for
//! a file of its own.
//!
//! A descriptor that the driver opens is moved to a high number, above the small tables of programs, and noted. Closing
//! such a number fails as if it were not open, and closing a range leaves it out. Before the program duplicates a
//! descriptor onto such a number, the runtime stops using the devices, so that the program gets the number.
//!
//! Linux refuses `dup2` and `dup3` with EBUSY onto a number under which another thread is opening a descriptor at that
//! moment. A program whose own threads open nothing never sees this error without semcache; with it, the other thread
//! may be one of the runtime's. So the call is repeated. A descriptor that the runtime opens for itself has a low number
//! for some microseconds more, until it is moved: `dup2` and closing wait for that, too ([`opening`]).

#![expect(unsafe_code, reason = "exports libc functions")]

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_uint, c_void};

use rustix::thread::{Timespec, nanosleep};
use semcache::host::guards;
use semcache::process::descriptors as drivers;
use semcache::process::driver_scope::in_driver_scope;
use semcache_fault::{broken, opening};

use super::buffers::{buffer, several};
use super::caller::is_driver;
use super::pointers::{asked_again, failed, text};
use super::real::{errno, real, set_errno};
use crate::core::{self as runtime, Degraded, IoGuards};

/// How often `dup2` is repeated, and after which time: opening a device takes long.
const TRIES: u32 = 10_000;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000,
};

/// The lowest number to which the driver's descriptors are moved: in the upper half of a table of the usual size
/// (1024).
const HIGH: c_int = 512;

/// Calls libc's function until no other thread is opening a descriptor under the number.
fn settled(duplicate: impl Fn() -> c_int) -> c_int {
    for _ in 0..TRIES {
        let made = duplicate();
        if made != -1 || errno() != libc::EBUSY {
            return made;
        }
        let _ = nanosleep(&PAUSE);
    }
    duplicate()
}

/// Whether the number is that of a descriptor of the driver's, and the calling thread is not in driver scope.
fn kept(number: c_int) -> bool {
    drivers::held(number) && !in_driver_scope()
}

/// Called with a descriptor that was just opened: if the calling thread is in driver scope, the descriptor is the
/// driver's, and is moved and noted.
fn opened(number: c_int) -> c_int {
    if number < 0 || !in_driver_scope() || broken!("break-descriptors") {
        // The number is the program's now, so an old note that it is the driver's is deleted.
        drivers::release(number);
        return number;
    }
    let before = errno();
    // SAFETY: a number that only this thread knows.
    let moved = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, HIGH) };
    if moved < 0 {
        // The table has no room above `HIGH`: the descriptor keeps its number.
        set_errno(before);
        drivers::hold(number);
        return number;
    }
    drivers::hold(moved);
    // SAFETY: a number that only this thread knows.
    unsafe { close(number) };
    set_errno(before);
    moved
}

/// Makes the pages of a path accessible, so that the kernel can read the path.
fn path(at: *const c_char) -> IoGuards {
    let mut guards = IoGuards::default();
    text(&mut guards, at.addr());
    guards
}

/// One line per function that opens a descriptor: its C declaration, and its path if it has one. Functions that are
/// variadic in C take one word more, which libc ignores unless the other arguments say that it is used.
macro_rules! opens {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(; $($word:ident: $wide:ty),+)?) $(=> $path:expr)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type,)* $($($word: $wide,)+)?) -> c_int {
            type Function = unsafe extern "C-unwind" fn($($type,)* $($($wide,)+)?) -> c_int;
            let Some(real) = real!($name: Function) else {
                set_errno(libc::ENOSYS);
                return -1;
            };
            // SAFETY: the program's arguments.
            let call = || unsafe { real($($arg,)* $($($word,)+)?) };
            opened(asked_again(failed, || opens!(@ $($path)?), call))
        }
    )*};
    (@) => { IoGuards::default() };
    (@ $path:expr) => { $path };
}

opens! {
    fn open(of: *const c_char, flags: c_int; mode: c_uint) => path(of);
    fn open64(of: *const c_char, flags: c_int; mode: c_uint) => path(of);
    fn dup(old: c_int);
    fn socket(domain: c_int, kind: c_int, protocol: c_int);
    fn eventfd(value: c_uint, flags: c_int);
}

/// Hooks of `pipe` and `pipe2`: the kernel writes the two descriptors to memory that may be inaccessible.
macro_rules! pipes {
    ($(fn $name:ident(to $(, $flags:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C-unwind" fn $name(to: *mut c_int $(, $flags: c_int)?) -> c_int {
            type Function = unsafe extern "C-unwind" fn(*mut c_int $(, pipes!(@ $flags))?) -> c_int;
            let Some(real) = real!($name: Function) else {
                set_errno(libc::ENOSYS);
                return -1;
            };
            let ends = || several([buffer(to, 2 * size_of::<c_int>(), true)]);
            // SAFETY: the program's arguments, passed on.
            let made = asked_again(failed, ends, || unsafe { real(to $(, $flags)?) });
            if made == 0 && in_driver_scope() {
                for end in 0..2 {
                    // SAFETY: both were just written, by the kernel.
                    unsafe { *to.add(end) = opened(*to.add(end)) };
                }
            }
            made
        }
    )*};
    (@ $flags:ident) => { c_int };
}

pipes! {
    fn pipe(to);
    fn pipe2(to, flags);
}

/// The hook that the driver gets when it looks a function of libc up that opens descriptors.
pub(super) fn by_name(name: &[u8]) -> Option<*mut c_void> {
    match name {
        b"eventfd" => Some(eventfd as *mut c_void),
        b"pipe" => Some(pipe as *mut c_void),
        b"pipe2" => Some(pipe2 as *mut c_void),
        _ => None,
    }
}

/// Closes a descriptor, unless it is the driver's. The driver's own threads close descriptors, too, and so does the
/// driver when the program calls it: the return address says whether the driver is the caller.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn close(number: c_int) -> c_int {
    naked_asm!("mov rsi, [rsp]", "jmp {close}", close = sym close_for)
}

unsafe extern "C-unwind" fn close_for(number: c_int, caller: usize) -> c_int {
    let Some(real) = real!(close: unsafe extern "C-unwind" fn(c_int) -> c_int) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    if drivers::held(number) {
        if !in_driver_scope() && !is_driver(caller) {
            set_errno(libc::EBADF);
            return -1;
        }
        drivers::release(number);
    }
    opening::settle();
    guards::closed(number);
    // SAFETY: the caller's argument.
    unsafe { real(number) }
}

/// Closes the ranges between the driver's descriptors, until closing one fails.
fn between(first: c_int, last: c_int, close: impl Fn(c_int, c_int) -> c_int) -> c_int {
    let mut from = first;
    while let Some(driver) = drivers::next(from, last) {
        if driver > from {
            let closed = close(from, driver - 1);
            if closed != 0 {
                return closed;
            }
        }
        if driver == last {
            return 0;
        }
        from = driver + 1;
    }
    close(from, last)
}

type CloseRange = unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let Some(real) = real!(close_range: CloseRange) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    opening::settle();
    // No descriptor has a larger number.
    let most = c_int::MAX.unsigned_abs();
    let (from, to) = (first.min(most).cast_signed(), last.min(most).cast_signed());
    let known = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    let refused = first > last || flags & !known.cast_signed() != 0;
    if refused || drivers::next(from, to).is_none_or(|number| !kept(number)) {
        // SAFETY: the caller's arguments.
        return unsafe { real(first, last, flags) };
    }
    between(from, to, |from, to| {
        // SAFETY: part of the caller's range.
        unsafe { real(from.unsigned_abs(), to.unsigned_abs(), flags) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    opening::settle();
    let first = first.max(0);
    if drivers::next(first, c_int::MAX).is_none_or(|number| !kept(number)) {
        if let Some(real) = real!(closefrom: unsafe extern "C" fn(c_int)) {
            // SAFETY: the caller's argument.
            unsafe { real(first) };
        }
        return;
    }
    between(first, c_int::MAX, |from, to| {
        let range = real!(close_range: CloseRange);
        // SAFETY: numbers that the caller wants closed.
        let ranged = range.map_or(-1, |range| unsafe {
            range(from.unsigned_abs(), to.unsigned_abs(), 0)
        });
        if ranged != 0 {
            // An old kernel without `close_range`: the descriptors are closed one by one to the end of the table, as
            // libc does.
            // SAFETY: no conditions.
            let most = unsafe { libc::getdtablesize() };
            for number in from..=to.min(most) {
                // SAFETY: a number that the caller wants closed.
                unsafe { close(number) };
            }
        }
        0
    });
}

/// Called before the program duplicates `old` onto `new`: if `new` is a descriptor of the driver's, the runtime stops
/// using the devices.
fn taken(old: c_int, new: c_int, flags: c_int) {
    // SAFETY: only asks whether the descriptor is open.
    let refused = |old| unsafe { libc::fcntl(old, libc::F_GETFD) } == -1;
    if old == new || !kept(new) || flags & !libc::O_CLOEXEC != 0 || refused(old) {
        return;
    }
    if runtime::retire(Degraded::Descriptors) {
        drivers::forget_all();
    } else {
        drivers::release(new);
    }
}

macro_rules! duplicates {
    ($($name:ident($($flags:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C" fn $name(old: c_int, new: c_int $(, $flags: c_int)?) -> c_int {
            type Function = unsafe extern "C" fn(c_int, c_int $(, duplicates!(@ $flags))?) -> c_int;
            let Some(real) = real!($name: Function) else {
                set_errno(libc::ENOSYS);
                return -1;
            };
            taken(old, new, 0 $(| $flags)?);
            // SAFETY: the program's arguments.
            let call = || unsafe { real(old, new $(, $flags)?) };
            settled(|| opening::duplicating(call))
        }
    )*};
    (@ $flags:ident) => { c_int };
}

duplicates! {
    dup2();
    dup3(flags);
}
