//! The device memory of one simulated device: an anonymous mapping, allocated first fit. As on a GPU, whose memory is made of
//! pages, a block that fits into what is free gets it although that lies in several places: the mapping has twice as many
//! addresses as the device has memory.

#![expect(unsafe_code, reason = "maps the memory that plays the device's")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munlock, munmap,
};
use rustix::param::page_size;

/// Every block starts at a multiple of this and is padded to it.
pub(super) const ALIGN: usize = 256;

/// Device memory is made accessible in multiples of this.
const STEP: usize = 16 << 20;

/// The byte that poisoned memory is filled with: NaN in every element type at any alignment, and -1.
pub(super) const POISON: u8 = 0xFF;

/// Device memory. Blocks have addresses of this process, so kernels run on them in place.
#[derive(Debug)]
pub(super) struct Memory {
    base: usize,
    mapped: usize,
    blocks: Mutex<Blocks>,
}

impl Memory {
    pub(super) fn new(capacity: usize) -> Result<Self, Errno> {
        let capacity = capacity - capacity % ALIGN;
        let addresses = capacity.saturating_mul(2);
        let mapped = addresses.max(1).next_multiple_of(page_size());
        // Memory is made accessible as it is used: a program that locks all its memory would fill it with pages.
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                mapped,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        // Advice only: neither a child of fork nor a core file needs device memory, and huge pages make first touches
        // cheap. Correctness does not depend on the advice.
        for advice in [
            Advice::LinuxDontFork,
            Advice::LinuxDontDump,
            Advice::LinuxHugepage,
        ] {
            // SAFETY: the mapping was made above; no advice in the list changes its contents.
            let _ = unsafe { madvise(base, mapped, advice) };
        }
        Ok(Memory {
            base: base.expose_provenance(),
            mapped,
            blocks: Mutex::new(Blocks::new(capacity)),
        })
    }

    /// A block of at least `bytes`, or `None` if no gap is large enough.
    pub(super) fn alloc(&self, bytes: usize) -> Option<u64> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = blocks.take(bytes)?;
        if self.open(&mut blocks, offset + bytes).is_err() {
            blocks.give_back(offset);
            return None;
        }
        Some((self.base + offset) as u64)
    }

    /// Makes the first `len` bytes of the mapping accessible, rounded up to [`STEP`].
    fn open(&self, blocks: &mut Blocks, len: usize) -> Result<(), Errno> {
        if len <= blocks.open {
            return Ok(());
        }
        let open = len.next_multiple_of(STEP).min(self.mapped);
        let at = core::ptr::with_exposed_provenance_mut(self.base + blocks.open);
        let more = open - blocks.open;
        // SAFETY: a part of this mapping from which no block has been handed out yet.
        unsafe {
            // Memory that is locked is filled with pages as soon as it is made accessible. If `munlock` fails, that
            // happens.
            let _ = munlock(at, more);
            mprotect(at, more, MprotectFlags::READ | MprotectFlags::WRITE)?;
        }
        blocks.open = open;
        Ok(())
    }

    /// Frees a block, and returns its whole pages to the system. Unknown addresses are ignored.
    pub(super) fn free(&self, addr: u64) {
        let Some(offset) = self.offset(addr) else {
            return;
        };
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(len) = blocks.give_back(offset) {
            let page = page_size();
            let start = (self.base + offset).next_multiple_of(page);
            let end = (self.base + offset + len) / page * page;
            if start < end {
                let at = core::ptr::with_exposed_provenance_mut(start);
                // SAFETY: the pages lie within the freed block, which no operation uses any more; `blocks` is still
                // locked, so the block cannot be handed out again yet.
                let _ = unsafe { madvise(at, end - start, Advice::LinuxDontNeed) };
            }
        }
    }

    /// Whether the range lies within one block that is allocated.
    pub(super) fn holds(&self, addr: u64, bytes: usize) -> bool {
        let Some(offset) = self.offset(addr) else {
            return false;
        };
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.hold(offset, bytes)
    }

    fn offset(&self, addr: u64) -> Option<usize> {
        usize::try_from(addr).ok()?.checked_sub(self.base)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let base = core::ptr::with_exposed_provenance_mut(self.base);
        // SAFETY: the mapping is this object's, and its last user is gone.
        let _ = unsafe { munmap(base, self.mapped) };
    }
}

