//! Copies of vectors whose elements are whole pages apart, by several threads.
//!
//! A program that transposes a matrix with a call of copy for each of its columns (NumPy's linalg, before and after each call of LAPACK)
//! reads or writes one element of a page at a time. One thread waits for memory and for the translation of addresses then, several threads
//! wait at the same time. The calls are not put together: each is complete when it returns, whatever the next one is.

#![expect(unsafe_code, reason = "copies elements of the program's vectors")]

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::init;
use super::io::{Buffer, open_all};
use super::secluded::is_secluded;
use crate::base::heuristics::Heuristic;
use crate::base::{Rect, Routine};
use crate::blas::args::{Checked, check};
use crate::blas::{Call, Pointer};
use crate::host;
use crate::process::crew;
use crate::process::signals_blocked::SignalsBlocked;

/// The least number of elements: two threads take longer for 2,048 than one, and a fifth less for 4,096. The entry does not come here with
/// fewer.
pub const LEAST: i64 = 1 << 12;
/// The distance of two elements of one of the vectors is a multiple of this: a page, so that each takes the translation of an address, and
/// all lie in the same few sets of each cache, where no line is left when the next column is copied. With other distances, most lines are
/// left, in the cache of the core that has copied the column, and several threads are no faster.
const APART: u64 = 4096;
/// Elements that a thread takes at a time.
const CHUNK: usize = 512;
/// More threads do not copy a column any faster: they take turns at its chunks.
const THREADS: usize = 16;
/// Threads are started once the process has copied this number of elements that are far apart: a sixteenth of a matrix of order 4,096.
const ENOUGH: usize = 1 << 20;

/// Elements of such copies so far.
static COPIED: AtomicUsize = AtomicUsize::new(0);

/// How many threads may copy, the calling one included: as many as the process has processors, by its affinity and its control groups, or
/// fewer if the environment limits the threads of BLAS libraries.
fn threads() -> usize {
    const LIMITS: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let found = FOUND.load(Relaxed);
    if found > 0 {
        return found;
    }
    #[expect(clippy::disallowed_methods, reason = "variables of other libraries")]
    let limit = |name| std::env::var(name).ok()?.trim().parse::<usize>().ok();
    let limit = LIMITS.into_iter().filter_map(limit).min();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let found = limit.unwrap_or(THREADS).min(processors).clamp(1, THREADS);
    FOUND.store(found, Relaxed);
    found
}

/// Makes a copy that runs on the host, by several threads. Returns whether it has; otherwise nothing has changed.
#[must_use]
pub fn copy(call: &Call) -> bool {
    let [from, to] = [call.at[0], call.at[1]];
    let size = call.dtype.size();
    let apart = |at: Pointer| {
        let bytes = at.ld.unsigned_abs().saturating_mul(size as u64);
        bytes > 0 && bytes.is_multiple_of(APART)
    };
    let far = [from, to].into_iter().any(apart);
    if call.routine != Routine::Copy || call.m < LEAST || !far {
        return false;
    }
    if is_secluded() || !init::config().without.uses(Heuristic::Copies) {
        return false;
    }
    let Checked::Run(_, places) = check(call) else {
        return false;
    };
    let count = call.m as usize;
    if COPIED.fetch_add(count, Relaxed) < ENOUGH {
        return false;
    }
    let [source, target] = [places[0].span(), places[1].span()];
    // Memory that is not a whole block of the program's may have guard pages, whose faults are for the calling thread.
    let tracked = |place: &Rect| {
        let span = place.span();
        host::holding(span.start, span.end).is_some_and(|block| span.end <= block.start + block.len)
    };
    if source.overlaps(target) || !places.iter().all(tracked) {
        return false;
    }
    let _blocked = SignalsBlocked::new();
    let threads = threads();
    if threads < 2 {
        return false;
    }
    crew::recruit(threads);
    if !crew::exists() {
        return false;
    }
    let buffer = |place: &Rect, written| Buffer {
        addr: place.span().start,
        len: place.span().len(),
        written,
    };
    // Workers may not touch inaccessible pages.
    let _open = open_all([buffer(&places[0], false), buffer(&places[1], true)]);
    match size {
        4 => copy_elements::<u32>(from, to, count),
        8 => copy_elements::<u64>(from, to, count),
        _ => copy_elements::<[u64; 2]>(from, to, count),
    }
    true
}

fn copy_elements<T: Copy>(from: Pointer, to: Pointer, count: usize) {
    let [read, written] = [from, to].map(|at| (first(at, count, size_of::<T>()), at.ld as isize));
    crew::share(count.div_ceil(CHUNK), &|chunk: usize| {
        let chunk = chunk * CHUNK..count.min((chunk + 1) * CHUNK);
        for i in chunk {
            let at = |(first, step): (usize, isize)| {
                first.wrapping_add_signed(step * i as isize * size_of::<T>() as isize)
            };
            // SAFETY: an element of each of the program's vectors, which the argument check found to be aligned, and to lie in the address
            // space; their pages are accessible while the guards of the caller exist. No other thread has this index, and no two indices
            // the same element of the target, since its increment is not 0.
            unsafe {
                with_exposed_provenance_mut::<T>(at(written))
                    .write(with_exposed_provenance::<T>(at(read)).read());
            }
        }
    });
}

/// The address of the first element: with a negative increment it lies behind the others.
fn first(at: Pointer, count: usize, size: usize) -> usize {
    let before = at.ld.min(0).unsigned_abs() as usize * (count - 1) * size;
    at.addr + before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Dtype;

    #[test]
    fn the_first_element_of_a_negative_increment_is_the_last_in_memory() {
        let at = |ld| Pointer { addr: 1000, ld };
        assert_eq!(first(at(3), 5, 8), 1000);
        assert_eq!(first(at(-3), 5, 8), 1000 + 4 * 3 * 8);
    }

    #[test]
    fn each_element_is_copied_once_whatever_the_increments() {
        crew::recruit(3);
        for (from, to) in [(1, 700), (-700, 1), (513, -2)] {
            let count = 2 * CHUNK + 3;
            let extent = |step: isize| (count - 1) * step.unsigned_abs() + 1;
            let source: Vec<u64> = (1..=extent(from) as u64).collect();
            let mut target = vec![0_u64; extent(to)];
            let at = |addr: usize, ld: isize| Pointer {
                addr,
                ld: ld as i64,
            };
            copy_elements::<u64>(
                at(source.as_ptr().expose_provenance(), from),
                at(target.as_mut_ptr().expose_provenance(), to),
                count,
            );
            let index = |i: usize, step: isize| match step > 0 {
                true => i * step.unsigned_abs(),
                false => (count - 1 - i) * step.unsigned_abs(),
            };
            let mut wanted = vec![0; extent(to)];
            for i in 0..count {
                wanted[index(i, to)] = source[index(i, from)];
            }
            assert_eq!(target, wanted, "{from}, {to}");
        }
    }

    #[test]
    fn other_calls_are_left() {
        let call = |routine, m: usize, ld| {
            let at = [(4096, 1), (1 << 30, ld)];
            Call::new(routine, Dtype::D, &[m as i64], &at)
        };
        assert!(!copy(&call(Routine::Swap, 5000, 1024)));
        assert!(!copy(&call(Routine::Copy, 4000, 1024)));
        assert!(!copy(&call(Routine::Copy, 5000, 1000)));
    }
}
