//! Files that the library writes for its user, the report and the trace: new ones, readable by their owner only. Raw system
//! calls, since they are written while another program's process ends.

use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// Whether a regular file has this path, which may be replaced.
///
/// # Errors
/// `EEXIST` if the path is that of something else (a device, a link), else the system's.
pub fn is_there(path: &Path) -> Result<bool, Errno> {
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => Ok(true),
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file for writing at its end; links are not followed. With `OFlags::CREATE` and `OFlags::EXCL` a new one.
///
/// # Errors
/// The system's.
pub fn open(path: &Path, how: OFlags) -> Result<OwnedFd, Errno> {
    let always = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, always | how, Mode::RUSR | Mode::WUSR)
}

/// The command line of this process, arguments separated by spaces; its beginning, if it is long.
#[must_use]
pub fn command_line() -> Vec<u8> {
    let mut text = vec![0; 256];
    let read = openat(
        CWD,
        "/proc/self/cmdline",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .and_then(|file| rustix::io::read(&file, &mut text))
    .unwrap_or(0);
    text.truncate(read);
    while text.last() == Some(&0) {
        text.pop();
    }
    for byte in &mut text {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    text
}

/// Writes all bytes.
///
/// # Errors
/// The system's; some bytes may have been written then.
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&file, bytes) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
