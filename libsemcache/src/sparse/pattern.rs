//! Whether row offsets and column indices are what they were when a matrix was linked.

#![expect(
    unsafe_code,
    reason = "compares bytes of arrays that the program vouches for"
)]

use crate::base::Interval;
use crate::cache::Cache;
use crate::cache::watches::Watch;

/// Bytes of arrays that are not watched, but compared with a copy at each product. Comparing them takes about 0.1 ms.
const MOST_LOOSE: usize = 2 << 20;

/// Whether the bytes of row offsets and column indices are what they were.
#[derive(Debug)]
pub struct Pattern {
    watch: Watch,
    /// What was found at the addresses of those that are not watched.
    loose: Vec<(usize, Box<[u8]>)>,
    /// Whether the others are too many to compare: then it holds for one product.
    once: bool,
}

impl Pattern {
    /// Of watched bytes, and of those at these addresses. No lock is held.
    #[must_use]
    pub fn new(watch: Watch, mut loose: Vec<Interval>) -> Pattern {
        let once = loose.iter().map(|at| at.len()).sum::<usize>() > MOST_LOOSE;
        if once {
            loose.clear();
        }
        let found = |at: Interval| (at.start, memory(at.start, at.len()).into());
        Pattern {
            watch,
            loose: loose.into_iter().map(found).collect(),
            once,
        }
    }

    /// Whether none has changed.
    #[must_use]
    pub fn holds(&self, cache: &Cache) -> bool {
        let same = |(at, bytes): &(usize, Box<[u8]>)| memory(*at, bytes.len()) == &**bytes;
        cache.is_same(&self.watch) == Ok(true) && self.loose.iter().all(same)
    }

    /// Whether no watched byte has changed. It is certain while the cache's lock is held.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watch.holds()
    }

    /// Ends the watch.
    pub fn end(&self, cache: &Cache) {
        cache.unwatch(&self.watch);
    }

    /// Whether later changes would go unnoticed.
    #[must_use]
    pub fn holds_once(&self) -> bool {
        self.once
    }
}

/// Bytes of the program's memory.
fn memory<'a>(at: usize, len: usize) -> &'a [u8] {
    // SAFETY: arrays of the matrix that the program has just named. A page whose newest bytes a device has faults, as for the program.
    unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(at), len) }
}
