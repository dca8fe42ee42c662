#![expect(
    unsafe_code,
    reason = "calls the program's signal handlers, and edits the frames that they return to"
)]
//! Deferral of signals: a handler of the program that interrupts a thread inside a locked region runs only after the
//! thread has released the lock, at no cost to a thread that gets no signal.
//!
//! A large `malloc` holds a lock for some tens of nanoseconds. A signal handler that interrupted the thread there, and
//! then computed or touched a result in device memory, would wait for ever for this lock, or for a thread that waits
//! for it. Blocking signals around the lock takes two system calls, many times what all the rest of `malloc` costs.
//!
//! So the kernel is given not the program's function but one of [`ENTRIES`] entries below, each of which stands for one
//! function of the program as long as the process lives ([`wrapped`]). Mask, flags and stack are the program's. An
//! entry calls its function, unless its thread holds [`LARGE`]: then the entry sends the signal to the thread once
//! more, with the same siginfo, and returns to the interrupted code with signals blocked; when that code releases the
//! lock it unblocks them, and the kernel delivers the signal. A handler that interrupted another one on an alternate
//! stack without room for a fault's frame is deferred likewise, until the interrupted handler returns
//! (`mask::is_cramped`).
//!
//! The kernel writes no siginfo for a handler without `SA_SIGINFO`, so the same function has different entries with and
//! without that flag. The lock's own word tells whether the thread holds the lock, and a register tells which thread
//! this is: no code here needs thread-local variables, whose first use may allocate.

use core::mem;
use core::time::Duration;

use libc::{c_int, c_void, siginfo_t, ucontext_t};

use super::last::is_last;
use super::mask;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, Word};
use crate::sys::{self, KernelSet};

/// Number of functions that get an entry. The kernel calls further functions directly.
pub const ENTRIES: usize = 64;

const FREE: usize = 0;
/// Flag beside the holder: a thread sleeps until the lock is released.
const AWAITED: usize = 1;
/// Flag beside the holder: a signal is deferred, and the mask to restore is in `before`.
const DEFERRED: usize = 2;
const FLAGS: usize = AWAITED | DEFERRED;

/// How often a waiting thread looks again before it sleeps: critical sections are tens of nanoseconds long.
const SPINS: u32 = 100;
/// How long a waiting thread sleeps at most if no thread wakes it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The lock of large allocations.
pub static LARGE: Lock = Lock::new();

/// A lock whose word names its holder. Not reentrant. Signals are deferred under [`LARGE`] only.
#[derive(Debug)]
pub struct Lock {
    /// [`FREE`], or the holder and flags.
    word: AtomicUsize,
    /// With [`DEFERRED`]: the holder's signal mask, to be restored.
    before: AtomicU64,
    /// Changes when a lock with [`AWAITED`] is released.
    turn: Word,
}

impl Default for Lock {
    fn default() -> Self {
        Lock::new()
    }
}

