//! The table of the pages that the program guards (`guards`).

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::lock::Lock;
use super::ranges::Ranges;
use crate::base::Rect;

/// How many operands of the last calls are remembered as accessible.
pub(super) const SEEN: usize = 8;

pub(super) struct Guards {
    /// Pages in blocks of our malloc that the program guards, in any way.
    pub(super) owned: Ranges,
    /// Pages that are guarded by something else than their protection, under the `name` of the userfaultfd or `FOR_GOOD`.
    pub(super) watched: Ranges,
    /// Operands that the kernel has found accessible. An entry counts only while `CHANGES` is as it was then.
    pub(super) seen: [Option<Seen>; SEEN],
    pub(super) turn: usize,
}

/// An operand, by its addresses, whether it is written, and the value of `CHANGES` when it was found accessible.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) rect: Rect,
    pub(super) write: bool,
    pub(super) changes: usize,
}

pub(super) static GUARDS: Lock<Guards> = Lock::new(Guards {
    owned: Ranges::none(),
    watched: Ranges::none(),
    seen: [None; SEEN],
    turn: 0,
});

/// Ranges in both tables, so that the hooks need no lock while there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How often the program has guarded, unmapped or replaced memory.
pub(super) static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// The name of guards that do not end when a descriptor is closed.
pub(super) const FOR_GOOD: u64 = 0;

pub(super) fn change<R>(f: impl FnOnce(&mut Guards) -> R) -> R {
    let mut g = GUARDS.lock();
    let r = f(&mut g);
    COUNT.store(g.owned.all().len() + g.watched.all().len(), Release);
    r
}

pub(super) fn none() -> bool {
    COUNT.load(Acquire) == 0
}

/// Notes that the program guards these pages of a block of our malloc.
pub(super) fn own(addr: usize, len: usize) {
    change(|g| g.owned.cover(addr, len, FOR_GOOD));
}

/// Notes that it guards them no longer.
pub(super) fn disown(addr: usize, len: usize) {
    if !none() {
        change(|g| g.owned.cut(addr, len, 1));
    }
}

/// Whether the program guards any of these pages of a block of our malloc.
pub(super) fn owns(addr: usize, len: usize) -> bool {
    !none() && GUARDS.lock().owned.first_overlapping(addr, len).is_some()
}

/// Before these pages are unmapped, moved or replaced by others: guards of them end.
pub(super) fn pages_go(addr: usize, len: usize) {
    CHANGES.fetch_add(1, Relaxed);
    if !none() {
        change(|g| {
            g.owned.cut(addr, len, 1);
            g.watched.cut(addr, len, 1);
        });
    }
}

/// The lock of this file, for fork.
pub(super) fn hold_for_fork() {
    GUARDS.hold();
}

pub(super) fn release_after_fork() {
    GUARDS.release();
}
