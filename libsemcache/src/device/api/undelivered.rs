//! Undelivered result bytes: bytes of a download that could not be written to their host address, because the program
//! has unmapped or guarded that memory after the call looked at it. The bytes are kept here until the thread that made
//! the BLAS call stores them itself, and so meets the fault that it would meet without semcache.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use semcache_fault::broken;

use super::{Region, Shape};
use crate::base::Rect;
use crate::device::host_memory::HostMemory;

/// Some undelivered bytes, and the host addresses that they belong to.
#[derive(Debug)]
pub struct Undelivered {
    to: Rect,
    /// The runs, one behind the other.
    bytes: Vec<u8>,
}

/// All undelivered bytes, oldest first.
static WAITING: Mutex<Vec<Undelivered>> = Mutex::new(Vec::new());
/// The number of entries in `WAITING`: while it is zero, no thread takes the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn waiting() -> MutexGuard<'static, Vec<Undelivered>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rect(at: Region, shape: Shape) -> Rect {
    let start = usize::try_from(at.addr).unwrap_or(usize::MAX);
    Rect::new(start, shape.width, at.pitch.max(shape.width), shape.count)
}

/// Whether there are no undelivered bytes.
#[must_use]
pub fn none() -> bool {
    COUNT.load(Acquire) == 0
}

/// Whether undelivered bytes belong to the region: then the region must not be read, because its host memory is older,
/// and later writes to it must be kept behind the undelivered ones.
pub(in crate::device) fn lacks(at: Region, shape: Shape) -> bool {
    !none() && waiting().iter().any(|u| u.to.overlaps(&rect(at, shape)))
}

/// Writes to host memory page by page, and keeps the pages that cannot be written as undelivered bytes.
///
/// # Errors
/// No memory for the bytes to be kept.
///
/// # Safety
/// `from` is memory of this process that holds the shape; the runs of `to` may be overwritten.
pub(in crate::device) unsafe fn store(
    host: &HostMemory,
    from: Region,
    to: Region,
    shape: Shape,
) -> Result<(), Errno> {
    let page = rustix::param::page_size();
    for run in 0..shape.count {
        let mut done = 0;
        while done < shape.width {
            let at = |r: Region| Region {
                addr: r.addr + (run * r.pitch + done) as u64,
                ..r
            };
            let (from, to) = (at(from), at(to));
            let left = page - usize::try_from(to.addr).unwrap_or(0) % page;
            let width = left.min(shape.width - done);
            let here =
                core::ptr::with_exposed_provenance::<u8>(usize::try_from(from.addr).unwrap_or(0));
            let piece = Shape { width, count: 1 };
            // SAFETY: within a run of both regions.
            let written = !lacks(to, piece) && unsafe { host.write(to.addr, here, width) }.is_ok();
            // SAFETY: as above; the buffer is a new one.
            let copy = |bytes: &mut [u8]| unsafe {
                core::ptr::copy_nonoverlapping(here, bytes.as_mut_ptr(), width);
            };
            if !written && (broken!("break-guards") || !keep(to, piece, copy)) {
                return Err(Errno::FAULT);
            }
            done += width;
        }
    }
    Ok(())
}

/// Keeps as undelivered what `fill` writes into a buffer of the whole shape. Returns whether there was memory for the
/// buffer.
fn keep(to: Region, shape: Shape, fill: impl FnOnce(&mut [u8])) -> bool {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(shape.bytes()).is_err() {
        return false;
    }
    bytes.resize(shape.bytes(), 0);
    fill(&mut bytes);
    let mut all = waiting();
    all.push(Undelivered {
        to: rect(to, shape),
        bytes,
    });
    COUNT.store(all.len(), Release);
    true
}

/// Removes and returns the undelivered bytes of which some belong to `result` (host addresses), oldest first.
#[must_use]
pub fn take(result: &Rect) -> Vec<Undelivered> {
    if none() {
        return Vec::new();
    }
    let mut all = waiting();
    let (taken, left) = std::mem::take(&mut *all)
        .into_iter()
        .partition(|u| u.to.overlaps(result));
    *all = left;
    COUNT.store(all.len(), Release);
    taken
}

impl Undelivered {
    /// Stores the bytes at their host addresses. A store may fault and run a handler of the program, which may leave
    /// the call by a jump: the rest of the bytes is lost then, as the rest of a result is when a handler jumps out of a
    /// BLAS function that writes it.
    ///
    /// # Safety
    /// The bytes belong to a result which the program expects the calling thread to write now.
    pub unsafe fn deliver(&self) {
        for (run, from) in self.to.runs().zip(self.bytes.chunks(self.to.width.max(1))) {
            let to = core::ptr::with_exposed_provenance_mut::<u8>(run.start);
            // SAFETY: the caller's promise; the buffer is this object's, so source and destination are apart. A chunk
            // is as long as its run.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_in_order_for_whoever_asks_for_their_place() {
        let mut memory = [0_u8; 64];
        let start = memory.as_mut_ptr().expose_provenance();
        let region = |offset: usize, pitch| Region {
            addr: (start + offset) as u64,
            pitch,
        };
        let shape = |width, count| Shape { width, count };
        let between = |from, to| Rect::interval(start + from, start + to);
        assert!(take(&between(0, 64)).is_empty() && !lacks(region(0, 64), shape(64, 1)));
        // Two runs of two bytes, then a newer one over the second of them.
        assert!(keep(region(8, 4), shape(2, 2), |to| to
            .copy_from_slice(&[1, 2, 3, 4])));
        assert!(keep(region(12, 1), shape(1, 1), |to| to[0] = 5));
        assert!(keep(region(40, 3), shape(3, 1), |to| to.fill(6)));
        assert!(!none() && lacks(region(13, 1), shape(1, 1)));
        assert!(!lacks(region(14, 26), shape(26, 1)) && !lacks(region(0, 8), shape(8, 1)));
        // Bytes between the runs, where another thread may have results.
        assert!(!lacks(region(10, 4), shape(2, 2)) && take(&between(10, 12)).is_empty());
        for part in take(&between(0, 13)) {
            // SAFETY: this test's memory.
            unsafe { part.deliver() };
        }
        let mut expected = [0; 64];
        expected[8..14].copy_from_slice(&[1, 2, 0, 0, 5, 4]);
        assert_eq!(memory, expected);
        assert!(lacks(region(40, 1), shape(1, 1)) && take(&between(0, 40)).is_empty());
        assert_eq!(take(&between(42, 43)).len(), 1);
        assert!(!lacks(region(0, 64), shape(64, 1)));
    }
}
