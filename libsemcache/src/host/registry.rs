//! Look-up: which block of host memory an address belongs to, and which blocks the observer is told of.

use super::observer::run_of;
use super::runs::{SLOT, SPACE, State};
use super::{Block, adopted, glibc, heap, observer, stack, statics, sys, theirs};
use crate::base::AllocId;

/// The block that contains `addr`; `None` for transient memory, and while another thread stops the tracking of the
/// block.
#[must_use]
pub fn find(addr: usize) -> Option<Block> {
    known(addr).filter(stays)
}

fn stays(block: &Block) -> bool {
    !observer::leaving(block.start, block.len)
}

fn known(addr: usize) -> Option<Block> {
    if heap::contains(addr) {
        let block = heap::block_at(addr)?;
        if stack::is_here(block.start, block.len) {
            // The calling thread's stack lies in the block (a coroutine, or a thread whose stack the program
            // allocated): the block is not tracked until the program frees it.
            theirs::do_not_track(block.start, block.len);
            return None;
        }
        return Some(block);
    }
    if !adopted::enabled() {
        return None;
    }
    if let Some(adopted::Hit::Mapped(found)) = adopted::lookup(addr) {
        return found;
    }
    // The table has no entry for the address, or has static data whose object may have been unloaded.
    statics::refresh();
    match adopted::lookup(addr)? {
        adopted::Hit::Mapped(found) | adopted::Hit::Static(found) => found,
    }
}

/// The block that contains all of `[start, end)`, else the one that contains the first byte; `None` for transient
/// memory. If the bytes lie in neighbouring pieces of a block that the program had guarded in part, the pieces are
/// joined into one block.
#[must_use]
pub fn holding(start: usize, end: usize) -> Option<Block> {
    let found = find(start);
    if found.is_some_and(|b| end <= b.start + b.len || run_of(b.id).is_some()) {
        return found;
    }
    adopted::join(start, end).or(found).filter(stays)
}

/// The block with this identity, if it is alive.
#[must_use]
pub fn block(id: AllocId) -> Option<Block> {
    let Some(index) = run_of(id) else {
        return adopted::by_id(id);
    };
    let space = SPACE.lock();
    let r = space
        .run(index)
        .filter(|r| r.state == State::Live && r.id == id.0)?;
    Some(r.block())
}

/// From now on the observer is told when the program frees, unmaps, moves or resizes this block. False if the block is
/// dead.
pub fn mark_in_use(id: AllocId) -> bool {
    let Some(index) = run_of(id) else {
        return adopted::mark_in_use(id);
    };
    let mut space = SPACE.lock();
    let live = space
        .run_mut(index)
        .filter(|r| r.state == State::Live && r.id == id.0);
    live.is_some_and(|r| {
        (r.in_use, r.used) = (true, true);
        true
    })
}

/// The pages of a block up to this size are collapsed into huge pages. That copies them: half a millisecond for each
/// huge page, and more where physical memory is fragmented. For larger blocks huge pages were requested before the
/// first touch, or the kernel collapses pages over time.
const COLLAPSE_MOST: usize = 8 << 20;

/// Prepares a block for protecting `[start, start + len)` as an operand: requests huge pages if semcache allocated the
/// block and it has at least the size of one. Each part of the block is treated once, so repeated calls are cheap.
///
/// Call it at every use of a block, before relying on earlier knowledge of it. False if the block is dead, or if a
/// library that calls libc's `free` directly has unmapped it, so that other memory may lie there: then the observer is
/// told, and the block is not found any more. Costs one short system call.
pub fn prepare(block: &Block, start: usize, len: usize) -> bool {
    let Some(index) = run_of(block.id) else {
        return adopted::by_id(block.id).is_some();
    };
    if !glibc::header_stands(block.start, block.id.0) {
        heap::vanished(block);
        return false;
    }
    if block.len < SLOT || len == 0 {
        return true;
    }
    // The whole huge pages that the operand touches, within the block.
    let end = start.saturating_add(len).min(block.start + block.len);
    let first = start.saturating_sub(block.start) / SLOT;
    let last = (end.saturating_sub(block.start))
        .div_ceil(SLOT)
        .min(block.len / SLOT);
    if first >= last {
        return true;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "slots of a 47-bit address space"
    )]
    let (first, last) = (first as u32, last as u32);
    let (advise, parts, now) = {
        let mut space = SPACE.lock();
        let live = space
            .run_mut(index)
            .filter(|r| r.state == State::Live && r.id == block.id.0);
        let Some(r) = live else { return false };
        let advise = !r.huge;
        r.huge = true;
        let (lo, hi) = r.hull;
        let parts = if lo == hi {
            [(first, last), (0, 0)]
        } else {
            [(first.min(lo), lo), (hi, last.max(hi))]
        };
        r.hull = if lo == hi {
            (first, last)
        } else {
            (first.min(lo), last.max(hi))
        };
        (advise, parts, r.len)
    };
    if advise {
        sys::advise_huge(block.start, now);
    }
    if block.len > COLLAPSE_MOST {
        return true;
    }
    for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
        sys::collapse(
            block.start + from as usize * SLOT,
            (to - from) as usize * SLOT,
        );
    }
    true
}

/// How many percent of the pages of a range are present in memory, by a sample.
#[must_use]
pub fn present_share(start: usize, len: usize) -> usize {
    const SAMPLES: usize = 64;
    let page = sys::page_size();
    let pages = (len / page).max(1);
    let samples = pages.min(SAMPLES);
    let there = (0..samples)
        .filter(|i| sys::present(start + i * pages / samples * page, page))
        .count();
    there * 100 / samples
}

/// Marks all blocks as not in use: for a child of fork, which has no devices.
pub fn forget_users() {
    SPACE.lock().forget_users();
    adopted::forget_users();
}
