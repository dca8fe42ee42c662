#![expect(unsafe_code, reason = "reads the program's signal sets")]
//! Signal masks: the program's, which must not block SIGSEGV and SIGBUS, and those of the runtime's threads.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use crate::sync;
use crate::sys::{self, KernelSet, bit};
use libc::{c_int, c_void, sigset_t, ucontext_t};

/// The signals of the fault handler, which must never be blocked.
pub(super) const OURS: KernelSet = bit(libc::SIGSEGV) | bit(libc::SIGBUS);

/// Signals that an instruction raises: a blocked one would not be held back but end the process.
const SYNCHRONOUS: KernelSet = OURS
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGABRT)
    | bit(libc::SIGSYS);

/// The two signals that glibc uses itself, for cancellation and for `setuid` in all threads; a thread that blocks the
/// second hangs `setuid` for the whole process.
const GLIBC: KernelSet = bit(32) | bit(33);

/// The signals that [`block_async_signals`] blocks. The kernel blocks them when the fault handler begins.
pub(super) const ASYNCHRONOUS: KernelSet = !(SYNCHRONOUS | GLIBC);

/// Whether the stack that the fault handler runs on has room for a handler of the program that interrupts it, and for a
/// fault in that handler. A small alternate stack (`sigaltstack`) has no such room: there the program's handlers run
/// only after the fault is served, since the kernel kills a process on whose stack a signal's frame does not fit.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
pub(super) unsafe fn has_room(context: *const c_void) -> bool {
    // SAFETY: by the contract.
    unsafe { room(context) }.is_none_or(|room| room >= 2 * frame() + HANDLERS)
}

/// Whether a handler of the program that was just entered interrupted another handler on the alternate stack, and the
/// stack has no room for one more signal frame. Without semcache the frames of the two handlers may fit; but if the
/// second handler touches an inaccessible page, the fault needs a third frame, and the kernel ends a process on whose
/// stack that does not fit.
///
/// # Safety
/// `context` is the `ucontext_t` of the signal frame.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn is_cramped(context: *const c_void) -> bool {
    // SAFETY: by the contract; the fields are copied.
    let (stack, interrupted) = unsafe {
        let context = context.cast::<ucontext_t>();
        let register = &raw const (*context).uc_mcontext.gregs[libc::REG_RSP as usize];
        ((&raw const (*context).uc_stack).read(), register.read())
    };
    let offset = (interrupted as usize).wrapping_sub(stack.ss_sp.addr());
    // SAFETY: by the contract.
    offset < stack.ss_size && unsafe { room(context) }.is_some_and(|room| room < frame() + HANDLERS)
}

/// On architectures without entries (`deferral`) no signal is deferred.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn is_cramped(_context: *const c_void) -> bool {
    false
}

/// Bytes for the handlers' own frames.
const HANDLERS: usize = 4096;

/// Bytes that the kernel may take on a stack for one signal frame; at least [`HANDLERS`].
fn frame() -> usize {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: reads the auxiliary vector; older kernels do not have this entry: zero.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    frame.max(HANDLERS)
}

/// Bytes left on the alternate stack that the calling handler runs on; `None` if the handler runs on another stack.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
unsafe fn room(context: *const c_void) -> Option<usize> {
    let local = 0u8;
    let sp = (&raw const local).addr();
    // SAFETY: by this function's contract; the field is copied.
    let stack = unsafe { (&raw const (*context.cast::<ucontext_t>()).uc_stack).read() };
    let room = sp.checked_sub(stack.ss_sp.addr())?;
    (room < stack.ss_size).then_some(room)
}

