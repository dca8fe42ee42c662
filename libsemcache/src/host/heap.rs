#![expect(unsafe_code, reason = "implements malloc")]
//! The allocator of the program's large blocks: `malloc`, `calloc`, `realloc`, `free` and their relatives. Requests
//! below the threshold, and requests that cannot be met here, are passed to glibc.
//!
//! The functions have the semantics of their C namesakes, errno included; the preloaded library exports them. A pointer
//! belongs to this allocator if it lies in its reserved address range: two comparisons.
//!
//! If a block was marked in use, the [`Observer`](super::Observer) is told before its memory changes hands, with no
//! lock held. Beyond its own pages a block costs one header page and two mappings, three if its pages are huge, and
//! four while they are protected.

mod realloc;

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release as Publish};
use core::sync::atomic::{AtomicBool, AtomicUsize};

use semcache_fault::handler::mask::Section;

use super::observer;
use super::runs::{Due, SPACE, Space, State, Taken, Victim, margin, with_margin};
use super::{Block, Release};
use super::{bell, glibc, guarded, pages, physical, pins, sys, touch};
use crate::base::AllocId;
use crate::base::counters::Degraded;
use crate::process::driver_scope::in_driver_scope;
use crate::process::signals_blocked::{if_bare_handlers, if_handlers};

/// Requests of at least this many bytes are served here. None is until `configure` is called.
pub(super) static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The reserved range, empty until the first large request.
static BASE: AtomicUsize = AtomicUsize::new(0);
static SPAN: AtomicUsize = AtomicUsize::new(0);
/// The reservation was tried, successfully or not.
static TRIED: AtomicBool = AtomicBool::new(false);
/// Requests were passed to glibc because too many blocks were alive.
static FULL: AtomicBool = AtomicBool::new(false);
/// Another allocator than semcache or glibc serves `malloc`.
static FOREIGN: AtomicBool = AtomicBool::new(false);
static QUARANTINED: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the largest freed block that glibc was told of.
static TOLD: AtomicUsize = AtomicUsize::new(0);
/// glibc serves no larger request from its heap than this (its `DEFAULT_MMAP_THRESHOLD_MAX`).
const GLIBC_MOST: usize = 32 << 20;

/// Blocks of at least this many bytes get huge pages from the start, as NumPy's own large arrays do: the first touch is
/// several times faster, and so are page-locking and changes of protection later. The cost: a program that touches one
/// page in 512 holds 512 times as much memory. So a block that was requested zeroed gets none, nor a block of more than
/// 1/`HUGE_SHARE` of the machine's memory: these are what programs leave mostly untouched.
const HUGE_LEAST: usize = 4 << 20;
const HUGE_SHARE: usize = 4;

/// Serves requests of `threshold` bytes or more from now on; 0 serves none. Blocks that are already allocated stay
/// here.
pub fn configure(threshold: usize) {
    let t = if threshold == 0 {
        usize::MAX
    } else {
        threshold.max(sys::page_size())
    };
    THRESHOLD.store(t, Relaxed);
}

/// Another allocator serves the process (jemalloc, tcmalloc, a sanitizer's): no request is served here and no memory is
/// adopted.
pub fn leave_to_another() {
    FOREIGN.store(true, Relaxed);
}

/// Why large allocations are not served here although they should be; `None` if they are served.
#[must_use]
pub fn degraded() -> Option<(Degraded, &'static str)> {
    if FOREIGN.load(Relaxed) || (THRESHOLD.load(Relaxed) == usize::MAX && glibc::another_malloc()) {
        let why = "another malloc serves this program: operands are copied at every call";
        return Some((Degraded::ForeignMalloc, why));
    }
    if TRIED.load(Acquire) && SPAN.load(Relaxed) == 0 {
        let why = "no address space could be reserved for large allocations: operands in them are copied at every call";
        return Some((Degraded::NoReservation, why));
    }
    let why = "too many large allocations live at once: operands in the others are copied at every call; \
               a larger SEMCACHE_OWN or vm.max_map_count helps";
    FULL.load(Relaxed).then_some((Degraded::ManyBlocks, why))
}

/// Whether `addr` lies in the reserved range.
#[must_use]
pub fn contains(addr: usize) -> bool {
    addr.wrapping_sub(BASE.load(Relaxed)) < SPAN.load(Acquire)
}

