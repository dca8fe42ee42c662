//! What the program guards itself: pages that it permits less than reading and writing, by protection, and pages of which
//! its own userfaultfd, a protection key or the kernel's guard markers decide who gets through.
//!
//! Copies for devices go past all of that. So guarded pages belong to no block: they are home and open before the guard
//! takes effect (`withdraw`), and a block is one again when the last guard in it has gone (`restore`). Of adopted memory the
//! rest stays blocks, piece by piece; of an allocation all of it is left alone meanwhile. And an operand in memory that
//! belongs to no block is a device's only if the program could access it now (`permits`).

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use semcache_fault::broken;

use super::lock::Lock;
use super::ranges::Ranges;
use super::{adopt, pins, sys, theirs};
use crate::base::Rect;
use crate::base::maps::{Mapping, covered};

/// Operands that were found accessible, of the last calls.
const SEEN: usize = 8;

struct Guards {
    /// Of our own blocks: pages that the program protects.
    owned: Ranges,
    /// Pages whose protection does not say who gets through, by the descriptor that does.
    watched: Ranges,
    /// What the kernel said yes to, while nothing has changed since.
    seen: [Option<Seen>; SEEN],
    turn: usize,
}

/// An operand, by its addresses, and how it is used.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    rect: Rect,
    write: bool,
    changes: usize,
}

static GUARDS: Lock<Guards> = Lock::new(Guards {
    owned: Ranges::none(),
    watched: Ranges::none(),
    seen: [None; SEEN],
    turn: 0,
});
/// Ranges in both tables, so that the hooks need no lock while there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How often the program took access away, or memory.
static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// The name of a watch that no closed descriptor ends.
pub(super) const FOR_GOOD: u64 = 0;

fn name(descriptor: i32) -> u64 {
    u64::from(descriptor.unsigned_abs()) + 1
}

fn change<R>(f: impl FnOnce(&mut Guards) -> R) -> R {
    let mut g = GUARDS.lock();
    let r = f(&mut g);
    COUNT.store(g.owned.all().len() + g.watched.all().len(), Release);
    r
}

fn none() -> bool {
    COUNT.load(Acquire) == 0
}

/// Before the program guards these pages.
pub(super) fn withdraw(addr: usize, len: usize) {
    CHANGES.fetch_add(1, Relaxed);
    theirs::withdraw(addr, len);
    adopt::withdraw(addr, len);
    pins::pages_go(addr, len);
}

/// These pages are about to be readable and writable.
pub(super) fn restore(addr: usize, len: usize) {
    if !none() && GUARDS.lock().watched.first_overlapping(addr, len).is_some() {
        return;
    }
    theirs::restore(addr, len);
    adopt::restore(addr, len);
}

/// Before a userfaultfd of the program's watches these pages. Whether none has watched any of them.
pub fn before_register(addr: usize, len: usize, descriptor: i32) -> bool {
    let new = none() || GUARDS.lock().watched.first_overlapping(addr, len).is_none();
    watch(addr, len, name(descriptor));
    new
}

/// Before something else than protection guards these pages, under a name.
pub(super) fn watch(addr: usize, len: usize, by: u64) {
    if len > 0 {
        change(|g| g.watched.cover(addr, len, by));
        withdraw(addr, len);
    }
}

/// After that has ended.
pub fn unwatch(addr: usize, len: usize) {
    if !none() {
        change(|g| g.watched.cut(addr, len, 1));
        restore(addr, len);
    }
}

/// Before `mseal`: protection stays as it is from now on, so the bytes are home and open, and tracked no longer.
pub fn before_seal(addr: usize, len: usize) {
    if let Some(len) = sys::whole_pages(len).filter(|_| !broken!("break-guards")) {
        theirs::do_not_track(addr, len);
        adopt::forget(addr, len);
        pins::pages_go(addr, len);
    }
}

/// A descriptor is closed, and with it a userfaultfd, if it was one.
pub fn closed(descriptor: i32) {
    while let Some((addr, len)) = (!none()).then(|| by_name(name(descriptor))).flatten() {
        unwatch(addr, len);
    }
}

/// Before a protection key guards these pages (what it permits a thread may change at any time), or guard markers do.
pub fn watch_for_good(addr: usize, len: usize) {
    if let Some(len) = sys::whole_pages(len) {
        watch(addr, len, FOR_GOOD);
    }
}

fn by_name(number: u64) -> Option<(usize, usize)> {
    let g = GUARDS.lock();
    let r = g.watched.all().iter().find(|r| r.id == number)?;
    Some((r.start, r.len))
}

/// Other memory comes, or none, where these bytes are.
pub(super) fn pages_go(addr: usize, len: usize) {
    CHANGES.fetch_add(1, Relaxed);
    if !none() {
        change(|g| {
            g.owned.cut(addr, len, 1);
            g.watched.cut(addr, len, 1);
        });
    }
}

/// The program protects these pages of an allocation of ours.
pub(super) fn own(addr: usize, len: usize) {
    change(|g| g.owned.cover(addr, len, FOR_GOOD));
}

/// It does no longer.
pub(super) fn disown(addr: usize, len: usize) {
    if !none() {
        change(|g| g.owned.cut(addr, len, 1));
    }
}

/// Whether pages of an allocation of ours are protected by the program.
pub(super) fn owns(addr: usize, len: usize) -> bool {
    !none() && GUARDS.lock().owned.first_overlapping(addr, len).is_some()
}

/// Whether an operand in memory of no block, by its addresses, could be read (or written, if it is `written`) by the
/// calling thread without a fault that anybody but the kernel sees.
///
/// The first time it costs a system call per piece of it that is contiguous in pages, 0.1 us for each page.
#[must_use]
pub fn permits(rect: &Rect, write: bool) -> bool {
    if broken!("break-guards") {
        return true;
    }
    let span = rect.span();
    let seen = Seen {
        rect: *rect,
        write,
        changes: CHANGES.load(Relaxed),
    };
    {
        let g = GUARDS.lock();
        if !none()
            && g.watched
                .first_overlapping(span.start, span.len())
                .is_some()
        {
            return false;
        }
        if g.seen.contains(&Some(seen)) {
            return true;
        }
    }
    if !accessible(rect, write) {
        return false;
    }
    let mut g = GUARDS.lock();
    let turn = g.turn;
    g.seen[turn % SEEN] = Some(seen);
    g.turn = turn.wrapping_add(1);
    true
}

fn accessible(rect: &Rect, write: bool) -> bool {
    let page = sys::page_size();
    let touch = |start: usize, end: usize| {
        let first = start & !(page - 1);
        let len = sys::whole_pages(end - first)?;
        sys::touch(first, len, write)
    };
    let span = rect.span();
    // Columns whose pages are neighbours are asked for in one go.
    let dense = rect.stride <= rect.width + page;
    let pieces = if dense { 1 } else { rect.count };
    for i in 0..pieces {
        let start = span.start + i * rect.stride;
        let end = if dense { span.end } else { start + rect.width };
        match touch(start, end) {
            Some(true) => {}
            Some(false) => return false,
            None => return permitted(start, span.end, write),
        }
    }
    true
}

/// What the mappings say, on kernels that cannot be asked otherwise.
fn permitted(start: usize, end: usize, write: bool) -> bool {
    let access = if write { "rw" } else { "r" };
    let fit = |m: &Mapping<'_>| m.access.starts_with(access);
    sys::mappings().is_some_and(|text| covered(&text, start, end, fit))
}

/// The lock of this file, for fork.
pub(super) fn hold_for_fork() {
    GUARDS.hold();
}

pub(super) fn release_after_fork() {
    GUARDS.release();
}
