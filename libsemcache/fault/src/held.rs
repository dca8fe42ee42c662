//! Buffers that the program's system calls, or operations of MPI that are under way, use at this moment: their pages are not
//! protected meanwhile.
//!
//! Without a lock, since any thread may call: a driver that writes to a pipe with its own lock held, while the cache's
//! lock is held around a call of that driver; or a signal handler that interrupted its thread in one of these
//! functions. A hook notes the buffer of its system call or operation of MPI, and then looks at the page table; a thread that protects
//! pages lowers them in the page table and then looks for buffers. So at least one of the two sees the other: either the hook asks
//! the cache to make the pages accessible, or they stay accessible.

use crate::page::Access;
use crate::sync::{AtomicUsize, Ordering, array, fence};

/// Number of buffers at a time. Threads that wait in a system call hold one each, and so do requests of MPI that are not complete;
/// if there are more, no page is protected.
const SLOTS: usize = if cfg!(loom) { 1 } else { 4096 };

const FREE: usize = 0;
/// Taken, but its range is not yet written: the slot names no buffer.
const TAKEN: usize = 1;

/// One buffer: its first byte, and its end, whose lowest bit says whether the kernel, or MPI, writes the buffer (ends are
/// rounded up to be even).
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// The buffers of system calls and operations of MPI under way, whether the cache tracks their memory or not: a block may become
/// tracked, or be tracked as another block, while one uses it.
#[derive(Debug)]
pub struct Held {
    slots: [Slot; SLOTS],
    /// One more than the highest slot that was ever taken.
    top: AtomicUsize,
    /// Buffers in use, those without a slot included.
    calls: AtomicUsize,
    /// Buffers in use without a slot.
    crowd: AtomicUsize,
}

/// The slot of one buffer in use; `None` if no slot was left.
#[derive(Debug)]
pub struct Hold(Option<usize>);

/// Nothing is in use. The atomics of loom are not made in constants.
macro_rules! nothing {
    () => {
        Held {
            slots: array!(Slot {
                start: AtomicUsize::new(FREE),
                end: AtomicUsize::new(0),
            }),
            top: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            crowd: AtomicUsize::new(0),
        }
    };
}

impl Default for Held {
    fn default() -> Self {
        nothing!()
    }
}

impl Held {
    /// Nothing is in use.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Held {
        nothing!()
    }

    /// Notes the buffer of a system call that begins. A page whose table entry permits the access from then on is not
    /// restricted before [`Held::leave`].
    #[must_use = "held until it is given back"]
    pub fn enter(&self, addr: usize, len: usize, write: bool) -> Hold {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let end = addr.saturating_add(len).next_multiple_of(2) | usize::from(write);
        let free = |s: &Slot| {
            s.start.load(Ordering::Relaxed) == FREE
                && s.start
                    .compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
        };
        let place = self.slots.iter().position(free);
        if let Some(i) = place {
            self.top.fetch_max(i + 1, Ordering::SeqCst);
            self.slots[i].end.store(end, Ordering::SeqCst);
            self.slots[i].start.store(addr.max(2), Ordering::SeqCst);
        } else {
            self.crowd.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        Hold(place)
    }

    /// Forgets the buffer of a system call that has returned.
    pub fn leave(&self, place: &Hold) {
        match place.0 {
            Some(i) => self.slots[i].start.store(FREE, Ordering::SeqCst),
            None => _ = self.crowd.fetch_sub(1, Ordering::SeqCst),
        }
        self.calls.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a system call needs more access to these bytes than `access` permits, which the page table already says.
    #[must_use]
    pub fn forbids(&self, addr: usize, len: usize, access: Access) -> bool {
        fence(Ordering::SeqCst);
        if self.calls.load(Ordering::SeqCst) == 0 {
            return false;
        }
        if self.crowd.load(Ordering::SeqCst) > 0 {
            return true;
        }
        // A slot that is taken after this is read belongs to a call that looks at the page table later.
        let top = self.top.load(Ordering::SeqCst);
        self.slots.iter().take(top).any(|s| {
            let start = s.start.load(Ordering::SeqCst);
            if start <= TAKEN {
                return false;
            }
            // Another system call may have taken the slot since: then start and end belong to different calls, and at
            // worst a page stays accessible.
            let end = s.end.load(Ordering::SeqCst);
            start < addr.saturating_add(len) && addr < end & !1 && !access.permits(end & 1 == 1)
        })
    }

    /// For the child of a fork, in which the system calls of the parent's other threads do not run.
    pub fn forget(&self) {
        for s in &self.slots {
            s.start.store(FREE, Ordering::SeqCst);
        }
        self.calls.store(0, Ordering::SeqCst);
        self.crowd.store(0, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn what_is_held_forbids_what_it_needs() {
        let held = Held::default();
        let reads = held.enter(1000, 9, false);
        let writes = held.enter(2000, 10, true);
        assert!(held.forbids(1008, 1, Access::None) && !held.forbids(1010, 990, Access::None));
        assert!(held.forbids(0, 1001, Access::None));
        assert!(!held.forbids(0, 1001, Access::Read));
        assert!(held.forbids(0, 2001, Access::Read));
        assert!(!held.forbids(0, 2001, Access::ReadWrite));
        held.leave(&reads);
        assert!(!held.forbids(1000, 10, Access::None));
        assert!(held.forbids(2000, 10, Access::None));
        held.leave(&writes);
        assert!(!held.forbids(0, usize::MAX, Access::None));
    }

    #[test]
    fn a_crowd_holds_everything() {
        let held = Held::default();
        let mut places: std::vec::Vec<_> = (0..SLOTS).map(|_| held.enter(64, 8, true)).collect();
        assert!(held.forbids(64, 8, Access::Read) && !held.forbids(72, 8, Access::None));
        let one_more = held.enter(1 << 20, 8, false);
        assert!(held.forbids(72, 8, Access::None));
        held.leave(&one_more);
        assert!(!held.forbids(72, 8, Access::None));
        for place in places.drain(1..) {
            held.leave(&place);
        }
        assert!(held.forbids(64, 8, Access::Read));
        held.forget();
        assert!(!held.forbids(64, 8, Access::Read));
    }
}
