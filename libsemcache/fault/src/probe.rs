//! Probing: reads and writes memory that may be unmapped.
//!
//! Asking the kernel costs a system call. So a single word is simply loaded, by one known instruction; if that faults,
//! the fault handler continues behind it. Larger copies are attempted: if one faults, the fault handler returns to
//! where the attempt began, and the copy ends in the middle.
#![expect(unsafe_code, reason = "accesses addresses that nobody vouches for")]

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::{handler, sync};
use libc::{siginfo_t, ucontext_t};

// Returns the word in the first result register, and in the second whether it could be read.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.semcache_fault_probe, \"ax\", @progbits",
    ".p2align 4",
    ".globl semcache_fault_probe",
    ".hidden semcache_fault_probe",
    ".type semcache_fault_probe, @function",
    "semcache_fault_probe:",
    ".cfi_startproc",
    "mov edx, 1",
    ".globl semcache_fault_probe_load",
    ".hidden semcache_fault_probe_load",
    "semcache_fault_probe_load:",
    "mov rax, qword ptr [rdi]",
    "ret",
    ".globl semcache_fault_probe_failed",
    ".hidden semcache_fault_probe_failed",
    "semcache_fault_probe_failed:",
    "xor eax, eax",
    "xor edx, edx",
    "ret",
    ".cfi_endproc",
    ".size semcache_fault_probe, . - semcache_fault_probe",
    ".popsection",
);

// Calls the first argument with the second one. While the call lasts, the place that the third argument names holds the
// stack pointer: with it the fault handler can continue at the label of failure, since all registers that a caller
// wants kept are on the stack.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.semcache_fault_attempt, \"ax\", @progbits",
    ".p2align 4",
    ".globl semcache_fault_attempt",
    ".hidden semcache_fault_attempt",
    ".type semcache_fault_attempt, @function",
    "semcache_fault_attempt:",
    ".cfi_startproc",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rdx",
    ".cfi_def_cfa_offset 64",
    "mov qword ptr [rdx], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov eax, 1",
    "2:",
    "pop rdx",
    "mov qword ptr [rdx], 0",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_def_cfa_offset 64",
    ".globl semcache_fault_attempt_failed",
    ".hidden semcache_fault_attempt_failed",
    "semcache_fault_attempt_failed:",
    "xor eax, eax",
    "jmp 2b",
    ".cfi_endproc",
    ".size semcache_fault_attempt, . - semcache_fault_attempt",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn semcache_fault_attempt(work: Work, data: *const c_void, sp: *mut usize) -> u32;
    fn semcache_fault_attempt_failed();
    fn semcache_fault_probe(addr: usize) -> Probed;
    fn semcache_fault_probe_load();
    fn semcache_fault_probe_failed();
}

#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Probed {
    word: u64,
    read: u64,
}

/// The code of an attempt: it only copies bytes, so that it can be left at any instruction.
pub type Work = unsafe extern "C" fn(*const c_void);

/// An attempt that a thread is executing.
struct Attempt {
    /// The thread, or 0.
    tid: AtomicU32,
    /// The stack pointer of the attempt's frame, or 0.
    sp: AtomicUsize,
}

/// Number of attempts at a time.
const ATTEMPTS: usize = 64;
static UNDER_WAY: [Attempt; ATTEMPTS] = [const {
    Attempt {
        tid: AtomicU32::new(0),
        sp: AtomicUsize::new(0),
    }
}; ATTEMPTS];

/// Runs `work`: true if it ran to its end, false if it touched memory that may not be touched. `None`: no fault would
/// be noticed (no handler, or no slot left), and `work` was not called.
///
/// # Safety
/// `work` may be called with `data`, except that its accesses may fault, and may be left at any instruction. Meanwhile
/// no asynchronous handler that leaves by a jump runs on this thread.
#[must_use]
pub unsafe fn attempt(work: Work, data: *const c_void) -> Option<bool> {
    if !handler::installed() || cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    let tid = sync::current_tid();
    let free = |a: &&Attempt| {
        let taken = a
            .tid
            .compare_exchange(0, tid, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok()
    };
    let place = UNDER_WAY.iter().find(free)?;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise. The slot belongs to this thread, and only a fault handler on this thread reads it.
    let done = unsafe { semcache_fault_attempt(work, data, place.sp.as_ptr()) != 0 };
    #[cfg(not(target_arch = "x86_64"))]
    let done = false;
    place.tid.store(0, Ordering::Relaxed);
    Some(done)
}

/// If this thread raised the fault in an attempt, ends the attempt. Returns whether it did.
///
/// # Safety
/// `info` and `context` are those of a signal frame.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn gives_up(info: *const siginfo_t, context: *mut ucontext_t) -> bool {
    let attempted = |a: &&Attempt| {
        let sp = a.sp.load(Ordering::Relaxed);
        sp != 0 && a.tid.load(Ordering::Relaxed) == sync::current_tid()
    };
    // SAFETY: the caller's promise. A signal that a process sent is no fault.
    if unsafe { (*info).si_code } <= 0 {
        return false;
    }
    let Some(attempt) = UNDER_WAY.iter().find(attempted) else {
        return false;
    };
    let sp = attempt.sp.load(Ordering::Relaxed);
    // SAFETY: the caller's promise; two words are written, no reference is formed to the whole.
    unsafe {
        let registers = &raw mut (*context).uc_mcontext.gregs;
        (*registers)[libc::REG_RSP as usize] = sp as i64;
        (*registers)[libc::REG_RIP as usize] =
            semcache_fault_attempt_failed as *const () as usize as i64;
    }
    true
}

/// On other architectures no attempt is made.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn gives_up(_info: *const siginfo_t, _context: *mut ucontext_t) -> bool {
    false
}

/// The result of probing an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// The word at the address.
    Word(u64),
    /// The address may not be read.
    Nothing,
    /// The handler is not installed, or the address is unaligned, so the load was not tried.
    Unable,
}

/// Reads the word at `addr`, which is a multiple of eight. Of an inaccessible page that semcache tracks the result
/// is [`Probe::Nothing`], too.
#[must_use]
pub fn look(addr: usize) -> Probe {
    if !handler::installed() || !addr.is_multiple_of(8) {
        return Probe::Unable;
    }
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the function has no effect but its result. Its one access loads an aligned word; if that faults
        // the handler, which is installed, makes the function return. No reference to the memory is formed.
        let found = unsafe { semcache_fault_probe(addr) };
        if found.read != 0 {
            Probe::Word(found.word)
        } else {
            Probe::Nothing
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Probe::Unable
}

/// If the fault is that of the probing load, makes the load fail. Returns whether it did.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal frame.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn fails(context: *mut ucontext_t) -> bool {
    // SAFETY: by the contract; one word is read and written, no reference is formed to the whole.
    unsafe {
        let rip = &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize];
        if rip.read() as usize != semcache_fault_probe_load as *const () as usize {
            return false;
        }
        rip.write(semcache_fault_probe_failed as *const () as usize as i64);
    }
    true
}

/// On other architectures there is no probing load.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn fails(_context: *mut ucontext_t) -> bool {
    false
}
