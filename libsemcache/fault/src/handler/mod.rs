#![expect(unsafe_code, reason = "a signal handler: raw pointers from the kernel")]
//! The signal handler of SIGSEGV and SIGBUS, and the dispositions that the process sees in its place.
//!
//! [`install`] puts one handler in front of SIGSEGV and SIGBUS and keeps it there. The program's own disposition of the
//! two becomes *virtual*: [`virtual_sigaction`] sets and returns it, and a fault on a page that semcache does not track
//! is delivered to it as the kernel would have. [`mask::strip`] keeps the two signals out of the masks that the program
//! sets, since a fault under a blocked SIGSEGV ends the process.
//!
//! Restrictions, all by necessity: the program's handler runs on the alternate stack, if the thread has one, also
//! without `SA_ONSTACK`; and while it runs the two signals are not blocked, so that it may touch inaccessible pages
//! itself. A program's handler that faults endlessly therefore ends by stack overflow instead of by its mask.

mod budget;
mod chain;
pub mod deferral;
mod disposition;
mod installed;
pub mod last;
pub mod mask;
pub mod threads;

pub use installed::installed;
pub use mask::{block_async_signals, strip};

use crate::mailbox::{self, Code, Verdict};
use crate::page::{Access, Decision, decide};
use crate::{counters, latency, lineage, pages, probe, reserve, sync, sys};
use core::sync::atomic::Ordering;
use disposition::Disposition;
use installed::INSTALLED;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use rustix::io::Errno;

/// The signals that the fault handler serves.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// On the alternate stack; with `siginfo`; and with the signal itself not blocked, so that nested faults are served. The
/// asynchronous signals are blocked at first (`mask::ASYNCHRONOUS`); on a stack with room the handler restores the mask
/// of the interrupted code, so that signals that could interrupt the faulting access can still interrupt it.
const FLAGS: u64 = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64;

const SEGV_MAPERR: c_int = 1;
const SEGV_ACCERR: c_int = 2;

/// Puts the fault handler in front. The dispositions found become the virtual ones. Idempotent; the caller serialises
/// concurrent calls.
///
/// # Errors
/// The error of `rt_sigaction`; `ENOSYS` on architectures without a handler. Nothing has changed then.
pub fn install() -> Result<(), Errno> {
    if installed() {
        return Ok(());
    }
    if sys::restorer() == 0 {
        return Err(Errno::NOSYS);
    }
    // First uses that must not happen in a handler, since they allocate or call libc: the page size, the vDSO, the
    // number of CPUs.
    let _ = pages::page_size();
    sync::now_ns();
    mailbox::tune();
    let mut known = [Disposition::DEFAULT; SIGNALS.len()];
    for (signal, known) in SIGNALS.into_iter().zip(&mut known) {
        // SAFETY: changes nothing.
        *known = Disposition::from_kernel(&unsafe { sys::sigaction(signal, None) }?);
        if let Some(table) = disposition::of(signal) {
            table.publish(*known);
        }
    }
    // From here on `virtual_sigaction` answers, so that no change by the program is lost.
    INSTALLED.store(true, Ordering::Release);
    if let Err(error) = put_in_front(Some(known)) {
        // Cannot happen for two valid signals that could be read a moment ago. A virtual disposition without a handler
        // in front would never be called, so the state says that nothing is installed.
        INSTALLED.store(false, Ordering::Release);
        return Err(error);
    }
    Ok(())
}

/// Called after [`install`] ran on a thread that the program does not know of: if the program was changing a
/// disposition meanwhile, the change may have gone to the kernel, past the virtual dispositions. That change becomes a
/// virtual disposition now, and the fault handler is in front again. To be called some time later, before the first
/// page is made inaccessible.
pub fn settle() {
    if !installed() || in_front() {
        return;
    }
    // As in `install`: this cannot fail.
    let _ = put_in_front(None);
}

/// Sets the kernel's handler. A replaced disposition becomes the program's virtual one, unless it is `known` already.
fn put_in_front(known: Option<[Disposition; SIGNALS.len()]>) -> Result<(), Errno> {
    let ours = sys::KernelAction {
        handler: on_fault as *const () as usize,
        flags: FLAGS | sys::SA_RESTORER,
        restorer: sys::restorer(),
        mask: mask::ASYNCHRONOUS,
    };
    for (i, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: `on_fault` is a three-argument handler that may run at any time.
        let before = unsafe { sys::sigaction(signal, Some(&ours)) }?;
        let program = Disposition::from_kernel(&before);
        if before.handler != ours.handler
            && known.is_none_or(|k| k[i] != program)
            && let Some(table) = disposition::of(signal)
        {
            table.publish(program);
        }
    }
    Ok(())
}

/// Whether the kernel still has the fault handler: a library may have replaced it by a raw system call, past the hooks.
/// For `doctor` and the report, not for handlers.
#[must_use]
pub fn in_front() -> bool {
    installed()
        && SIGNALS.iter().all(|&signal| {
            // SAFETY: changes nothing.
            unsafe { sys::sigaction(signal, None) }
                .is_ok_and(|found| found.handler == on_fault as *const () as usize)
        })
}