pub(super) fn overlaps(addr: usize, len: usize) -> bool {
    let (base, span) = (BASE.load(Relaxed), SPAN.load(Acquire));
    addr < base + span && base < addr.saturating_add(len)
}

/// Whether `p` lies in the reserved range, in memory of this allocator. Where libc's `free` has unmapped a block, the
/// kernel may place memory of glibc there; a pointer to that never begins a page, because glibc's header precedes it.
pub(super) fn in_range(p: *mut c_void) -> bool {
    contains(p.addr())
        && (p.addr().is_multiple_of(sys::page_size())
            || block_at(p.addr()).is_some_and(|b| glibc::header_stands(b.start, b.id.0)))
}

pub(super) fn pointer(addr: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(addr)
}

/// Reserves the address range at the first large request. False if none could be reserved.
fn ready() -> bool {
    if TRIED.load(Acquire) {
        return SPAN.load(Relaxed) != 0;
    }
    // Called without the lock because it allocates; two threads may both do it without harm.
    glibc::probe();
    let mut space = SPACE.lock();
    if !TRIED.load(Relaxed) {
        if let Some((base, span)) = reserve(&mut space) {
            semcache_fault::reserve::announce(base, span);
            BASE.store(base, Relaxed);
            SPAN.store(span, Publish);
        }
        TRIED.store(true, Publish);
    }
    SPAN.load(Relaxed) != 0
}

fn reserve(space: &mut Space) -> Option<(usize, usize)> {
    /// The start of the reserved range is a multiple of this, so that alignments larger than a slot's can be served.
    const ALIGN: usize = 1 << 30;
    // A limited address space is for the program: only a range of at most a quarter of the limit is reserved.
    let limit = sys::address_space_limit()
        .map_or(usize::MAX, |l| usize::try_from(l / 4).unwrap_or(usize::MAX));
    let (base, span) = [16 << 40, 4 << 40, 1 << 40, 256 << 30, 64 << 30]
        .into_iter()
        .filter(|span| span + ALIGN <= limit)
        .find_map(|span| Some((sys::reserve(span + ALIGN)?, span)))?;
    let start = base.next_multiple_of(ALIGN);
    // SAFETY: the ends of a mapping made above, which no other thread knows of.
    unsafe {
        if start > base {
            sys::unmap(base, start - base);
        }
        if start < base + ALIGN {
            sys::unmap(start + span, base + ALIGN - start);
        }
    }
    if space.adopt_range(start, span) {
        space.limit(physical::mappings());
        return Some((start, span));
    }
    // SAFETY: no other thread knows of the range.
    unsafe { sys::unmap(start, span) };
    None
}

/// Called when the process is about to limit its address space: the part of the reserved range beyond a quarter of the
/// new limit is unmapped. Slots in which blocks were placed stay.
pub fn limit_address_space(limit: u64) {
    let mut space = SPACE.lock();
    let (base, span) = (BASE.load(Relaxed), SPAN.load(Relaxed));
    let keep = usize::try_from(limit / 4).unwrap_or(usize::MAX);
    if span == 0 || keep >= span {
        return;
    }
    let kept = space.shrink(keep);
    if kept < span {
        SPAN.store(kept, Publish);
        semcache_fault::reserve::announce(base, kept);
        // SAFETY: reserved by `reserve`, without a block in it, and no longer part of the range.
        unsafe { sys::unmap(base + kept, span - kept) };
    }
}

/// For a process that restricts its system calls: from now on this allocator makes no system call that libc's allocator
/// would not make. New blocks are served by glibc, and blocks that are freed are unmapped.
pub fn close() {
    CLOSED.store(true, Relaxed);
}

