#![expect(unsafe_code, reason = "a descriptor that others may close is a number")]
//! File descriptors that semcache owns, in a program that may close any number at any time and open a file of its own
//! under that number.

use core::ffi::CStr;

use rustix::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use rustix::fs::{CWD, fstat, readlinkat_raw, stat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::path::DecInt;

use crate::opening::exclusively;
use crate::sys;

/// How often a file is opened whose number the program takes each time. A program that duplicates onto ten numbers in
/// turn, and does nothing else, takes about every second one.
const TRIES: u32 = 32;

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
    /// Opens a file by `open`, and moves it to a number from `least` on if there is one; it is closed by
    /// [`Known::close`] only.
    ///
    /// Until it is moved, the program may put a file of its own under the low number. By libc's `dup2` it does not, since
    /// that waits ([`crate::opening`]). By a system call past the hooks it may: then the file that was moved is the
    /// program's, `ours` says so, and the file is opened once more. The low number is closed only if it means the file
    /// that was moved. The kernel has no call that compares and closes at once, so that a system call past the hooks may
    /// still come between the two.
    ///
    /// # Errors
    /// The file cannot be opened, or each time that it was opened the program took the number.
    pub fn open(
        least: RawFd,
        open: impl Fn() -> Result<OwnedFd, Errno>,
        ours: impl Fn(BorrowedFd<'_>) -> bool,
    ) -> Result<Known, Errno> {
        exclusively(|| {
            for _ in 0..TRIES {
                // From here on a number: dropped as an `OwnedFd`, it would be closed whatever file it means.
                let low = open()?.into_raw_fd();
                if let Some(known) = moved(low, least, &ours) {
                    return Ok(known);
                }
            }
            Err(Errno::BADF)
        })
    }

    /// The descriptor of a number, and the file that the number means now.
    fn of(fd: RawFd) -> Result<Known, Errno> {
        // SAFETY: the number is only passed to fstat.
        let stat = fstat(unsafe { BorrowedFd::borrow_raw(fd) })?;
        Ok(Known {
            fd,
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
        exclusively(|| {
            if self.get().is_some() {
                // SAFETY: semcache owns the descriptor, and no code uses it after this.
                unsafe { sys::close(self.fd) };
            }
        });
    }
}

/// Moves a descriptor that was just opened; none if its number means another file by now.
fn moved(low: RawFd, least: RawFd, ours: impl Fn(BorrowedFd<'_>) -> bool) -> Option<Known> {
    // SAFETY: the number is only duplicated, and what it means is looked at after that.
    let high = match fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(low) }, least) {
        Ok(fd) => fd.into_raw_fd(),
        // The program closed the number.
        Err(Errno::BADF) => return None,
        // The table has no room from `least` on.
        Err(_) => low,
    };
    let known = Known::of(high).ok()?;
    // SAFETY: open, as the look at its file says; only this function knows the number.
    if !ours(unsafe { BorrowedFd::borrow_raw(high) }) {
        if high != low {
            known.close();
        }
        return None;
    }
    if high != low {
        Known { fd: low, ..known }.close();
    }
    Some(known)
}

/// Gives the calling thread a descriptor table of its own with nothing but stderr in it: the program can neither close
/// nor take its numbers, and no pipe or socket of the program's but stderr stays open because of the thread. False if
/// the kernel refuses (as it does in some containers); then the table is the process's, unchanged.
///
/// # Safety
/// The calling thread's code uses no descriptor that was opened before, but stderr.
#[must_use]
pub unsafe fn own_table() -> bool {
    if !sys::unshare_files() {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if !(sys::close_range(0, 1) && sys::close_range(3, u32::MAX)) {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let most = limit.current.map_or(i32::MAX as u64, |n| n.min(1 << 20));
            let numbers = (0..i32::try_from(most).unwrap_or(i32::MAX)).filter(|n| *n != 2);
            numbers.for_each(|number| sys::close(number));
        }
    }
    true
}

/// Whether a descriptor means the file of a path.
#[must_use]
pub fn is_file(fd: BorrowedFd<'_>, path: &CStr) -> bool {
    let (Ok(this), Ok(that)) = (fstat(fd), stat(path)) else {
        return false;
    };
    (this.st_dev, this.st_ino) == (that.st_dev, that.st_ino)
}

/// Whether a descriptor means a file without a path that the kernel calls by this name; true also where that cannot be
/// asked (there is no `/proc`).
#[must_use]
pub fn is_named(fd: BorrowedFd<'_>, name: &[u8]) -> bool {
    // Of this thread, which may have a descriptor table of its own.
    const FOLDER: &[u8] = b"/proc/thread-self/fd/";
    let (mut path, number) = ([0; 32], DecInt::from_fd(fd));
    let number = number.as_bytes_with_nul();
    path[..FOLDER.len()].copy_from_slice(FOLDER);
    path[FOLDER.len()..][..number.len()].copy_from_slice(number);
    let mut said = [0; 64];
    let path = CStr::from_bytes_until_nul(&path);
    path.is_ok_and(|path| {
        readlinkat_raw(CWD, path, &mut said[..]).map_or(true, |len| said.get(..len) == Some(name))
    })
}
