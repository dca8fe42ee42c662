//! Hooks of signal dispositions and masks: the program's SIGSEGV and SIGBUS handlers are stored for it, while the
//! kernel has the runtime's fault handler, and no mask blocks these two signals.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use libc::{sighandler_t, sigset_t};

use super::buffers::{buffer, during, several, whole};
use super::pointers::{asked_again, failed};
use super::real::{real, set_errno};
use crate::core::{Buffer, any_protected};
use semcache::host::becomes_stack;
use semcache::process::signals_blocked::handlers_may_run;
use semcache_fault::broken;
use semcache_fault::handler::{self, deferral};

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// The program installs a handler, or none. Returns the handler that the kernel is given in its place.
fn noted(signal: c_int, function: sighandler_t, flags: c_int) -> sighandler_t {
    let none = [libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR];
    if !handler::mask::holds_back(signal) || none.contains(&function) {
        return function;
    }
    let entry = deferral::wrapped(signal, function, flags);
    handlers_may_run(entry.is_none());
    entry.unwrap_or(function)
}

fn missing() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

/// # Safety
/// As `sigaction`.
unsafe fn action(
    real: Option<Sigaction>,
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's arguments; a copy where the mask is changed.
    unsafe {
        if let Some(result) = handler::virtual_sigaction(signal, new, old) {
            return result;
        }
        let Some(real) = real else { return missing() };
        let mut copy = MaybeUninit::uninit();
        let mut given = new;
        if !new.is_null() {
            let copy = copy.write(new.read());
            copy.sa_sigaction = noted(signal, copy.sa_sigaction, copy.sa_flags);
            copy.sa_mask = handler::strip(&raw const copy.sa_mask);
            given = copy;
        }
        let result = real(signal, given, old);
        if result == 0 && !old.is_null() {
            if handler::last::is_last((*old).sa_sigaction) {
                // What the program has is the default, without flags and mask.
                old.write(MaybeUninit::zeroed().assume_init());
            }
            (*old).sa_sigaction = deferral::unwrapped((*old).sa_sigaction);
        }
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { action(real!(sigaction: Sigaction), signal, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { action(real!(__sigaction: Sigaction), signal, new, old) }
}

/// `signal` with one of its meanings, between which `flags` decide.
///
/// # Safety
/// As `signal`.
unsafe fn simple(
    real: Option<Signal>,
    signal: c_int,
    function: sighandler_t,
    flags: c_int,
) -> sighandler_t {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zero is a valid `sigaction`; the signal is blocked during its handler unless the flags say otherwise,
    // as the kernel does it.
    unsafe {
        let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        new.sa_sigaction = function;
        new.sa_flags = flags;
        match handler::virtual_sigaction(signal, &raw const new, old.as_mut_ptr()) {
            Some(0) => old.assume_init().sa_sigaction,
            Some(_) => libc::SIG_ERR,
            None => match real {
                Some(real) => deferral::unwrapped(real(signal, noted(signal, function, flags))),
                None => {
                    set_errno(libc::ENOSYS);
                    libc::SIG_ERR
                }
            },
        }
    }
}

macro_rules! simple {
    ($($name:ident: $flags:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(signal: c_int, function: sighandler_t) -> sighandler_t {
            // SAFETY: the program's arguments.
            unsafe { simple(real!($name: Signal), signal, function, $flags) }
        }
    )*};
}

const ONCE: c_int = libc::SA_RESETHAND | libc::SA_NODEFER;
simple! {
    signal: libc::SA_RESTART;
    bsd_signal: libc::SA_RESTART;
    ssignal: libc::SA_RESTART;
    sysv_signal: ONCE;
    __sysv_signal: ONCE;
}

/// A structure of libc's, of which the kernel accesses no more than the first 64 bytes.
fn small<T>(at: *const T) -> Buffer {
    buffer(
        at,
        if at.is_null() {
            0
        } else {
            64.min(size_of::<T>())
        },
        true,
    )
}

/// Makes a call while the pages of these structures are accessible.
fn reached<const N: usize>(structures: [Buffer; N], call: impl FnOnce() -> c_int) -> c_int {
    if any_protected() && !broken!("break-look") {
        during(|| several(structures), call)
    } else {
        call()
    }
}

/// # Safety
/// As `sigprocmask`.
unsafe fn mask(
    real: Option<Mask>,
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
    absent: c_int,
) -> c_int {
    let Some(real) = real else { return absent };
    // SAFETY: the program's arguments; a copy if the mask blocks signals. The copy is made before `old` is written:
    // both pointers may be to one variable.
    unsafe {
        if set.is_null() || how == libc::SIG_UNBLOCK {
            // Made accessible before the call: the kernel changes the mask before it fails to write the old mask.
            return reached([small(set), small(old)], || real(how, set, old));
        }
        let stripped = handler::strip(set);
        reached([small(old)], || real(how, &raw const stripped, old))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { mask(real!(sigprocmask: Mask), how, set, old, -1) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { mask(real!(pthread_sigmask: Mask), how, set, old, libc::ENOSYS) }
}

/// Functions that wait with a signal mask of the program's, which is the argument behind the first semicolon. Behind
/// the arrow: the other structures that the kernel reads and writes.
macro_rules! waits {
    ($($name:ident($($arg:ident: $type:ty),*; $mask:ident $(; $($after:ident: $last:ty),*)?)
        $(=> $($structure:expr),+)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            $($arg: $type,)* $mask: *const sigset_t $($(, $after: $last)*)?
        ) -> c_int {
            let Some(real) = real!($name: unsafe extern "C-unwind" fn(
                $($type,)* *const sigset_t $($(, $last)*)?
            ) -> c_int) else {
                return missing();
            };
            // SAFETY: the program's arguments, but for the copy of the mask.
            unsafe {
                let stripped = $mask.as_ref().map(|mask| handler::strip(mask));
                let mask = stripped.as_ref().map_or(ptr::null(), ptr::from_ref);
                let structures = || several([$($($structure),+)?]);
                asked_again(failed, structures, || real($($arg,)* mask $($(, $after)*)?))
            }
        }
    )*};
}

waits! {
    sigsuspend(; set);
    ppoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: *const libc::timespec; set) =>
        many(fds, count as usize), whole(timeout);
    __ppoll_chk(
        fds: *mut libc::pollfd, count: libc::nfds_t, timeout: *const libc::timespec; set; len: usize
    ) => many(fds, count as usize), whole(timeout);
    pselect(
        count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set,
        timeout: *const libc::timespec; set
    ) => whole(read), whole(write), whole(except), whole(timeout);
    epoll_pwait(fd: c_int, events: *mut libc::epoll_event, most: c_int, timeout: c_int; set) =>
        many(events, most as usize);
    epoll_pwait2(
        fd: c_int, events: *mut libc::epoll_event, most: c_int, timeout: *const libc::timespec; set
    ) => many(events, most as usize), whole(timeout);
}

/// An array of structures. A negative count, which the kernel refuses, gives the largest possible length.
fn many<T>(at: *const T, count: usize) -> Buffer {
    buffer(at, count.saturating_mul(size_of::<T>()), true)
}

/// Stops tracking the block that contains the new signal stack: the kernel must be able to write the frames of handlers
/// there at any time.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    let Some(real) =
        real!(sigaltstack: unsafe extern "C" fn(*const libc::stack_t, *mut libc::stack_t) -> c_int)
    else {
        return missing();
    };
    // SAFETY: the program's arguments.
    unsafe {
        if let Some(stack) = new.as_ref()
            && stack.ss_flags & libc::SS_DISABLE == 0
        {
            becomes_stack(stack.ss_sp as usize, stack.ss_size);
        }
        // Made accessible before the call: the kernel sets the new stack before it fails to write the old one.
        reached([small(new), small(old)], || real(new, old))
    }
}

/// Stops tracking the block that contains a thread's new stack.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setstack(
    attr: *mut libc::pthread_attr_t,
    start: *mut c_void,
    len: usize,
) -> c_int {
    type SetStack = unsafe extern "C" fn(*mut libc::pthread_attr_t, *mut c_void, usize) -> c_int;
    let Some(real) = real!(pthread_attr_setstack: SetStack) else {
        return libc::ENOSYS;
    };
    becomes_stack(start as usize, len);
    // SAFETY: the program's arguments.
    unsafe { real(attr, start, len) }
}
