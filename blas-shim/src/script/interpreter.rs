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

/// Declares what of an interpreter is called or read, each with its type and its name for the linker, and `api()`, which finds all of it.
macro_rules! api {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $name:literal;)*) => {
        struct Api { $($(#[$doc])* $field: $type,)* }

        /// What is declared above, if the process has the interpreter and that has all of it.
        #[allow(clippy::transmute_ptr_to_ref, reason = "a declared type may be that of a reference to data")]
        fn api() -> Option<&'static Api> {
            static API: std::sync::OnceLock<Option<Api>> = std::sync::OnceLock::new();
            let found = || {
                Some(Api { $(
                    // SAFETY: the interpreter's documentation, or its header, gives what has this name this type. An interpreter is
                    // never unloaded.
                    $field: unsafe {
                        core::mem::transmute::<*mut c_void, $type>($crate::script::interpreter::loaded($name)?)
                    },
                )* })
            };
            API.get_or_init(found).as_ref()
        }
    };
}
pub(super) use api;
