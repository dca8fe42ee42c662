//! A block of host memory: the unit of which the lifetime is known.

use super::sys;
use crate::base::AllocId;

/// What is known of a block of host memory (DESIGN: provenance).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provenance {
    /// Served by our allocator: whole pages, known extent and lifetime.
    Owned,
    /// The program's, with a proven lifetime: mapped through our mmap hook, or static data of an object.
    Adopted,
}

/// A host memory block with one lifetime. Memory that belongs to no block is *transient*: copied in and
/// out synchronously, never tracked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its lifetime.
    pub id: AllocId,
    /// First byte, page-aligned.
    pub start: usize,
    /// Bytes. Whole pages, but for static data: the page at its end is never closed.
    pub len: usize,
    /// How many of them the program asked for. The rest, up to the end of the last page, is our allocator's padding,
    /// which nobody reads or writes. Adopted blocks have no padding.
    pub content: usize,
    /// How we know.
    pub provenance: Provenance,
}

/// Before protection first differs within a mapping of the program. The kernel keeps pieces apart for ever that were
/// first written after they were taken apart, and refuses to `mremap` across them; after one write they join again.
pub(crate) fn keep_mergeable(block: Block) {
    if block.provenance == Provenance::Adopted {
        let _ = sys::populate(block.start, sys::page_size());
    }
}