/// Sets the signal mask that the thread had when the signal interrupted it.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
pub(super) unsafe fn as_interrupted(context: *const c_void) {
    if restricted() {
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

/// Whether [`block_async_signals`] blocks a signal.
#[must_use]
pub fn holds_back(signal: c_int) -> bool {
    (1..=64).contains(&signal) && (SYNCHRONOUS | GLIBC) & bit(signal) == 0
}

/// A copy of a signal set without SIGSEGV and SIGBUS: passed on to the kernel when the program sets a mask.
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

/// Removes SIGSEGV and SIGBUS from the mask that returning from a signal frame restores.
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

/// A thread's signal mask, to be restored.
#[derive(Clone, Copy, Debug)]
#[must_use = "the mask before has to be restored where the thread is not ours"]
pub struct SavedMask(Option<KernelSet>);

/// Blocks every asynchronous signal in the calling thread, so that the program's handlers never run on a runtime
/// thread. A thread created meanwhile inherits the mask.
///
/// Does nothing in a process that restricts its system calls ([`no_longer`]).
pub fn block_async_signals() -> SavedMask {
    let Some(section) = Section::begin() else {
        return SavedMask(None);
    };
    let before = sys::sigprocmask(libc::SIG_SETMASK, ASYNCHRONOUS).ok();
    if before.is_some() {
        // The section lasts until the mask is restored.
        core::mem::forget(section);
    }
    SavedMask(before)
}

static RESTRICTED: AtomicBool = AtomicBool::new(false);

/// Number of threads in a [`Section`]: in the fault handler, or between [`block_async_signals`] and the end of that,
/// among others. If a handler of the program leaves a section by a jump, its thread stays counted for ever.
static SECTIONS: AtomicU32 = AtomicU32::new(0);

/// The calling thread is in code that makes system calls which the program would not make without semcache. A process
/// that is about to restrict its system calls waits until this is dropped.
#[derive(Debug)]
#[must_use = "system calls may be restricted once this is dropped"]
pub struct Section(());

impl Section {
    /// `None` in a process that restricts its system calls, or is about to.
    pub fn begin() -> Option<Section> {
        // This thread adds itself to SECTIONS before it reads RESTRICTED, and the thread that installs a filter sets
        // RESTRICTED before it reads SECTIONS: at least one of the two sees the other.
        SECTIONS.fetch_add(1, SeqCst);
        let section = Section(());
        (!RESTRICTED.load(SeqCst)).then_some(section)
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // The count is already zero in the child of a fork that began within a section.
        let _ = SECTIONS.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    }
}

/// Called before the process restricts its system calls: from now on no signal mask is changed, since that is a system
/// call. Nor is that needed: no page is protected any more, so no handler of the program can wait for a runtime thread.
/// Returns when no thread is in a [`Section`], or after one second.
pub fn no_longer() {
    /// Enough for a thread to leave its section: calls on devices have ended before.
    const PATIENCE_NS: u64 = 1_000_000_000;
    RESTRICTED.store(true, SeqCst);
    let began = sync::now_ns();
    while SECTIONS.load(SeqCst) > 0
        && sync::now_ns().saturating_sub(began) < PATIENCE_NS
        && !crate::broken!("break-sections")
    {
        sync::yield_now();
    }
}

/// Other threads do not exist in the child of a fork.
pub(super) fn reset_after_fork() {
    SECTIONS.store(0, SeqCst);
}

/// Whether the process restricts its system calls, or is about to.
pub fn restricted() -> bool {
    RESTRICTED.load(SeqCst)
}

impl SavedMask {
    /// Restores the saved mask, for good.
    pub fn restore(self) {
        let _ = self.swap();
        self.keep();
    }

    /// Keeps the current mask, for good.
    pub fn keep(self) {
        drop(self.0.map(|_| Section(())));
    }

    /// Whether a signal is pending that this mask does not block.
    #[must_use]
    pub fn lets_in(&self) -> bool {
        self.0.is_some_and(|mask| sys::pending() & !mask != 0)
    }

    /// Restores the saved mask for a while, and returns the mask that it replaces.
    pub fn swap(self) -> SavedMask {
        let set = |mask| sys::sigprocmask(libc::SIG_SETMASK, mask).ok();
        SavedMask(self.0.and_then(set))
    }
}
