//! Regions: parts of blocks that one thread may use.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use semcache::host::{adopt, heap};
use testkit::Rng;

/// Pages behind a shared mapping of the program, which the program unmaps one by one; and where the next shared
/// mappings end.
const TAIL: usize = 24;
static TAIL_LEFT: AtomicUsize = AtomicUsize::new(TAIL);
static TAIL_START: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A block of the thread's own, which it may free.
    Block,
    /// Memory that the runtime does not track.
    Transient,
    /// Elements of a block that other threads use, too.
    Shared,
    /// Read by all threads, written by none.
    Common,
}

/// Elements that one thread may use, `ld` apart, and what they must be.
#[derive(Clone)]
pub(crate) struct Region {
    pub(crate) owner: Owner,
    pub(crate) base: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) ld: usize,
    pub(crate) shadow: Vec<f64>,
    /// Upper bound of the magnitude of its elements.
    pub(crate) bound: f64,
}

impl Region {
    pub(crate) fn new(owner: Owner, base: usize, rows: usize, cols: usize, ld: usize) -> Self {
        Region {
            owner,
            base,
            rows,
            cols,
            ld,
            shadow: vec![0.0; rows * cols],
            bound: 3.0,
        }
    }
    /// A block of the thread's own with gaps between the columns.
    pub(crate) fn block(rng: &mut Rng) -> Self {
        let (rows, cols) = (1 + rng.below(120), 1 + rng.below(60));
        let ld = rows + rng.below(9);
        let at = heap::malloc((ld * cols * 8).max(4096)).cast::<u8>();
        assert!(!at.is_null());
        let mut r = Region::new(Owner::Block, at.addr(), rows, cols, ld);
        r.rewrite(rng);
        r
    }
    pub(crate) fn at(&self, row: usize, col: usize) -> usize {
        self.base + (col * self.ld + row) * 8
    }
    pub(crate) fn twin(&self, row: usize, col: usize) -> usize {
        self.shadow.as_ptr().addr() + (col * self.rows + row) * 8
    }
    pub(crate) fn put(&mut self, row: usize, col: usize, v: f64) {
        // SAFETY: this thread's element of live memory; an access to an inaccessible page faults and is served.
        unsafe { (self.at(row, col) as *mut f64).write_volatile(v) };
        self.shadow[col * self.rows + row] = v;
    }
    pub(crate) fn rewrite(&mut self, rng: &mut Rng) {
        for col in 0..self.cols {
            for row in 0..self.rows {
                self.put(row, col, rng.element());
            }
        }
        self.bound = 3.0;
    }
    /// The first element that is wrong.
    pub(crate) fn wrong(&self, cols: std::ops::Range<usize>) -> Option<String> {
        for col in cols {
            for row in 0..self.rows {
                // SAFETY: as in `put`.
                let got = unsafe { (self.at(row, col) as *const f64).read_volatile() };
                let want = self.shadow[col * self.rows + row];
                #[expect(clippy::float_cmp, reason = "small integers")]
                if got != want {
                    return Some(format!(
                        "{:?} {} x {} ld {} at {:#x}: element ({row}, {col}) at {:#x} is {got}, not {want}",
                        self.owner,
                        self.rows,
                        self.cols,
                        self.ld,
                        self.base,
                        self.at(row, col)
                    ));
                }
            }
        }
        None
    }
    pub(crate) fn check(&self, cols: std::ops::Range<usize>, what: &str) {
        if let Some(wrong) = self.wrong(cols) {
            die(&format!("{what}: {wrong}"));
        }
    }
    pub(crate) fn writable(&self) -> bool {
        self.owner != Owner::Common
    }
}

/// Ends the process at once: other threads would overwrite the evidence otherwise.
pub(crate) fn die(what: &str) -> ! {
    eprintln!("{what}");
    // SAFETY: takes no pointer.
    unsafe { libc::_exit(1) }
}

/// Memory that the program maps itself, passed to the hooks of the preloaded library.
fn map(bytes: usize) -> usize {
    let page = semcache_fault::pages::page_size();
    let len = (bytes.next_multiple_of(page)) + TAIL * page;
    let (prot, flags) = (
        ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        MapFlags::MAP_PRIVATE | MapFlags::MAP_ANONYMOUS,
    );
    let size = NonZeroUsize::new(len).unwrap();
    // SAFETY: new memory.
    let at = unsafe { mmap_anonymous(None, size, prot, flags) }.unwrap();
    let at = at.as_ptr().expose_provenance();
    adopt::on_mmap(at, len, prot.bits(), flags.bits(), -1);
    TAIL_START.store(at + len - TAIL * page, Ordering::Relaxed);
    at
}

/// Unmaps a page behind the shared mapping: from then on the runtime knows the block that other threads use as another
/// block.
pub(crate) fn unmap_a_page() {
    let Ok(left) =
        TAIL_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
    else {
        return;
    };
    let page = semcache_fault::pages::page_size();
    let at = TAIL_START.load(Ordering::Relaxed) + (left - 1) * page;
    if adopt::on_munmap(at, page) == adopt::Unmap::Proceed {
        // SAFETY: a page that no thread uses.
        unsafe { munmap(NonNull::new(at as *mut _).unwrap(), page) }.unwrap();
    }
}

/// A block of which every thread has its part; the rest may be read by all threads.
pub(crate) fn share(rng: &mut Rng, kind: usize, threads: usize) -> Vec<Region> {
    let parts = threads + 1;
    let owner = |t: usize| {
        if t == threads {
            Owner::Common
        } else {
            Owner::Shared
        }
    };
    let (rows, cols) = match kind {
        // Columns in turn.
        0 => (50 + rng.below(60), 48 + rng.below(20)),
        // Bands of rows.
        1 | 3 => (8 + rng.below(26), 60 + rng.below(40)),
        // Single elements in turn.
        _ => (1, 400 + rng.below(1000)),
    };
    let bytes = rows * cols * parts * 8;
    let base = if kind == 3 {
        map(bytes)
    } else {
        heap::malloc(bytes.max(4096)).addr()
    };
    assert!(base != 0);
    // Interleaved columns have a long leading dimension, bands of rows a short one: the arithmetic is the same.
    let mut regions: Vec<Region> = (0..parts)
        .map(|t| Region::new(owner(t), base + t * rows * 8, rows, cols, rows * parts))
        .collect();
    for r in &mut regions {
        r.rewrite(rng);
    }
    regions
}
