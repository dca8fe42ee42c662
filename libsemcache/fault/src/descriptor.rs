#![expect(unsafe_code, reason = "a descriptor that others may close is a number")]
//! Descriptors of ours in a program that may close any number at any time, and open a file of its own under it.

use rustix::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use rustix::fs::fstat;
use rustix::io::{Errno, close, fcntl_dupfd_cloexec};

/// A descriptor, and the file that it was opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    fd: RawFd,
    device: u64,
    inode: u64,
}

/// The file that a number means, as one word; none if it is not open.
#[must_use]
pub fn file_of(number: RawFd) -> Option<u64> {
    if number < 0 {
        return None;
    }
    // SAFETY: only asked about.
    let stat = fstat(unsafe { BorrowedFd::borrow_raw(number) }).ok()?;
    Some(stat.st_ino ^ stat.st_dev.rotate_left(24) ^ stat.st_rdev.rotate_left(44))
}

impl Known {
    /// Takes a descriptor over, and moves it to a number from `least` on if there is one; it is closed by
    /// [`Known::close`] only.
    ///
    /// # Errors
    /// The kernel does not say which file it is.
    pub fn new(fd: OwnedFd, least: RawFd) -> Result<Known, Errno> {
        let fd = fcntl_dupfd_cloexec(&fd, least).unwrap_or(fd);
        let stat = fstat(&fd)?;
        Ok(Known {
            fd: fd.into_raw_fd(),
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    /// The descriptor, if the number still means what we opened. One short system call; what another thread closes
    /// between this look and the use cannot be seen: then what follows meets a closed descriptor.
    #[must_use]
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: only asked about, until it is known to be ours.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let stat = fstat(fd).ok()?;
        ((stat.st_dev, stat.st_ino) == (self.device, self.inode)).then_some(fd)
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.fd
    }

    /// Closes it, if it is still ours.
    pub fn close(&self) {
        if self.get().is_some() {
            // SAFETY: ours, and nobody uses it after this.
            unsafe { close(self.fd) };
        }
    }
}
