#![expect(
    unsafe_code,
    reason = "userfaultfd and pagemap are ioctls on the program's memory"
)]
//! Learning afterwards which pages were written: userfaultfd's asynchronous write protection, read by `PAGEMAP_SCAN`.
//!
//! An *armed* page stays writable. The first write to it, by the CPU, by a system call or by another process, clears a
//! mark in its page table entry; nobody is stopped and no signal is sent. A scan reports the pages without a mark and
//! sets it again in the same breath, under the lock of that page table: a write that one scan does not see is seen
//! by the next.
//!
//! Unprivileged: the descriptor serves faults of user mode only, and asynchronous protection needs nobody to serve
//! any. The kernel must be 6.7 or newer.
//!
//! # What can go wrong
//!
//! * The registration belongs to the descriptor. A program that closes descriptors which it does not know ends it: then
//!   the marks are gone. Every scan asks the kernel to refuse pages that are not registered, and the descriptors are
//!   moved to high numbers and looked at before each use, so that a stranger's is never taken for ours. After any error
//!   the caller takes all pages as written.
//! * Memory that another userfaultfd holds is refused; it is for page protection then.
//! * A write through a pin that is older than the mark (a network card's) does not show. Nor does it stop at page
//!   protection.
//! * Marks are the pages', not ours alone: a checkpointer that scans this process from outside, and marks again what it
//!   found, hides it from us. A program that wants to watch memory of which we have marked pages is told that it is busy:
//!   then the library gives it up, where the program asks by libc's `ioctl`.
//! * The child of a fork inherits the descriptors, which still speak of its parent: they are not used there.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use linux_raw_sys::general as raw;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use rustix::mm::{MapFlags, ProtFlags, UserfaultfdFlags};
use rustix::process::{Pid, Resource};
use semcache_fault::descriptor::Known;

use crate::base::Interval;
use crate::base::counters::COUNTERS;

/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const MODE_WP: u64 = 1;

/// Regions that one call of the kernel reports.
const REGIONS: usize = 256;
/// Descriptors below this are what programs use.
const LOW: u64 = 64;
/// A descriptor table of this size is still small.
const HIGH: u64 = 1 << 16;
/// Numbers from here to the end of the table.
const END: u64 = 64;

/// The first number that is out of the way of loops that close. Where there is no room at the end, any number will do.
fn least() -> RawFd {
    let most = rustix::process::getrlimit(Resource::Nofile)
        .current
        .map_or(HIGH, |n| n.min(HIGH));
    i32::try_from(most.saturating_sub(END).max(LOW)).unwrap_or(0)
}

/// The descriptors of asynchronous write protection.
#[derive(Debug)]
pub struct WpAsync {
    uffd: Known,
    pagemap: Known,
    process: Pid,
}

impl Drop for WpAsync {
    fn drop(&mut self) {
        self.uffd.close();
        self.pagemap.close();
    }
}

