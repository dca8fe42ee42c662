//! `execl` and its kin, which take their strings as arguments: with an array of them these are functions of
//! [`super::pointers`].

#![expect(
    unsafe_code,
    reason = "exports libc functions; makes an array of their arguments"
)]

use core::arch::naked_asm;

use super::pointers::{execv, execve, execvp};

/// The arguments from the second on, those in registers and those on the stack, become an array: the return address is
/// between the two, and is kept below them meanwhile.
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
    // SAFETY: as above.
    unsafe { execvp(file, strings.addr(), 0, 0, 0, 0) }
}

/// The environment is behind the null pointer that ends the strings.
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
