//! Who is told what happens to blocks in use, and the identities by which they are named.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::lock::Lock;
use super::{Block, Observer, Release, sys};
use crate::base::AllocId;

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
