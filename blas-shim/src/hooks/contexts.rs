//! Hook of `makecontext`: the block that contains a context's stack is tracked no longer, so that no page of the stack
//! is inaccessible while another context runs.
//!
//! `swapcontext` and `setcontext` need no hook: they switch to contexts that `makecontext` has made, or that began on a
//! thread's own stack. For programs that switch the stack pointer without libc, the stack is noticed when a BLAS call
//! or a system call is made on it (`host::runs_here`).

#![expect(
    unsafe_code,
    reason = "exports a libc function with any number of arguments"
)]

use core::arch::naked_asm;
use core::ffi::c_void;

use libc::ucontext_t;

use super::real::real;
use semcache::host::becomes_stack;
use semcache_fault::broken;

/// Variadic in C: this hook calls `made` and then jumps to libc's function, with all arguments unchanged, those on the
/// stack included.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn makecontext() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 56",
        ".cfi_adjust_cfa_offset 56",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "call {made}",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "add rsp, 56",
        ".cfi_adjust_cfa_offset -56",
        "jmp rax",
        ".cfi_endproc",
        made = sym made,
    )
}

/// Stops tracking the block that contains the context's stack, and returns the address of libc's function.
unsafe extern "C-unwind" fn made(context: *const ucontext_t) -> *const c_void {
    if !broken!("break-context") {
        // SAFETY: the program's argument, whose `uc_stack` it has set before this call.
        let stack = unsafe { (*context).uc_stack };
        becomes_stack(stack.ss_sp as usize, stack.ss_size);
    }
    // Never null: every glibc has `makecontext`.
    real!(makecontext: unsafe extern "C" fn()).map_or(core::ptr::null(), |f| f as *const c_void)
}
