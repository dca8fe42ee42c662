//! Host memory as the simulated copy engine sees it: `/proc/self/mem`, which ignores the protection of
//! pages and raises no signal, as DMA does.

#![expect(
    unsafe_code,
    reason = "moves raw bytes between addresses that the caller vouches for"
)]

use core::ffi::c_void;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pread, pwrite, retry_on_intr};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

/// Descriptors below this are left to the program: shells and daemons give meaning to small numbers.
const HIGH_FD: i32 = 900;

/// Moves a descriptor to a high number, if the limit on descriptors allows it.
pub(crate) fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    fcntl_dupfd_cloexec(&fd, HIGH_FD).unwrap_or(fd)
}

/// This process's memory, through the kernel.
#[derive(Debug)]
pub(crate) struct HostMemory {
    fd: OwnedFd,
}

impl HostMemory {
    /// Opens the memory and proves that closed pages can be read and written.
    pub(crate) fn open() -> Result<Self, Errno> {
        let fd = open(
            "/proc/self/mem",
            OFlags::RDWR | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let host = HostMemory {
            fd: out_of_the_way(fd),
        };
        host.prove()?;
        Ok(host)
    }

    /// Writes and reads back a closed page.
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
        // SAFETY: both buffers are ours, the page is ours.
        let result = unsafe {
            self.write(addr, sent.as_ptr(), sent.len())
                .and_then(|()| self.read(addr, got.as_mut_ptr(), got.len()))
        };
        // SAFETY: the mapping is ours and nothing refers to it.
        let _ = unsafe { munmap(at.cast::<c_void>(), page) };
        result?;
        if got == sent { Ok(()) } else { Err(Errno::IO) }
    }

    /// Copies `len` bytes at host address `addr` to `to`.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes that nothing else touches meanwhile.
    pub(crate) unsafe fn read(&self, addr: u64, to: *mut u8, len: usize) -> Result<(), Errno> {
        let mut done = 0;
        while done < len {
            // SAFETY: within the caller's buffer, whose memory is initialised (mapped or a vector).
            let rest = unsafe { core::slice::from_raw_parts_mut(to.add(done), len - done) };
            match retry_on_intr(|| pread(&self.fd, &mut *rest, addr + done as u64))? {
                0 => return Err(Errno::FAULT),
                n => done += n,
            }
        }
        Ok(())
    }

    /// Copies `len` bytes from `from` to host address `addr`.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes that nothing else writes meanwhile; the caller may overwrite the
    /// host bytes.
    pub(crate) unsafe fn write(&self, addr: u64, from: *const u8, len: usize) -> Result<(), Errno> {
        let mut done = 0;
        while done < len {
            // SAFETY: within the caller's buffer.
            let rest = unsafe { core::slice::from_raw_parts(from.add(done), len - done) };
            match retry_on_intr(|| pwrite(&self.fd, rest, addr + done as u64))? {
                0 => return Err(Errno::FAULT),
                n => done += n,
            }
        }
        Ok(())
    }
}
