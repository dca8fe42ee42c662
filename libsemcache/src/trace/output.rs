//! The file of a trace: created anew, readable by its owner only, and appended to piece by piece, so that what is in it
//! can be read at any time.

use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ftruncate, openat, statat, unlinkat};
use rustix::io::Errno;

/// See the module.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    /// The open file. `None`: it is opened for each piece, because the program, which shares the descriptor table, may
    /// close any number or take it for a file of its own.
    file: Option<OwnedFd>,
    len: u64,
    limit: u64,
}

impl Output {
    /// Creates the file; one that exists is replaced, unless it is no regular file. `keep`: the file may stay open.
    ///
    /// # Errors
    /// The system's, or `EEXIST` for such a file.
    pub(super) fn create(path: &Path, limit: u64, keep: bool) -> Result<Output, Errno> {
        match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                unlinkat(CWD, path, AtFlags::empty())?;
            }
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let file = open(path, OFlags::CREATE | OFlags::EXCL)?;
        Ok(Output {
            path: path.to_owned(),
            file: keep.then_some(file),
            len: 0,
            limit,
        })
    }

    /// Whether no further event has room.
    pub(super) fn full(&self) -> bool {
        self.len >= self.limit
    }

    /// Appends bytes: all, or none.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let opened;
        let file = match &self.file {
            Some(file) => file.as_fd(),
            None => {
                opened = open(&self.path, OFlags::empty())?;
                opened.as_fd()
            }
        };
        let written = write_all(file, bytes);
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            // A part of a packet would hide all that follows it.
            Err(_) => ftruncate(file, self.len)?,
        }
        written
    }
}

fn open(path: &Path, how: OFlags) -> Result<OwnedFd, Errno> {
    let always = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, always | how, Mode::RUSR | Mode::WUSR)
}

fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
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
