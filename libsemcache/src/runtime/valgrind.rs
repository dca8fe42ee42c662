//! Whether the process runs under valgrind. Valgrind takes memory for uninitialised that it does not see being written
//! (results that a device copies to the host), and emulates all instructions of the host's side.

#![expect(
    unsafe_code,
    reason = "asks by instructions that mean nothing elsewhere"
)]

use core::arch::asm;

/// `VG_USERREQ__RUNNING_ON_VALGRIND` of valgrind.h.
const RUNNING: u64 = 0x1001;

/// Number of nested valgrinds that this process runs under: 0 or 1, except when valgrind itself is debugged.
pub(super) fn layers() -> u64 {
    let request = [RUNNING, 0, 0, 0, 0, 0];
    let mut answer = 0_u64;
    // SAFETY: rotates a register by 128 bits in all and exchanges another with itself, so nothing changes. Valgrind
    // recognises the sequence, reads the request and sets the answer.
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
