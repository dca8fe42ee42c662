//! Memory of the program's own whose lifetime is proven: what it maps through our `mmap` hook, and static
//! data (`statics`).
//!
//! The hooks are called around the program's system calls as each says. They cost two comparisons while
//! nothing is adopted and the bytes are not ours.

use core::ffi::c_int;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release as Publish};

use libc::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_HUGETLB, MAP_PRIVATE,
    MAP_SHARED, MAP_STACK, PROT_READ, PROT_WRITE,
};

use super::advice::{DESTRUCTIVE, GUARD_INSTALL, GUARD_REMOVE, HARMLESS};
use super::lock::Lock;
use super::observer::Leaving;
use super::ranges::{Kind, Range, Ranges};
use super::{Block, Release, guards, heap, observer, pins, stack, statics, sys, theirs};
use crate::base::AllocId;
use crate::base::maps::{Mapping, mappings};

/// The protection of ordinary memory.
const USUAL: c_int = PROT_READ | PROT_WRITE;

/// Adopted blocks, and mapped ones that the program has unmapped while devices referred to them.
struct Adopted {
    blocks: Ranges,
    waiting: Ranges,
}

static ADOPTED: Lock<Adopted> = Lock::new(Adopted {
    blocks: Ranges::none(),
    waiting: Ranges::none(),
});
/// Blocks and waiting ones, so that the hooks need no lock while there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Counts changes of the tables.
static VERSION: AtomicUsize = AtomicUsize::new(0);
/// The smallest block that is adopted; `usize::MAX` adopts none.
static LEAST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// What the hook of `munmap` shall do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmap {
    /// The system call.
    Proceed,
    /// Nothing but report success: the bytes are unmapped already, or will be when devices are done.
    Done,
}

/// What a lookup found, by kind; `None` within is memory that is known to be transient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hit {
    Mapped(Option<Block>),
    Static(Option<Block>),
}

/// Adopts blocks of `least` bytes and more from now on; 0 adopts none.
pub fn configure(least: usize) {
    LEAST.store(
        if least == 0 {
            usize::MAX
        } else {
            least.max(sys::page_size())
        },
        Relaxed,
    );
}

pub(super) fn enabled() -> bool {
    LEAST.load(Relaxed) != usize::MAX
}

/// The smallest block that is adopted.
pub(super) fn least() -> usize {
    LEAST.load(Relaxed)
}

/// Changes the tables and keeps the count.
fn change<R>(f: impl FnOnce(&mut Adopted) -> R) -> R {
    let mut a = ADOPTED.lock();
    let r = f(&mut a);
    COUNT.store(a.blocks.all().len() + a.waiting.all().len(), Publish);
    VERSION.fetch_add(1, Publish);
    r
}

/// A number that differs whenever the tables may have changed in between.
pub(super) fn version() -> usize {
    VERSION.load(Acquire)
}

fn none() -> bool {
    COUNT.load(Acquire) == 0
}

fn pages(addr: usize, len: usize) -> Option<usize> {
    sys::whole_pages(len).filter(|n| *n > 0 && addr.checked_add(*n).is_some())
}

/// Before `mmap`: what a `MAP_FIXED` mapping is about to replace.
pub fn before_mmap(addr: usize, len: usize, flags: c_int) {
    if flags & MAP_FIXED == 0 || flags & MAP_FIXED_NOREPLACE == MAP_FIXED_NOREPLACE {
        return;
    }
    if let Some(len) = pages(addr, len) {
        guards::pages_go(addr, len);
        theirs::do_not_track(addr, len);
        forget(addr, len);
        pins::pages_go(addr, len);
    }
}

/// After `mmap` has succeeded: adopts the mapping if it is plain memory.
pub fn on_mmap(addr: usize, len: usize, prot: c_int, flags: c_int, fd: c_int) {
    let Some(len) = pages(addr, len) else { return };
    let fixed = flags & MAP_FIXED != 0;
    if !fixed && heap::overlaps(addr, len) {
        // The system found a hole in our range: a foreign free has made one.
        theirs::lost(addr, len);
    }
    if !none() && !fixed {
        // What we thought to be here went by a system call that we did not see.
        forget(addr, len);
        reap();
    }
    let special = MAP_SHARED | MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_FIXED;
    let plain =
        flags & MAP_PRIVATE != 0 && flags & MAP_ANONYMOUS != 0 && flags & special == 0 && fd < 0;
    if plain && prot & !USUAL == 0 && len >= LEAST.load(Relaxed) && !heap::overlaps(addr, len) {
        // Memory that is reserved without access becomes a block where the program later opens it.
        let guarded = prot != USUAL;
        let range = Range {
            guarded,
            piece: guarded,
            ..Range::new(addr, len, Kind::Mapped)
        };
        change(|a| a.blocks.insert(range));
    }
}

