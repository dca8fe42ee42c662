//! Zeroing memory, and making its pages present, with several threads: one thread alone writes 8 to 10 GB/s of zeros, and faults
//! fresh huge pages in no faster.

#![expect(unsafe_code, reason = "clears pages of its callers")]

use core::ptr;

use super::sys;
use super::sys::HUGE_PAGE;
use crate::process::crew;

/// Bytes that a thread takes at a time.
const CHUNK: usize = 16 << 20;
/// More threads than this do not touch memory any faster.
const MOST: usize = 8;
/// Bytes to populate for which one more thread is worth its start.
const SHARE: usize = 64 << 20;

/// Fills the bytes with zeros, with the workers that exist.
///
/// # Safety
/// The bytes are the caller's, readable and writable.
pub(super) unsafe fn zero(start: usize, len: usize) {
    in_chunks(start, len, |at, n| {
        // SAFETY: the caller's promise; chunks are disjoint.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(at).write_bytes(0, n) };
    });
}

/// Makes untouched pages present, without changing a byte. Best effort: pages that the kernel cannot make present stay
/// as they are. Creates threads, which is safe in a BLAS call.
pub fn populate(start: usize, len: usize) {
    let missing = missing(start, len);
    if missing == 0 {
        return;
    }
    crew::recruit((missing / SHARE).min(MOST));
    in_chunks(start, len, |at, n| {
        for (at, n) in pieces(at, n) {
            if !sys::present(at, n) && !sys::populate(at, n) {
                return;
            }
        }
    });
}

/// Calls `work` with the start and length of each chunk of the range.
fn in_chunks(start: usize, len: usize, work: impl Fn(usize, usize) + Sync) {
    crew::share(len.div_ceil(CHUNK), &|chunk: usize| {
        let from = chunk * CHUNK;
        work(start + from, CHUNK.min(len - from));
    });
}

/// Bytes of the huge-page-sized pieces in which a page is not present. Half a millisecond per gigabyte.
pub(super) fn missing(start: usize, len: usize) -> usize {
    pieces(start, len)
        .filter(|(at, n)| !sys::present(*at, *n))
        .map(|(_, n)| n)
        .sum()
}

/// The range in pieces that end at multiples of the size of a huge page.
fn pieces(start: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = start + len;
    let mut at = start;
    core::iter::from_fn(move || {
        let piece = (at < end).then(|| (at, ((at / HUGE_PAGE + 1) * HUGE_PAGE).min(end) - at))?;
        at += piece.1;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(len: usize) -> usize {
        sys::map_table(len).expect("maps")
    }

    #[test]
    fn pieces_end_at_huge_pages() {
        let all: Vec<_> = pieces(HUGE_PAGE - 4096, HUGE_PAGE + 8192).collect();
        assert_eq!(
            all,
            [
                (HUGE_PAGE - 4096, 4096),
                (HUGE_PAGE, HUGE_PAGE),
                (2 * HUGE_PAGE, 4096)
            ]
        );
        assert_eq!(pieces(HUGE_PAGE, 0).count(), 0);
    }

    #[test]
    fn populate_makes_present_and_changes_nothing() {
        let len = 160 << 20;
        let at = fresh(len);
        let p = ptr::with_exposed_provenance_mut::<u64>(at);
        // SAFETY: mapped above.
        unsafe { p.add(len / 16).write(42) };
        assert!(missing(at, len) >= len - HUGE_PAGE);
        populate(at, len);
        assert_eq!(missing(at, len), 0);
        // SAFETY: as above.
        assert_eq!(unsafe { (p.read(), p.add(len / 16).read()) }, (0, 42));
        // Four threads at once: one of them posts its job to the workers, the others clear their bytes alone.
        std::thread::scope(|s| {
            for part in 0..4 {
                let (from, n) = (at + part * (len / 4), len / 4);
                // SAFETY: disjoint parts of the test's mapping.
                s.spawn(move || unsafe { zero(from, n) });
            }
        });
        // SAFETY: as above.
        unsafe {
            assert_eq!(p.add(len / 16).read(), 0);
            sys::unmap(at, len);
        }
    }

    #[test]
    fn what_is_not_there_is_left() {
        let len = 4 * HUGE_PAGE;
        let at = sys::reserve(len).expect("reserves");
        populate(at, len);
        // SAFETY: reserved above.
        unsafe { sys::unmap(at, len) };
    }
}
