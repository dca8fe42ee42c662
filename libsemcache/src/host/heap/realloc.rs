#![expect(unsafe_code, reason = "implements realloc")]
//! `realloc` of large blocks: in place, by moving pages, or by copying between glibc and this allocator.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use super::{
    Seen, THRESHOLD, admit, closed, discard_block, discard_margin, extend, free, in_range, malloc,
    obtain, pointer, seen, withdraw,
};
use crate::host::runs::{SPACE, Taken, Victim, with_margin};
use crate::host::{glibc, observer, pages, pins, sys};

/// `realloc`. A block grows in place while its run has room; then its pages are moved, without copying bytes, to a run
/// of at least twice its size. A block is copied from glibc to this allocator when it grows past the threshold, and
/// back when it shrinks below half of the threshold, so that a size that varies about the threshold is not copied each
/// time.
///
/// # Safety
/// As for [`free`].
#[must_use]
pub unsafe fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    let threshold = THRESHOLD.load(Relaxed);
    if p.is_null() {
        return malloc(size);
    }
    if !in_range(p) {
        // SAFETY: the caller's promise, and the pointer is not of this allocator.
        return unsafe {
            if size < threshold {
                glibc::realloc(p, size)
            } else {
                take_in(p, size, threshold)
            }
        };
    }
    if size == 0 {
        // SAFETY: the caller's promise. glibc frees and returns null too.
        unsafe { free(p) };
        return ptr::null_mut();
    }
    let found = {
        let space = SPACE.lock();
        space.live_from(p.addr()).and_then(|i| seen(&space, i))
    };
    let (Some(s), Some(len)) = (found, sys::whole_pages(size)) else {
        return sys::out_of_memory();
    };
    if size < threshold.min(usize::MAX - 1) / 2 && len < s.block.len {
        let q = glibc::malloc(size);
        if q.is_null() {
            return p;
        }
        // SAFETY: a fresh block of `size` bytes and a longer live one; after `realloc` the program no longer uses `p`.
        return unsafe { move_bytes(p, q, size) };
    }
    if len == s.block.len || (closed() && len < s.block.len) {
        if size != s.block.content {
            resize(&s, s.block.len, size);
        }
        p
    } else if closed() {
        copy_out(&s, size)
    } else if len < s.block.len {
        shrink(&s, len, size);
        p
    } else if len <= s.capacity {
        if grow(&s, len, size) {
            p
        } else {
            sys::out_of_memory()
        }
    } else {
        relocate(&s, len, size)
    }
}

/// Copies to the new block and frees the old one.
///
/// # Safety
/// Both hold `len` bytes, `p` is a live block that the program no longer uses, `q` a fresh one.
unsafe fn move_bytes(p: *mut c_void, q: *mut c_void, len: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        ptr::copy_nonoverlapping(p.cast::<u8>(), q.cast::<u8>(), len);
        free(p);
    }
    q
}

/// Moves a block of glibc's to this allocator, because it grows across the threshold.
///
/// # Safety
/// `p` is a live block of glibc's.
unsafe fn take_in(p: *mut c_void, size: usize, threshold: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let old = unsafe { glibc::usable_size(p) };
    // A large block was served by glibc earlier for want of room here: glibc may extend it by mremap.
    if old == 0 || old >= threshold.saturating_mul(2) {
        // SAFETY: the caller's promise.
        return unsafe { glibc::realloc(p, size) };
    }
    match obtain(size, 1, false) {
        // SAFETY: the new block is fresh, and at least as long as the bytes that are copied.
        Some(q) => unsafe { move_bytes(p, pointer(q), old.min(size)) },
        // SAFETY: the caller's promise.
        None => unsafe { glibc::realloc(p, size) },
    }
}

fn resize(s: &Seen, len: usize, content: usize) {
    if let Some(r) = SPACE.lock().run_mut(s.index) {
        (r.len, r.content) = (len, content);
    }
    // SAFETY: the header page of a live block is accessible and belongs to its run.
    unsafe { glibc::write_header(s.block.start, len, s.block.id.0) };
    if s.in_use
        && let Some(o) = observer::observer()
    {
        o.resized(s.block.id, len, content);
    }
}

