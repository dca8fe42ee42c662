//! The library's write-tracking against an independent view of the same writes.
//!
//! The library learns from scans which pages have been written: userfaultfd's asynchronous write protection, by which no
//! thread is stopped, and `PAGEMAP_SCAN` (`protect::wp_async`). The oracle learns it fault by fault: crate userfaultfd
//! protects the pages of twin memory synchronously, and a thread notes each write fault before the write goes on. A random
//! sequence of accesses is made to both memories; then both must name the same pages.
//!
//! Where the kernel does not offer one of the two, the tests fail.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    unsafe_code,
    reason = "a test program, whose memory is its own"
)]

mod memory;
mod oracle;

use std::collections::BTreeSet;
use std::io::Write;

use memory::{HUGE, Memory, page};
use oracle::Oracle;
use semcache::protect::WpAsync;
use testkit::Rng;

/// Memory that the library's gate write-tracks.
struct Tracked {
    memory: Memory,
    gate: WpAsync,
}

impl Tracked {
    fn new(pages: usize, huge: bool) -> Tracked {
        let memory = Memory::new(pages, huge);
        let gate = WpAsync::new().unwrap_or_else(|error| {
            panic!("no asynchronous write protection: {error}. It needs Linux 6.7 or newer")
        });
        gate.register(memory.start(), memory.len()).unwrap();
        gate.track(memory.start(), memory.len()).unwrap();
        Tracked { memory, gate }
    }

    /// The pages that a scan reports.
    fn written(&self) -> BTreeSet<usize> {
        let mut found = Vec::new();
        self.gate
            .scan(self.memory.start(), self.memory.len(), &mut found)
            .unwrap();
        found
            .iter()
            .flat_map(|i| (i.start..i.end).step_by(page()))
            .map(|at| (at - self.memory.start()) / page())
            .collect()
    }
}

/// One access, to be made to both memories.
#[derive(Clone, Copy, Debug)]
enum Access {
    Store {
        offset: usize,
    },
    StoreEight {
        offset: usize,
    },
    Fill {
        offset: usize,
        len: usize,
    },
    Load {
        offset: usize,
        len: usize,
    },
    Read {
        offset: usize,
        len: usize,
        from: usize,
    },
    StoreFromOutside {
        offset: usize,
        len: usize,
    },
    InChild {
        offset: usize,
    },
    CloseAndOpen,
}

/// Kinds of access.
const KINDS: usize = 8;

impl Access {
    /// A random access to memory of `size` bytes, about the end of a page more often than chance has it.
    fn random(rng: &mut Rng, kind: usize, size: usize) -> Access {
        let room = size - 4 * page() - 8;
        let mut offset = rng.below(room);
        if rng.one_in(3) {
            offset = (offset.next_multiple_of(page()) + rng.below(9)).saturating_sub(8);
        }
        let len = rng.below(4 * page());
        match kind {
            0 => Access::Store { offset },
            1 => Access::StoreEight { offset },
            2 => Access::Fill { offset, len },
            3 => Access::Load { offset, len },
            4 => Access::Read {
                offset,
                len,
                from: rng.below(4 * page()),
            },
            5 => Access::StoreFromOutside { offset, len },
            6 => Access::InChild { offset },
            _ => Access::CloseAndOpen,
        }
    }

    fn make(self, memory: &Memory, byte: u8, file: &std::fs::File) {
        match self {
            Access::Store { offset } => memory.store(offset, byte),
            Access::StoreEight { offset } => memory.store_eight(offset, byte),
            Access::Fill { offset, len } => memory.fill(offset, len, byte),
            Access::Load { offset, len } => drop(memory.load(offset, len)),
            Access::Read { offset, len, from } => memory.read(offset, len, file, from),
            Access::StoreFromOutside { offset, len } => {
                memory.store_from_outside(offset, &vec![byte; len]);
            }
            Access::InChild { offset } => {
                // SAFETY: the child stores one byte, and waits for nothing.
                let child = unsafe { testkit::forked(|| memory.store(offset, byte)) };
                assert!(child.wait().success());
            }
            Access::CloseAndOpen => memory.close_and_open(),
        }
    }
}

/// A file of four pages, of bytes that differ.
fn file() -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = (0..4 * page()).map(|i| (i % 251) as u8).collect();
    file.write_all(&bytes).unwrap();
    file
}

