#![expect(unsafe_code, reason = "a signal handler")]
//! Signals that end a process by default: before they do, one function of the runtime runs.
//!
//! Only signals whose disposition is the default get the handler, and the program keeps seeing the default. If the
//! program installs a handler of its own later, that replaces this one for good.

use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void, siginfo_t};

use crate::sys::{self, KernelAction};

/// The signals by which users, shells, batch systems and limits end a process.
const SIGNALS: [c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGXCPU,
];

/// The function to run; null: none.
static RUN: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// From now on `run` runs before one of these signals ends the process. It may interrupt any code of any thread, and
/// returns soon.
pub fn before_the_end(run: fn()) {
    // The kernel ignores such signals for the first process of a container, unless they have a handler.
    if sys::restorer() == 0 || rustix::process::getpid().is_init() {
        return;
    }
    RUN.store(run as *mut c_void, Ordering::Release);
    let ours = KernelAction {
        handler: address(),
        flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART) as u64 | sys::SA_RESTORER,
        restorer: sys::restorer(),
        // All signals: nothing interrupts the function.
        mask: !0,
    };
    for signal in SIGNALS {
        // SAFETY: only asks.
        let found = unsafe { sys::sigaction(signal, None) };
        if found.is_ok_and(|f| f.handler == libc::SIG_DFL) {
            // SAFETY: a function of this library, which is never unloaded; it may run at any time. If another thread of
            // the program has installed a handler in between, that is put back.
            unsafe {
                if let Ok(before) = sys::sigaction(signal, Some(&ours))
                    && before.handler != libc::SIG_DFL
                {
                    let _ = sys::sigaction(signal, Some(&before));
                }
            }
        }
    }
}

/// The handler's address.
fn address() -> usize {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = end;
    handler as usize
}

/// Whether the handler that the kernel has is this one, so that the program sees the default.
#[must_use]
pub fn is_last(found: usize) -> bool {
    found == address()
}

extern "C" fn end(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let run = RUN.load(Ordering::Acquire);
    if !run.is_null() {
        // SAFETY: `before_the_end` stored a function of this type.
        let run: fn() = unsafe { core::mem::transmute(run) };
        run();
    }
    // SAFETY: the default disposition; the signal, which is blocked now, is sent once more with what the kernel told
    // of it, and ends the process when this function returns.
    unsafe {
        let default = sys::sigaction(signal, Some(&KernelAction::default())).is_ok();
        if !(default && sys::requeue(signal, info)) {
            // The program forbids these system calls to itself.
            sys::exit_group(128 + signal);
        }
    }
}
