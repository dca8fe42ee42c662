//! Allocating, resizing and freeing blocks.

#![expect(
    unsafe_code,
    reason = "plays an unmodified program: realloc, mremap, madvise"
)]

use std::mem;

use testkit::Rng;

use crate::block::{Block, Origin, page};
use crate::world::World;

/// Number of elements of a new block.
pub(crate) fn length(rng: &mut Rng) -> usize {
    match rng.below(40) {
        0 => 150_000,
        1..=6 => 22_500,
        7..=12 => 1 + rng.below(700),
        13 => 1,
        _ => 500 + rng.below(9000),
    }
}

pub(super) fn renew(w: &mut World) {
    let slot = w.own();
    let (ty, name) = (w.ty(slot), w.slots[slot].name.clone());
    let len = length(&mut w.rng);
    let name = format!("{}+{}", name.split('+').next().unwrap_or(""), w.step);
    let fresh = if w.rng.one_in(3) {
        // Allocated before the old block is freed, so that it gets another address.
        let fresh = Block::new(name, ty, len, &mut w.rng);
        mem::replace(&mut w.slots[slot], fresh).end();
        return;
    } else {
        let gone = Block::over(
            String::new(),
            ty,
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        mem::replace(&mut w.slots[slot], gone).end();
        Block::new(name, ty, len, &mut w.rng)
    };
    w.slots[slot] = fresh;
}

pub(super) fn resize(w: &mut World) {
    let slot = w.own();
    let (old, unit, before) = (w.slots[slot].at, w.slots[slot].unit(), w.slots[slot].len);
    let len = if w.rng.one_in(3) {
        before + w.rng.below(3000)
    } else {
        length(&mut w.rng)
    };
    w.note = format!("resize {slot} from {before} to {len} elements of {unit}");
    match w.slots[slot].origin {
        Origin::Heap => {
            // SAFETY: a block of the heap.
            let at = unsafe {
                if w.rng.one_in(2) {
                    libc::realloc(old.cast(), len * unit)
                } else {
                    libc::reallocarray(old.cast(), len, unit)
                }
            };
            assert!(!at.is_null());
            w.slots[slot].resized(at.cast(), len);
        }
        Origin::Mapped { bytes, shared } => {
            let mut to = (len * unit).next_multiple_of(page());
            if shared {
                // The file of a shared mapping has no more bytes.
                to = to.min(bytes);
            }
            let len = len.min(to / unit);
            // SAFETY: all of a mapping.
            let at = unsafe { libc::mremap(old.cast(), bytes, to, libc::MREMAP_MAYMOVE) };
            assert!(at != libc::MAP_FAILED, "mremap");
            w.slots[slot].resized(at.cast(), len);
            w.slots[slot].origin = Origin::Mapped { bytes: to, shared };
        }
        Origin::Lent => return,
    }
    if len > before && w.slots[slot].len > before {
        let n = w.slots[slot].len - before;
        w.slots[slot].fill(before, n, &mut w.rng);
    }
    if w.rng.one_in(3) {
        w.slots[slot].check_all("after it was resized");
    }
}

/// System calls on mappings that programs make.
pub(super) fn map(w: &mut World) {
    let slot = w.own();
    let b = &mut w.slots[slot];
    let (bytes, shared) = match b.origin {
        Origin::Mapped { bytes, shared } => (bytes, shared),
        // The heap's pages are not the program's to map; it may give advice that changes nothing.
        _ => {
            // SAFETY: advice on whole pages inside a block.
            unsafe {
                let from = b.at.addr().next_multiple_of(page());
                let end = (b.at.addr() + b.len * b.unit()) / page() * page();
                if from < end {
                    let advice = w.rng.of(&[
                        libc::MADV_WILLNEED,
                        libc::MADV_HUGEPAGE,
                        libc::MADV_NOHUGEPAGE,
                        libc::MADV_COLD,
                    ]);
                    let at = b.at.wrapping_add(from - b.at.addr());
                    libc::madvise(at.cast(), end - from, advice);
                }
            }
            return;
        }
    };
    let pages = bytes / page();
    let first = w.rng.below(pages);
    let count = 1 + w.rng.below(pages - first);
    let at = b.at.wrapping_add(first * page());
    let what = w.rng.below(5);
    w.note = format!("{what} of {count} pages from {first} of {slot}");
    // SAFETY: pages of a mapping of the program.
    unsafe {
        match what {
            0 => {
                assert_eq!(
                    libc::madvise(at.cast(), count * page(), libc::MADV_DONTNEED),
                    0
                );
                // All of the range that is in elements of the block is zero now; pages of a file keep what was written.
                if !shared {
                    let unit = b.unit();
                    let from = (first * page() / unit).min(b.len);
                    let to = ((first + count) * page() / unit).min(b.len);
                    b.shadow_mut(from, to - from).fill(0);
                }
            }
            1 => {
                assert_eq!(
                    libc::mprotect(at.cast(), count * page(), libc::PROT_READ),
                    0
                );
                b.check_all("while a part may only be read");
                let prot = libc::PROT_READ | libc::PROT_WRITE;
                assert_eq!(libc::mprotect(at.cast(), count * page(), prot), 0);
            }
            2 => {
                // Moved elsewhere, with the same size.
                let room = crate::block::map(bytes, false);
                let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                let to = libc::mremap(b.at.cast(), bytes, bytes, flags, room);
                assert!(to == room.cast(), "mremap to a place");
                b.at = room;
            }
            3 => {
                // The end of the mapping is unmapped.
                let keep = pages.div_ceil(2) * page();
                if keep < bytes {
                    assert_eq!(
                        libc::munmap(b.at.wrapping_add(keep).cast(), bytes - keep),
                        0
                    );
                    let len = b.len.min(keep / b.unit());
                    b.resized(b.at, len);
                    b.origin = Origin::Mapped {
                        bytes: keep,
                        shared,
                    };
                }
            }
            _ => {
                libc::mlock(at.cast(), count * page());
                libc::munlock(at.cast(), count * page());
                libc::msync(
                    at.wrapping_sub(at.addr() % page()).cast(),
                    count * page(),
                    libc::MS_ASYNC,
                );
            }
        }
    }
    w.slots[slot].check_all("after its mapping changed");
}