/// Rounds of random accesses, after each of which scan and oracle must agree. Returns how many pages they named in all.
fn rounds(seed: u64, pages: usize, huge: bool, rounds: usize) -> usize {
    let (tracked, oracle) = (Tracked::new(pages, huge), Oracle::new(pages, huge));
    let (mut rng, file, mut named) = (Rng::new(seed), file(), 0);
    for round in 0..rounds {
        // Few accesses leave most pages unwritten; some rounds have none.
        let accesses: Vec<Access> = (0..rng.below(9))
            .map(|_| {
                let kind = rng.below(KINDS);
                Access::random(&mut rng, kind, tracked.memory.len())
            })
            .collect();
        for access in &accesses {
            let byte = rng.below(256) as u8;
            access.make(&tracked.memory, byte, &file);
            access.make(oracle.memory(), byte, &file);
        }
        let (scan, faults) = (tracked.written(), oracle.written());
        assert_eq!(scan, faults, "seed {seed}, round {round}: {accesses:?}");
        assert!(scan.len() < pages, "all pages: nothing was compared");
        named += scan.len();
    }
    let bytes = tracked.memory.len();
    assert_eq!(
        tracked.memory.load(0, bytes),
        oracle.memory().load(0, bytes)
    );
    named
}

#[test]
fn scans_report_the_pages_that_fault() {
    testkit::alone(|| {
        let named: usize = (0..20).map(|seed| rounds(seed, 64, false, 100)).sum();
        assert!(named > 5000, "{named} pages in 2000 rounds");
    });
}

#[test]
fn scans_of_huge_pages_report_the_small_pages_that_fault() {
    testkit::alone(|| {
        let pages = 2 * HUGE / page();
        let named: usize = (100..104).map(|seed| rounds(seed, pages, true, 50)).sum();
        assert!(named > 500, "{named} pages in 200 rounds");
    });
}

#[test]
fn each_kind_of_access_alone() {
    testkit::alone(|| {
        let (tracked, oracle) = (Tracked::new(64, false), Oracle::new(64, false));
        let (mut rng, file) = (Rng::new(7), file());
        for kind in 0..KINDS {
            let mut named = 0;
            for _ in 0..40 {
                let access = Access::random(&mut rng, kind, tracked.memory.len());
                access.make(&tracked.memory, 3, &file);
                access.make(oracle.memory(), 3, &file);
                let (scan, faults) = (tracked.written(), oracle.written());
                assert_eq!(scan, faults, "{access:?}");
                named += scan.len();
            }
            let access = Access::random(&mut rng, kind, tracked.memory.len());
            // Loads, a child's writes to its own copy and changes of the protection write nothing here.
            let writes = !matches!(
                access,
                Access::Load { .. } | Access::InChild { .. } | Access::CloseAndOpen
            );
            assert_eq!(named > 0, writes, "{access:?}");
        }
    });
}

/// While threads write, scans miss no page: together they name the pages that faulted, and what was copied after each scan
/// from the pages that it named is in the end what the memory holds.
#[test]
fn scans_beside_writers_miss_no_page() {
    const PAGES: usize = 256;
    const WRITERS: usize = 3;
    testkit::alone(|| {
        for seed in 200..210 {
            let (tracked, oracle) = (Tracked::new(PAGES, false), Oracle::new(PAGES, false));
            let mut copy = vec![vec![1; page()]; PAGES];
            let mut named = BTreeSet::new();
            let mut look = || {
                let scan = tracked.written();
                for i in &scan {
                    copy[*i] = tracked.memory.load_from_outside(i * page(), page());
                }
                named.extend(scan);
            };
            let mut scans = 0;
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..WRITERS)
                    .map(|writer| {
                        let (tracked, oracle) = (&tracked.memory, oracle.memory());
                        scope.spawn(move || {
                            let mut rng = Rng::new(seed * 10 + writer as u64);
                            for _ in 0..3000 {
                                // No two threads write the same byte; any two write the same pages.
                                let place = rng.below(PAGES / 2 * page() / WRITERS);
                                let offset = place * WRITERS + writer;
                                let byte = rng.below(256) as u8;
                                tracked.store(offset, byte);
                                oracle.store(offset, byte);
                            }
                        })
                    })
                    .collect();
                while !writers.iter().all(|writer| writer.is_finished()) {
                    look();
                    scans += 1;
                }
            });
            look();
            let faults = oracle.written();
            assert_eq!(named, faults, "seed {seed}, {scans} scans");
            assert!(named.len() > PAGES / 4 && named.len() <= PAGES / 2);
            assert_eq!(
                copy.concat(),
                tracked.memory.load(0, tracked.memory.len()),
                "seed {seed}, {scans} scans"
            );
            assert_eq!(tracked.written(), BTreeSet::new());
        }
    });
}
