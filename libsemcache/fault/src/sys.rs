#![expect(
    unsafe_code,
    reason = "the signal system calls, which rustix has no stable interface for"
)]
//! Raw signal system calls.
//!
//! Not through libc: the shim exports `sigaction` and its relatives itself, so a call by name would come back to the
//! shim, and libc's functions are not promised to be callable here. `rt_sigaction` wants a restorer, the code that a
//! handler returns to, so there is one below. glibc's private `__sigaction` would do (every version so far exports it),
//! but other preloaded libraries may interpose it, and glibc does not promise to keep it.

use libc::{c_int, siginfo_t};
use rustix::io::Errno;

/// A signal set as the kernel sees it: bit `n - 1` is signal `n`.
pub(crate) type KernelSet = u64;

/// The set of one signal.
pub(crate) const fn bit(signal: c_int) -> KernelSet {
    1 << (signal - 1)
}

pub(crate) const SIGSETSIZE: usize = size_of::<KernelSet>();

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(crate) struct KernelAction {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    pub(crate) restorer: usize,
    pub(crate) mask: KernelSet,
}

/// The flag for "the restorer is valid"; libc crate has no name for it on x86-64.
pub(crate) const SA_RESTORER: u64 = 0x0400_0000;

/// Sets (if `new`) and returns the kernel's disposition of a signal.
///
/// # Safety
/// `new.handler` is `SIG_DFL`, `SIG_IGN` or a function that may run as a handler of `signal` at any
/// time from now on.
pub(crate) unsafe fn sigaction(
    signal: c_int,
    new: Option<&KernelAction>,
) -> Result<KernelAction, Errno> {
    let mut old = KernelAction::default();
    // SAFETY: both structures have the kernel's layout and outlive the call; the caller vouches for the
    // handler.
    unsafe {
        syscall4(
            libc::SYS_rt_sigaction,
            signal as usize,
            new.map_or(0, |n| &raw const *n as usize),
            &raw mut old as usize,
            SIGSETSIZE,
        )
    }?;
    Ok(old)
}

/// Changes the calling thread's signal mask (`how` as in `sigprocmask`) and returns the old one.
pub(crate) fn sigprocmask(how: c_int, set: KernelSet) -> Result<KernelSet, Errno> {
    let mut old: KernelSet = 0;
    // SAFETY: reads and writes eight bytes each, both local variables.
    unsafe {
        syscall4(
            libc::SYS_rt_sigprocmask,
            how as usize,
            &raw const set as usize,
            &raw mut old as usize,
            SIGSETSIZE,
        )
    }?;
    Ok(old)
}

/// The signals that are pending for the calling thread, or for the process.
pub(crate) fn pending() -> KernelSet {
    let mut set: KernelSet = 0;
    // SAFETY: writes eight bytes, a local variable.
    let asked = unsafe {
        syscall4(
            libc::SYS_rt_sigpending,
            &raw mut set as usize,
            SIGSETSIZE,
            0,
            0,
        )
    };
    if asked.is_ok() { set } else { 0 }
}

/// Closes a descriptor number, if it is open. rustix's `close` takes a number that is not open for a bug; but the
/// program may close any number.
///
/// # Safety
/// The number means no file, or one that no code uses after this.
pub(crate) unsafe fn close(number: c_int) {
    // SAFETY: the caller's promise.
    let _ = unsafe { syscall4(libc::SYS_close, number as usize, 0, 0, 0) };
}

/// The calling thread's id.
pub(crate) fn current_tid() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned()
}

/// Sends a signal with this `siginfo` to the calling thread. False if the kernel refuses.
///
/// # Safety
/// `info` points to a valid `siginfo_t`.
pub(crate) unsafe fn requeue(signal: c_int, info: *const siginfo_t) -> bool {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: the kernel reads `info`, which the caller vouches for.
    let sent = unsafe {
        syscall4(
            libc::SYS_rt_tgsigqueueinfo,
            pid as usize,
            current_tid() as usize,
            signal as usize,
            info as usize,
        )
    };
    sent.is_ok()
}

/// Whether a thread exists; true if that cannot be known. The thread may belong to another process: a child that shares
/// the memory (vfork) waits for a thread of its parent.
pub(crate) fn thread_exists(tid: u32) -> bool {
    // SAFETY: signal 0 checks and sends nothing.
    let answer = unsafe { syscall4(libc::SYS_tkill, tid as usize, 0, 0, 0) };
    answer != Err(Errno::SRCH)
}

/// Gives the calling thread a descriptor table of its own, a copy of the process's. False if the kernel refuses, as a
/// container may.
pub(crate) fn unshare_files() -> bool {
    // SAFETY: other threads keep the old table.
    unsafe { syscall4(libc::SYS_unshare, libc::CLONE_FILES as usize, 0, 0, 0) }.is_ok()
}

/// Closes the descriptors from `first` to `last`. False if the kernel has no such call (before 5.9).
///
/// # Safety
/// No code uses these numbers in the calling thread's table after this.
pub(crate) unsafe fn close_range(first: u32, last: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { syscall4(libc::SYS_close_range, first as usize, last as usize, 0, 0) }.is_ok()
}

/// Ends the process at once.
pub(crate) fn exit_group(status: c_int) {
    // SAFETY: no code of this process runs after this.
    let _ = unsafe { syscall4(libc::SYS_exit_group, status as usize, 0, 0, 0) };
}

/// Makes a page readable and writable.
pub(crate) fn open_page(start: usize, page: usize) -> bool {
    use rustix::mm::{MprotectFlags, mprotect};
    let at = core::ptr::with_exposed_provenance_mut(start);
    // SAFETY: only widens access to a page that is readable and writable for the program.
    unsafe { mprotect(at, page, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
}

/// Writes a line to stderr with a system call, past every buffer.
pub(crate) fn say(line: &[u8]) {
    // SAFETY: descriptor 2 is only named; if the program closed it, write fails and nothing happens.
    let stderr = unsafe { rustix::fd::BorrowedFd::borrow_raw(2) };
    let _ = rustix::io::write(stderr, line);
}

#[cfg(target_arch = "x86_64")]
unsafe fn syscall4(
    number: libc::c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the x86-64 system call convention; the kernel keeps all registers but rax, rcx and r11. The caller
    // vouches for the memory that the system call reads and writes.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match result {
        -4095..=-1 => Err(Errno::from_raw_os_error(-(result as i32))),
        _ => Ok(result.cast_unsigned()),
    }
}

/// Other architectures compile, but the handler is never installed there.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn syscall4(
    _number: libc::c_long,
    _a: usize,
    _b: usize,
    _c: usize,
    _d: usize,
) -> Result<usize, Errno> {
    Err(Errno::NOSYS)
}

// The code that a handler returns to. Unwinders and debuggers recognise a signal frame by these very bytes (`mov $15,
// %rax; syscall`), and look one byte before them for call frame information: the `nop` keeps that byte outside of any
// function.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.semcache_fault_restore_rt, \"ax\", @progbits",
    ".p2align 4",
    "nop",
    ".globl semcache_fault_restore_rt",
    ".hidden semcache_fault_restore_rt",
    ".type semcache_fault_restore_rt, @function",
    "semcache_fault_restore_rt:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00",
    ".byte 0x0f, 0x05",
    ".size semcache_fault_restore_rt, . - semcache_fault_restore_rt",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn semcache_fault_restore_rt();
}

/// The address of the restorer.
#[cfg(target_arch = "x86_64")]
pub(crate) fn restorer() -> usize {
    semcache_fault_restore_rt as *const () as usize
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn restorer() -> usize {
    0
}
