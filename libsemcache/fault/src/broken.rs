//! Remedies that a build lacks on purpose, to show that the tests of them notice.

#![expect(unsafe_code, reason = "reads the environment without an allocation")]

use core::ffi::CStr;

/// Which of the remedies that a build lacks is lacking at run time: one by its name, all without this variable.
const CHOICE: &CStr = c"BROKEN_ITEM";

/// Whether the item is the one that this process is to lack. Asked by [`broken!`](crate::broken!) only.
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
