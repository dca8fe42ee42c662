#![expect(unsafe_code, reason = "reads the program's signal sets")]
//! Signal masks: the program's, which must not block our two signals, and our threads' own.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::deferral;
use crate::sys::{self, KernelSet, bit};
use libc::{c_int, c_void, sigset_t, ucontext_t};

/// The signals that must never be blocked.
pub(super) const OURS: KernelSet = bit(libc::SIGSEGV) | bit(libc::SIGBUS);

/// What an instruction raises: blocking these would not hold them back, it would end the process.
const SYNCHRONOUS: KernelSet = OURS
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGABRT)
    | bit(libc::SIGSYS);

/// glibc's own two, for cancellation and for `setuid` in all threads; a thread that blocks the second
/// hangs `setuid` for the whole process.
const GLIBC: KernelSet = bit(32) | bit(33);

/// All that [`block_async_signals`] holds back. Our handler begins with these blocked.
pub(super) const ASYNCHRONOUS: KernelSet = !(SYNCHRONOUS | GLIBC);

/// Whether the stack that a handler runs on has room for a handler of the program's that interrupts it, and for a fault of
/// that one's. On a small alternate stack (`sigaltstack`) it has not: there the program's handlers wait until the fault is
/// served, for the kernel ends a process that it cannot give a signal's frame.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
pub(super) unsafe fn has_room(context: *const c_void) -> bool {
    /// What handlers need besides the kernel's frames.
    const HANDLERS: usize = 4096;
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    let local = 0u8;
    let sp = (&raw const local).addr();
    // SAFETY: by the contract; the field is copied.
    let stack = unsafe { (&raw const (*context.cast::<ucontext_t>()).uc_stack).read() };
    let Some(left) = sp
        .checked_sub(stack.ss_sp.addr())
        .filter(|left| *left < stack.ss_size)
    else {
        return true;
    };
    // SAFETY: reads what the kernel told the process at its start; zero where it is an older kernel.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    left >= 2 * frame.max(HANDLERS) + HANDLERS
}

/// Gives the thread the mask that it was interrupted with.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
pub(super) unsafe fn as_interrupted(context: *const c_void) {
    if RESTRICTED.load(Relaxed) {
        return;
    }
    // SAFETY: by the contract. The frame's set is one kernel word long, and only that is read.
    let word = unsafe {
        (&raw const (*context.cast::<ucontext_t>()).uc_sigmask)
            .cast::<KernelSet>()
            .read()
    };
    let _ = sys::sigprocmask(libc::SIG_SETMASK, word & !OURS);
}

/// Whether [`block_async_signals`] holds a signal back.
#[must_use]
pub fn holds_back(signal: c_int) -> bool {
    (1..=64).contains(&signal) && (SYNCHRONOUS | GLIBC) & bit(signal) == 0
}

/// Whether the program has a handler of such a signal now that the kernel calls itself, past [`deferral`].
#[must_use]
pub fn any_bare_handler() -> bool {
    (1..=64).filter(|&signal| holds_back(signal)).any(|signal| {
        // SAFETY: changes nothing.
        let found = unsafe { sys::sigaction(signal, None) };
        found.is_ok_and(|found| {
            ![libc::SIG_DFL, libc::SIG_IGN].contains(&found.handler)
                && !deferral::is_entry(found.handler)
        })
    })
}

/// A copy of a signal set without SIGSEGV and SIGBUS: what to pass on where the program sets a mask.
///
/// # Safety
/// `set` is valid for reads.
#[must_use]
pub unsafe fn strip(set: *const sigset_t) -> sigset_t {
    // SAFETY: by the contract.
    let mut copy = unsafe { set.read() };
    if crate::broken!("break-signals") {
        return copy;
    }
    // SAFETY: the kernel's set is the first word of libc's.
    unsafe {
        let word = (&raw mut copy).cast::<KernelSet>();
        word.write(word.read() & !OURS);
    }
    copy
}

/// Strips the mask that returning from a signal frame restores.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
pub(super) unsafe fn strip_context(context: *mut c_void) {
    // SAFETY: by the contract. The frame's set is one kernel word long, and only that is touched.
    unsafe {
        let word = (&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<KernelSet>();
        word.write(word.read() & !OURS);
    }
}

/// A thread's signal mask, to go back to.
#[derive(Clone, Copy, Debug)]
#[must_use = "the mask before has to be restored where the thread is not ours"]
pub struct SavedMask(Option<KernelSet>);

/// Blocks every asynchronous signal in the calling thread, so that the program's handlers never run on
/// a runtime thread. A thread created meanwhile inherits that.
///
/// Not in a process that restricts its system calls ([`no_longer`]).
pub fn block_async_signals() -> SavedMask {
    if RESTRICTED.load(Relaxed) {
        return SavedMask(None);
    }
    SavedMask(sys::sigprocmask(libc::SIG_SETMASK, ASYNCHRONOUS).ok())
}

static RESTRICTED: AtomicBool = AtomicBool::new(false);

/// The process is about to permit itself few system calls. No page is closed any more, so no handler of the program's
/// can wait for a thread of ours, and no mask is changed from now on.
pub fn no_longer() {
    RESTRICTED.store(true, Relaxed);
}

pub(super) fn restricted() -> bool {
    RESTRICTED.load(Relaxed)
}

impl SavedMask {
    /// Goes back to the mask before.
    pub fn restore(self) {
        let _ = self.swap();
    }

    /// The same, and says which mask that replaces.
    pub fn swap(self) -> SavedMask {
        let set = |mask| sys::sigprocmask(libc::SIG_SETMASK, mask).ok();
        SavedMask(self.0.and_then(set))
    }
}