/// Before `munmap`.
#[must_use]
pub fn on_munmap(addr: usize, len: usize) -> Unmap {
    guards::pages_go(addr, len);
    let ours = heap::overlaps(addr, len);
    if !ours && none() {
        return Unmap::Proceed;
    }
    let Some(len) = pages(addr, len).filter(|_| addr.is_multiple_of(sys::page_size())) else {
        return Unmap::Proceed;
    };
    reap();
    if ours {
        theirs::unmap(addr, len);
        return Unmap::Done;
    }
    let whole = change(|a| {
        let i = a.blocks.first_overlapping(addr, len)?;
        let r = a.blocks.all()[i];
        (r.in_use && r.kind == Kind::Mapped && (r.start, r.len) == (addr, len))
            .then(|| a.blocks.remove(i))
    });
    let Some(r) = whole else {
        forget(addr, len);
        return Unmap::Proceed;
    };
    let released = observer::release(r.block());
    // Also when devices still refer to it: it may be unmapped later in anybody's name.
    pins::pages_go(addr, len);
    if released == Release::Now {
        return Unmap::Proceed;
    }
    if change(|a| a.waiting.insert(r)) {
        return Unmap::Done;
    }
    await_idle(r.block().id);
    Unmap::Proceed
}

/// Before `mremap`: the contents are about to move, and what lies at a fixed target to go.
pub fn before_mremap(old: usize, old_len: usize, flags: c_int, target: usize, new_len: usize) {
    if let Some(len) = pages(old, old_len) {
        guards::pages_go(old, len);
        theirs::do_not_track(old, len);
        give_up(old, len);
        pins::pages_go(old, len);
    }
    if flags & libc::MREMAP_FIXED != 0
        && let Some(len) = pages(target, new_len)
    {
        guards::pages_go(target, len);
        theirs::do_not_track(target, len);
        forget(target, len);
        pins::pages_go(target, len);
    }
}

/// After `mremap` has succeeded: an adopted block is adopted where and as long as it is now.
pub fn on_mremap(old: usize, old_len: usize, new: usize, new_len: usize) {
    let Some(to) = pages(new, new_len) else {
        return;
    };
    if new != old {
        theirs::lost(old, sys::whole_pages(old_len).unwrap_or(0));
    }
    if none() {
        return;
    }
    let Some(from) = pages(old, old_len) else {
        return;
    };
    let adopted = change(|a| {
        let at = a.blocks.position(old).map(|i| a.blocks.all()[i]);
        a.blocks.cut(old, from, least());
        at.is_some_and(|r| r.kind == Kind::Mapped && !r.guarded && r.end() >= old + from)
    });
    if adopted {
        forget(new, to);
        change(|a| to >= least() && a.blocks.insert(Range::new(new, to, Kind::Mapped)));
    }
}

/// Before `madvise`.
pub fn on_madvise(addr: usize, len: usize, advice: c_int) {
    match advice {
        GUARD_INSTALL => guards::watch_for_good(addr, len),
        GUARD_REMOVE => guards::unwatch(addr, len),
        _ => {}
    }
    let ours = heap::overlaps(addr, len);
    if !ours && none() {
        return;
    }
    let Some(len) = pages(addr, len) else { return };
    if DESTRUCTIVE.contains(&advice) {
        surrender(addr, len);
        pins::pages_go(addr, len);
    }
    if ours && advice == libc::MADV_HUGEPAGE {
        theirs::advise_huge(addr, len);
    }
    if ours && !HARMLESS.contains(&advice) && !DESTRUCTIVE[..4].contains(&advice) {
        theirs::do_not_recycle(addr, len);
    }
}

/// Before `mprotect`. Pages that are not readable and writable afterwards are guarded by the program: they belong to no
/// block until they are readable and writable again.
pub fn on_mprotect(addr: usize, len: usize, prot: c_int) {
    let Some(len) = pages(addr, len) else { return };
    if prot == USUAL {
        if heap::overlaps(addr, len) || !none() {
            surrender(addr, len);
        }
        guards::restore(addr, len);
    } else {
        guards::withdraw(addr, len);
    }
}

/// Takes bytes that the program is about to guard out of their blocks.
pub(super) fn withdraw(addr: usize, len: usize) {
    take(addr, len, |blocks| blocks.guard(addr, len, true));
}

/// Makes bytes that the program guards no longer part of blocks again.
pub(super) fn restore(addr: usize, len: usize) {
    if !none() {
        change(|a| a.blocks.guard(addr, len, false));
    }
}

