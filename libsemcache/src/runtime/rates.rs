//! The file with the rates of this machine: the one that `SEMCACHE_RATES` names, which is read once, at the first prediction; else
//! the one that `semcache calibrate` wrote, which is read when the GPUs are up.

use std::borrow::Cow;

use log::{debug, info, warn};
use once_cell::race::OnceBox;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};

use super::secluded::is_secluded;
use crate::base::config::{Config, RATES, RatesFile};
use crate::device::api::Caps;
use crate::model::rates_file::{Given, file_name, gpus};

/// The largest file that is read: those that `semcache calibrate` writes have two thousand bytes.
const LARGEST: usize = 64 << 10;

/// The figures that replace the built-in ones; `None` if there is no file, or none is wanted. A file that cannot be used gives
/// none either, with one line on stderr. A process that has restricted its own system calls reads no file.
pub(super) fn given(config: &Config, devices: &[Caps]) -> Option<Cow<'static, Given>> {
    match &config.rates {
        RatesFile::Off => None,
        RatesFile::Path(path) => named(path).map(Cow::Borrowed),
        RatesFile::Calibrated => {
            let folder = config.cache_folder.as_deref()?;
            calibrated(folder, devices).map(Cow::Owned)
        }
    }
}

/// The figures of the file with this path, which the user named.
fn named(path: &str) -> Option<&'static Given> {
    // `OnceBox`, since no thread waits for its initialisation: in the child of a fork the initialising thread may not
    // exist.
    static GIVEN: OnceBox<Given> = OnceBox::new();
    if let Some(known) = GIVEN.get() {
        return Some(known);
    }
    if is_secluded() {
        // The kernel would end a process that opens a file after it has restricted its system calls.
        return None;
    }
    let read = file(path);
    let why = read.as_ref().err().cloned();
    let mine = Box::new(read.unwrap_or_default());
    let at = &raw const *mine;
    let given = GIVEN.get_or_init(|| mine);
    // Of threads that read the file at the same time one tells.
    if let Some(why) = why.filter(|_| core::ptr::eq(given, at)) {
        warn!(
            "{RATES}={} {}; using the built-in rates",
            path.escape_debug(),
            printable(&why)
        );
    }
    Some(given)
}

/// The figures of the file with this path, of whichever machine they are.
///
/// # Errors
/// Why the file cannot be used, as the end of the sentence "PATH ...".
pub fn file(path: &str) -> Result<Given, String> {
    let text = text(path, OFlags::empty()).map_err(|failed| failed.to_string())?;
    Given::parse(&text).map_err(|why| printable(&why))
}

/// The figures of the file that `semcache calibrate` wrote for the GPUs of a machine, if it is there and of this machine.
/// Simulated devices have none: they are predicted as the machine that they model.
fn calibrated(folder: &str, devices: &[Caps]) -> Option<Given> {
    if is_secluded() || devices.is_empty() || devices.iter().any(|caps| caps.kind != "cuda") {
        return None;
    }
    let gpu = gpus(devices.iter().map(|caps| caps.name.as_str()));
    let path = format!("{folder}/{}", file_name(&gpu));
    match measured(&path, (&gpu, devices.len())) {
        Ok(Some(given)) => {
            debug!("rates of {}", path.escape_debug());
            Some(given)
        }
        Ok(None) => {
            debug!("no file {}", path.escape_debug());
            None
        }
        Err(why) => {
            info!(
                "{} {}; using the built-in rates",
                path.escape_debug(),
                printable(&why)
            );
            None
        }
    }
}

/// The figures of a file, if there is one and its machine has these GPUs, named in the form of [`gpus`], and this processor; of these,
/// the ones that hold for this number of GPUs and any host BLAS.
///
/// # Errors
/// Why the file is not used, as the end of the sentence "PATH ...".
pub fn measured(path: &str, (gpu, count): (&str, usize)) -> Result<Option<Given>, String> {
    // Another user may own a folder on the way, but the file itself is no link to elsewhere.
    let text = match text(path, OFlags::NOFOLLOW) {
        Err(Failed::Refused(Errno::NOENT | Errno::NOTDIR)) => return Ok(None),
        text => text.map_err(|failed| failed.to_string())?,
    };
    let given = Given::parse(&text)?;
    match given.said().foreign(gpu, &processor()) {
        Some(why) => Err(why),
        None => Ok(Some(given.used_with(count))),
    }
}

/// The model of the processor, as Linux names it; empty if it names none.
#[must_use]
pub fn processor() -> String {
    /// The first processor's lines.
    const ENOUGH: usize = 8 << 10;
    let text = bytes("/proc/cpuinfo", OFlags::empty(), ENOUGH).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let models = text
        .lines()
        .filter_map(|line| line.strip_prefix("model name"));
    let model = models.map(|rest| rest.trim_start().trim_start_matches(':').trim());
    model.into_iter().next().map(printable).unwrap_or_default()
}

/// The text without control characters.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Why a file has no text, as the end of the sentence "PATH ...".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failed {
    Refused(Errno),
    Long,
    NoText,
}

impl core::fmt::Display for Failed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Failed::Refused(error) => write!(f, "cannot be read ({error})"),
            Failed::Long => write!(f, "is longer than {LARGEST} bytes"),
            Failed::NoText => f.write_str("is not text"),
        }
    }
}

/// The text of a file.
fn text(path: &str, more: OFlags) -> Result<String, Failed> {
    let bytes = bytes(path, more, LARGEST + 1).map_err(Failed::Refused)?;
    if bytes.len() > LARGEST {
        return Err(Failed::Long);
    }
    String::from_utf8(bytes).map_err(|_| Failed::NoText)
}

/// The first bytes of a file, at most this number.
fn bytes(path: &str, more: OFlags, most: usize) -> Result<Vec<u8>, Errno> {
    // A pipe that nobody writes to has no bytes, instead of making the program wait, and a terminal does not become the one
    // that controls the process.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let file = openat(CWD, path, flags, Mode::empty())?;
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < most {
        match read(&file, &mut bytes[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
