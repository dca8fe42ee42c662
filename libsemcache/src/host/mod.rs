//! Host memory: which block an address belongs to, how long it lives, and the allocator behind large
//! `malloc`s. Knows nothing of devices or the directory; tells whoever registered as [`Observer`] what
//! happens to a block that is in use.

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
    /// Bytes, whole pages.
    pub len: usize,
    /// How we know.
    pub provenance: Provenance,
}

/// What may be done with memory that the program gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Nothing refers to it any more.
    Now,
    /// Devices still read or write it: keep it mapped and ask [`Observer::busy`] again later.
    Quarantine,
}

/// Who must know what happens to blocks that were marked in use ([`mark_in_use`]). Called on the thread
/// that frees or remaps, before anything happens to the memory, with no lock of this floor held.
pub trait Observer: Sync {
    /// The block dies. Its contents are no longer wanted; all of it is made accessible again.
    fn release(&self, block: Block) -> Release;
    /// Whether a block that was quarantined is still referred to.
    fn busy(&self, id: AllocId) -> bool;
    /// The bytes `start .. start + len` of the block are about to be moved, unmapped in part, discarded or
    /// reprotected by the program: bring their newest contents home, make them accessible and forget them.
    fn surrender(&self, block: Block, start: usize, len: usize);
    /// The block now ends at `start + new_len`; it grew in place or its tail was surrendered and cut.
    fn resized(&self, id: AllocId, new_len: usize);
}
