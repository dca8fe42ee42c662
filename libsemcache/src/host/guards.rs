//! Guards: pages that the program protects itself against reading or writing, and pages on which its own userfaultfd, a
//! protection key or the kernel's guard markers can make an access fault.
//!
//! Copies to and from devices would bypass these guards. So guarded pages belong to no block: before a guard takes
//! effect, their newest contents are written back to the host and they are made accessible (`withdraw`); when the
//! program has removed the last guard in a block, the block is tracked again (`restore`). Of adopted memory the parts
//! beside the guarded pages remain blocks; a block of semcache's `malloc` is not tracked at all while a page of it is
//! guarded. An operand in memory that belongs to no block is copied to a device only if the program could access that
//! memory now (`permits`).

use core::sync::atomic::Ordering::Relaxed;

use semcache_fault::broken;

use super::guarded::{CHANGES, FOR_GOOD, GUARDS, SEEN, Seen, change, none};
use super::{adopted, pins, registry, sys, theirs};
use crate::base::Rect;
use crate::base::maps::{Mapping, covered};

fn name(descriptor: i32) -> u64 {
    u64::from(descriptor.unsigned_abs()) + 1
}

/// Called before the program guards these pages: writes them back, makes them accessible, and takes them out of their
/// blocks.
pub(super) fn withdraw(addr: usize, len: usize) {
    CHANGES.fetch_add(1, Relaxed);
    theirs::withdraw(addr, len);
    adopted::withdraw(addr, len);
    pins::pages_go(addr, len);
}

/// Called before these pages become readable and writable, or after another guard of them ended: makes them part of
/// tracked blocks again, unless a userfaultfd, a protection key or guard markers still guard them.
pub(super) fn restore(addr: usize, len: usize) {
    if !none() && GUARDS.lock().watched.first_overlapping(addr, len).is_some() {
        return;
    }
    theirs::restore(addr, len);
    adopted::restore(addr, len);
}

/// Called before the program registers these pages with a userfaultfd. Whether none of them was guarded by a
/// userfaultfd, a protection key or guard markers before.
pub fn before_register(addr: usize, len: usize, descriptor: i32) -> bool {
    let new = none() || GUARDS.lock().watched.first_overlapping(addr, len).is_none();
    watch(addr, len, name(descriptor));
    new
}

/// Called before a userfaultfd, a protection key or guard markers guard these pages; `by` is the name of that guard.
pub(super) fn watch(addr: usize, len: usize, by: u64) {
    if len > 0 {
        change(|g| g.watched.cover(addr, len, by));
        withdraw(addr, len);
    }
}

/// Called after a userfaultfd, a protection key or guard markers no longer guard these pages.
pub fn unwatch(addr: usize, len: usize) {
    if !none() {
        change(|g| g.watched.cut(addr, len, 1));
        restore(addr, len);
    }
}

/// Called before `mseal`, after which the protection of these pages cannot be changed: writes them back, makes them
/// accessible, and stops tracking them.
pub fn before_seal(addr: usize, len: usize) {
    if let Some(len) = sys::whole_pages(len).filter(|_| !broken!("break-guards")) {
        give_up(addr, len);
    }
}

fn give_up(addr: usize, len: usize) {
    theirs::do_not_track(addr, len);
    adopted::forget(addr, len);
    pins::pages_go(addr, len);
}

/// Called when bytes of an operand in a block could not be copied, because the program has unmapped or guarded pages
/// there without calling a hook. What can still be written back of the block is, and the block is no longer tracked.
pub fn found(addr: usize) {
    CHANGES.fetch_add(1, Relaxed);
    if let Some(block) = registry::find(addr)
        && !broken!("break-guards")
    {
        give_up(block.start, block.len);
    }
}

/// Whether the calling thread can read an operand of which the host has the newest bytes.
#[must_use]
pub fn readable(rect: &Rect) -> bool {
    accessible(rect, false)
}

/// Called before the program closes a descriptor. If the descriptor is a userfaultfd, the pages registered with it are
/// no longer guarded.
pub fn closed(descriptor: i32) {
    while let Some((addr, len)) = (!none()).then(|| by_name(name(descriptor))).flatten() {
        unwatch(addr, len);
    }
}

/// Called before a protection key guards these pages (each thread can change at any time what the key permits it), or
/// guard markers do.
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

/// Whether the calling thread could read (or write, if `write`) an operand outside of all blocks without a fault that
/// the program would see.
///
/// For an operand that is not among those found accessible before this costs a system call for each of its contiguous pieces, and
/// 0.1 us for each page.
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
    // Columns that lie on the same or neighbouring pages are one piece: one system call for all of them.
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

/// Does the same as `accessible` from /proc/self/maps, for kernels that do not know the advice of [`sys::touch`].
fn permitted(start: usize, end: usize, write: bool) -> bool {
    let access = if write { "rw" } else { "r" };
    let fit = |m: &Mapping<'_>| m.access.starts_with(access);
    sys::mappings().is_some_and(|text| covered(&text, start, end, fit))
}
