//! Gantt charts of a trace, in which rows are lanes of devices and threads, and columns are time.

pub(crate) mod axis;
pub(crate) mod bars;
pub(crate) mod chart;
mod picture;
mod text;
pub(crate) mod window;

pub(crate) use window::Choice;

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::model::Trace;

/// The width of a page if the terminal does not say its own.
const WIDTH: usize = 100;

/// The chart as text, as wide as the terminal (`COLUMNS`).
pub(crate) fn page(trace: &Trace, choice: Choice) -> Result<String, String> {
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|c| c.trim().parse().ok());
    text::page(trace, choice, columns.unwrap_or(WIDTH))
}

/// The chart as a picture in the PNG format.
pub(crate) fn png(trace: &Trace, choice: Choice) -> Result<Vec<u8>, String> {
    picture::png(trace, choice)
}

/// Writes a file so that its path has either the old contents or the new: to a new file beside it, which then takes its name.
/// What exists and is not a regular file (a device, a link, a folder) is refused.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    match path.symlink_metadata() {
        Ok(there) if !there.is_file() => {
            return Err(named(&"exists and is not a regular file"));
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(named(&error)),
        _ => {}
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let beside = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")));
    let mut file = beside.map_err(|error| named(&error))?;
    file.write_all(bytes).map_err(|error| named(&error))?;
    match file.persist(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(named(&error.error)),
    }
}

#[cfg(test)]
mod tests;
