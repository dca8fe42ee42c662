//! The table of adopted blocks (see `adopt`): look-up, use, and the end of their tracking.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release as Publish};

use super::lock::Lock;
use super::observer::Leaving;
use super::ranges::{Kind, Range, Ranges};
use super::sys::{self, Zeroed};
use super::{Block, observer, pins, stack};
use crate::base::AllocId;
use crate::base::maps::{Mapping, mappings};

/// The adopted blocks, and the mapped blocks that the program has unmapped while devices referred to them: these stay
/// mapped for now.
pub(super) struct Adopted {
    pub(super) blocks: Ranges,
    pub(super) waiting: Ranges,
}

pub(super) static ADOPTED: Lock<Adopted> = Lock::new(Adopted {
    blocks: Ranges::none(),
    waiting: Ranges::none(),
});

/// The number of entries in both tables, so that the hooks take no lock while both are empty.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Counts changes of the tables.
static VERSION: AtomicUsize = AtomicUsize::new(0);

/// The smallest block that is adopted; `usize::MAX` adopts none.
static LEAST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The result of a look-up, by the kind of the range; `None` inside means memory that is known to be transient.
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

/// Changes the tables, and updates their count and version.
pub(super) fn change<R>(f: impl FnOnce(&mut Adopted) -> R) -> R {
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

pub(super) fn none() -> bool {
    COUNT.load(Acquire) == 0
}

/// Takes bytes that the program is about to guard out of their blocks.
pub(super) fn withdraw(addr: usize, len: usize) {
    take(addr, len, |blocks| blocks.guard(addr, len, true));
}

/// Puts bytes that the program no longer guards back into blocks.
pub(super) fn restore(addr: usize, len: usize) {
    if !none() {
        change(|a| a.blocks.guard(addr, len, false));
    }
}

/// Joins the pieces that together contain `[addr, end)` into one block, and returns it. `None` if a part of the range
/// is guarded or is no piece.
pub(super) fn join(addr: usize, end: usize) -> Option<Block> {
    // After the pieces were written back, a call of another thread may take one of them into use again.
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

/// Number of threads inside `dlclose`: destructors may call the BLAS there, on static data that is unmapped right after
/// them.
pub(super) static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// Ends the block: it gets a new identity and is not in use. Returns the block under its old identity.
pub(super) fn disown(r: &mut Range, leaving: &Leaving) -> Block {
    let block = r.block();
    leaving.block(block);
    *r = Range {
        in_use: false,
        ..r.renewed()
    };
    block
}

pub(super) fn next_in_use(from: &mut usize, addr: usize, len: usize) -> Option<Block> {
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

/// Writes back and ends every block in use that has a byte here; their ranges stay in the table as new blocks.
pub(super) fn give_up(addr: usize, len: usize) {
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

/// Called when these bytes no longer hold what they held: they belong to no adopted block any more, and blocks that
/// waited to be unmapped there are unmapped.
pub(super) fn forget(addr: usize, len: usize) {
    take(addr, len, |blocks| blocks.cut(addr, len, least()));
    while let Some(r) = waiting(addr, len) {
        await_idle(r.block().id);
        unmap(r);
    }
}

/// Writes back the blocks in use that have a byte here, and then changes their ranges by `how`, which finds none of
/// them in use.
fn take(addr: usize, len: usize, how: impl Fn(&mut Ranges)) {
    loop {
        give_up(addr, len);
        if none() {
            return;
        }
        pins::pages_go(addr, len);
        // Another thread's call may have taken the range into use again under its new identity.
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

/// The first block that waits to be unmapped and has a byte here.
fn waiting(addr: usize, len: usize) -> Option<Range> {
    let a = ADOPTED.lock();
    let i = a.waiting.first_overlapping(addr, len)?;
    Some(a.waiting.all()[i])
}

pub(super) fn await_idle(id: AllocId) {
    while observer::busy(id) {
        rustix::thread::sched_yield();
    }
}

/// Unmaps a block that the program has unmapped and that devices no longer refer to, unless another thread has done so.
///
/// The block leaves the table and the address space in one step, under the lock: a thread that no longer finds it in
/// the table may map other memory there.
#[expect(unsafe_code, reason = "unmaps")]
fn unmap(r: Range) {
    // Asked before the block leaves the table: afterwards the address range may belong to other memory.
    let pinned = cfg!(debug_assertions) && pins::any(r.start, r.len);
    change(|a| {
        let here = a.waiting.position(r.start);
        if let Some(i) = here.filter(|i| a.waiting.all()[*i].id == r.id) {
            a.waiting.remove(i);
            debug_assert!(!pinned, "unmapped under a pin");
            // SAFETY: the program has unmapped this block; the system call was put off, and nothing refers to the block
            // any more.
            unsafe { sys::unmap(r.start, r.len) };
        }
    });
}

/// Unmaps the blocks that the program has unmapped and that devices no longer refer to. Called by the hooks; may be
/// called at any time.
pub fn reap() {
    let mut from = 0;
    while let Some(r) = waiting(from, usize::MAX - from) {
        from = r.end();
        if !observer::busy(r.block().id) {
            unmap(r);
        }
    }
}

/// The block that contains `addr`, if the table has an entry for it.
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

/// A mapping has turned out to be a stack: it is written back and never becomes a block again.
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

/// Replaces the ranges of static data by those of the objects that are loaded now.
pub(super) fn set_statics(now: &[Segment]) {
    let holds = |s: &Segment, r: &Range| s.start <= r.start && r.end() <= s.start + s.len;
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
            // Its object was unloaded by a `dlclose` that no hook saw: too late to write anything back.
            let _ = observer::release(gone.block());
        }
        pins::pages_go(gone.start, gone.len);
    }
    let unknown = |s: &&Segment| {
        ADOPTED
            .lock()
            .blocks
            .first_overlapping(s.start, s.len)
            .is_none()
    };
    let mut text = None;
    for s in now.iter().filter(unknown) {
        // The program may have protected parts of the segment before static data were first looked for.
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

/// Holds the lock of this table during fork.
pub(super) fn hold_for_fork() {
    ADOPTED.hold();
}

pub(super) fn release_after_fork() {
    ADOPTED.release();
}

/// A segment of static data: whole pages, except for the last one.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub start: usize,
    pub len: usize,
}

#[expect(unsafe_code, reason = "declares a table element zeroable")]
// SAFETY: numbers.
unsafe impl Zeroed for Segment {}
