//! Bytes on their way home that a copy could not write where they belong: the program took the memory away, or guards it,
//! after it was looked at. They wait here until the thread whose call they are the result of stores them itself, and there
//! meets the fault that it would meet plainly.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use semcache_fault::broken;

use super::{Region, Shape};
use crate::base::Rect;
use crate::device::host_memory::HostMemory;

/// Some of them, and where they belong, by addresses.
#[derive(Debug)]
pub struct Undelivered {
    to: Rect,
    /// Run behind run.
    bytes: Vec<u8>,
}

/// Oldest first.
static WAITING: Mutex<Vec<Undelivered>> = Mutex::new(Vec::new());
/// How many, so that nobody takes the lock while there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn waiting() -> MutexGuard<'static, Vec<Undelivered>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rect(at: Region, shape: Shape) -> Rect {
    let start = usize::try_from(at.addr).unwrap_or(usize::MAX);
    Rect::new(start, shape.width, at.pitch.max(shape.width), shape.count)
}

/// Whether none wait.
#[must_use]
pub fn none() -> bool {
    COUNT.load(Acquire) == 0
}

/// Whether host memory lacks bytes that wait: then nothing may be read from there, and what is written there
/// later has to wait behind them.
pub(in crate::device) fn lacks(at: Region, shape: Shape) -> bool {
    !none() && waiting().iter().any(|u| u.to.overlaps(&rect(at, shape)))
}

/// Writes what can be written, page by page, and keeps the rest.
///
/// # Errors
/// There is no memory for the rest.
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
            // SAFETY: within a run at both ends.
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

/// Keeps what `fill` leaves in a buffer that it is given, which has room for the whole shape. Whether there was memory
/// for it.
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

/// Takes those of which some belong in a result, by its addresses; oldest first.
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
    /// Stores the bytes where they belong. A handler of the program's may run meanwhile, and leave by a jump: then the
    /// rest of them is lost, as that of a result is from whose middle it jumps.
    ///
    /// # Safety
    /// They belong in a result which the program expects the calling thread to write now.
    pub unsafe fn deliver(&self) {
        for (run, from) in self.to.runs().zip(self.bytes.chunks(self.to.width.max(1))) {
            let to = core::ptr::with_exposed_provenance_mut::<u8>(run.start);
            // SAFETY: the caller's; the buffer is ours, so the two are apart. A chunk is as long as its run.
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
        // Another thread's, between the runs.
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
