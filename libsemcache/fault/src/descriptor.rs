#![expect(unsafe_code, reason = "a descriptor that others may close is a number")]
//! File descriptors that semcache owns, in a program that may close any number at any time and open a file of its own
//! under that number.

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

/// Identifies the file that a descriptor number means, as one word; none if the number is not open.
#[must_use]
pub fn file_of(number: RawFd) -> Option<u64> {
    if number < 0 {
        return None;
    }
    // SAFETY: the number is only passed to fstat.
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

    /// The descriptor, if its number still means the file that semcache opened. One short system call. If another
    /// thread closes the number between this look and the use, that cannot be seen: the use then meets a closed
    /// descriptor.
    #[must_use]
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the number is only passed to fstat until it is known to be the file that semcache opened.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let stat = fstat(fd).ok()?;
        ((stat.st_dev, stat.st_ino) == (self.device, self.inode)).then_some(fd)
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.fd
    }

    /// Closes the descriptor, if its number still means the file that semcache opened.
    pub fn close(&self) {
        if self.get().is_some() {
            // SAFETY: semcache owns the descriptor, and no code uses it after this.
            unsafe { close(self.fd) };
        }
    }
}
