#![expect(unsafe_code, reason = "discards and moves pages")]
//! System calls that discard or move pages. None of the pages may be pinned: a device would go on copying to and from
//! the old physical pages.

use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, MremapFlags, ProtFlags};

use super::pins;
use super::sys::at;

/// Discards pages and leaves their address range reserved, in one atomic step: no other mapping can appear in the range
/// in between.
///
/// # Safety
/// The pages belong to this module and no thread or device refers to their contents.
pub(super) unsafe fn discard(addr: usize, len: usize) -> bool {
    debug_assert!(!pins::any(addr, len), "discarded under a pin");
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: replaces only pages that the caller may destroy.
    unsafe { mm::mmap_anonymous(at(addr), len, ProtFlags::empty(), flags) }.is_ok()
}

/// The result of moving pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moved {
    /// The pages were moved; the old range is still mapped, without contents.
    OldMapped,
    /// The pages were moved; the old range is not mapped any more.
    OldHole,
    /// The pages were not moved; the new range may be unmapped.
    No,
}

/// Moves pages to reserved address space, without copying their contents.
///
/// # Safety
/// Both ranges belong to this module, and no thread or device uses them meanwhile.
pub(super) unsafe fn move_pages(from: usize, len: usize, to: usize) -> Moved {
    debug_assert!(!pins::any(from, len), "moved under a pin");
    // DONTUNMAP (Linux 5.7) leaves no hole that another thread's mmap could fall into. The flag is given by number,
    // because the build of rustix that runs under Miri does not name it.
    let dont_unmap = MremapFlags::from_bits_retain(libc::MREMAP_DONTUNMAP.cast_unsigned());
    let kept = MremapFlags::MAYMOVE | dont_unmap;
    // SAFETY: both ranges are the caller's; the target range has no contents.
    match unsafe { mm::mremap_fixed(at(from), len, len, kept, at(to)) } {
        Ok(_) => return Moved::OldMapped,
        Err(Errno::INVAL) => {}
        Err(_) => return Moved::No,
    }
    // SAFETY: both ranges are the caller's; the target range has no contents.
    match unsafe { mm::mremap_fixed(at(from), len, len, MremapFlags::MAYMOVE, at(to)) } {
        Ok(_) => Moved::OldHole,
        Err(_) => Moved::No,
    }
}

/// Returns the pages' memory to the system and keeps the mapping.
///
/// # Safety
/// The contents of the pages are no longer needed.
pub(super) unsafe fn forget_contents(addr: usize, len: usize) {
    debug_assert!(!pins::any(addr, len), "given back under a pin");
    // SAFETY: the caller's promise.
    let _ = unsafe { mm::madvise(at(addr), len, Advice::LinuxDontNeed) };
}
