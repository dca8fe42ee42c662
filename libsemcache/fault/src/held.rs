//! Memory that system calls of the program use right now: its pages are not restricted meanwhile.
//!
//! No lock, for anybody may be the caller: a driver that writes to a pipe with its own lock held, while the cache's
//! lock is held around a call of that driver; or a signal handler on a thread that is in here. A system call notes
//! its buffer and then looks at the page table; whoever restricts pages lowers them in the table and then looks for
//! buffers. So at least one of the two sees the other: the call asks the cache
//! to open the pages, or they stay open.

use crate::page::Access;
use crate::sync::{AtomicUsize, Ordering, array, fence};

/// Buffers at a time. Threads that wait in a system call hold one each; beyond this nothing is restricted.
const SLOTS: usize = if cfg!(loom) { 1 } else { 512 };

const FREE: usize = 0;
/// Taken, and its range not yet written. No buffer is there.
const TAKEN: usize = 1;

/// One buffer: its first byte, and its end with the lowest bit set apart for whether the kernel writes it (ends are
/// rounded up to be even).
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// The buffers of system calls under way, known to the cache or not: a block may become known, or change its name,
/// while the kernel is at it.
#[derive(Debug)]
pub struct Held {
    slots: [Slot; SLOTS],
    /// System calls under way, those without a slot included.
    calls: AtomicUsize,
    /// Those without.
    crowd: AtomicUsize,
}

/// The place of one system call's buffer; `None` if there was none left.
#[derive(Debug)]
pub struct Hold(Option<usize>);

impl Default for Held {
    fn default() -> Self {
        Held {
            slots: array!(Slot {
                start: AtomicUsize::new(FREE),
                end: AtomicUsize::new(0),
            }),
            calls: AtomicUsize::new(0),
            crowd: AtomicUsize::new(0),
        }
    }
}

impl Held {
    /// A system call begins. A page that the table permits it to use from now on is not restricted before
    /// [`Held::leave`].
    #[must_use = "held until it is given back"]
    pub fn enter(&self, addr: usize, len: usize, write: bool) -> Hold {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let end = addr.saturating_add(len).next_multiple_of(2) | usize::from(write);
        let free = |s: &Slot| {
            s.start
                .compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        };
        let place = self.slots.iter().position(free);
        if let Some(i) = place {
            self.slots[i].end.store(end, Ordering::SeqCst);
            self.slots[i].start.store(addr.max(2), Ordering::SeqCst);
        } else {
            self.crowd.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        Hold(place)
    }

    /// It is over.
    pub fn leave(&self, place: &Hold) {
        match place.0 {
            Some(i) => self.slots[i].start.store(FREE, Ordering::SeqCst),
            None => _ = self.crowd.fetch_sub(1, Ordering::SeqCst),
        }
        self.calls.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a system call needs more of these bytes than `access` permits, which the table says already.
    #[must_use]
    pub fn forbids(&self, addr: usize, len: usize, access: Access) -> bool {
        fence(Ordering::SeqCst);
        if self.calls.load(Ordering::SeqCst) == 0 {
            return false;
        }
        if self.crowd.load(Ordering::SeqCst) > 0 {
            return true;
        }
        self.slots.iter().any(|s| {
            let start = s.start.load(Ordering::SeqCst);
            if start <= TAKEN {
                return false;
            }
            // Another call may have the slot by now: then both ends are some call's, and at worst a page stays open.
            let end = s.end.load(Ordering::SeqCst);
            start < addr.saturating_add(len) && addr < end & !1 && !access.permits(end & 1 == 1)
        })
    }

    /// A child of fork makes no system call of its parent's other threads.
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
