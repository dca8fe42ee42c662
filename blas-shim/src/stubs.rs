//! The exported BLAS symbols: one naked function each.
//!
//! Neither kind leaves a frame of ours on the stack while the host BLAS runs: control may leave it by
//! `longjmp` or an exception. `r10` and `r11` are the registers that a call may destroy and that carry no
//! argument; everything else arrives at the host's function as the caller left it, `al` (the number of
//! vector registers of an unprototyped call) included.

#![expect(
    unsafe_code,
    reason = "stubs must not touch argument registers, so they are assembly"
)]

use core::arch::naked_asm;

use crate::entry::{enter, resolve_jump};
use crate::frame;
use crate::sites::SITES;

/// A routine that is not offloaded: jumps to the function that the call site is bound to.
macro_rules! jump {
    ($name:ident, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(
                "lea r11, [rip + {sites} + {offset}]",
                "mov r10, [rsp]",
                "and r10d, 7",
                "mov r11, [r11 + 8*r10]",
                "test r11, r11",
                "jz 2f",
                "mov r10, [rsp]",
                "cmp r10, [r11]",
                "jne 2f",
                "jmp [r11 + 8]",
                "2:",
                "mov r11d, {index}",
                "jmp {slow}",
                sites = sym SITES,
                offset = const $index * 64,
                index = const $index,
                slow = sym jump_slow,
            )
        }
    };
}

/// A routine that may be offloaded: asks [`enter`].
macro_rules! enter {
    ($name:ident, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(
                "mov r11d, {index}",
                "jmp {common}",
                index = const $index,
                common = sym enter_common,
            )
        }
    };
}

/// Saves the argument registers in a [`frame::Frame`] and passes it, with the symbol in `r11d`, to `$callee`;
/// then restores them, with the answer in `r11`.
macro_rules! save_call_restore {
    ($($after:literal),* ; $callee:ident) => {
        naked_asm!(
            ".cfi_startproc",
            "sub rsp, {size}",
            ".cfi_adjust_cfa_offset {size}",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "mov [rsp + 48], rax",
            "movaps [rsp + 64], xmm0",
            "movaps [rsp + 80], xmm1",
            "movaps [rsp + 96], xmm2",
            "movaps [rsp + 112], xmm3",
            "movaps [rsp + 128], xmm4",
            "movaps [rsp + 144], xmm5",
            "movaps [rsp + 160], xmm6",
            "movaps [rsp + 176], xmm7",
            "mov rdi, rsp",
            "mov esi, r11d",
            "call {callee}",
            "mov r11, rax",
            $($after,)*
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "mov rax, [rsp + 48]",
            "movaps xmm0, [rsp + 64]",
            "movaps xmm1, [rsp + 80]",
            "movaps xmm2, [rsp + 96]",
            "movaps xmm3, [rsp + 112]",
            "movaps xmm4, [rsp + 128]",
            "movaps xmm5, [rsp + 144]",
            "movaps xmm6, [rsp + 160]",
            "movaps xmm7, [rsp + 176]",
            "add rsp, {size}",
            ".cfi_adjust_cfa_offset -{size}",
            "jmp r11",
            // Done: the result's registers come from the frame.
            "3:",
            ".cfi_adjust_cfa_offset {size}",
            "mov rax, [rsp + 56]",
            "movq xmm0, qword ptr [rsp + 192]",
            "movq xmm1, qword ptr [rsp + 200]",
            "add rsp, {size}",
            ".cfi_adjust_cfa_offset -{size}",
            "ret",
            ".cfi_endproc",
            size = const frame::SIZE,
            callee = sym $callee,
        )
    };
}

#[unsafe(naked)]
extern "C" fn enter_common() {
    save_call_restore!("test r11, r11", "jz 3f"; enter)
}

#[unsafe(naked)]
extern "C" fn jump_slow() {
    save_call_restore!("test r11, r11", "jz 3f"; resolve_jump)
}

/// Where calls end whose routine no library in the process has: zero, in every register of a result.
#[unsafe(naked)]
pub(crate) extern "C" fn no_provider() {
    naked_asm!(
        "xor eax, eax",
        "xorps xmm0, xmm0",
        "xorps xmm1, xmm1",
        "ret"
    )
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
