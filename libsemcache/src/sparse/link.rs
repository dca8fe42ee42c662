//! What is derived from the row offsets and column indices of a sparse matrix, and which matrices have it.

#![expect(
    unsafe_code,
    reason = "compares bytes of arrays that the program vouches for"
)]

use core::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::csr::Csr;
use super::cut::Share;
use crate::base::{AllocId, DeviceId, Intent, Interval, Op, Rect};
use crate::cache::Cache;
use crate::cache::task::Use;
use crate::cache::watches::Watch;

/// Memory of the library that devices cache as they cache the program's: it is written by devices alone, or never changes.
#[derive(Debug)]
pub struct Own {
    id: AllocId,
    /// Freed by [`Own::end`] alone: while the cache has an entry for it, devices may write it back.
    bytes: ManuallyDrop<Box<[u8]>>,
}

impl Own {
    /// Makes an entry of the cache for these bytes.
    #[must_use]
    pub fn new(cache: &Cache, bytes: Box<[u8]>) -> Own {
        let id = cache.add_transient(bytes.as_ptr().addr(), bytes.len());
        Own {
            id,
            bytes: ManuallyDrop::new(bytes),
        }
    }

    /// Ends the entry of the cache, and frees the memory.
    fn end(self, cache: &Cache) {
        cache.finish_transient(self.id);
        drop(ManuallyDrop::into_inner(self.bytes));
    }

    /// All of it as an operand.
    #[must_use]
    pub fn operand(&self, access: Intent) -> Use {
        let view = Rect::interval(0, self.bytes.len());
        Use {
            id: self.id,
            base: self.bytes.as_ptr().addr(),
            view,
            footprint: view,
            access,
            touched: Vec::new(),
            size: 1,
            step: 1,
        }
    }
}

/// Scratch memory of one kind of product, and the number by which the device knows what it prepared there.
#[derive(Debug)]
pub struct Scratch {
    /// The memory; none if the device needs none.
    pub memory: Option<Own>,
    /// See `CsrKernel::pattern`.
    pub pattern: u64,
}

/// A device's share of a matrix.
#[derive(Debug)]
pub struct Part {
    /// The device.
    pub device: DeviceId,
    /// Its rows.
    pub share: Share,
    /// Row offsets counted from the share's first entry; the program's own ones if that is the first of all.
    pub offsets: Option<Own>,
    /// By operation and number of vectors.
    pub scratch: FxHashMap<(Op, usize), Scratch>,
}

/// Whether the bytes of row offsets and column indices are what they were.
#[derive(Debug)]
pub struct Pattern {
    watch: Watch,
    /// What was found at the addresses of those that devices do not keep, since they share a page with other data.
    loose: Vec<(usize, Box<[u8]>)>,
}

impl Pattern {
    /// Of bytes that lie on devices, as far as they can be kept there.
    #[must_use]
    pub fn new(cache: &Cache, of: &[(AllocId, Interval)]) -> Pattern {
        let mut loose = Vec::new();
        let watch = cache.watch(of, &mut loose);
        let mut pattern = Pattern {
            watch,
            loose: Vec::new(),
        };
        if pattern.watch.holds() {
            let found = |at: Interval| (at.start, memory(at.start, at.len()).into());
            pattern.loose = loose.into_iter().map(found).collect();
        }
        pattern
    }

    /// Whether none has changed, as far as the last scan of write-tracked pages knows.
    #[must_use]
    pub fn holds(&self) -> bool {
        let same = |(at, bytes): &(usize, Box<[u8]>)| memory(*at, bytes.len()) == &**bytes;
        self.watch.holds() && self.loose.iter().all(same)
    }

    /// Whether no byte that devices keep has changed. It is certain while the cache's lock is held.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watch.holds()
    }
}

/// Bytes of the program's memory.
fn memory<'a>(at: usize, len: usize) -> &'a [u8] {
    // SAFETY: arrays of the matrix that the program has just named, on pages that are always accessible.
    unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(at), len) }
}

/// A matrix with what is derived from it.
#[derive(Debug)]
pub struct Link {
    /// The matrix.
    pub csr: Csr,
    /// Whether each device has rows, or the first one has all.
    pub divided: bool,
    /// The parts, one for each device.
    pub parts: Vec<Part>,
    /// Ends when row offsets or column indices change.
    pub pattern: Pattern,
}

impl Link {
    /// Ends the entries of the cache, and frees their memory, which a link that is dropped keeps for good. No product of the matrix is
    /// being queued.
    pub fn end(self, cache: &Cache) {
        for part in self.parts {
            let scratch = part.scratch.into_values().filter_map(|s| s.memory);
            for own in part.offsets.into_iter().chain(scratch) {
                own.end(cache);
            }
        }
    }
}

/// The most matrices that are linked at a time.
const MOST: usize = 64;

static LINKS: Mutex<Vec<Link>> = Mutex::new(Vec::new());

fn links() -> MutexGuard<'static, Vec<Link>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the link of a matrix; while a thread has it, others find none.
#[must_use]
pub fn take(csr: &Csr, divided: bool) -> Option<Link> {
    let mut links = links();
    let at = links
        .iter()
        .position(|l| l.csr == *csr && l.divided == divided)?;
    Some(links.remove(at))
}

/// Keeps a link, as the one that was used last. Returns one that has to end, if there are too many.
#[must_use]
pub fn keep(link: Link) -> Option<Link> {
    let mut links = links();
    links.push(link);
    (links.len() > MOST).then(|| links.remove(0))
}
