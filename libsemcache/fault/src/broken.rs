//! Fault injection: remedies that a build lacks on purpose, to show that their tests notice.

#![expect(unsafe_code, reason = "reads the environment without an allocation")]

use core::ffi::CStr;

/// Environment variable that names the one remedy to switch off at run time; without it, all that the build lacks are
/// off.
const CHOICE: &CStr = c"BROKEN_ITEM";

/// Whether this process is to lack the named remedy. Called by [`broken!`](crate::broken!) only.
#[must_use]
pub fn chosen(item: &str) -> bool {
    // SAFETY: a C string; the programs that such builds run under do not change their environment meanwhile.
    let choice = unsafe { libc::getenv(CHOICE.as_ptr()) };
    // SAFETY: not null, so a C string of the environment.
    choice.is_null() || unsafe { CStr::from_ptr(choice) }.to_bytes() == item.as_bytes()
}

/// Whether this build and process lack a remedy: `broken!("break-fork")`. Constant `false` in every other build.
#[macro_export]
macro_rules! broken {
    ($item:literal) => {
        cfg!(feature = $item) && $crate::broken::chosen($item)
    };
}
