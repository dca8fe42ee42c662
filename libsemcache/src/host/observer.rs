//! The observer, which is told when the program frees, moves or remaps a block that is in use; and the identities of
//! blocks.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release as Publish};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use super::lock::Lock;
use super::{Block, sys};
use crate::base::AllocId;
use crate::process::signals_blocked::SignalsBlocked;

/// What the allocator may do with memory that the program has freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Nothing refers to the memory any more: it may be reused at once.
    Now,
    /// Devices still read or write the memory: it stays mapped, and [`Observer::busy`] is asked again later.
    Quarantine,
}

/// Implemented by the cache, which is told what happens to blocks that were marked in use
/// ([`mark_in_use`](super::mark_in_use)). Called on the thread that frees or remaps the memory, before the memory
/// changes, with no lock of this module held.
pub trait Observer: Sync {
    /// The program frees the block: its contents are no longer needed, and all its pages are made accessible again.
    fn release(&self, block: Block) -> Release;
    /// The tracking of the block ends, but the program needs its newest contents: [`Observer::surrender`] of the whole
    /// block and then [`Observer::release`], with no other thread's use of the block between the two.
    fn abandon(&self, block: Block) -> Release {
        self.surrender(block, block.start, block.len);
        self.release(block)
    }
    /// Whether a device still reads or writes a block that was quarantined.
    fn busy(&self, id: AllocId) -> bool;
    /// The program is about to move, unmap in part, discard or reprotect the bytes `start .. start + len` of the block:
    /// write their newest contents back to the host, make the pages accessible and forget the copies of these
    /// bytes on devices.
    fn surrender(&self, block: Block, start: usize, len: usize);
    /// The block now ends at `start + new_len`, and the program has asked for `content` bytes of it. The block grew in
    /// place, or its tail was surrendered and cut off.
    fn resized(&self, id: AllocId, new_len: usize, content: usize);
    /// A pinned range is to be unpinned, because its pages are about to change. Returns when no device copy uses the
    /// range any more.
    fn unpin(&self, start: usize, len: usize) {
        let _ = (start, len);
    }
}

static OBSERVER: Lock<Option<&'static dyn Observer>> = Lock::new(None);

/// Registers the observer; a second call replaces the first observer.
pub fn set_observer(observer: &'static dyn Observer) {
    *OBSERVER.lock() = Some(observer);
}

pub(super) fn lock_for_fork() -> &'static Lock<Option<&'static dyn Observer>> {
    &OBSERVER
}

/// The observer, copied out of its lock: it is called with no lock held.
pub(super) fn observer() -> Option<&'static dyn Observer> {
    // A child that was made by a bare system call, past libc's fork handlers, has no devices, and its copies of locks
    // may stay held for ever.
    if semcache_fault::lineage::orphaned() {
        return None;
    }
    *OBSERVER.lock()
}

/// Tells the observer that the program frees the block. Without an observer nothing refers to the block.
pub(super) fn release(block: Block) -> Release {
    if semcache_fault::lineage::orphaned() {
        open_orphaned(&block);
    }
    observer().map_or(Release::Now, |o| o.release(block))
}

/// In a child that was made past libc's fork handlers the observer is not called: here the pages of a freed block are
/// made accessible, for the next owner of the memory.
#[expect(unsafe_code, reason = "opens pages")]
fn open_orphaned(block: &Block) {
    let Some(len) = sys::whole_pages(block.len) else {
        return;
    };
    // SAFETY: the block was plain memory when it was taken into use, and in this process nothing uses it any more.
    if unsafe { sys::open(block.start, len) } {
        // On failure the fault handler had no entry for the range: there is nothing to remove.
        let _ = semcache_fault::pages::set(block.start, len, None);
    }
}

/// Unpins a range. Without an observer no range is pinned.
pub(super) fn unpin(start: usize, len: usize) {
    if let Some(o) = observer() {
        o.unpin(start, len);
    }
}

/// Whether a device still refers to a quarantined block.
pub(super) fn busy(id: AllocId) -> bool {
    observer().is_some_and(|o| o.busy(id))
}

