//! Hooks of `_exit` and `_Exit`, which end the process without its exit handlers: the trace is written to its end first.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::c_int;

use super::real::real;
use semcache::trace;

type Exit = unsafe extern "C" fn(c_int) -> !;

/// Ends the process by libc's function, or by the system call if libc's was not found.
///
/// # Safety
/// As `_exit`.
unsafe fn leave(real: Option<Exit>, status: c_int) -> ! {
    trace::leave();
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
