//! The file with the rates of this machine (`SEMCACHE_RATES`): read once, at the first prediction.

use log::warn;
use once_cell::race::OnceBox;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};

use super::mode::is_secluded;
use crate::base::config::{Config, RATES};
use crate::model::rates_file::Given;

/// The largest file that is read: those that `gpu-bench.sh rates` writes have two thousand bytes.
const LARGEST: usize = 64 << 10;

/// The figures of the file that the configuration names; `None` if it names none. A file that cannot be used gives none
/// either, with one line on stderr. A process that has restricted its own system calls before reads no file.
pub(super) fn given(config: &Config) -> Option<&'static Given> {
    // `OnceBox`, since no thread waits for its initialisation: in the child of a fork the initialising thread may not
    // exist.
    static GIVEN: OnceBox<Given> = OnceBox::new();
    let path = config.rates.as_deref()?;
    if let Some(known) = GIVEN.get() {
        return Some(known);
    }
    if is_secluded() {
        // The kernel would end a process that opens a file after it has restricted its system calls.
        return None;
    }
    let read = text(path).and_then(|text| Given::parse(&text));
    let why = read.as_ref().err().cloned();
    let mine = Box::new(read.unwrap_or_default());
    let at = &raw const *mine;
    let given = GIVEN.get_or_init(|| mine);
    // Of threads that read the file at the same time one tells.
    if let Some(why) = why.filter(|_| core::ptr::eq(given, at)) {
        warn!(
            "{RATES}={} {}; using the built-in rates",
            path.escape_debug(),
            why.replace(char::is_control, "?")
        );
    }
    Some(given)
}

/// The text of a file.
fn text(path: &str) -> Result<String, String> {
    let failed = |error: Errno| format!("cannot be read ({error})");
    // A pipe that nobody writes to has no bytes, instead of making the program wait, and a terminal does not become the one
    // that controls the process.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
    let mut bytes = vec![0; LARGEST + 1];
    let mut length = 0;
    while length <= LARGEST {
        match read(&file, &mut bytes[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if length > LARGEST {
        return Err(format!("is longer than {LARGEST} bytes"));
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| "is not text".to_owned())
}

#[cfg(test)]
mod tests;
