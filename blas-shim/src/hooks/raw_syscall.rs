//! Executes the `syscall` instruction: libc's `syscall` function is hooked itself, so calling it would enter its hook again.

#![expect(
    unsafe_code,
    reason = "executes system calls with the arguments of hooked functions"
)]

use core::arch::asm;
use core::ffi::{c_int, c_long};

use super::real::set_errno;

/// What libc's `syscall` does with an error that the kernel returned (a negated errno): sets `errno` and returns -1. The
/// hook of `syscall`, written in assembly, calls it, too.
pub(super) extern "C" fn error(answer: c_long) -> c_long {
    set_errno(c_int::try_from(answer.unsigned_abs()).unwrap_or(libc::EINVAL));
    -1
}

/// Makes a system call. As with libc's `syscall`, an error is -1 with `errno` set.
///
/// # Safety
/// The arguments must be valid for the system call.
pub(super) unsafe fn call(number: c_long, arguments: [usize; 6]) -> c_long {
    let answer: c_long;
    // SAFETY: Linux's calling convention on x86-64: a system call changes rax, rcx and r11. The caller passes valid
    // arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if (-4095..0).contains(&answer) {
        error(answer)
    } else {
        answer
    }
}
