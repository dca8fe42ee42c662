//! Large ranges of pages that were found to permit an access, and do so until the page table changes.
//!
//! A program that copies a matrix by its rows (NumPy's linalg, around each call of LAPACK) passes a range of the whole matrix with each
//! row. Its 131,072 pages, if it has 512 MiB, take 0.1 ms to look at, several times as long as the copy by several threads.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize, fence};

use semcache_fault::pages;

/// The least number of pages: fewer are looked at in less than a tenth of a microsecond.
const LARGE: usize = 64;

/// The last large range that permitted an access. Readers take no lock and may be signal handlers.
struct Known {
    /// Odd while a thread writes the others.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    /// The number of changes of the page table before the range was looked at.
    changes: AtomicUsize,
    /// A thread writes. Another one leaves its own range unnoted.
    taken: AtomicBool,
}

/// One for reads, one for writes: a copy reads one range and writes another.
static KNOWN: [Known; 2] = [const { Known::new() }; 2];

impl Known {
    const fn new() -> Known {
        Known {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            changes: AtomicUsize::new(0),
            taken: AtomicBool::new(false),
        }
    }

    fn has(&self, start: usize, end: usize, changes: usize) -> bool {
        let version = self.version.load(Acquire);
        let within = self.start.load(Relaxed) <= start && end <= self.end.load(Relaxed);
        let same = self.changes.load(Relaxed) == changes;
        // What was read belongs together if no thread has begun to write meanwhile.
        fence(Acquire);
        within && same && version.is_multiple_of(2) && self.version.load(Relaxed) == version
    }

    fn note(&self, start: usize, end: usize, changes: usize) {
        if self.taken.swap(true, Acquire) {
            return;
        }
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
        self.changes.store(changes, Relaxed);
        self.version.store(version.wrapping_add(2), Release);
        self.taken.store(false, Release);
    }
}

/// Whether every page of a range is either untracked or permits an access at present, according to the page table. Takes no lock and
/// allocates nothing. A thread that has noted a buffer before, and one that restricts pages and looks for buffers afterwards: at least one
/// of them sees the other.
#[must_use]
pub fn range_permits(addr: usize, len: usize, write: bool) -> bool {
    let page = pages::page_size();
    let (start, end) = (addr & !(page - 1), addr.saturating_add(len));
    let large = end.saturating_sub(start) / page >= LARGE;
    let known = &KNOWN[usize::from(write)];
    // A change counts before the first page that it changes and behind the last one. If the number is that of before the last look, a
    // change may be under way that began before it; a thread that restricts pages looks for buffers after its change, so it sees that of
    // the caller, who has noted it before.
    let changes = pages::changes();
    if large && known.has(start, end, changes) {
        return true;
    }
    let permits = (start..end)
        .step_by(page)
        .all(|at| pages::get(at).is_none_or(|access| access.permits(write)));
    if large
        && permits
        && let Some(end) = end.checked_next_multiple_of(page)
    {
        known.note(start, end, changes);
    }
    permits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Access;

    #[test]
    fn a_known_range_is_looked_at_again_after_a_change() {
        let (page, at) = (pages::page_size(), (1 << 46) + (300 << 30));
        let len = 2 * LARGE * page;
        assert!(range_permits(at, len, true));
        assert!(range_permits(at + 8, len - 16, true));
        pages::set(at + (LARGE + 1) * page, page, Some(Access::Read)).unwrap();
        assert!(!range_permits(at, len, true) && !range_permits(at + 8, len - 16, true));
        assert!(range_permits(at, len, false) && range_permits(at + 1, len - 1, false));
        pages::lower(at + (LARGE + 1) * page, page, Access::None).unwrap();
        assert!(!range_permits(at, len, false));
        pages::set(at, len, None).unwrap();
        assert!(range_permits(at, len, false) && range_permits(at, len, true));
    }

    #[test]
    fn a_range_that_is_not_within_the_known_one_is_looked_at() {
        let (page, at) = (pages::page_size(), (1 << 46) + (302 << 30));
        let len = 2 * LARGE * page;
        pages::set(at + len, page, Some(Access::None)).unwrap();
        assert!(range_permits(at, len - 1, false));
        assert!(!range_permits(at, len + 1, false));
        pages::set(at + len, page, None).unwrap();
    }

    #[test]
    fn threads_never_see_two_ranges_mixed() {
        let known = Known::new();
        std::thread::scope(|scope| {
            for thread in 0..2_usize {
                let known = &known;
                scope.spawn(move || {
                    for i in 0..20_000 {
                        let start = (2 * i + thread) << 20;
                        known.note(start, start + 10, i);
                    }
                });
            }
            for i in 0..20_000_usize {
                // Only ranges of ten bytes that begin at a multiple of 2^20 were noted.
                let start = i << 20;
                assert!(!known.has(start + 20, start + 21, i / 2));
                assert!(!known.has(start, start + 11, i / 2));
            }
        });
    }
}
