//! Probing memory that may be unmapped.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "maps and unmaps pages")]

mod kit;

use core::ffi::c_void;
use kit::{closed, mapped, pointer, protect};
use nix::sys::mman::{ProtFlags, munmap};
use semcache_fault::probe::{Probe, attempt, look};
use semcache_fault::{counters, handler, pages};
use testkit::apart;

#[test]
fn what_is_there_and_what_is_not() {
    let out = apart(|| {
        let word = 77_u64;
        let here = (&raw const word).addr();
        assert_eq!(look(here), Probe::Unable);
        handler::install().expect("installs");
        assert_eq!(look(here), Probe::Word(77));
        assert_eq!(look(here + 1), Probe::Unable);
        assert_eq!(look(closed(1)), Probe::Nothing);
        let (page, at) = (pages::page_size(), mapped(3));
        assert_eq!(look(at + page), Probe::Word(0));
        protect(at + page, page, ProtFlags::PROT_NONE);
        assert_eq!(look(at + page), Probe::Nothing);
        // SAFETY: the page was mapped above.
        unsafe { munmap(pointer(at + page), page) }.expect("unmaps");
        for _ in 0..1000 {
            assert_eq!(look(at + page), Probe::Nothing);
            assert_eq!(look(at), Probe::Word(0));
        }
        // An address that no user memory can have.
        assert_eq!(look(1 << 63), Probe::Nothing);
        assert_eq!(look(0), Probe::Nothing);
        assert_eq!(counters::CHAINED.get(), 0);
    });
    assert!(out.status.success(), "{out:?}");
}

/// Source, destination, and number of words.
type Words = (*const u64, *mut u64, usize);

unsafe extern "C" fn copies(words: *const c_void) {
    // SAFETY: the pointers that `copied` passes.
    unsafe {
        let &(from, to, n) = &*words.cast::<Words>();
        for i in 0..n {
            to.add(i).write_volatile(from.add(i).read_volatile());
        }
    }
}

fn copied(from: usize, to: usize, n: usize) -> Option<bool> {
    let words: Words = (from as *const u64, to as *mut u64, n);
    // SAFETY: `work` only copies, and no handler of this test jumps.
    unsafe { attempt(copies, (&raw const words).cast()) }
}

#[test]
fn a_copy_is_given_up_where_it_faults() {
    let out = apart(|| {
        let (page, at) = (pages::page_size(), mapped(2));
        let n = page / 8;
        assert_eq!(copied(at, at + page, n), None);
        handler::install().expect("installs");
        for i in 0..n {
            // SAFETY: within the first page.
            unsafe { (at as *mut u64).add(i).write(i as u64) };
        }
        assert_eq!(copied(at, at + page, n), Some(true));
        assert_eq!(look(at + page + 80), Probe::Word(10));
        for access in [ProtFlags::PROT_READ, ProtFlags::PROT_NONE] {
            protect(at + page, page, access);
            // A write past the end of writable memory, then reads likewise.
            assert_eq!(copied(at, at + page, n), Some(false));
            assert_eq!(copied(at, at + page - 8, 2), Some(false));
            assert_eq!(look(at + page - 8), Probe::Word(0));
            let reads = access == ProtFlags::PROT_READ;
            assert_eq!(copied(at + page, at, 1), Some(reads));
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut own = vec![0_u64; n];
                    for _ in 0..1000 {
                        let to = own.as_mut_ptr() as usize;
                        assert_eq!(copied(at + page - 16, to, 4), Some(false));
                        assert_eq!(copied(at, to, n), Some(true));
                        assert_eq!(own[5], 5);
                    }
                });
            }
        });
        assert_eq!(counters::CHAINED.get(), 0);
    });
    assert!(out.status.success(), "{out:?}");
}
