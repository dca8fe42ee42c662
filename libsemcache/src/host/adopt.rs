//! Adoption: memory of the program whose lifetime is proven becomes blocks. That is memory which the program maps
//! through semcache's `mmap` hook, and static data (`statics`).
//!
//! The hooks call these functions before or after the program's system calls, as each function says. While no memory is
//! adopted, a call on bytes outside semcache's reserved range costs two comparisons.

use core::ffi::c_int;
use core::sync::atomic::Ordering::AcqRel;

use libc::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_HUGETLB, MAP_PRIVATE,
    MAP_SHARED, MAP_STACK, PROT_READ, PROT_WRITE,
};

use super::adopted::{
    CLOSING, await_idle, change, disown, forget, give_up, least, next_in_use, none,
};
pub use super::adopted::{configure, reap};
use super::advice::{DESTRUCTIVE, GUARD_INSTALL, GUARD_REMOVE, HARMLESS};
use super::observer::Leaving;
use super::ranges::{Kind, Range};
use super::{Release, guarded, guards, heap, observer, pins, sys, theirs};

/// The protection of ordinary memory.
const USUAL: c_int = PROT_READ | PROT_WRITE;

/// What the hook of `munmap` does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmap {
    /// It makes the system call.
    Proceed,
    /// It makes no system call and reports success: the bytes are unmapped already, or will be when devices no longer
    /// refer to them.
    Done,
}

fn pages(addr: usize, len: usize) -> Option<usize> {
    sys::whole_pages(len).filter(|n| *n > 0 && addr.checked_add(*n).is_some())
}

/// Called before `mmap`: ends the blocks that a `MAP_FIXED` mapping is about to replace.
pub fn before_mmap(addr: usize, len: usize, flags: c_int) {
    if flags & MAP_FIXED == 0 || flags & MAP_FIXED_NOREPLACE == MAP_FIXED_NOREPLACE {
        return;
    }
    if let Some(len) = pages(addr, len) {
        guarded::pages_go(addr, len);
        theirs::do_not_track(addr, len);
        forget(addr, len);
        pins::pages_go(addr, len);
    }
}

/// Called after `mmap` has succeeded: adopts the mapping if it is private anonymous memory without special flags.
pub fn on_mmap(addr: usize, len: usize, prot: c_int, flags: c_int, fd: c_int) {
    let Some(len) = pages(addr, len) else { return };
    let fixed = flags & MAP_FIXED != 0;
    if !fixed && heap::overlaps(addr, len) {
        // The kernel found a hole in semcache's reserved range: libc's `free`, called directly by a library, has
        // unmapped a block there.
        theirs::lost(addr, len);
    }
    if !none() && !fixed {
        // Blocks in the table at this address were unmapped by a system call that no hook saw.
        forget(addr, len);
        reap();
    }
    let special = MAP_SHARED | MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_FIXED;
    let plain =
        flags & MAP_PRIVATE != 0 && flags & MAP_ANONYMOUS != 0 && flags & special == 0 && fd < 0;
    if plain && prot & !USUAL == 0 && len >= least() && !heap::overlaps(addr, len) {
        // Memory that is reserved without access becomes a block where the program later makes it accessible.
        let guarded = prot != USUAL;
        let range = Range {
            guarded,
            piece: guarded,
            ..Range::new(addr, len, Kind::Mapped)
        };
        change(|a| a.blocks.insert(range));
    }
}

/// Called before `munmap`: ends the blocks in these bytes, and says whether the system call is to be made.
#[must_use]
pub fn on_munmap(addr: usize, len: usize) -> Unmap {
    guarded::pages_go(addr, len);
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
    // The range is unpinned even if devices still refer to it: it may be unmapped later by any thread, within any call.
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

/// Called before `mremap`: blocks in the old range, and in a fixed target range, are written back and end.
pub fn before_mremap(old: usize, old_len: usize, flags: c_int, target: usize, new_len: usize) {
    if let Some(len) = pages(old, old_len) {
        guarded::pages_go(old, len);
        theirs::do_not_track(old, len);
        give_up(old, len);
        pins::pages_go(old, len);
    }
    if flags & libc::MREMAP_FIXED != 0
        && let Some(len) = pages(target, new_len)
    {
        guarded::pages_go(target, len);
        theirs::do_not_track(target, len);
        forget(target, len);
        pins::pages_go(target, len);
    }
}

/// Called after `mremap` has succeeded: an adopted block is adopted at its new address and length.
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

/// Whether this advice discards bytes.
#[must_use]
pub fn discards(advice: i32) -> bool {
    DESTRUCTIVE.contains(&advice)
}

/// Called before `madvise`: writes back and unpins bytes that the advice discards, and notes guard markers.
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

/// Called before `mprotect`. Pages that are not both readable and writable afterwards count as guarded by the program:
/// they belong to no block until they are readable and writable again.
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

/// Called before `dlclose`, which may unmap static data: writes back all static data in use. Objects that stay loaded
/// are found again after [`after_dlclose`].
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

/// Called after each `dlclose`.
pub fn after_dlclose() {
    CLOSING.fetch_sub(1, AcqRel);
}

/// Writes back exactly these bytes of blocks in use and forgets their copies on devices; the blocks stay tracked.
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
