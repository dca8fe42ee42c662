//! `dup2` and `dup3` onto a number under which a thread of ours is opening a descriptor at that moment: Linux refuses
//! that with EBUSY, which a program whose own threads open nothing never sees.

#![expect(unsafe_code, reason = "exports libc functions")]

use core::ffi::c_int;

use rustix::thread::{Timespec, nanosleep};

use super::real::{errno, real, set_errno};

/// How often and after which time it is tried again. What is being opened may be a device's.
const TRIES: u32 = 10_000;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000,
};

/// Calls libc's function until the number is free or somebody's.
fn settled(duplicate: impl Fn() -> c_int) -> c_int {
    for _ in 0..TRIES {
        let made = duplicate();
        if made != -1 || errno() != libc::EBUSY {
            return made;
        }
        let _ = nanosleep(&PAUSE);
    }
    duplicate()
}

macro_rules! duplicates {
    ($($name:ident($($flags:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(old: c_int, new: c_int $(, $flags: c_int)?) -> c_int {
            type Function = unsafe extern "C" fn(c_int, c_int $(, duplicates!(@ $flags))?) -> c_int;
            let Some(real) = real!($name: Function) else {
                set_errno(libc::ENOSYS);
                return -1;
            };
            // SAFETY: the program's arguments.
            settled(|| unsafe { real(old, new $(, $flags)?) })
        }
    )*};
    (@ $flags:ident) => { c_int };
}

duplicates! {
    dup2();
    dup3(flags);
}
