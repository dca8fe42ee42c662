//! Hooks of `execl`, `execlp` and `execle`, whose strings are separate arguments: they collect the strings in an array
//! and call the hooks of `execv`, `execvp` and `execve` ([`super::pointers`]).

#![expect(
    unsafe_code,
    reason = "exports libc functions; makes an array of their arguments"
)]

use core::arch::naked_asm;

use super::pointers::{execv, execve, execvp};

/// Pushes the string arguments that came in registers, from the second argument on, in front of the arguments on the
/// stack, so that all strings are one array. The return address, which lies between the two, is taken out first and
/// pushed below the array.
macro_rules! listed {
    ($($name:ident => $with:expr;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {with}",
                "pop rdx",
                "add rsp, 40",
                "push rdx",
                "ret",
                with = sym $with,
            )
        }
    )*};
}

listed! {
    execl => of_list;
    execlp => found_in_path;
    execle => with_environment;
}

unsafe extern "C-unwind" fn of_list(path: usize, strings: *const usize) -> usize {
    // SAFETY: the program's arguments.
    unsafe { execv(path, strings.addr(), 0, 0, 0, 0) }
}

unsafe extern "C-unwind" fn found_in_path(file: usize, strings: *const usize) -> usize {
    // SAFETY: the program's arguments.
    unsafe { execvp(file, strings.addr(), 0, 0, 0, 0) }
}

/// The environment is the argument after the null pointer that ends the strings.
unsafe extern "C-unwind" fn with_environment(path: usize, strings: *const usize) -> usize {
    let mut end = strings;
    // SAFETY: the program's arguments, the last string's null pointer and the environment among them.
    unsafe {
        while *end != 0 {
            end = end.add(1);
        }
        execve(path, strings.addr(), *end.add(1), 0, 0, 0)
    }
}