pub(super) fn closed() -> bool {
    CLOSED.load(Relaxed)
}

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Allocates a block; `None` if glibc is to serve the request. The block's bytes are zero if `zeroed`.
pub(super) fn obtain(size: usize, align: usize, zeroed: bool) -> Option<usize> {
    if in_driver_scope() || closed() {
        return None;
    }
    let len = sys::whole_pages(size)?.max(sys::page_size());
    if !ready() {
        return None;
    }
    let _section = Section::begin()?;
    if QUARANTINED.load(Relaxed) != 0 {
        reap();
    }
    // Held around all locks below, so that signals are blocked by one system call at most.
    let mut blocked = if_bare_handlers();
    let block = take_open(len, align, zeroed).or_else(|| {
        // Returning the kept blocks may help, unless the limit on the number of blocks is what was reached.
        if !SPACE.lock().full() && trim() {
            take_open(len, align, zeroed)
        } else {
            None
        }
    });
    discard_overdue(Due::Passing, 2);
    let (t, len) = block?;
    if t.open == 0 && SPACE.lock().tight(len) {
        bell::hurry();
    }
    if zeroed && t.open != 0 {
        // Signals are unblocked first, because clearing may take long.
        blocked = None;
        // The former block's margin may be part of the block now.
        // SAFETY: the block is accessible and no other thread knows of it.
        unsafe { touch::zero(t.start, size.min(with_margin(t.open))) };
    }
    let huge =
        t.open == 0 && !zeroed && len >= HUGE_LEAST && len <= physical::machine() / HUGE_SHARE;
    if huge {
        // The header page gets the same advice, so that header and block stay one mapping. The margin does not: a huge page across
        // the block's end would be split when the block is protected.
        let page = sys::page_size();
        sys::advise_huge(t.start - page, len + page);
        if let Some(r) = SPACE.lock().run_mut(t.index) {
            r.huge = true;
        }
    }
    admit(t.index, t.start, len, size);
    drop(blocked);
    Some(t.start)
}

/// Takes a run and makes `len` bytes of it, the margin behind them and the header page accessible. Returns the length of the block: a
/// reused block may be longer.
fn take_open(len: usize, align: usize, zeroed: bool) -> Option<(Taken, usize)> {
    let t = {
        let mut space = SPACE.lock();
        let taken = space.take(len, align, zeroed);
        if taken.is_none() && space.full() {
            FULL.store(true, Relaxed);
        }
        taken?
    };
    let page = sys::page_size();
    let opened = if t.open == 0 {
        // SAFETY: no other thread uses the run; the page before it is its header page.
        unsafe { sys::open(t.start - page, page + with_margin(len)) }
    } else {
        t.open >= len || extend(t.start, t.open, len, t.huge)
    };
    if opened {
        return Some((t, len.max(t.open)));
    }
    discard_block(Victim {
        index: t.index,
        start: t.start,
        len: len.max(t.open),
    });
    SPACE.lock().count_out();
    None
}

/// Makes the pages between the block's end and its new end accessible, and the margin behind that.
pub(super) fn extend(start: usize, from: usize, to: usize, huge: bool) -> bool {
    let Some(_section) = Section::begin() else {
        return false;
    };
    // SAFETY: unused pages at the end of a run that belongs to the caller.
    let opened = unsafe { sys::open(start + from, with_margin(to) - from) };
    if opened && huge {
        // The same advice as for the rest of the block keeps the block one mapping.
        sys::advise_huge(start + from, to - from);
    }
    opened
}

/// Makes a taken run, whose pages are accessible, a live block with a new identity.
pub(super) fn admit(index: usize, start: usize, len: usize, content: usize) {
    let id = observer::owned_id(index);
    // SAFETY: the header page is accessible and belongs to the run.
    unsafe { glibc::write_header(start, len, id.0) };
    SPACE.lock().publish(index, len, content, id.0);
}

/// Returns the pages of a dead block to the system, with its header page and its margin. Where the device's own code may be the
/// caller, the block must not be pinned.
pub(super) fn discard_block(v: Victim) {
    let page = sys::page_size();
    pins::pages_go(v.start, v.len);
    // SAFETY: the run is Busy and the calling thread's: a dead block.
    let clean = unsafe { pages::discard(v.start - page, page + with_margin(v.len)) };
    if !clean && v.len > 0 {
        // The process has no mapping left to split: the address range stays mapped, only its memory is returned.
        // SAFETY: as above.
        unsafe { pages::forget_contents(v.start, v.len) };
    }
    SPACE.lock().put_back(v.index, clean);
}

/// Returns the pages of the margin behind a block of `len` bytes.
///
/// # Safety
/// The block has died, and its run is the caller's.
unsafe fn discard_margin(start: usize, len: usize) -> bool {
    // SAFETY: no block holds the margin's bytes, and devices never refer to them.
    unsafe { pages::discard(start + len, margin(len)) }
}

