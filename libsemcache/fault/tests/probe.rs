//! Looking at memory that may not be there.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in somebody's process"
)]
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "maps and unmaps pages")]

mod kit;

use kit::{closed, in_child, mapped, protect};
use rustix::mm::MprotectFlags;
use semcache_fault::probe::{Probe, look};
use semcache_fault::{counters, handler, pages};

#[test]
fn what_is_there_and_what_is_not() {
    let out = in_child("what_is_there_and_what_is_not", || {
        let word = 77_u64;
        let here = (&raw const word).addr();
        assert_eq!(look(here), Probe::Unable);
        handler::install().expect("installs");
        assert_eq!(look(here), Probe::Word(77));
        assert_eq!(look(here + 1), Probe::Unable);
        assert_eq!(look(closed(1)), Probe::Nothing);
        let (page, at) = (pages::page_size(), mapped(3));
        assert_eq!(look(at + page), Probe::Word(0));
        protect(at + page, page, MprotectFlags::empty());
        assert_eq!(look(at + page), Probe::Nothing);
        // SAFETY: the page was mapped above.
        unsafe { rustix::mm::munmap((at + page) as *mut _, page) }.expect("unmaps");
        for _ in 0..1000 {
            assert_eq!(look(at + page), Probe::Nothing);
            assert_eq!(look(at), Probe::Word(0));
        }
        // Not an address that a user may have.
        assert_eq!(look(1 << 63), Probe::Nothing);
        assert_eq!(look(0), Probe::Nothing);
        assert_eq!(counters::CHAINED.get(), 0);
    });
    assert!(out.status.success(), "{out:?}");
}