impl Lock {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Lock {
        Lock {
            word: AtomicUsize::new(FREE),
            before: AtomicU64::new(0),
            turn: Word::new(0),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[must_use]
    pub fn attempt(&self) -> bool {
        self.word
            .compare_exchange(FREE, me(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Waits until the lock is free, and takes it.
    #[cold]
    pub fn wait(&self) {
        for _ in 0..SPINS {
            if self.attempt() {
                return;
            }
            core::hint::spin_loop();
        }
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            let now = self.word.load(Ordering::Relaxed);
            let wanted = if now == FREE { me() } else { now } | AWAITED;
            let changed =
                self.word
                    .compare_exchange(now, wanted, Ordering::Acquire, Ordering::Relaxed);
            match changed {
                Ok(FREE) => return,
                Ok(_) => self.turn.sleep(turn, PATIENCE),
                Err(_) => {}
            }
        }
    }

    /// Releases the lock. Signals that were deferred meanwhile are handled before this returns.
    #[inline]
    pub fn give_back(&self) {
        let mut now = self.word.load(Ordering::Relaxed);
        let before = loop {
            // A signal that is deferred after this load changes the word, so that the exchange below fails.
            let before = self.before.load(Ordering::Relaxed);
            let changed =
                self.word
                    .compare_exchange(now, FREE, Ordering::Release, Ordering::Acquire);
            match changed {
                Ok(_) => break before,
                Err(other) => now = other,
            }
        };
        if now & FLAGS != 0 {
            self.given_back(now, before);
        }
    }

    #[cold]
    fn given_back(&self, flags: usize, before: KernelSet) {
        if flags & AWAITED != 0 {
            self.turn.fetch_add(1, Ordering::Release);
            self.turn.wake_all();
        }
        if flags & DEFERRED != 0 {
            let _ = sys::sigprocmask(libc::SIG_SETMASK, before);
        }
    }

    /// Whether the calling thread holds the lock.
    #[must_use]
    pub fn mine(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !FLAGS == me()
    }

    /// Whether any thread holds the lock.
    #[must_use]
    pub fn held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    /// Defers a signal whose handler interrupted the calling thread while it held this lock: the thread gets the signal
    /// again when it releases the lock. False if the kernel refuses.
    ///
    /// # Safety
    /// As the function [`defer`].
    unsafe fn defer(&self, signal: c_int, info: *const siginfo_t, context: *mut c_void) -> bool {
        // SAFETY: by the contract.
        let Some(before) = (unsafe { defer(signal, info, context) }) else {
            return false;
        };
        // This also overwrites the mask of a second signal that came between the first one and its entry.
        self.before.store(before, Ordering::Relaxed);
        self.word.fetch_or(DEFERRED, Ordering::Release);
        true
    }
}

/// Sends the signal to the calling thread once more, and blocks signals in the code that the signal interrupted.
/// Returns the mask that this code had; `None` if the kernel refuses, and nothing has changed.
///
/// # Safety
/// The arguments are those of a signal frame that is being handled, but for `info`, which is valid.
unsafe fn defer(signal: c_int, info: *const siginfo_t, context: *mut c_void) -> Option<KernelSet> {
    // Blocked so that neither this signal nor another one comes before the handler has returned.
    let now = sys::sigprocmask(libc::SIG_BLOCK, mask::ASYNCHRONOUS).ok()?;
    // SAFETY: by the contract.
    if !unsafe { sys::requeue(signal, info) } {
        let _ = sys::sigprocmask(libc::SIG_SETMASK, now);
        return None;
    }
    // SAFETY: by the contract. The frame's set is one kernel word long, and only that is touched.
    unsafe {
        let word = (&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<KernelSet>();
        let before = word.read();
        word.write(before | mask::ASYNCHRONOUS);
        Some(before)
    }
}

/// Identifies the calling thread: the address of its thread control block.
#[cfg(target_arch = "x86_64")]
#[inline]
fn me() -> usize {
    let block: usize;
    // SAFETY: the first word of a thread's control block is its own address, by the ABI of thread-local storage.
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) block, options(nostack, preserves_flags, readonly));
    }
    block & !FLAGS
}

/// On architectures without entries no code asks which thread holds the lock.
#[cfg(not(target_arch = "x86_64"))]
fn me() -> usize {
    !FLAGS
}

/// Bit beside a function: it was installed with `SA_SIGINFO`. No address of the program has this bit.
const INFORMED: usize = !(usize::MAX >> 1);

/// The program's functions by entry; 0 for entries that are not in use.
static FUNCTIONS: [AtomicUsize; ENTRIES] = [const { AtomicUsize::new(0) }; ENTRIES];

/// Bytes of code per entry.
const LENGTH: usize = 16;

// Each entry passes its number as a fourth argument, after a handler's three.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.semcache_fault_entries, \"ax\", @progbits",
    ".p2align 4",
    ".globl semcache_fault_entries",
    ".hidden semcache_fault_entries",
    ".type semcache_fault_entries, @function",
    "semcache_fault_entries:",
    ".cfi_startproc",
    ".set semcache_fault_entry, 0",
    ".rept {entries}",
    ".p2align 4",
    "movl $semcache_fault_entry, %ecx",
    "jmp {entered}",
    ".set semcache_fault_entry, semcache_fault_entry + 1",
    ".endr",
    ".p2align 4",
    ".cfi_endproc",
    ".size semcache_fault_entries, . - semcache_fault_entries",
    ".popsection",
    entries = const ENTRIES,
    entered = sym entered,
    options(att_syntax),
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn semcache_fault_entries();
}

#[cfg(target_arch = "x86_64")]
fn first_entry() -> Option<usize> {
    Some(semcache_fault_entries as *const () as usize)
}

#[cfg(not(target_arch = "x86_64"))]
fn first_entry() -> Option<usize> {
    None
}

/// The function that an entry stands for, if the address is that of an entry in use.
fn function_of(address: usize) -> Option<usize> {
    let offset = address.wrapping_sub(first_entry()?);
    let function = FUNCTIONS.get(offset / LENGTH)?.load(Ordering::Acquire);
    (offset.is_multiple_of(LENGTH) && function != 0).then_some(function & !INFORMED)
}

/// Whether the signal's handlers may be deferred. Handlers of real-time signals may not: these signals queue, and a
/// signal that is sent again would come after those that were sent later.
fn deferrable(signal: c_int, flags: c_int) -> bool {
    /// The first signal that queues: glibc's own two signals come before the program's real-time signals.
    const QUEUED: c_int = 32;
    // The kernel removes a handler with `SA_RESETHAND` as it calls it, so a second delivery would not find it.
    signal < QUEUED && mask::holds_back(signal) && flags & libc::SA_RESETHAND == 0
}

/// The entry to give to the kernel in place of this function of the program as the handler of a signal with these `SA_`
/// flags. `None` if the kernel must call the function itself.
#[must_use]
pub fn wrapped(signal: c_int, function: usize, flags: c_int) -> Option<usize> {
    let first = first_entry().filter(|_| deferrable(signal, flags))?;
    // The address may be an entry that a library read from the kernel past the hooks.
    let function = unwrapped(function);
    if function & INFORMED != 0 {
        return None;
    }
    let wanted = if flags & libc::SA_SIGINFO == 0 {
        function
    } else {
        function | INFORMED
    };
    let entry = FUNCTIONS.iter().position(|known| {
        let now = known.compare_exchange(0, wanted, Ordering::AcqRel, Ordering::Acquire);
        now == Ok(0) || now == Err(wanted)
    })?;
    Some(first + entry * LENGTH)
}

/// The program's function if the kernel has its entry, and the default if the kernel has the handler of
/// [`last`](super::last) in its place; any other address is returned as it is.
#[must_use]
pub fn unwrapped(found: usize) -> usize {
    if is_last(found) {
        return libc::SIG_DFL;
    }
    function_of(found).unwrap_or(found)
}

/// Whether the handler that the kernel has is an entry.
fn is_entry(found: usize) -> bool {
    function_of(found).is_some()
}

type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// The common code of all entries. `C-unwind`: the program's handler, called from here, may throw or be cancelled
/// through this frame. No code follows the handler, which may never return (`siglongjmp`).
unsafe extern "C-unwind" fn entered(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    entry: u32,
) {
    let Some(function) = FUNCTIONS.get(entry as usize) else {
        return;
    };
    let function = function.load(Ordering::Acquire);
    let holder = LARGE.mine();
    // SAFETY: the kernel's argument.
    if (holder || unsafe { mask::is_cramped(context) }) && may_defer() {
        // SAFETY: all zero is a valid siginfo: a signal from an unknown process.
        let nothing = unsafe { mem::zeroed() };
        let info = if function & INFORMED == 0 {
            &raw const nothing
        } else {
            info
        };
        // SAFETY: these are the kernel's arguments, and where the kernel wrote no siginfo, the zeroed one.
        let deferred = unsafe {
            if holder {
                LARGE.defer(signal, info, context)
            } else {
                // Deferred until the interrupted handler returns: the kernel then restores the mask in that handler's
                // frame.
                defer(signal, info, context).is_some()
            }
        };
        if deferred {
            return;
        }
    }
    let function = function & !INFORMED;
    // SAFETY: the program gave this address as a handler of this signal. A one-argument handler ignores the rest: the
    // kernel itself passes three on x86-64.
    unsafe { mem::transmute::<usize, Handler>(function)(signal, info, context) };
}

/// Signals are not deferred in a process that restricts its system calls: no handler waits for a runtime thread there.
fn may_defer() -> bool {
    !mask::restricted() && !crate::broken!("break-handlers")
}

/// Whether the program has a handler of an asynchronous signal that the kernel calls directly, not through an entry.
#[must_use]
pub fn any_bare_handler() -> bool {
    (1..=64)
        .filter(|&signal| mask::holds_back(signal))
        .any(|signal| {
            // SAFETY: changes nothing.
            let found = unsafe { sys::sigaction(signal, None) };
            found.is_ok_and(|found| {
                let default = [libc::SIG_DFL, libc::SIG_IGN].contains(&found.handler);
                !default && !is_entry(found.handler) && !is_last(found.handler)
            })
        })
}
