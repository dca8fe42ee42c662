//! Memory that tests write to, by the CPU and by the kernel.

use std::ffi::c_void;
use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// The largest page that the kernel maps memory with, where it may.
pub(crate) const HUGE: usize = 2 << 20;

/// The size of a page.
pub(crate) fn page() -> usize {
    let size = sysconf(SysconfVar::PAGE_SIZE).unwrap().unwrap();
    size.try_into().unwrap()
}

/// Private anonymous memory, unmapped on drop. All its pages are present.
pub(crate) struct Memory {
    all: NonNull<c_void>,
    mapped: usize,
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: nothing but the methods below refers to the memory, by pointers; threads that use it at a time write different
// bytes.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of `pages` pages, aligned to a huge page. The kernel may map it by huge pages only if `huge`.
    pub(crate) fn new(pages: usize, huge: bool) -> Memory {
        let len = pages * page();
        let mapped = NonZeroUsize::new(len + HUGE).unwrap();
        // SAFETY: new memory at an address of the kernel's choice.
        let all = unsafe {
            mmap_anonymous(
                None,
                mapped,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )
        }
        .unwrap();
        let skip = all.as_ptr().addr().next_multiple_of(HUGE) - all.as_ptr().addr();
        // SAFETY: `skip` is less than HUGE, by which the mapping is longer than `len`.
        let at = unsafe { all.cast::<u8>().add(skip) };
        let advice = if huge {
            MmapAdvise::MADV_HUGEPAGE
        } else {
            MmapAdvise::MADV_NOHUGEPAGE
        };
        // SAFETY: changes no byte of the mapping made above.
        unsafe { madvise(at.cast(), len, advice) }.unwrap();
        let memory = Memory {
            all,
            mapped: mapped.get(),
            at,
            len,
        };
        memory.fill(0, len, 1);
        memory
    }

    /// Its address.
    pub(crate) fn start(&self) -> usize {
        self.at.as_ptr().expose_provenance()
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The CPU stores one byte.
    pub(crate) fn store(&self, offset: usize, byte: u8) {
        assert!(offset < self.len);
        // SAFETY: inside the memory.
        unsafe { self.at.add(offset).write_volatile(byte) };
    }

    /// The CPU stores eight bytes by one instruction, also across the end of a page.
    pub(crate) fn store_eight(&self, offset: usize, byte: u8) {
        assert!(offset + 8 <= self.len);
        // SAFETY: inside the memory, and an unaligned store.
        unsafe {
            self.at
                .add(offset)
                .cast::<u64>()
                .write_unaligned(u64::from_ne_bytes([byte; 8]))
        };
    }

    /// The CPU stores many bytes.
    pub(crate) fn fill(&self, offset: usize, len: usize, byte: u8) {
        assert!(offset + len <= self.len);
        // SAFETY: inside the memory.
        unsafe { self.at.add(offset).write_bytes(byte, len) };
    }

    /// The CPU loads bytes.
    pub(crate) fn load(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len);
        // SAFETY: inside the memory, of which no thread writes these bytes meanwhile.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(offset), len) }.to_vec()
    }

    /// The kernel stores what `read` finds in a file from `from` on: less than `len` bytes, where the file ends.
    pub(crate) fn read(&self, offset: usize, len: usize, mut file: &std::fs::File, from: usize) {
        assert!(offset + len <= self.len);
        file.seek(SeekFrom::Start(from as u64)).unwrap();
        // SAFETY: inside the memory, to which no other reference is alive.
        let to = unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().add(offset), len) };
        let left = usize::try_from(file.metadata().unwrap().len()).unwrap() - from;
        assert_eq!(file.read(to).unwrap(), len.min(left));
    }

    /// The kernel stores bytes as it does for another process.
    pub(crate) fn store_from_outside(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        let to = RemoteIoVec {
            base: self.start() + offset,
            len: bytes.len(),
        };
        let stored = process_vm_writev(Pid::this(), &[IoSlice::new(bytes)], &[to]);
        assert_eq!(stored, Ok(bytes.len()));
    }

    /// The kernel loads bytes as it does for another process, also while threads write them.
    pub(crate) fn load_from_outside(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len);
        let mut bytes = vec![0; len];
        let from = RemoteIoVec {
            base: self.start() + offset,
            len,
        };
        let loaded = process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut bytes)], &[from]);
        assert_eq!(loaded, Ok(len));
        bytes
    }

    /// Makes all of it inaccessible, and then accessible again.
    pub(crate) fn close_and_open(&self) {
        for access in [
            ProtFlags::PROT_NONE,
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        ] {
            // SAFETY: no thread touches the memory while it is inaccessible.
            unsafe { mprotect(self.at.cast(), self.len, access) }.unwrap();
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which no reference is left.
        unsafe { munmap(self.all, self.mapped) }.unwrap();
    }
}
