//! The file of a trace: created anew, readable by its owner only, and appended to piece by piece, so that what is in it
//! can be read at any time.

use std::ffi::CString;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, OFlags, ftruncate, unlinkat};
use rustix::io::Errno;
use semcache_fault::descriptor::{Known, is_file};

use crate::process::own_file::{is_there, open, write_all};

/// Numbers below this are left to the program.
const HIGH: i32 = 900;

/// See the module.
#[derive(Debug)]
pub(super) struct Output {
    file: Known,
    len: u64,
    limit: u64,
}

impl Output {
    /// Creates the file; one that exists is replaced, unless it is no regular file.
    ///
    /// # Errors
    /// The system's, or `EEXIST` for such a file.
    pub(super) fn create(path: &Path, limit: u64) -> Result<Output, Errno> {
        if is_there(path)? {
            unlinkat(CWD, path, AtFlags::empty())?;
        }
        // Created apart, so that the file can be opened again if its first number was taken.
        drop(open(path, OFlags::CREATE | OFlags::EXCL)?);
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Errno::INVAL)?;
        let file = Known::open(
            HIGH,
            || open(path, OFlags::empty()),
            |fd| is_file(fd, &name),
        )?;
        Ok(Output {
            file,
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
        // The program may have closed the number, or taken it for a file of its own.
        let file = self.file.get().ok_or(Errno::BADF)?;
        let written = write_all(file, bytes);
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            // A part of a packet would hide all that follows it.
            Err(_) => ftruncate(self.file.get().ok_or(Errno::BADF)?, self.len)?,
        }
        written
    }
}
