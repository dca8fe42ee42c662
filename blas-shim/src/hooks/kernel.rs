//! Makes a system call by an instruction of this library: libc's `syscall` is one of the hooked functions.

#![expect(unsafe_code, reason = "makes system calls for others")]

use core::arch::asm;
use core::ffi::{c_int, c_long};

use super::real::set_errno;

/// The result of libc's `syscall` for an error of the kernel: -1, with `errno` set.
pub(super) extern "C" fn failed(answer: c_long) -> c_long {
    set_errno(c_int::try_from(answer.unsigned_abs()).unwrap_or(libc::EINVAL));
    -1
}

/// Makes a system call.
///
/// # Safety The arguments must be valid for the system call.
pub(super) unsafe fn call(number: c_long, words: [usize; 6]) -> c_long {
    let answer: c_long;
    // SAFETY: the calling convention of the kernel, which changes rcx and r11 besides the result; the caller keeps this
    // function's contract.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") words[0],
            in("rsi") words[1],
            in("rdx") words[2],
            in("r10") words[3],
            in("r8") words[4],
            in("r9") words[5],
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if (-4095..0).contains(&answer) {
        failed(answer)
    } else {
        answer
    }
}
