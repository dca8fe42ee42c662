//! Host memory as the simulated copy engine reads and writes it: through `/proc/self/mem`, which ignores page
//! protection and raises no signal, as DMA does.

#![expect(
    unsafe_code,
    reason = "moves raw bytes between addresses that the caller vouches for"
)]

use core::ffi::{CStr, c_void};
use std::thread;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;
use semcache_fault::descriptor::{Known, is_file, own_table};

use crate::base::maps::{Mapping, covered};

/// Descriptors below this number are left to the program: shells and daemons give meaning to small numbers.
pub(crate) const HIGH_FD: i32 = 900;

const MEMORY: &CStr = c"/proc/self/mem";

/// This process's memory, read and written through a descriptor of `/proc/self/mem`.
#[derive(Debug)]
pub(crate) struct HostMemory {
    known: Known,
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        self.known.close();
    }
}

/// One copy between host memory and a buffer of the runtime.
#[derive(Clone, Copy)]
struct Move {
    addr: u64,
    buffer: usize,
    len: usize,
    /// From the buffer to host memory; `false`: from host memory to the buffer.
    out: bool,
}

impl Move {
    /// # Safety
    /// The buffer is valid for `len` bytes that no other thread uses meanwhile; the host bytes that are written may be
    /// overwritten.
    unsafe fn run(self, fd: impl AsFd) -> Result<(), Errno> {
        let mut done = 0;
        while done < self.len {
            let at = core::ptr::with_exposed_provenance_mut::<u8>(self.buffer + done);
            let (left, addr) = (self.len - done, self.addr + done as u64);
            let moved = retry_on_intr(|| {
                if self.out {
                    // SAFETY: within the caller's buffer.
                    pwrite(&fd, unsafe { core::slice::from_raw_parts(at, left) }, addr)
                } else {
                    // SAFETY: within the caller's buffer, whose memory is initialised (mapped or a vector).
                    pread(
                        &fd,
                        unsafe { core::slice::from_raw_parts_mut(at, left) },
                        addr,
                    )
                }
            })?;
            if moved == 0 {
                return Err(Errno::FAULT);
            }
            done += moved;
        }
        Ok(())
    }
}

fn open_memory() -> Result<OwnedFd, Errno> {
    open(MEMORY, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

impl HostMemory {
    /// Opens `/proc/self/mem` and tests that inaccessible pages can be read and written.
    pub(crate) fn open() -> Result<Self, Errno> {
        let host = HostMemory {
            known: Known::open(HIGH_FD, open_memory, |fd| is_file(fd, MEMORY))?,
        };
        host.prove()?;
        Ok(host)
    }

    /// Writes an inaccessible page and reads it back.
    fn prove(&self) -> Result<(), Errno> {
        let page = page_size();
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                page,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )?
        };
        let sent = *b"semcache";
        let mut got = [0u8; 8];
        let addr = at.expose_provenance() as u64;
        // SAFETY: both buffers and the page are this function's.
        let result = unsafe {
            self.write(addr, sent.as_ptr(), sent.len())
                .and_then(|()| self.read(addr, got.as_mut_ptr(), got.len()))
        };
        // SAFETY: the mapping was made above and nothing refers to it.
        let _ = unsafe { munmap(at.cast::<c_void>(), page) };
        result?;
        if got == sent { Ok(()) } else { Err(Errno::IO) }
    }

    /// Copies `len` bytes at host address `addr` to `to`.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes that no other thread uses meanwhile.
    pub(crate) unsafe fn read(&self, addr: u64, to: *mut u8, len: usize) -> Result<(), Errno> {
        let buffer = to.expose_provenance();
        // SAFETY: the caller's promise.
        unsafe {
            self.carry(Move {
                addr,
                buffer,
                len,
                out: false,
            })
        }
    }

    /// Copies `len` bytes from `from` to host address `addr`.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes that no other thread writes meanwhile; the caller may overwrite the host
    /// bytes.
    pub(crate) unsafe fn write(&self, addr: u64, from: *const u8, len: usize) -> Result<(), Errno> {
        let buffer = from.expose_provenance();
        // SAFETY: the caller's promise.
        unsafe {
            self.carry(Move {
                addr,
                buffer,
                len,
                out: true,
            })
        }
    }

    /// Moves bytes through the descriptor; if the program has closed it, or taken its number for a file of its own, by a
    /// descriptor of another table. It is not opened again in the program's table: a program that takes one number after
    /// the other would take the new number, too.
    ///
    /// # Safety
    /// As [`Move::run`].
    unsafe fn carry(&self, what: Move) -> Result<(), Errno> {
        if let Some(fd) = self.known.get()
            // SAFETY: the caller's promise.
            && unsafe { what.run(fd) }.is_ok()
        {
            return Ok(());
        }
        // Also after an error: the number may have become the program's file after the look at it.
        // SAFETY: the caller's promise.
        unsafe { elsewhere(what) }
    }
}

