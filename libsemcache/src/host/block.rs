//! A block of host memory: the unit whose extent and lifetime are known.

use super::sys;
use crate::base::AllocId;

/// What is known of a block of host memory: who allocated it (ARCHITECTURE: provenance).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provenance {
    /// Allocated by semcache's `malloc`: whole pages, known extent and lifetime.
    Owned,
    /// Memory of the program with a proven lifetime: mapped through semcache's `mmap` hook, or static data of a loaded
    /// object.
    Adopted,
}

/// A host memory block with one lifetime. Memory that belongs to no block is *transient*: an operand there is copied in
/// and out synchronously at every call, and its pages are never protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Identifies the lifetime of the block.
    pub id: AllocId,
    /// First byte, page-aligned.
    pub start: usize,
    /// Bytes of the block: whole pages, except for static data, whose last, partial page is never made inaccessible.
    pub len: usize,
    /// Bytes that the program asked for. The rest, up to the end of the last page, is padding of semcache's allocator,
    /// which neither the program nor a device reads or writes. Adopted blocks have no padding.
    pub content: usize,
    /// Whether semcache allocated the block or adopted it.
    pub provenance: Provenance,
}

/// Called before the pages of one mapping of the program first get different protection: makes the block's first page
/// present. The kernel never merges two parts of a mapping again if each was first written after the split, and
/// `mremap` across them fails; if a page was written before the split, the parts merge as soon as their protection is
/// equal.
pub(crate) fn keep_mergeable(block: Block) {
    if block.provenance == Provenance::Adopted {
        let _ = sys::populate(block.start, sys::page_size());
    }
}