fn shrink(s: &Seen, len: usize, content: usize) {
    let (start, tail) = (s.block.start + len, s.block.len - len);
    if s.in_use
        && let Some(o) = observer::observer()
    {
        o.surrender(s.block, start, tail);
    }
    pins::pages_go(start, tail);
    // With the margins of both lengths, as the tail's contents are not to stay in memory.
    let gone = with_margin(s.block.len) - len;
    // SAFETY: the tail is part of a live block, and the program no longer uses it.
    if unsafe { pages::discard(start, gone) } {
        resize(s, len, content);
        // Without the margin the block is as good, except for a kernel that reads behind it.
        let _ = extend(s.block.start, len, len, s.huge);
    }
}

fn grow(s: &Seen, len: usize, content: usize) -> bool {
    // A pin of the block's present pages would not cover a copy that crosses into the new ones.
    pins::pages_go(s.block.start, s.block.len);
    let grown = extend(s.block.start, s.block.len, len, s.huge);
    if grown {
        resize(s, len, content);
    }
    grown
}

/// Moves a block to a run with room for the new length and as much again.
fn relocate(s: &Seen, len: usize, content: usize) -> *mut c_void {
    let (old, page) = (s.block, sys::page_size());
    if s.in_use {
        observer::surrender_all(old);
        // If the move fails, the block lives on under a new identity: the old one has just been declared dead.
        let id = observer::owned_id(s.index);
        // SAFETY: the header page of a live block is accessible and belongs to its run.
        unsafe { glibc::write_header(old.start, old.len, id.0) };
        if let Some(r) = SPACE.lock().run_mut(s.index) {
            (r.in_use, r.id) = (false, id.0);
        }
    }
    let bare = if s.odd { None } else { take_bare(len) };
    let Some(t) = bare else {
        return copy_out(s, content);
    };
    // Header page and tail, which can fail for want of memory, are made accessible before the pages are moved.
    // SAFETY: both lie in a run that no other thread uses.
    let opened =
        unsafe { sys::open(t.start - page, page) } && extend(t.start, old.len, len, s.huge);
    if !opened {
        discard_block(Victim {
            index: t.index,
            start: t.start,
            len,
        });
        SPACE.lock().count_out();
        return sys::out_of_memory();
    }
    pins::pages_go(old.start, old.len);
    // SAFETY: a live block that only this call uses, and a run of this call's with enough capacity.
    let moved = unsafe { pages::move_pages(old.start, old.len, t.start) };
    if moved == pages::Moved::No {
        // The kernel cannot move the pages: some are pinned, or the mapping is split. An old kernel unmaps the target
        // before it reports that, and another mapping may be there by now: that part of the run is never touched again.
        // SAFETY: header page and tail still belong to the run.
        let _ = unsafe {
            pages::discard(t.start - page, page)
                && pages::discard(t.start + old.len, with_margin(len) - old.len)
        };
        let mut space = SPACE.lock();
        space.put_back(t.index, false);
        space.count_out();
        drop(space);
        return copy_out(s, content);
    }
    if let Some(r) = SPACE.lock().run_mut(t.index) {
        r.huge = s.huge;
    }
    admit(t.index, t.start, len, content);
    if let Some(gone) = withdraw(old.start) {
        if moved == pages::Moved::OldMapped {
            discard_block(Victim {
                index: gone.index,
                start: old.start,
                len: old.len,
            });
        } else {
            // SAFETY: of the old block only the header page and the margin are left.
            let clean = sys::plug(old.start, old.len)
                && unsafe {
                    pages::discard(old.start - page, page) && discard_margin(old.start, old.len)
                };
            SPACE.lock().put_back(gone.index, clean);
        }
    }
    pointer(t.start)
}

/// A run without accessible pages, with room for twice the length if possible.
fn take_bare(len: usize) -> Option<Taken> {
    let mut space = SPACE.lock();
    space
        .take_empty(len.saturating_mul(2))
        .or_else(|| space.take_empty(len))
}

/// Moves a block by copying its bytes to a new block.
fn copy_out(s: &Seen, len: usize) -> *mut c_void {
    let q = malloc(len);
    if q.is_null() {
        return q;
    }
    // SAFETY: both blocks hold that many bytes, and the old one is live; the program no longer uses it.
    unsafe { move_bytes(pointer(s.block.start), q, s.block.content.min(len)) }
}