/// Joins the pieces that hold `[addr, end)` together into one block, and returns it. `None` if a part of it is guarded
/// or is no piece.
pub(super) fn join(addr: usize, end: usize) -> Option<Block> {
    // Between two tries the call of another thread may take a piece into use again.
    const TRIES: usize = 4;
    for _ in 0..TRIES {
        if none() {
            return None;
        }
        let mut a = ADOPTED.lock();
        let pieces = a.blocks.pieces(addr, end)?;
        if !a.blocks.all()[pieces.clone()].iter().any(|r| r.in_use) {
            let whole = a.blocks.join(pieces);
            COUNT.store(a.blocks.all().len() + a.waiting.all().len(), Publish);
            return (whole.len >= least()).then(|| whole.block());
        }
        drop(a);
        give_up(addr, end - addr);
    }
    None
}

/// Threads inside of `dlclose`: destructors that compute run there, on static data that goes right after them.
static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// Before `dlclose`: static data may go. It is found again if it stays, after [`after_dlclose`].
pub fn on_dlclose() {
    CLOSING.fetch_add(1, AcqRel);
    if none() {
        return;
    }
    loop {
        let leaving = Leaving::new();
        let found = change(|a| {
            let all = a.blocks.all_mut().iter_mut();
            let r = all
                .into_iter()
                .find(|r| r.kind == Kind::Static && r.in_use)?;
            Some(disown(r, &leaving))
        });
        let Some(block) = found else { return };
        observer::surrender_all(block);
        drop(leaving);
        pins::pages_go(block.start, block.len);
    }
}

/// After `dlclose`, each time.
pub fn after_dlclose() {
    CLOSING.fetch_sub(1, AcqRel);
}

/// The block dies as far as others know; the range lives on under a new identity.
fn disown(r: &mut Range, leaving: &Leaving) -> Block {
    let block = r.block();
    leaving.block(block);
    *r = Range {
        in_use: false,
        ..r.renewed()
    };
    block
}

/// Brings home and forgets exactly these bytes of blocks in use; the blocks live on.
fn surrender(addr: usize, len: usize) {
    theirs::surrender(addr, len);
    let mut from = addr;
    while let Some(block) = next_in_use(&mut from, addr, len) {
        if let (Some(o), Some((start, n))) =
            (observer::observer(), theirs::common(&block, addr, len))
        {
            o.surrender(block, start, n);
        }
    }
    observer::await_leaving(addr, len);
}

fn next_in_use(from: &mut usize, addr: usize, len: usize) -> Option<Block> {
    let end = addr.saturating_add(len);
    let a = ADOPTED.lock();
    while let Some(i) = a.blocks.first_overlapping(*from, end.saturating_sub(*from)) {
        let r = &a.blocks.all()[i];
        *from = r.end();
        if r.in_use {
            return Some(r.block());
        }
    }
    None
}

/// Brings home and ends every block in use that has a byte here; the ranges live on as new blocks.
fn give_up(addr: usize, len: usize) {
    if none() {
        return;
    }
    let mut from = addr;
    while let Some(block) = next_in_use(&mut from, addr, len) {
        let leaving = Leaving::new();
        let mine = change(|a| {
            let r = a
                .blocks
                .all_mut()
                .iter_mut()
                .find(|r| r.id == block.id.0 && r.in_use);
            r.map(|r| disown(r, &leaving)).is_some()
        });
        if mine {
            observer::surrender_all(block);
        }
    }
    observer::await_leaving(addr, len);
}

/// These bytes are no longer what they were: nothing there is adopted, in use or waiting any more.
pub(super) fn forget(addr: usize, len: usize) {
    take(addr, len, |blocks| blocks.cut(addr, len, least()));
    while let Some(r) = waiting(addr, len) {
        await_idle(r.block().id);
        unmap(r);
    }
}

/// Changes all blocks that have a byte here by `how`, after the newest contents have been brought home: none is in use
/// then.
fn take(addr: usize, len: usize, how: impl Fn(&mut Ranges)) {
    loop {
        give_up(addr, len);
        if none() {
            return;
        }
        pins::pages_go(addr, len);
        // Another thread's call may have taken the range into use again under its new name.
        let all = change(|a| {
            how(&mut a.blocks);
            let mut from = addr;
            while let Some(i) = a
                .blocks
                .first_overlapping(from, addr.saturating_add(len).saturating_sub(from))
            {
                let r = &a.blocks.all()[i];
                if r.in_use {
                    return false;
                }
                from = r.end();
            }
            true
        });
        if all {
            return;
        }
    }
}

/// The first waiting block that reaches into these bytes.
fn waiting(addr: usize, len: usize) -> Option<Range> {
    let a = ADOPTED.lock();
    let i = a.waiting.first_overlapping(addr, len)?;
    Some(a.waiting.all()[i])
}

fn await_idle(id: AllocId) {
    while observer::busy(id) {
        rustix::thread::sched_yield();
    }
}