pub(super) fn discard_overdue(due: Due, at_most: usize) -> bool {
    for n in 0..at_most {
        let victim = SPACE.lock().overdue(due);
        let Some(v) = victim else {
            return n > 0;
        };
        discard_block(v);
    }
    true
}

/// Keeps the pages of a dead, Busy block that nothing refers to for reuse, or returns them to the system.
fn retire(index: usize) {
    let section = Section::begin();
    if closed() || section.is_none() {
        let run = SPACE.lock().run(index).map(|r| (r.start, r.len));
        if let Some((start, len)) = run {
            let page = sys::page_size();
            // SAFETY: a dead block, its header page and its margin.
            unsafe { sys::unmap(start - page, page + with_margin(len)) };
            SPACE.lock().put_back(index, false);
        }
        return;
    }
    let (victim, crowded) = {
        let mut space = SPACE.lock();
        (space.retire(index), space.crowded())
    };
    if let Some(v) = victim {
        discard_block(v);
    }
    discard_overdue(Due::Passing, 8);
    bell::cached(crowded);
}

/// A copy of a live block's entry in the table.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub index: usize,
    pub block: Block,
    pub in_use: bool,
    pub huge: bool,
    pub odd: bool,
    pub capacity: usize,
}

pub(super) fn seen(space: &Space, index: usize) -> Option<Seen> {
    let r = space.run(index)?;
    let block = r.block();
    let capacity = space.capacity(index);
    Some(Seen {
        index,
        block,
        in_use: r.in_use,
        huge: r.huge,
        odd: r.odd,
        capacity,
    })
}

/// Ends the live block that starts at `addr`: the program can no longer find or free it. `None` if there is no such
/// block: `free` of a wrong address, or a second `free`, is ignored.
pub(super) fn withdraw(addr: usize) -> Option<Seen> {
    let mut space = SPACE.lock();
    let s = seen(&space, space.live_from(addr)?)?;
    space.run_mut(s.index)?.state = State::Busy;
    space.count_out();
    drop(space);
    if s.odd {
        semcache_fault::reserve::unguard(s.block.start);
        guarded::disown(s.block.start, s.block.len);
    }
    Some(s)
}

/// Frees the memory of a withdrawn block, whose contents are no longer needed; a block that devices still refer to is
/// quarantined.
fn bury(s: Seen) {
    let waits = s.in_use && observer::release(s.block) == Release::Quarantine;
    if !SPACE.lock().keeps(s.index) {
        // Unpinned here, where the program itself frees the block: out of quarantine the block may be retired by any
        // thread, within any call.
        pins::pages_go(s.block.start, s.block.len);
    }
    if waits {
        SPACE.lock().quarantine(s.index);
        QUARANTINED.fetch_add(1, Relaxed);
    } else {
        retire(s.index);
    }
}

/// Lets glibc know that the program frees blocks of this size. It maps each request of 128 KiB or more until the program frees a block
/// that was mapped; from then on it serves requests up to that size from its heap, whose pages it keeps. It sees no block that is served
/// here. Without this, requests between 128 KiB and the threshold would be mapped, and their pages cleared, again and again: products and
/// temporaries of 256 x 256 doubles in NumPy, beside larger matrices, took 1.5 times as long. So a block of the size is allocated and
/// freed there; none of its pages is touched.
fn tell_glibc(len: usize) {
    if len <= GLIBC_MOST && len > TOLD.fetch_max(len, Relaxed) && !closed() {
        let p = glibc::malloc(len);
        // SAFETY: null, or a block that was just allocated there.
        unsafe { glibc::free(p) };
    }
}

/// Retires the blocks that were freed while devices referred to them, if devices no longer do. Called by large
/// allocations and frees; may be called at any time.
pub fn reap() {
    for _ in 0..QUARANTINED.load(Relaxed).min(32) {
        let Some((index, id)) = SPACE.lock().next_waiting() else {
            return;
        };
        if observer::busy(AllocId(id)) {
            SPACE.lock().quarantine(index);
        } else {
            QUARANTINED.fetch_sub(1, Relaxed);
            retire(index);
        }
    }
}

