//! Poison for large blocks of device memory, without touching their pages: a small memory file full of the poison byte
//! is mapped privately over the block again and again. A page costs memory only once it is written.

#![expect(
    unsafe_code,
    reason = "replaces pages of the memory that plays the device's"
)]

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, pwrite, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
use rustix::param::page_size;
use semcache_fault::descriptor::{Known, is_named};

use super::copy::fill;
use super::memory::POISON;
use crate::device::api::{Region, Shape};
use crate::device::host_memory::HIGH_FD;

/// Bytes of the file. Each mapping of it counts towards the process's limit of mappings: 256 for 4 GiB.
pub(super) const FILE: usize = 16 << 20;

/// Smaller blocks are filled byte by byte.
const LARGE: usize = 8 << 20;

/// The memory file.
#[derive(Debug)]
pub(super) struct Pattern {
    file: Known,
}

impl Drop for Pattern {
    fn drop(&mut self) {
        self.file.close();
    }
}

impl Pattern {
    pub(super) fn new() -> Result<Self, Errno> {
        let open = || memfd_create("semcache-poison", MemfdFlags::CLOEXEC);
        // The kernel calls the file so.
        let name = b"/memfd:semcache-poison (deleted)";
        let file = Known::open(HIGH_FD, open, |fd| is_named(fd, name))?;
        let pattern = Pattern { file };
        let piece = vec![POISON; 1 << 20];
        let mut done = 0;
        while done < FILE {
            let rest = &piece[..piece.len().min(FILE - done)];
            let file = pattern.file.get().ok_or(Errno::BADF)?;
            match retry_on_intr(|| pwrite(file, rest, done as u64))? {
                0 => return Err(Errno::NOSPC),
                n => done += n,
            }
        }
        Ok(pattern)
    }

    /// Fills a fresh block with poison.
    ///
    /// # Safety
    /// The block is a part of a private mapping, and no other thread uses it.
    pub(super) unsafe fn cover(&self, addr: u64, bytes: usize) {
        let page = page_size();
        let (start, end) = (addr as usize, addr as usize + bytes);
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        let plain = |from: usize, to: usize| {
            let shape = Shape {
                width: to - from,
                count: 1,
            };
            // SAFETY: within the block.
            unsafe {
                fill(
                    Region {
                        addr: from as u64,
                        pitch: shape.width,
                    },
                    shape,
                    POISON,
                )
            };
        };
        if bytes < LARGE || !FILE.is_multiple_of(page) {
            plain(start, end);
            return;
        }
        plain(start, first);
        plain(last, end);
        let mut at = first;
        while at < last {
            let len = FILE.min(last - at);
            // SAFETY: whole pages of the block, which no operation uses yet.
            if unsafe { self.map(at, len) }.is_err() {
                // The process may have too many mappings, or the program may have closed the file: the old pages are
                // still mapped.
                plain(at, at + len);
            }
            at += len;
        }
    }

    /// # Safety
    /// The pages belong to the caller and hold no data.
    unsafe fn map(&self, at: usize, len: usize) -> Result<(), Errno> {
        let file = self.file.get().ok_or(Errno::BADF)?;
        let at = core::ptr::with_exposed_provenance_mut(at);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the caller's pages hold no data that is needed; the file is at least as long as `len`.
        unsafe {
            mmap(at, len, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)?;
            let _ = madvise(at, len, Advice::LinuxDontFork);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;

    #[test]
    fn every_byte_of_a_large_block_is_poisoned_and_writable() {
        let m = Memory::new(64 << 20).expect("map");
        let pattern = Pattern::new().expect("memory file");
        for round in 0..2 {
            let pad = m.alloc(256).expect("pad");
            let len = (40 << 20) + 512;
            let block = m.alloc(len).expect("block");
            // SAFETY: the block is fresh.
            unsafe { pattern.cover(block, len) };
            let p: *mut u8 = core::ptr::with_exposed_provenance_mut(block as usize);
            // SAFETY: within the block.
            let bytes = unsafe { core::slice::from_raw_parts_mut(p, len) };
            assert!(bytes.iter().all(|b| *b == POISON), "round {round}");
            bytes[0] = 1;
            bytes[20 << 20] = 2;
            bytes[len - 1] = 3;
            assert_eq!((bytes[0], bytes[20 << 20], bytes[len - 1]), (1, 2, 3));
            assert_eq!(bytes[4 << 20], POISON, "the file is not written through");
            m.free(block);
            m.free(pad);
        }
    }
}