/// Moves bytes on a new thread, which has a descriptor table of its own: so no other thread closes the descriptor or takes
/// its number.
///
/// # Safety
/// As [`Move::run`].
unsafe fn elsewhere(what: Move) -> Result<(), Errno> {
    let run = || {
        // SAFETY: this thread opens its own.
        if !unsafe { own_table() } {
            return Err(Errno::MFILE);
        }
        let fd = open_memory()?;
        // SAFETY: the caller's promise.
        unsafe { what.run(fd) }
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, run);
        thread.map_or(Err(Errno::MFILE), |t| t.join().unwrap_or(Err(Errno::IO)))
    })
}

/// Maps memory of the runtime's own in huge pages, present, that no child of a fork gets: a child's copy would leave devices the
/// pages of only one of the two.
///
/// # Errors
/// The system gives no such memory.
pub(super) fn own_pages(len: usize) -> Result<usize, Errno> {
    const HUGE_PAGE: usize = 2 << 20;
    let size = len + HUGE_PAGE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let at = unsafe {
        mmap_anonymous(
            core::ptr::null_mut(),
            size,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?
    };
    let start = at.expose_provenance().next_multiple_of(HUGE_PAGE);
    let start_ptr = core::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: this function's own mapping. An error changes nothing but speed.
    let _ = unsafe { madvise(start_ptr.cast(), len, Advice::LinuxHugepage) };
    // SAFETY: as above.
    let kept = unsafe { madvise(start_ptr.cast(), len, Advice::LinuxDontFork) };
    if let Err(error) = kept {
        // SAFETY: as above, and nothing refers to it.
        let _ = unsafe { munmap(at.cast::<c_void>(), size) };
        return Err(error);
    }
    // SAFETY: `len` bytes of the mapping, which nobody else knows of.
    unsafe { core::ptr::write_bytes(start_ptr, 0, len) };
    Ok(start)
}

/// Unmaps what [`own_pages`] has mapped.
///
/// # Safety
/// Nothing uses these bytes any more.
pub(super) unsafe fn return_pages(start: usize, len: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { munmap(core::ptr::with_exposed_provenance_mut(start), len) };
}

/// Whether `[start, end)` is mapped without a hole.
pub(super) fn mapped(start: usize, end: usize) -> bool {
    read_maps().map_or(true, |text| covered(&text, start, end, |_| true))
}

/// Whether `[start, end)` is mapped without a hole, and readable and writable. Reads /proc/self/maps.
pub(super) fn mapped_writable(start: usize, end: usize) -> bool {
    let writable = |m: &Mapping<'_>| m.access.starts_with("rw");
    read_maps().map_or(true, |text| covered(&text, start, end, writable))
}

fn read_maps() -> Result<String, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open("/proc/self/maps", flags, Mode::empty())?;
    let mut text = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        match retry_on_intr(|| rustix::io::read(&file, &mut part[..]))? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            n => text.extend_from_slice(&part[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::stat::fstat;
    use nix::unistd::dup2_raw;
    use semcache_fault::descriptor::file_of;
    use semcache_fault::opening;
    use std::os::fd::AsRawFd;
    use testkit::alone;

    #[test]
    fn a_number_that_the_program_has_taken_is_not_ours() {
        let host = HostMemory::open().unwrap();
        let gone = host.known;
        let file = memfd_create("theirs", MFdFlags::MFD_CLOEXEC).unwrap();
        let number = gone.number();
        // SAFETY: the number is `host`'s, and no other thread of this test process knows it. `host` finds that it has
        // another file, and closes it no more.
        let theirs = unsafe { dup2_raw(&file, number) }.unwrap();
        assert_eq!(theirs.as_raw_fd(), number);
        assert!(gone.get().is_none());
        let (word, mut copy) = (7u64.to_ne_bytes(), [0u8; 8]);
        let target = [0u8; 8];
        let addr = target.as_ptr().expose_provenance() as u64;
        // SAFETY: all buffers are this test's.
        unsafe {
            host.write(addr, word.as_ptr(), 8).unwrap();
            host.read(addr, copy.as_mut_ptr(), 8).unwrap();
        }
        assert_eq!((copy, fstat(&file).unwrap().st_size), (word, 0));
        // The number is not used, and no other one is taken.
        assert!(gone.get().is_none());
        // The program's file stays open.
        gone.close();
        assert!(fstat(&theirs).is_ok());
    }

    #[test]
    fn without_a_free_number_another_table_serves() {
        let target = [1u8; 4096];
        let mut copy = [0u8; 4096];
        let what = Move {
            addr: target.as_ptr().expose_provenance() as u64,
            buffer: copy.as_mut_ptr().expose_provenance(),
            len: copy.len(),
            out: false,
        };
        // SAFETY: both buffers are this test's.
        unsafe { elsewhere(what) }.unwrap();
        assert_eq!(copy, target);
        // The descriptors of this process are unchanged.
        assert!(fstat(std::io::stderr()).is_ok());
    }

    /// Opens the memory a thousand times, while another thread of the program duplicates a file of its own onto all low
    /// numbers, by `take`, and closes them. The memory's descriptor never means that file, which stays empty.
    /// Returns how many numbers another thread closed or took while they were the program's.
    fn against_a_program_that_takes_numbers(
        take: impl Fn(&dyn Fn() -> i32) -> i32 + Sync,
    ) -> usize {
        use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

        let file = memfd_create("theirs", MFdFlags::MFD_CLOEXEC).unwrap();
        let file = rustix::io::fcntl_dupfd_cloexec(file, 500).unwrap();
        let (old, theirs) = (file.as_raw_fd(), file_of(file.as_raw_fd()));
        let (begun, done, lost) = (
            AtomicBool::new(false),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        thread::scope(|s| {
            s.spawn(|| {
                while !done.load(SeqCst) {
                    for number in 3..11 {
                        // SAFETY: a test process of its own: nothing but `HostMemory` opens files under these numbers.
                        if take(&|| unsafe { libc::dup2(old, number) }) != number {
                            continue;
                        }
                        // Long enough for a thread that looked at the number before to close it.
                        for _ in 0..50 {
                            core::hint::spin_loop();
                        }
                        if file_of(number) != theirs {
                            lost.fetch_add(1, SeqCst);
                        }
                        // SAFETY: as above.
                        unsafe { libc::close(number) };
                        begun.store(true, SeqCst);
                    }
                }
            });
            // Set also if an assertion fails, or the other thread would not end.
            let opened = std::panic::catch_unwind(|| {
                while !begun.load(SeqCst) {
                    thread::yield_now();
                }
                for word in 0..1000u64 {
                    let host = HostMemory::open().unwrap();
                    assert!(host.known.number() >= HIGH_FD);
                    assert!(host.known.get().is_some_and(|fd| is_file(fd, MEMORY)));
                    let (from, mut copy) = (word.to_ne_bytes(), [0xff; 8]);
                    let addr = from.as_ptr().expose_provenance() as u64;
                    // SAFETY: both buffers are this test's.
                    unsafe { host.read(addr, copy.as_mut_ptr(), 8).unwrap() };
                    assert_eq!((copy, fstat(&file).unwrap().st_size), (from, 0));
                }
            });
            done.store(true, SeqCst);
            opened.unwrap();
        });
        // No descriptor is left behind, low or high.
        for number in 3..1024 {
            // SAFETY: only looked at; a number that is not open is refused.
            let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(number) };
            assert!(!is_file(fd, MEMORY), "{number}");
        }
        lost.into_inner()
    }

    /// The library's hook of `dup2` waits as this does.
    #[test]
    fn dup2_takes_no_number_of_an_opening() {
        alone(|| {
            let lost = against_a_program_that_takes_numbers(|dup2| opening::duplicating(dup2));
            assert_eq!(lost, 0);
        });
    }

    /// By system calls past the hooks the program may take the number: the memory is opened once more.
    #[test]
    fn a_number_that_was_taken_during_an_opening_is_noticed() {
        alone(|| {
            against_a_program_that_takes_numbers(|dup2| dup2());
        });
    }
}