impl WpAsync {
    /// Opens the descriptors, and tries on a page of its own that a write shows.
    ///
    /// # Errors
    /// The kernel does not offer it, or not to this process.
    pub fn new() -> Result<WpAsync> {
        let flags = UserfaultfdFlags::CLOEXEC
            | UserfaultfdFlags::NONBLOCK
            | UserfaultfdFlags::from_bits_retain(raw::UFFD_USER_MODE_ONLY);
        // SAFETY: the descriptor touches no memory before ranges are registered, which is this type's business.
        let uffd = unsafe { rustix::mm::userfaultfd(flags) }?;
        let mut api = raw::uffdio_api {
            api: raw::UFFD_API.into(),
            features: raw::UFFD_FEATURE_WP_ASYNC.into(),
            ioctls: 0,
        };
        call(uffd.as_fd(), linux_raw_sys::ioctl::UFFDIO_API, &raw mut api)?;
        let pagemap = rustix::fs::open(
            c"/proc/self/pagemap",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let gate = WpAsync {
            uffd: Known::new(uffd, least())?,
            pagemap: Known::new(pagemap, least())?,
            process: rustix::process::getpid(),
        };
        gate.try_out()?;
        Ok(gate)
    }

    /// Whether writes show, on a page of its own.
    fn try_out(&self) -> Result<()> {
        let page = rustix::param::page_size();
        let len = 4 * page;
        // SAFETY: new memory at an address of the kernel's choice.
        let at = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let addr = at.addr();
        let seen = || {
            self.register(addr, len)?;
            self.arm(addr, len)?;
            let mut found = Vec::new();
            self.scan(addr, len, &mut found)?;
            let before = found.len();
            // SAFETY: the third page of the mapping.
            unsafe { at.cast::<u8>().add(2 * page).write_volatile(1) };
            self.scan(addr, len, &mut found)?;
            let one = Interval::new(addr + 2 * page, addr + 3 * page);
            let good = before == 0 && found == [one];
            self.scan(addr, len, &mut found)?;
            Ok(good && found.len() == 1)
        };
        let seen = seen();
        // SAFETY: the mapping made above, of which nothing is used any more.
        let _ = unsafe { rustix::mm::munmap(at, len) };
        if seen? { Ok(()) } else { Err(Errno::NOSYS) }
    }

    /// Prepares a range of whole pages to be armed.
    ///
    /// # Errors
    /// `EBUSY`: another userfaultfd has some of it. Others: memory of a kind that cannot be.
    pub fn register(&self, addr: usize, len: usize) -> Result<()> {
        let mut arg = raw::uffdio_register {
            range: range(addr, len),
            mode: raw::UFFDIO_REGISTER_MODE_WP.into(),
            ioctls: 0,
        };
        call(
            self.uffd()?,
            linux_raw_sys::ioctl::UFFDIO_REGISTER,
            &raw mut arg,
        )
    }

    /// Ends that, if any of it is left: all marks go.
    pub fn unregister(&self, addr: usize, len: usize) {
        if let Ok(fd) = self.uffd() {
            let mut arg = range(addr, len);
            // Memory that is gone has no marks.
            let _ = call(fd, linux_raw_sys::ioctl::UFFDIO_UNREGISTER, &raw mut arg);
        }
    }

    /// Marks every page of a range: what is written from now on shows.
    ///
    /// # Errors
    /// Not all of it is registered, or the descriptor is gone. Some pages may be marked.
    pub fn arm(&self, addr: usize, len: usize) -> Result<()> {
        let fd = self.uffd()?;
        loop {
            let mut arg = raw::uffdio_writeprotect {
                range: range(addr, len),
                mode: MODE_WP,
            };
            match call(fd, linux_raw_sys::ioctl::UFFDIO_WRITEPROTECT, &raw mut arg) {
                // The address space was changing.
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return done,
            }
        }
    }

    /// Appends the addresses of the pages that were written since they were marked, in ascending order, and marks them
    /// again.
    ///
    /// # Errors
    /// All pages of the range must be taken as written: some of what was written may have been marked again
    /// without being reported. What was appended is of no use.
    pub fn scan(&self, addr: usize, len: usize, found: &mut Vec<Interval>) -> Result<()> {
        COUNTERS.gate.scans.add(1);
        // Whose registration it is shows in the descriptor.
        self.uffd()?;
        let fd = self.pagemap.get().ok_or(Errno::BADF)?;
        let end = addr + len;
        let mut at = addr;
        let mut regions = [const { MaybeUninit::<raw::page_region>::uninit() }; REGIONS];
        while at < end {
            let scan = Scan(raw::pm_scan_arg {
                size: size_of::<raw::pm_scan_arg>() as u64,
                flags: (raw::PM_SCAN_WP_MATCHING | raw::PM_SCAN_CHECK_WPASYNC).into(),
                start: at as u64,
                end: end as u64,
                walk_end: 0,
                vec: regions.as_mut_ptr().expose_provenance() as u64,
                vec_len: REGIONS as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: raw::PAGE_IS_WRITTEN.into(),
                category_anyof_mask: 0,
                return_mask: raw::PAGE_IS_WRITTEN.into(),
            });
            // SAFETY: the argument is the structure of this request; the kernel writes at most `vec_len` regions
            // to `regions`, and changes no byte of the range.
            let (count, walked) = unsafe { rustix::ioctl::ioctl(fd, scan) }?;
            for region in regions.get(..count).ok_or(Errno::INVAL)? {
                // SAFETY: the kernel said that it wrote so many.
                let region = unsafe { region.assume_init_ref() };
                let (start, end) = (region.start as usize, region.end as usize);
                match found.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => found.push(Interval::new(start, end)),
                }
            }
            if walked <= at {
                return Err(Errno::IO);
            }
            at = walked;
        }
        Ok(())
    }

    /// The numbers of the descriptors, for tests that close them.
    #[must_use]
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.uffd.number(), self.pagemap.number()]
    }

    fn uffd(&self) -> Result<BorrowedFd<'_>> {
        if rustix::process::getpid() != self.process {
            return Err(Errno::SRCH);
        }
        self.uffd.get().ok_or(Errno::BADF)
    }
}

fn range(addr: usize, len: usize) -> raw::uffdio_range {
    raw::uffdio_range {
        start: addr as u64,
        len: len as u64,
    }
}

/// One request of userfaultfd.
struct Request {
    code: u32,
    arg: *mut rustix::ffi::c_void,
}

// SAFETY: the codes are the kernel's, and the callers pass each the structure that it is about.
unsafe impl Ioctl for Request {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.code
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.arg
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut rustix::ffi::c_void) -> Result<()> {
        Ok(())
    }
}

/// `arg` is the structure that the request is about.
fn call<T>(fd: BorrowedFd<'_>, code: u32, arg: *mut T) -> Result<()> {
    let request = Request {
        code,
        arg: arg.cast(),
    };
    // SAFETY: userfaultfd's requests read and write their structure; what they do to the program's pages is that
    // writes to them are noted, which the program cannot see.
    unsafe { rustix::ioctl::ioctl(fd, request) }
}

/// The request of a scan: how many regions it found, and where it ended.
struct Scan(raw::pm_scan_arg);

// SAFETY: the code of `PAGEMAP_SCAN` with its structure.
unsafe impl Ioctl for Scan {
    type Output = (usize, usize);
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<raw::pm_scan_arg>(b'f', 16)
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(
        count: IoctlOutput,
        arg: *mut rustix::ffi::c_void,
    ) -> Result<(usize, usize)> {
        // SAFETY: `arg` is what `as_ptr` gave.
        let walked = unsafe { (*arg.cast::<raw::pm_scan_arg>()).walk_end };
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        Ok((count, usize::try_from(walked).map_err(|_| Errno::INVAL)?))
    }
}

#[cfg(test)]
mod tests;