/// Which offsets of device memory are free and which are in use.
#[derive(Debug)]
struct Blocks {
    free: BTreeMap<usize, usize>,
    used: BTreeMap<usize, usize>,
    /// Bytes that may still be taken.
    left: usize,
    /// All bytes below this offset are accessible.
    open: usize,
}

impl Blocks {
    fn new(capacity: usize) -> Self {
        let free = if capacity == 0 {
            BTreeMap::new()
        } else {
            BTreeMap::from([(0, capacity.saturating_mul(2))])
        };
        Blocks {
            free,
            used: BTreeMap::new(),
            left: capacity,
            open: 0,
        }
    }

    fn take(&mut self, bytes: usize) -> Option<usize> {
        let len = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let left = self.left.checked_sub(len)?;
        let (start, room) = self
            .free
            .iter()
            .map(|(s, l)| (*s, *l))
            .find(|(_, room)| *room >= len)?;
        self.free.remove(&start);
        if room > len {
            self.free.insert(start + len, room - len);
        }
        self.used.insert(start, len);
        self.left = left;
        Some(start)
    }

    fn give_back(&mut self, offset: usize) -> Option<usize> {
        let freed = self.used.remove(&offset)?;
        self.left += freed;
        let (mut start, mut len) = (offset, freed);
        if let Some(next) = self.free.remove(&(start + len)) {
            len += next;
        }
        if let Some((before, room)) = self.free.range(..start).next_back().map(|(s, l)| (*s, *l))
            && before + room == start
        {
            self.free.remove(&before);
            (start, len) = (before, room + len);
        }
        self.free.insert(start, len);
        Some(freed)
    }

    fn hold(&self, offset: usize, bytes: usize) -> bool {
        self.used
            .range(..=offset)
            .next_back()
            .is_some_and(|(start, len)| bytes <= len - (offset - start).min(*len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fit_honours_capacity_and_merges() {
        let mut b = Blocks::new(1024);
        assert_eq!(b.take(0), Some(0));
        assert_eq!(b.take(257), Some(256));
        assert_eq!(b.take(256), Some(768));
        assert_eq!(b.take(1), None);
        assert!(b.hold(256, 512) && b.hold(700, 68) && !b.hold(700, 69) && !b.hold(1024, 1));
        assert_eq!(b.give_back(256), Some(512));
        assert_eq!(b.give_back(256), None);
        assert!(!b.hold(256, 1));
        assert_eq!(b.take(513), None);
        // No gap has 512 bytes at the lower addresses once these are taken.
        assert_eq!(b.take(256), Some(256));
        b.give_back(0);
        assert_eq!(b.take(512), Some(1024));
        assert_eq!(b.take(1), None);
        for at in [256, 768, 1024] {
            b.give_back(at);
        }
        assert_eq!(b.take(1024), Some(0));
        assert_eq!(b.take(usize::MAX), None);
        assert_eq!(Blocks::new(0).take(1), None);
    }

    #[test]
    fn freed_pages_go_back() {
        let m = Memory::new(1 << 20).expect("map");
        let a = m.alloc(1 << 20).expect("all of it");
        let p: *mut u8 = core::ptr::with_exposed_provenance_mut(a as usize);
        // SAFETY: within the block.
        unsafe { p.add(100_000).write(7) };
        assert!(m.alloc(1).is_none());
        m.free(a);
        assert_eq!(m.alloc(1 << 20), Some(a));
        // SAFETY: within the block.
        assert_eq!(unsafe { p.add(100_000).read() }, 0);
    }
}
