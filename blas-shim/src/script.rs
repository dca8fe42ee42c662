//! The line of a script as a call site (`SEMCACHE_SITES`): of the innermost function that a user wrote, as the interpreter says.

#![expect(
    unsafe_code,
    reason = "calls functions of interpreters that it finds by name"
)]

mod octave;
mod python;
mod r;

use core::ffi::{CStr, c_int, c_void};
use core::hash::{Hash as _, Hasher as _};
use std::hash::DefaultHasher;

use semcache::base::config::Language;
use semcache::base::counters::{Kind, PAGE, sites};
use semcache::process::signals_blocked::SignalsBlocked;
use semcache::runtime::init;

use crate::symbols::Symbol;

/// A line of a script.
struct Line {
    file: String,
    line: c_int,
}

/// The site of the line of a script that makes a call, if that is wanted and the thread runs one; else `native`.
pub(crate) fn site(symbol: &Symbol, native: Option<usize>) -> Option<usize> {
    let Some(language) = init::config().sites else {
        return native;
    };
    let found = match language {
        Language::Python => python::line(),
        Language::R => r::line(),
        Language::Octave => octave::line(),
    };
    found.and_then(|line| known(symbol, &line)).or(native)
}

fn known(symbol: &Symbol, at: &Line) -> Option<usize> {
    let mut hasher = DefaultHasher::new();
    at.file.hash(&mut hasher);
    let key = sites::key([hasher.finish() as usize, at.line as usize, symbol.index()]);
    let label = || labelled(&at.file, at.line);
    PAGE.sites
        .find(key, Kind::Call(symbol.index()), 0, 0, &label)
}

/// File and line; of a long path its end.
fn labelled(file: &str, line: c_int) -> String {
    const MOST: usize = 100;
    let tail: Vec<char> = file.chars().rev().take(MOST).collect();
    let tail: String = tail.into_iter().rev().collect();
    format!("{tail}:{line}")
}

/// Whether the calling thread is the process's first, on which R and Octave run scripts.
fn is_main() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// The address of a function or of data that the process has loaded. To be called where the loader's lock may be waited for.
fn loaded(name: &CStr) -> Option<*mut c_void> {
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
        unsafe { core::mem::transmute::<*mut core::ffi::c_void, _>($crate::script::loaded($name)?) }
    };
}
use function;
