//! Reading a word that may not be there.
//!
//! Asking the kernel costs a system call; so the word is simply loaded, by one known instruction, and if that
//! faults the handler goes on behind it.
#![expect(unsafe_code, reason = "loads from an address that nobody vouches for")]

use crate::handler;
use libc::ucontext_t;

// The word in the first result register, and in the second whether it could be read.
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

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
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

/// What a look at an address found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// This word.
    Word(u64),
    /// Nothing that may be read.
    Nothing,
    /// The handler is not installed, so nobody may look.
    Unable,
}

/// Looks at the word at `addr`, which is a multiple of eight. Closed pages of ours count as nothing.
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

/// If the fault is that of the probing load, lets it fail. Whether it was.
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

/// There is no probing load.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn fails(_context: *mut ucontext_t) -> bool {
    false
}