/// The number of blocks that were freed but that devices may still refer to.
#[must_use]
pub fn quarantined() -> usize {
    QUARANTINED.load(Relaxed)
}

/// Returns the pages of freed blocks that are kept for reuse to the system. True if there were any, as `malloc_trim`
/// says.
pub fn trim() -> bool {
    if QUARANTINED.load(Relaxed) != 0 {
        reap();
    }
    if SPAN.load(Acquire) == 0 {
        return false;
    }
    let some = discard_overdue(Due::Unpinned, usize::MAX);
    bell::trim() || some
}

pub use realloc::realloc;

/// `malloc`.
#[inline]
#[must_use]
pub fn malloc(size: usize) -> *mut c_void {
    if size < THRESHOLD.load(Relaxed) {
        return glibc::malloc(size);
    }
    obtain(size, 1, false).map_or_else(|| glibc::malloc(size), pointer)
}

/// `calloc`.
#[inline]
#[must_use]
pub fn calloc(n: usize, size: usize) -> *mut c_void {
    match n.checked_mul(size) {
        Some(bytes) if bytes >= THRESHOLD.load(Relaxed) => {
            obtain(bytes, 1, true).map_or_else(|| glibc::calloc(n, size), pointer)
        }
        // glibc serves the request; if the product overflows, glibc reports the error.
        _ => glibc::calloc(n, size),
    }
}

/// `memalign`; with the checks of their arguments also `aligned_alloc`, `posix_memalign` and `valloc`.
#[must_use]
pub fn memalign(align: usize, size: usize) -> *mut c_void {
    if size < THRESHOLD.load(Relaxed) {
        return glibc::memalign(align, size);
    }
    let rounded = align.max(1).checked_next_power_of_two();
    rounded
        .and_then(|a| obtain(size, a, false))
        .map_or_else(|| glibc::memalign(align, size), pointer)
}

/// `free`. A pointer into the reserved range that is not the start of a live block is ignored; glibc would end the
/// process.
///
/// # Safety
/// As C says: null, or a pointer from this family of functions that has not been freed since.
#[inline]
pub unsafe fn free(p: *mut c_void) {
    if !in_range(p) {
        // SAFETY: the caller's promise, and the pointer is not of this allocator.
        return unsafe { glibc::free(p) };
    }
    // Held around all locks below, so that signals are blocked by one system call at most.
    let _blocked = if_bare_handlers();
    if let Some(s) = withdraw(p.addr()) {
        // The observer takes locks under which signals are blocked.
        let _blocked = s.in_use.then(if_handlers);
        bury(s);
        tell_glibc(s.block.len);
    }
    if QUARANTINED.load(Relaxed) != 0 {
        reap();
    }
}

/// `malloc_usable_size`: the size that was requested, so that the program does not use the padding.
///
/// # Safety
/// As for [`free`].
#[must_use]
pub unsafe fn usable_size(p: *mut c_void) -> usize {
    if !in_range(p) {
        if p.is_null() {
            return 0;
        }
        // SAFETY: the caller's promise, and the pointer is not of this allocator.
        return unsafe { glibc::usable_size(p) };
    }
    let space = SPACE.lock();
    space
        .live_from(p.addr())
        .and_then(|i| space.run(i))
        .map_or(0, |r| r.content)
}

/// The tracked block that contains `addr`.
pub(super) fn block_at(addr: usize) -> Option<Block> {
    let space = SPACE.lock();
    let index = space
        .live_at(addr)
        .filter(|i| space.run(*i).is_some_and(|r| !r.untracked))?;
    Some(seen(&space, index)?.block)
}

/// Ends a block whose memory libc's `free`, called directly by a library, has unmapped.
pub(super) fn vanished(block: &Block) {
    let Some(s) = withdraw(block.start) else {
        return;
    };
    let page = sys::page_size();
    pins::pages_go(block.start, s.block.len);
    // The hole is reserved again first, so that the observer changes the protection of no other mapping there.
    let clean = sys::plug(block.start - page, s.block.len + page)
        // SAFETY: `free` has unmapped the block and its header page; the margin belongs to the run.
        && unsafe { discard_margin(block.start, s.block.len) };
    if s.in_use {
        let _ = observer::release(s.block);
    }
    SPACE.lock().put_back(s.index, clean);
}