/// Unmaps a waiting block that devices are done with, unless another thread has.
///
/// It leaves the table and the address space in one step, under the lock: a thread that no longer finds it
/// waiting may map something else there.
#[expect(unsafe_code, reason = "unmaps")]
fn unmap(r: Range) {
    // Asked before: by then it may be somebody else's.
    let pinned = cfg!(debug_assertions) && pins::any(r.start, r.len);
    change(|a| {
        let here = a.waiting.position(r.start);
        if let Some(i) = here.filter(|i| a.waiting.all()[*i].id == r.id) {
            a.waiting.remove(i);
            debug_assert!(!pinned, "unmapped under a pin");
            // SAFETY: the program has unmapped this block; we put it off and nobody refers to it any more.
            unsafe { sys::unmap(r.start, r.len) };
        }
    });
}

/// Unmaps what the program has unmapped while devices referred to it. Called by the hooks; may be called at
/// any time.
pub fn reap() {
    let mut from = 0;
    while let Some(r) = waiting(from, usize::MAX - from) {
        from = r.end();
        if !observer::busy(r.block().id) {
            unmap(r);
        }
    }
}

/// The block that contains `addr`, if it is known.
pub(super) fn lookup(addr: usize) -> Option<Hit> {
    if none() {
        return None;
    }
    let r = {
        let a = ADOPTED.lock();
        a.blocks.all()[a.blocks.position(addr)?]
    };
    match r.kind {
        Kind::Static => {
            let stays = left_to_us(&r) && CLOSING.load(Acquire) == 0;
            Some(Hit::Static(stays.then(|| r.block())))
        }
        Kind::Mapped if !left_to_us(&r) => Some(Hit::Mapped(None)),
        Kind::Mapped if stack::is_here(r.start, r.len) => {
            shun(&r);
            Some(Hit::Mapped(None))
        }
        Kind::Mapped if stack::contains(addr) => Some(Hit::Mapped(None)),
        Kind::Mapped => Some(Hit::Mapped(Some(r.block()))),
    }
}

fn left_to_us(r: &Range) -> bool {
    !r.shunned && !r.guarded && (!r.piece || r.len >= least())
}

/// A mapping turned out to be a stack.
fn shun(r: &Range) {
    if r.in_use {
        give_up(r.start, r.len);
    }
    change(|a| {
        if let Some(i) = a.blocks.position(r.start) {
            a.blocks.all_mut()[i].shunned = true;
        }
    });
}

pub(super) fn by_id(id: AllocId) -> Option<Block> {
    ADOPTED
        .lock()
        .blocks
        .all()
        .iter()
        .find(|r| r.id == id.0)
        .map(Range::block)
}

pub(super) fn mark_in_use(id: AllocId) -> bool {
    let mut a = ADOPTED.lock();
    let found = a
        .blocks
        .all_mut()
        .iter_mut()
        .find(|r| r.id == id.0 && !r.shunned && !r.guarded);
    found.is_some_and(|r| {
        r.in_use = true;
        true
    })
}

pub(super) fn forget_users() {
    for r in ADOPTED.lock().blocks.all_mut() {
        r.in_use = false;
    }
}

/// Replaces the static ranges by those of the objects that are loaded now.
pub(super) fn set_statics(now: &[statics::Segment]) {
    let holds = |s: &statics::Segment, r: &Range| s.start <= r.start && r.end() <= s.start + s.len;
    let known = |r: &Range| now.iter().any(|s| holds(s, r));
    while let Some(gone) = change(|a| {
        let i = a
            .blocks
            .all()
            .iter()
            .position(|r| r.kind == Kind::Static && !known(r))?;
        Some(a.blocks.remove(i))
    }) {
        if gone.in_use {
            // Its object went by a dlclose that we did not see: too late to keep anything.
            let _ = observer::release(gone.block());
        }
        pins::pages_go(gone.start, gone.len);
    }
    let unknown = |s: &&statics::Segment| {
        ADOPTED
            .lock()
            .blocks
            .first_overlapping(s.start, s.len)
            .is_none()
    };
    let mut text = None;
    for s in now.iter().filter(unknown) {
        // The program may have protected parts of it before static data were first looked for.
        let text = text.get_or_insert_with(|| sys::mappings().unwrap_or_default());
        change(|a| {
            a.blocks.insert(Range::new(s.start, s.len, Kind::Static));
            let guarded = |m: &Mapping<'_>| !m.access.starts_with("rw-");
            for m in mappings(text).filter(guarded) {
                let (start, end) = (m.start.max(s.start), m.end.min(s.start + s.len));
                if start < end {
                    a.blocks.guard(start, end - start, true);
                }
            }
        });
    }
}

/// Both locks of this file, for fork.
pub(super) fn hold_for_fork() {
    ADOPTED.hold();
}

pub(super) fn release_after_fork() {
    ADOPTED.release();
}
