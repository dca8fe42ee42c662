#![expect(
    unsafe_code,
    reason = "userfaultfd and pagemap are ioctls on the program's memory"
)]
//! Dirty tracking: which pages have been written, known afterwards, by userfaultfd's asynchronous write protection and
//! `PAGEMAP_SCAN`.
//!
//! A *write-tracked* page stays writable. The first write to it, by the CPU, by a system call or by another process,
//! clears a mark in its page table entry; the writing thread is not stopped, and no signal is sent. A scan reports the
//! pages without a mark as dirty and sets their marks again, both at once under the lock of that page table: a write
//! that comes too late for one scan is reported by the next.
//!
//! No privilege is needed: the descriptor handles faults of user mode only, and with asynchronous protection the kernel
//! resolves them itself. The kernel must be 6.7 or newer.
//!
//! # What can go wrong
//!
//! * The registration belongs to the descriptor. A program that closes descriptors which it does not know ends the
//!   registration: then the marks are gone. Every scan asks the kernel to refuse pages that are not registered; and the
//!   descriptors are moved to high numbers and compared before each use with what was opened, so that a file of the
//!   program under the same number is never used. After any error the caller takes all pages as dirty.
//! * Memory that another userfaultfd holds is refused; it is protected by `mprotect` then.
//! * A write by a device through a page pin that is older than the mark (a network card's) is not reported. Page
//!   protection does not stop such a write either.
//! * The marks belong to the pages, not to this descriptor: a checkpointer that scans this process from outside, and
//!   marks the dirty pages again, hides them from our next scan. A program that registers memory of which we have
//!   marked pages with a userfaultfd of its own gets `EBUSY`; if it makes that request through libc's `ioctl`, the
//!   library stops tracking the memory.
//! * The child of a fork inherits the descriptors, which still refer to its parent's memory: they are not used there.

use std::cell::Cell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};

use linux_raw_sys::general as raw;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use rustix::mm::{MapFlags, ProtFlags, UserfaultfdFlags};
use rustix::process::{Pid, Resource};
use semcache_fault::descriptor::{Known, is_file, is_named};

use crate::base::Interval;
use crate::base::counters::COUNTERS;

const PAGEMAP: &CStr = c"/proc/self/pagemap";

/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const MODE_WP: u64 = 1;

/// Regions that one `PAGEMAP_SCAN` call reports.
const REGIONS: usize = 256;
/// Programs use descriptors below this number.
const LOW: u64 = 64;
/// Up to this number the descriptor table stays small.
const HIGH: u64 = 1 << 16;
/// The descriptors are moved to the last numbers of the table, of which there are this many.
const END: u64 = 64;

/// The lowest number that loops which close descriptors do not reach. If the table has no room above it, any number is
/// taken.
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
    /// Opens the descriptors, and tests on a page mapped for this that a write is reported.
    ///
    /// # Errors
    /// The kernel does not offer asynchronous write protection, or not to this process.
    pub fn new() -> Result<WpAsync> {
        let pagemap = || {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open(PAGEMAP, flags, Mode::empty())
        };
        let gate = WpAsync {
            // First, because whose a userfaultfd is cannot be told without /proc either.
            pagemap: Known::open(least(), pagemap, |fd| is_file(fd, PAGEMAP))?,
            uffd: open_uffd()?,
            process: rustix::process::getpid(),
        };
        gate.try_out()?;
        Ok(gate)
    }

    /// Tests, on pages mapped for this, that scans report exactly the pages that were written.
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
            self.track(addr, len)?;
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
        // SAFETY: the mapping made above, to which no reference is left.
        let _ = unsafe { rustix::mm::munmap(at, len) };
        if seen? { Ok(()) } else { Err(Errno::NOSYS) }
    }

    /// Registers a range of whole pages, so that they can be write-tracked.
    ///
    /// # Errors
    /// `EBUSY`: another userfaultfd has registered some of the range. Other errors: memory of a kind that cannot be
    /// registered.
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

    /// Ends the registration of a range, if any of it is left: all its marks are removed.
    pub fn unregister(&self, addr: usize, len: usize) {
        if let Ok(fd) = self.uffd() {
            let mut arg = range(addr, len);
            // Memory that is unmapped has no marks.
            let _ = call(fd, linux_raw_sys::ioctl::UFFDIO_UNREGISTER, &raw mut arg);
        }
    }

    /// Write-tracks every page of a range: the next scan reports those written from now on.
    ///
    /// # Errors
    /// Not all of the range is registered, or the descriptor is gone. Some pages may be marked.
    pub fn track(&self, addr: usize, len: usize) -> Result<()> {
        let fd = self.uffd()?;
        loop {
            let mut arg = raw::uffdio_writeprotect {
                range: range(addr, len),
                mode: MODE_WP,
            };
            match call(fd, linux_raw_sys::ioctl::UFFDIO_WRITEPROTECT, &raw mut arg) {
                // The kernel asks for a retry, because the address space was changing.
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return done,
            }
        }
    }

    /// Appends the addresses of the pages that were written since they were last marked, in ascending order, and marks
    /// them again.
    ///
    /// # Errors
    /// The caller must take all pages of the range as dirty: some dirty pages may have been marked again without being
    /// reported. The appended intervals are meaningless.
    pub fn scan(&self, addr: usize, len: usize, found: &mut Vec<Interval>) -> Result<()> {
        COUNTERS.gate.scans.add(1);
        // The scan itself does not show that the registration is still ours: the descriptor does.
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
                // SAFETY: the kernel reported that it wrote `count` regions.
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

/// Opens a userfaultfd and asks it for asynchronous write protection.
fn open_uffd() -> Result<Known> {
    let flags = UserfaultfdFlags::CLOEXEC
        | UserfaultfdFlags::NONBLOCK
        | UserfaultfdFlags::from_bits_retain(raw::UFFD_USER_MODE_ONLY);
    let asked = Cell::new(Ok(()));
    let known = Known::open(
        least(),
        // SAFETY: the descriptor affects no memory before ranges are registered, which only this file does.
        || unsafe { rustix::mm::userfaultfd(flags) },
        |fd| {
            let mut api = raw::uffdio_api {
                api: raw::UFFD_API.into(),
                features: raw::UFFD_FEATURE_WP_ASYNC.into(),
                ioctls: 0,
            };
            // Looked at before the request, which a file of the program's might take for one of its own.
            let ours = is_named(fd, b"anon_inode:[userfaultfd]");
            if ours {
                asked.set(call(fd, linux_raw_sys::ioctl::UFFDIO_API, &raw mut api));
            }
            ours
        },
    )?;
    asked.get().inspect_err(|_| known.close())?;
    Ok(known)
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

// SAFETY: each code is one of the kernel's requests, and `call`'s callers pass the structure that the request takes.
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

/// Makes one request of userfaultfd; `arg` is the structure that the request takes.
fn call<T>(fd: BorrowedFd<'_>, code: u32, arg: *mut T) -> Result<()> {
    let request = Request {
        code,
        arg: arg.cast(),
    };
    // SAFETY: userfaultfd's requests read and write their structure; their effect on the program's pages is that writes
    // to them are recorded, which the program cannot observe.
    unsafe { rustix::ioctl::ioctl(fd, request) }
}

/// The request of a scan: how many regions it found, and where it ended.
struct Scan(raw::pm_scan_arg);

// SAFETY: `opcode` is the code of `PAGEMAP_SCAN`, and `as_ptr` points to the structure that it takes.
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
