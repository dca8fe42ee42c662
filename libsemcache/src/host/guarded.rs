//! The table of guarded pages: those that the program itself protects or watches (see `guards`).

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::lock::Lock;
use super::ranges::Ranges;
use crate::base::Rect;

/// How many operands that were found accessible are kept.
pub(super) const SEEN: usize = 8;

pub(super) struct Guards {
    /// Pages in blocks of semcache's `malloc` that the program guards, in any way.
    pub(super) owned: Ranges,
    /// Pages that the program guards by something other than their protection, under the `name` of the userfaultfd or
    /// `FOR_GOOD`.
    pub(super) watched: Ranges,
    /// Operands that the kernel has found accessible. An entry is valid only while `CHANGES` has the value stored in
    /// it.
    pub(super) seen: [Option<Seen>; SEEN],
    pub(super) turn: usize,
}

/// An operand by its addresses, whether the call writes to it, and the value of `CHANGES` when it was found accessible.
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

/// The number of ranges in `owned` and `watched` together, so that the hooks take no lock while both are empty.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How often the program has guarded, unmapped or replaced memory.
pub(super) static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// The name of guards that last until the pages are unmapped: closing a descriptor does not end them.
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

/// Notes that the program guards these pages of a block of semcache's `malloc`.
pub(super) fn own(addr: usize, len: usize) {
    change(|g| g.owned.cover(addr, len, FOR_GOOD));
}

/// Notes that the program no longer guards these pages of a block of semcache's `malloc`.
pub(super) fn disown(addr: usize, len: usize) {
    if !none() {
        change(|g| g.owned.cut(addr, len, 1));
    }
}

/// Whether the program guards any of these pages of a block of semcache's `malloc`.
pub(super) fn owns(addr: usize, len: usize) -> bool {
    !none() && GUARDS.lock().owned.first_overlapping(addr, len).is_some()
}

/// Called before these pages are unmapped, moved or replaced by a new mapping, which ends the program's guards of them.
pub(super) fn pages_go(addr: usize, len: usize) {
    CHANGES.fetch_add(1, Relaxed);
    if !none() {
        change(|g| {
            g.owned.cut(addr, len, 1);
            g.watched.cut(addr, len, 1);
        });
    }
}

/// Holds the lock of this table during fork.
pub(super) fn hold_for_fork() {
    GUARDS.hold();
}

pub(super) fn release_after_fork() {
    GUARDS.release();
}
