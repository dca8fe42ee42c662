//! Hooks of `_exit` and `_Exit`, which end the process without its exit handlers: trace and report are written first.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::c_int;

use std::panic::catch_unwind;

use super::real::real;

type Exit = unsafe extern "C" fn(c_int) -> !;

/// Ends the process by libc's function, or by the system call if libc's was not found.
///
/// # Safety
/// As `_exit`.
unsafe fn leave(real: Option<Exit>, status: c_int) -> ! {
    // A panic must not cross into the program, which ends as it would have without the library.
    let _ = catch_unwind(semcache::runtime::exit::leave);
    match real {
        // SAFETY: the program's argument.
        Some(real) => unsafe { real(status) },
        None => loop {
            // SAFETY: ends the process.
            unsafe { libc::syscall(libc::SYS_exit_group, status) };
        },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    // SAFETY: the program's argument.
    unsafe { leave(real!(_exit: Exit), status) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the program's argument.
    unsafe { leave(real!(_Exit: Exit), status) }
}
