//! Who is told what happens to blocks in use, and the identities by which they are named.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release as Publish};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use super::lock::Lock;
use super::{Block, sys};
use crate::base::AllocId;
use crate::process::masked::Masked;

/// What may be done with memory that the program gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Nothing refers to it any more.
    Now,
    /// Devices still read or write it: keep it mapped and ask [`Observer::busy`] again later.
    Quarantine,
}

/// Who must know what happens to blocks that were marked in use ([`mark_in_use`](super::mark_in_use)). Called on the thread
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

static OBSERVER: Lock<Option<&'static dyn Observer>> = Lock::new(None);

/// Registers who is told. The last one counts.
pub fn set_observer(observer: &'static dyn Observer) {
    *OBSERVER.lock() = Some(observer);
}

pub(super) fn lock_for_fork() -> &'static Lock<Option<&'static dyn Observer>> {
    &OBSERVER
}

/// The observer, copied out: it is called with no lock held.
pub(super) fn observer() -> Option<&'static dyn Observer> {
    // A process of which nobody was told has no devices, and its copies of the locks may be held for ever.
    if semcache_fault::lineage::orphaned() {
        return None;
    }
    *OBSERVER.lock()
}

/// The block dies; with nobody to ask, nothing refers to it.
pub(super) fn release(block: Block) -> Release {
    if semcache_fault::lineage::orphaned() {
        open_orphaned(&block);
    }
    observer().map_or(Release::Now, |o| o.release(block))
}

/// Who gets the memory of a dead block next must find it open; nobody else does that here.
#[expect(unsafe_code, reason = "opens pages")]
fn open_orphaned(block: &Block) {
    let Some(len) = sys::whole_pages(block.len) else {
        return;
    };
    // SAFETY: the block was plain memory when it was taken into use, and is in nobody's use any more.
    if unsafe { sys::open(block.start, len) } {
        // Failure: the range was never known, then there is nothing to forget.
        let _ = semcache_fault::pages::set(block.start, len, None);
    }
}

/// Undoes a pin. With nobody to ask there is none.
pub(super) fn unpin(start: usize, len: usize) {
    if let Some(o) = observer() {
        o.unpin(start, len);
    }
}

/// Whether a quarantined block is still referred to.
pub(super) fn busy(id: AllocId) -> bool {
    observer().is_some_and(|o| o.busy(id))
}

/// Threads that give up a block at once; another one waits for a place.
const PLACES: usize = 32;

/// First and last byte of the blocks that threads give up at this moment; a first byte of 0 is a free place, of 1 one
/// whose block is not known yet.
static LEAVING: [(AtomicUsize, AtomicUsize); PLACES] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; PLACES];
/// Places that are taken.
static LEAVERS: AtomicUsize = AtomicUsize::new(0);

/// A thread is about to give up a block. In the table the block gets out of use at once, its contents are home later: so
/// until this ends no call of another thread uses these bytes as a block ([`leaving`]), and no hook of another thread lets a
/// system call change their pages ([`await_leaving`]), which what then comes home would overwrite.
///
/// No signal handler runs in the thread meanwhile: one that maps or advises would wait for its own thread.
pub(super) struct Leaving {
    place: &'static (AtomicUsize, AtomicUsize),
    _masked: Masked,
}

impl Leaving {
    /// Finds a place; no lock may be held.
    pub(super) fn new() -> Leaving {
        let masked = Masked::new();
        LEAVERS.fetch_add(1, AcqRel);
        loop {
            let free = |p: &&(AtomicUsize, AtomicUsize)| {
                p.0.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
            };
            if let Some(place) = LEAVING.iter().find(free) {
                return Leaving {
                    place,
                    _masked: masked,
                };
            }
            rustix::thread::sched_yield();
        }
    }

    /// Under the lock of the table, in the step that takes the block out of use.
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

/// Whether a thread gives up a block that has a byte here.
pub(super) fn leaving(addr: usize, len: usize) -> bool {
    LEAVERS.load(Acquire) > 0
        && LEAVING.iter().any(|(from, end)| {
            let from = from.load(Acquire);
            from > 1 && from < addr.saturating_add(len) && addr < end.load(Relaxed)
        })
}

/// Waits until what other threads give up of these bytes is home. Call it with no lock held, after the caller's own blocks
/// there are given up: a block that was not found in use may be another thread's to bring home.
pub(super) fn await_leaving(addr: usize, len: usize) {
    // In a child that was made past libc nobody goes on with it.
    while leaving(addr, len) && !semcache_fault::lineage::orphaned() {
        rustix::thread::sched_yield();
    }
}

/// For a child of fork, in which no other thread gives anything up.
pub(super) fn nobody_leaves() {
    for (from, _) in &LEAVING {
        from.store(0, Publish);
    }
    LEAVERS.store(0, Publish);
}

/// The block dies, all of it, but the program needs its newest contents, and at once: waits for devices
/// that still refer to it.
pub(super) fn surrender_all(block: Block) {
    let Some(o) = observer() else { return };
    if o.abandon(block) == Release::Quarantine {
        while o.busy(block.id) {
            rustix::thread::sched_yield();
        }
    }
}

/// Bits of an identity that say where the block is found; the rest is never repeated.
const PLACE: u64 = 0xFFFF;
/// The place of blocks that are not ours.
const ADOPTED: u64 = PLACE;

fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed) << 16
}

/// A new identity for the block in the run of this index.
pub(super) fn owned_id(run: usize) -> AllocId {
    AllocId(fresh() | run as u64)
}

/// A new identity for a block that is not ours.
pub(super) fn adopted_id() -> AllocId {
    AllocId(fresh() | ADOPTED)
}

/// The run that an identity names, `None` for an adopted block.
pub(super) fn run_of(id: AllocId) -> Option<usize> {
    let place = id.0 & PLACE;
    (place != ADOPTED).then_some(place as usize)
}
