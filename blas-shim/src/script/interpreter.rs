//! What the interpreters of scripts have in common: how their functions are found, and what they are asked for.

use core::ffi::{CStr, c_int, c_void};

use semcache::process::signals_blocked::SignalsBlocked;

/// A line of a script.
pub(super) struct Line {
    pub(super) file: String,
    pub(super) line: c_int,
}

/// Whether the calling thread is the process's first, on which R and Octave run scripts.
pub(super) fn is_main() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// The address of a function or of data that the process has loaded. To be called where the loader's lock may be waited for.
pub(super) fn loaded(name: &CStr) -> Option<*mut c_void> {
    // `dlsym` takes the loader's lock.
    let _blocked = SignalsBlocked::new();
    // SAFETY: a C string; the loader finds the program's own symbols and those of all its libraries.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!at.is_null()).then_some(at)
}

/// The loaded function of a name, with the type of the field that it is assigned to.
macro_rules! function {
    ($name:literal) => {
        // SAFETY: the interpreter's documentation, or its header, gives the function of this name this type.
        unsafe { core::mem::transmute::<*mut core::ffi::c_void, _>($crate::script::interpreter::loaded($name)?) }
    };
}
pub(super) use function;
