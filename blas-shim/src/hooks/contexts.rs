//! `makecontext`: a context gets its stack, of whose pages none may be closed while it waits.
//!
//! `swapcontext` and `setcontext` go to contexts that this has made, or that began on a thread's own stack. Who switches
//! the stack pointer without libc is found out when a call runs there (`host::runs_here`).

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

/// Variadic in C: all arguments, those on the stack included, stay where they are for libc's function.
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

/// Libc's function, after a look at what it is given.
unsafe extern "C-unwind" fn made(context: *const ucontext_t) -> *const c_void {
    if !broken!("break-context") {
        // SAFETY: the program's argument, which it has filled in.
        let stack = unsafe { (*context).uc_stack };
        becomes_stack(stack.ss_sp as usize, stack.ss_size);
    }
    // Every libc has it.
    real!(makecontext: unsafe extern "C" fn()).map_or(core::ptr::null(), |f| f as *const c_void)
}
