//! Host memory: which block an address belongs to, how long it lives, and the allocator behind large
//! `malloc`s. Knows nothing of devices or the directory; tells whoever registered as [`Observer`] what
//! happens to a block that is in use.
//!
//! [`heap`] serves the program's large allocations, [`adopt`] follows what it maps itself, [`find`] and
//! [`mark_in_use`] are what the floors above ask. [`runtime_heap`] is what they allocate from.
//!
//! Locks, in the order in which they may nest: pins, own blocks (the only two that do), adopted blocks, guards,
//! observer, runtime heap. Program memory is never touched, and the observer never called, under any of them.

pub mod adopt;
mod advice;
mod crew;
mod glibc;
pub mod guards;
pub mod heap;
pub mod idle;
pub mod loader;
mod lock;
mod observer;
mod physical;
pub mod pins;
mod ranges;
mod realloc;
mod registry;
mod runs;
pub mod runtime_heap;
mod stack;
mod stands;
mod statics;
mod sys;
mod theirs;

pub use crew::populate;
pub use observer::set_observer;
pub use physical::memory;
pub use registry::{block, find, forget_users, holding, mark_in_use, prepare, present_share};
pub use runtime_heap::RuntimeHeap;
pub use stack::{becomes_stack, runs_here};
pub use stands::{stands, vanished};

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
    /// The block dies as one that is known, but its newest contents are needed: [`Observer::surrender`] of all of
    /// it and [`Observer::release`], with no other thread's use of the block between the two.
    fn abandon(&self, block: Block) -> Release {
        self.surrender(block, block.start, block.len);
        self.release(block)
    }
    /// Whether a block that was quarantined is still referred to.
    fn busy(&self, id: AllocId) -> bool;
    /// The bytes `start .. start + len` of the block are about to be moved, unmapped in part, discarded or
    /// reprotected by the program: bring their newest contents home, make them accessible and forget them.
    fn surrender(&self, block: Block, start: usize, len: usize);
    /// The block now ends at `start + new_len`, and the program has asked for `content` bytes of it; it grew in place
    /// or its tail was surrendered and cut.
    fn resized(&self, id: AllocId, new_len: usize, content: usize);
    /// A range that was pinned is to be page-locked no longer: its pages are about to change. Returns when no
    /// device copy uses it any more.
    fn unpin(&self, start: usize, len: usize) {
        let _ = (start, len);
    }
}

/// Whether [`before_fork`] would wait for this very thread: in a signal handler that interrupted it in here.
#[must_use]
pub fn interrupted() -> bool {
    lock::held_here()
}

/// Before fork: makes every table of this floor consistent and keeps it so. The forking thread may still
/// allocate and free until it calls one of the other two.
pub fn before_fork() {
    // First: who reads the list allocates meanwhile.
    loader::lock_for_fork().hold();
    adopt::hold_for_fork();
    guards::hold_for_fork();
    pins::hold_for_fork();
    heap::SPACE.hold();
    observer::lock_for_fork().hold();
    runtime_heap::lock_for_fork().hold();
    lock::set_forking(true);
}

/// After fork, in the parent.
pub fn after_fork_parent() {
    lock::set_forking(false);
    runtime_heap::lock_for_fork().release();
    observer::lock_for_fork().release();
    heap::SPACE.release();
    pins::release_after_fork();
    guards::release_after_fork();
    adopt::release_after_fork();
    loader::lock_for_fork().release();
}

/// After fork, in the child. Its memory is a copy; whether blocks stay in use is for the floors above to
/// say ([`forget_users`]); that nothing of it is pinned is certain.
pub fn after_fork_child() {
    after_fork_parent();
    observer::nobody_leaves();
    crew::forget();
    idle::forget();
    pins::forget_all();
}
