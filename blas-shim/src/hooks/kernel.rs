//! A system call, made by an instruction of our own: libc's `syscall` is one of the hooks.

#![expect(unsafe_code, reason = "makes system calls for others")]

use core::arch::asm;
use core::ffi::{c_int, c_long};

use super::real::set_errno;

/// The result of libc's `syscall` for an error of the kernel: -1, with `errno` set.
pub(super) extern "C" fn failed(answer: c_long) -> c_long {
    set_errno(c_int::try_from(answer.unsigned_abs()).unwrap_or(libc::EINVAL));
    -1
}

/// Makes the system call itself.
///
/// # Safety
/// That of the call.
pub(super) unsafe fn call(number: c_long, words: [usize; 6]) -> c_long {
    let answer: c_long;
    // SAFETY: the convention of the kernel, which clobbers rcx and r11; the rest is the caller's.
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
