//! What the program's own system calls (`madvise`, `mprotect`, `munmap`) do to blocks of semcache's `malloc`.
//!
//! Programs should not call these on memory of `malloc`, but some do: many advise, a few protect. The reserved address
//! range never gets a hole by such a call.

#![expect(
    unsafe_code,
    reason = "discards pages that the program unmaps, and writes headers of blocks"
)]

use super::heap;
use super::observer::Leaving;
use super::runs::{Run, SPACE, State};
use super::{Block, glibc, guarded, observer, pages, pins, sys};
use crate::base::AllocId;

/// Calls `f` with the index of each run that holds pages in these bytes, its block, its state, and whether the block is
/// in use.
fn each(addr: usize, len: usize, mut f: impl FnMut(usize, Block, State, bool)) {
    if !heap::overlaps(addr, len) {
        return;
    }
    let mut from = 0;
    loop {
        let space = SPACE.lock();
        let Some(i) = space.next_overlapping(addr, len, from) else {
            return;
        };
        let Some(r) = space.run(i).copied() else {
            return;
        };
        drop(space);
        f(i, r.block(), r.state, r.in_use);
        from = i + 1;
    }
}

/// The part of the block that lies in `[addr, addr + len)`.
pub(super) fn common(block: &Block, addr: usize, len: usize) -> Option<(usize, usize)> {
    let start = addr.max(block.start);
    let end = addr.saturating_add(len).min(block.start + block.len);
    (start < end).then(|| (start, end - start))
}

/// Called before the program discards these bytes or makes them readable and writable: blocks that are in use are
/// written back there, and stay tracked.
pub(super) fn surrender(addr: usize, len: usize) {
    each(addr, len, |_, block, state, in_use| {
        if let (State::Live, true, Some((start, n))) = (state, in_use, common(&block, addr, len))
            && let Some(o) = observer::observer()
        {
            o.surrender(block, start, n);
        }
    });
    observer::await_leaving(addr, len);
}

/// The program changes attributes of these pages that a later owner must not inherit: their blocks are not kept for
/// reuse.
pub(super) fn do_not_recycle(addr: usize, len: usize) {
    each(addr, len, |i, _, _, _| {
        if let Some(r) = SPACE.lock().run_mut(i) {
            r.odd = true;
        }
    });
}

/// The program asks for huge pages here. They are requested for the whole block from its first page on: NumPy's request
/// leaves out the first page, and with it the block's first two megabytes.
pub(super) fn advise_huge(addr: usize, len: usize) {
    each(addr, len, |i, block, state, _| {
        if state == State::Live {
            sys::advise_huge(block.start, block.len);
            if let Some(r) = SPACE.lock().run_mut(i) {
                r.huge = true;
            }
        }
    });
}

/// Stops tracking the blocks that have a byte here, until the program frees them; their newest contents are written
/// back.
pub(super) fn do_not_track(addr: usize, len: usize) {
    each(addr, len, |i, block, state, in_use| {
        if state != State::Live {
            return;
        }
        let leaving = in_use.then(Leaving::new);
        // The identity changes first: a call of another thread that still has the old identity then finds that block
        // dead.
        if let Some(r) = SPACE.lock().run_mut(i).filter(|r| r.id == block.id.0) {
            (r.in_use, r.untracked, r.odd, r.id) = (false, true, true, observer::owned_id(i).0);
            r.guarded = false;
            leaves(leaving.as_ref(), block);
            semcache_fault::reserve::guard(block.start, block.len);
        }
        if in_use {
            observer::surrender_all(block);
        }
    });
    observer::await_leaving(addr, len);
}

fn leaves(leaving: Option<&Leaving>, block: Block) {
    if let Some(leaving) = leaving {
        leaving.block(block);
    }
}

/// Called before the program guards these pages: writes their blocks back and stops tracking them until `restore`.
pub(super) fn withdraw(addr: usize, len: usize) {
    each(addr, len, |i, block, state, in_use| {
        let Some((start, n)) = common(&block, addr, len).filter(|_| state == State::Live) else {
            return;
        };
        guarded::own(start, n);
        let leaving = in_use.then(Leaving::new);
        if let Some(r) = SPACE.lock().run_mut(i).filter(|r| r.id == block.id.0) {
            // A block that was already untracked for another reason is not tracked again by `restore`.
            r.guarded |= !r.untracked;
            (r.in_use, r.untracked, r.odd, r.id) = (false, true, true, observer::owned_id(i).0);
            leaves(leaving.as_ref(), block);
            semcache_fault::reserve::guard(block.start, block.len);
        }
        if in_use {
            observer::surrender_all(block);
        }
    });
    observer::await_leaving(addr, len);
}

/// The program no longer guards these pages: their blocks are tracked again, unless the program guards other pages of
/// them.
pub(super) fn restore(addr: usize, len: usize) {
    guarded::disown(addr, len);
    each(addr, len, |i, block, state, _| {
        if state != State::Live || guarded::owns(block.start, block.len) {
            return;
        }
        // A block that libc's `free` has unmapped is not tracked again: its header is gone, or other memory lies there.
        let stands = glibc::header_id(block.start)
            .map(AllocId)
            .and_then(observer::run_of)
            == Some(i);
        let mut space = SPACE.lock();
        let guarded = |r: &&mut Run| r.id == block.id.0 && r.guarded && stands;
        if let Some(r) = space.run_mut(i).filter(guarded) {
            (r.guarded, r.untracked, r.id) = (false, false, observer::owned_id(i).0);
            // SAFETY: the header page of a live block is accessible and belongs to semcache.
            unsafe { glibc::write_header(r.start, r.len, r.id) };
            semcache_fault::reserve::unguard(block.start);
        }
    });
}

/// The program unmaps these bytes of the reserved range: the pages of live blocks are discarded, the address range
/// stays reserved, and memory outside of live blocks is left alone.
pub(super) fn unmap(addr: usize, len: usize) {
    do_not_track(addr, len);
    pins::pages_go(addr, len);
    each(addr, len, |_, block, state, _| {
        if let (State::Live, Some((start, n))) = (state, common(&block, addr, len)) {
            // SAFETY: part of a live block, which the program has just unmapped.
            let _ = unsafe { pages::discard(start, n) };
        }
    });
}

/// Another mapping, or a hole, has appeared in the reserved range. A hole is reserved again; if another mapping lies
/// there, the blocks that it overlaps end.
pub(super) fn lost(addr: usize, len: usize) {
    if !heap::overlaps(addr, len) {
        return;
    }
    let plugged = sys::plug(addr, len);
    each(addr, len, |i, block, state, in_use| {
        if state != State::Live || plugged {
            return;
        }
        {
            let mut space = SPACE.lock();
            space.put_back(i, false);
            space.count_out();
        }
        if in_use {
            let _ = observer::release(block);
        }
        pins::pages_go(block.start, block.len);
    });
}
