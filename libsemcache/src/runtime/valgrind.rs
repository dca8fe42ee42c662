//! Whether the process runs under valgrind, where pages that change behind its back (those that a device writes) look
//! uninitialised, and all of the arithmetic runs on an emulated processor anyway.

#![expect(
    unsafe_code,
    reason = "asks by instructions that mean nothing elsewhere"
)]

use core::arch::asm;

/// The request "running on valgrind" of every valgrind's interface to programs.
const RUNNING: u64 = 0x1001;

/// How many valgrinds emulate this process's processor.
pub(super) fn layers() -> u64 {
    let request = [RUNNING, 0, 0, 0, 0, 0];
    let mut answer = 0_u64;
    // SAFETY: turns a register by 128 bits in all and exchanges another with itself: nothing happens, but that valgrind
    // knows the sequence, reads the request and sets the answer.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_emulates_this_test() {
        assert_eq!(layers(), 0);
    }
}