/// How many threads can stop tracking a block at the same time; a further thread waits for a free place.
const PLACES: usize = 32;

/// First byte and end of the blocks that threads stop tracking at this moment. A first byte of 0 marks a free place, 1
/// a place whose block is not known yet.
static LEAVING: [(AtomicUsize, AtomicUsize); PLACES] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; PLACES];
/// Number of places that are taken.
static LEAVERS: AtomicUsize = AtomicUsize::new(0);

/// The calling thread is about to stop tracking a block. The table says at once that the block is not in use, but its
/// newest contents are written back later. Until this guard is dropped, no call of another thread uses these bytes as a
/// block ([`leaving`]), and no hook of another thread lets a system call change their pages ([`await_leaving`]): the
/// write-back would overwrite the result of that system call.
///
/// No signal handler runs on the thread meanwhile: a handler that calls `mmap` or `madvise` would wait for its own
/// thread.
pub(super) struct Leaving {
    place: &'static (AtomicUsize, AtomicUsize),
    _blocked: SignalsBlocked,
}

impl Leaving {
    /// Takes a place; the caller holds no lock.
    pub(super) fn new() -> Leaving {
        let blocked = SignalsBlocked::new();
        LEAVERS.fetch_add(1, AcqRel);
        loop {
            let free = |p: &&(AtomicUsize, AtomicUsize)| {
                p.0.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
            };
            if let Some(place) = LEAVING.iter().find(free) {
                return Leaving {
                    place,
                    _blocked: blocked,
                };
            }
            rustix::thread::sched_yield();
        }
    }

    /// Enters the block, under the lock of the table, in the step that marks the block as not in use.
    pub(super) fn block(&self, block: Block) {
        self.place.1.store(block.start + block.len, Relaxed);
        self.place.0.store(block.start, Publish);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.place.0.store(0, Publish);
        LEAVERS.fetch_sub(1, AcqRel);
    }
}

/// Whether a thread is about to stop tracking a block that has a byte in `[addr, addr + len)`.
pub(super) fn leaving(addr: usize, len: usize) -> bool {
    LEAVERS.load(Acquire) > 0
        && LEAVING.iter().any(|(from, end)| {
            let from = from.load(Acquire);
            from > 1 && from < addr.saturating_add(len) && addr < end.load(Relaxed)
        })
}

/// Waits until other threads have written back the blocks in `[addr, addr + len)` that they stop tracking. Call it with
/// no lock held, after the calling thread has done so for the blocks there: a block that it did not find in use may be
/// one that another thread is writing back.
pub(super) fn await_leaving(addr: usize, len: usize) {
    // In a child that was made past libc's fork handlers those other threads do not exist.
    while leaving(addr, len) && !semcache_fault::lineage::orphaned() {
        rustix::thread::sched_yield();
    }
}

/// For a child of fork, in which no other thread exists: clears all places.
pub(super) fn nobody_leaves() {
    for (from, _) in &LEAVING {
        from.store(0, Publish);
    }
    LEAVERS.store(0, Publish);
}

/// Writes back the newest contents of the whole block and stops tracking it; waits for devices that still refer to the
/// block.
pub(super) fn surrender_all(block: Block) {
    let Some(o) = observer() else { return };
    if o.abandon(block) == Release::Quarantine {
        while o.busy(block.id) {
            rustix::thread::sched_yield();
        }
    }
}

/// Bits of an identity that say in which table the block is found; the remaining bits are a number that is never
/// repeated.
const PLACE: u64 = 0xFFFF;
/// The place of adopted blocks.
const ADOPTED: u64 = PLACE;

fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed) << 16
}

/// A new identity for the owned block in the run with this index.
pub(super) fn owned_id(run: usize) -> AllocId {
    AllocId(fresh() | run as u64)
}

/// A new identity for an adopted block.
pub(super) fn adopted_id() -> AllocId {
    AllocId(fresh() | ADOPTED)
}

/// The run that an identity names, `None` for an adopted block.
pub(super) fn run_of(id: AllocId) -> Option<usize> {
    let place = id.0 & PLACE;
    (place != ADOPTED).then_some(place as usize)
}
