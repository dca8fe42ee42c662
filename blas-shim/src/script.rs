//! The line of a script as a call site (`SEMCACHE_SITES`): of the innermost function that a user wrote, as the interpreter says.

#![expect(
    unsafe_code,
    reason = "calls functions of interpreters that it finds by name"
)]

mod interpreter;
mod octave;
mod python;
mod r;

use core::ffi::c_int;
use core::hash::{Hash as _, Hasher as _};
use std::hash::DefaultHasher;

use semcache::base::config::Language;
use semcache::base::counters::{Kind, PAGE, sites};
use semcache::runtime::init;

use crate::symbols::Symbol;
use interpreter::Line;

/// The site of the line of a script that makes a call, if that is wanted and the thread runs one; else `native`.
pub(crate) fn site(symbol: &Symbol, native: Option<usize>) -> Option<usize> {
    if init::config().sites.is_none() {
        return native;
    }
    line().and_then(|line| known(symbol, &line)).or(native)
}

/// File and line of the script that the calling thread runs, if they are wanted.
pub(crate) fn label() -> Option<String> {
    line().map(|at| labelled(&at.file, at.line))
}

fn line() -> Option<Line> {
    match init::config().sites? {
        Language::Python => python::line(),
        Language::R => r::line(),
        Language::Octave => octave::line(),
    }
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
