//! Worker threads that fill large pieces of memory with zeros or make their pages present: one thread alone writes 8 to
//! 10 GB/s of zeros, and faults fresh huge pages in no faster.
//!
//! The threads start when a BLAS call has much memory to populate (creating threads is safe there) and end after two
//! seconds without work. `calloc` uses those that exist. The thread that posts a job works on it too, so a job
//! completes without any worker; posting takes no lock and allocates nothing.

#![expect(unsafe_code, reason = "clears and populates pages of its callers")]

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use core::time::Duration;

use rustix::thread::futex;

use super::sys;
use super::sys::HUGE_PAGE;
use crate::protect::threads;

/// Bytes that a thread takes at a time.
const CHUNK: usize = 16 << 20;
/// More threads than this do not touch memory any faster.
const MOST: usize = 8;
/// Bytes to populate for which one more thread is worth its start.
const SHARE: usize = 64 << 20;
/// How long an idle worker waits for a job before it ends.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Zero,
    Populate,
}

/// Number of the job in the upper half, index of its next chunk in the lower: a thread takes a chunk only of the job
/// whose start and length it has read.
static NEXT: AtomicU64 = AtomicU64::new(CLOSED);
const CLOSED: u64 = u32::MAX as u64;
static START: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
static ZERO: AtomicBool = AtomicBool::new(false);
/// Chunks of the job that are finished.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// A job is posted. Other threads do their own work alone meanwhile.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Changes with every job.
static JOBS: AtomicU32 = AtomicU32::new(0);
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Fills the bytes with zeros.
///
/// # Safety
/// The bytes are the caller's, readable and writable.
pub(super) unsafe fn zero(start: usize, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { share(Work::Zero, start, len) };
}

/// Makes untouched pages present, without changing a byte. Best effort: pages that the kernel cannot make present stay
/// as they are.
pub fn populate(start: usize, len: usize) {
    let missing = missing(start, len);
    if missing == 0 {
        return;
    }
    let cores = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    let wanted = (missing / SHARE).min(MOST).min(cores).saturating_sub(1);
    while WORKERS.load(Relaxed) < wanted {
        WORKERS.fetch_add(1, Relaxed);
        if threads::spawn("semcache-touch", threads::STACK, work).is_err() {
            WORKERS.fetch_sub(1, Relaxed);
            break;
        }
    }
    // SAFETY: populating changes no contents, and pages that are not there any more are left alone.
    unsafe { share(Work::Populate, start, len) };
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

/// Forgets the threads: a child of fork has none.
pub(super) fn forget() {
    WORKERS.store(0, Relaxed);
    NEXT.store(NEXT.load(Relaxed) | CLOSED, Relaxed);
    TAKEN.store(false, Relaxed);
}

/// # Safety
/// For [`Work::Zero`] as for [`zero`].
unsafe fn share(work: Work, start: usize, len: usize) {
    let alone = len <= CHUNK || WORKERS.load(Relaxed) == 0 || TAKEN.swap(true, AcqRel);
    if alone {
        // SAFETY: the caller's promise.
        unsafe { touch(work, start, len) };
        return;
    }
    START.store(start, Relaxed);
    LEN.store(len, Relaxed);
    ZERO.store(work == Work::Zero, Relaxed);
    DONE.store(0, Relaxed);
    let generation = (NEXT.load(Relaxed) >> 32).wrapping_add(1) << 32;
    NEXT.store(generation, Release);
    JOBS.fetch_add(1, Release);
    let _ = futex::wake(&JOBS, futex::Flags::PRIVATE, MOST as u32);
    while step() {}
    let total = len.div_ceil(CHUNK);
    while DONE.load(Acquire) < total {
        rustix::thread::sched_yield();
    }
    NEXT.store(generation | CLOSED, Release);
    TAKEN.store(false, Release);
}

/// Takes a chunk of the posted job, if there is one left.
fn step() -> bool {
    let mut next = NEXT.load(Acquire);
    loop {
        let (start, len) = (START.load(Relaxed), LEN.load(Relaxed));
        let work = if ZERO.load(Relaxed) {
            Work::Zero
        } else {
            Work::Populate
        };
        let from = (next & CLOSED) as usize * CHUNK;
        if next & CLOSED == CLOSED || from >= len {
            return false;
        }
        match NEXT.compare_exchange(next, next + 1, AcqRel, Acquire) {
            Ok(_) => {
                // SAFETY: the job number was current before the start and length were read, and the thread that posted
                // the job promised so and waits until this chunk is counted as finished.
                unsafe { touch(work, start + from, CHUNK.min(len - from)) };
                DONE.fetch_add(1, Release);
                return true;
            }
            Err(now) => next = now,
        }
    }
}

fn work() {
    loop {
        let jobs = JOBS.load(Acquire);
        while step() {}
        let Ok(patience) = PATIENCE.try_into() else {
            break;
        };
        // The worker was woken, the futex had changed, or a signal came: it looks for a chunk again.
        let woken = futex::wait(&JOBS, futex::Flags::PRIVATE, jobs, Some(&patience));
        if woken == Err(rustix::io::Errno::TIMEDOUT) {
            break;
        }
    }
    WORKERS.fetch_sub(1, Relaxed);
}

/// # Safety
/// For [`Work::Zero`] as for [`zero`].
unsafe fn touch(work: Work, start: usize, len: usize) {
    match work {
        // SAFETY: the caller's promise.
        Work::Zero => unsafe {
            ptr::with_exposed_provenance_mut::<u8>(start).write_bytes(0, len);
        },
        Work::Populate => {
            for (at, n) in pieces(start, len) {
                if !sys::present(at, n) && !sys::populate(at, n) {
                    return;
                }
            }
        }
    }
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