/// `sigaction` for the program, once the handler is installed: stores and returns the program's own disposition of
/// SIGSEGV and SIGBUS, which the kernel does not know. `None`: another signal, so call libc's function. Lock-free,
/// since `sigaction` may be called in signal handlers.
///
/// # Safety
/// `new` and `old` are what the C function takes: null or valid; they may be equal.
pub unsafe fn virtual_sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> Option<c_int> {
    if !installed() {
        return None;
    }
    let table = disposition::of(signal)?;
    let before = if new.is_null() {
        table.current()
    } else {
        // SAFETY: not null, hence valid by the contract. Read before anything is held or written.
        table.publish(unsafe { Disposition::from_libc(new) })
    };
    if !old.is_null() {
        // SAFETY: not null, hence valid by the contract.
        unsafe { before.write_libc(old) };
    }
    Some(0)
}

/// Forgets the parent's threads in the child of a fork: the mailbox is empty and has no service thread, so faults are
/// chained. Handler and dispositions stay, as after any fork.
pub fn reset_after_fork() {
    mailbox::reset_after_fork();
    threads::reset_after_fork();
    mask::reset_after_fork();
}

/// The fault handler. `C-unwind`: the program's handler, called from here, may throw through this frame.
unsafe extern "C-unwind" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo and ucontext.
    if unsafe { probe::fails(context.cast()) || probe::gives_up(info, context.cast()) } {
        return;
    }
    let section = mask::Section::begin();
    // SAFETY: as above.
    let roomy = unsafe { mask::has_room(context) };
    if roomy {
        // SAFETY: as above.
        unsafe { mask::as_interrupted(context) };
    }
    let entered = sync::now_ns();
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    if signal == libc::SIGSEGV && code == SEGV_ACCERR {
        // SAFETY: a SIGSEGV by the kernel carries an address.
        let addr = unsafe { (*info).si_addr() } as usize;
        if let Some(known) = pages::get(addr)
            // SAFETY: the kernel passes a valid ucontext.
            && serve(addr, known, unsafe { (is_write(context), code_of(context)) }, entered)
        {
            return;
        }
        if reserve::is_bare(addr) {
            // SAFETY: the frame's own copy of siginfo, which no other code reads.
            unsafe { (*info).si_code = SEGV_MAPERR };
        }
    }
    counters::CHAINED.bump();
    if !roomy {
        // SAFETY: the kernel passes a valid ucontext.
        unsafe { mask::as_interrupted(context) };
    }
    drop(section);
    // SAFETY: these are the kernel's arguments, passed on as they came.
    unsafe { chain::deliver(signal, info, context) }
}

/// Serves a fault on a page of the page table. False: the fault goes to the program's handler.
fn serve(addr: usize, known: Access, (write, code): (bool, Code), entered: u64) -> bool {
    if lineage::orphaned() {
        return serve_orphan(addr, known);
    }
    // In a process that restricts its system calls no page is protected any more: this fault happened before the page
    // was made accessible, and asking for the thread's id would be a system call.
    let tid = if mask::restricted() {
        0
    } else {
        sync::current_tid()
    };
    match decide(Some(known), write) {
        Decision::Retry => {
            counters::RETRIED.bump();
            budget::spend(tid, addr, entered)
        }
        Decision::Post => {
            if threads::is_runtime(tid) {
                sys::say(b"semcache: bug: a runtime thread touched a closed page\n");
                return false;
            }
            if !mailbox::serving() {
                return false;
            }
            if mailbox::wait(mailbox::post(addr, write, code)) == Verdict::NotOurs {
                return false;
            }
            if write {
                counters::SERVED_WRITES.bump();
            } else {
                counters::SERVED_READS.bump();
            }
            latency::record(sync::now_ns().saturating_sub(entered));
            true
        }
        Decision::NotOurs => false,
    }
}

/// Serves a fault in a child in which no fork handler ran: the child has neither a service thread nor a device. A page
/// that the CPU could read holds the newest bytes and is made writable; the newest bytes of an inaccessible page are
/// lost to the child.
fn serve_orphan(addr: usize, known: Access) -> bool {
    let page = pages::page_size();
    let start = addr & !(page - 1);
    if known == Access::None {
        sys::say(
            b"semcache: this process was made by a bare system call; what only its parent's device has cannot be read\n",
        );
        return false;
    }
    sys::open_page(start, page) && pages::set(start, page, Some(Access::ReadWrite)).is_ok()
}

/// Where the code was that made the access.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
#[cfg(target_arch = "x86_64")]
unsafe fn code_of(context: *const c_void) -> Code {
    // SAFETY: by the contract; words are copied, no reference is formed to the whole.
    let register = |number: libc::c_int| unsafe {
        (&raw const (*context.cast::<ucontext_t>()).uc_mcontext.gregs[number as usize]).read()
    };
    Code {
        at: register(libc::REG_RIP) as usize,
        stack: register(libc::REG_RSP) as usize,
    }
}

/// On architectures whose registers are not read: not known.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn code_of(_context: *const c_void) -> Code {
    Code::default()
}

/// Whether the access was a write, from the page fault's error code.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
#[cfg(target_arch = "x86_64")]
unsafe fn is_write(context: *const c_void) -> bool {
    const WRITE: i64 = 2;
    // SAFETY: by the contract; one word is copied, no reference is formed to the whole.
    let error = unsafe {
        (&raw const (*context.cast::<ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize])
            .read()
    };
    error & WRITE != 0
}

/// On architectures where the error code is not decoded a fault counts as a write, which grants at least what the
/// access needs.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn is_write(_context: *const c_void) -> bool {
    true
}
