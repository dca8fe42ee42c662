//! Copies that the CPU makes between the program's memory and page-locked staging memory, also from and to inaccessible
//! pages.
//!
//! Where semcache's fault handler is not installed (the write-through gate) the kernel makes all of these copies: a
//! fault of a plain one would run the program's handler while the calling thread holds locks of the runtime, and a jump
//! out of the handler would leave them locked.
#![expect(unsafe_code, reason = "moves raw bytes that callers vouch for")]

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use semcache_fault::handler;
use semcache_fault::probe::attempt;

use crate::device::api::{Region, Shape};
use crate::device::host_memory::HostMemory;
use crate::process::crew;

/// Larger copies are split among several threads.
const PARALLEL: usize = 2 << 20;
/// Bytes that a thread copies at a time.
const CHUNK: usize = 256 << 10;
/// The most threads for one copy: 8, 16 and 32 threads copy 52, 47 and 59 GB/s into staging memory of four H200.
const THREADS: usize = 32;

/// The access of the pages of a range, according to the page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pages {
    /// None belongs to a block, so the runtime restricts none of them. The program may.
    Free,
    /// Some belong to a block; all are readable now.
    Readable,
    /// Some are inaccessible.
    Closed,
}

fn pages(start: usize, end: usize) -> Pages {
    let page = rustix::param::page_size();
    let mut found = Pages::Free;
    let mut at = start & !(page - 1);
    while at < end {
        match semcache_fault::pages::get(at) {
            None => {}
            Some(crate::base::Access::None) => return Pages::Closed,
            Some(_) => found = Pages::Readable,
        }
        at += page;
    }
    found
}

fn span(r: Region, s: Shape) -> (usize, usize) {
    let start = usize::try_from(r.addr).unwrap_or(0);
    (start, start + s.count.saturating_sub(1) * r.pitch + s.width)
}

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// From the program's memory to staging memory.
    Pack,
    /// From staging memory to the program's memory.
    Unpack,
}

/// Packs a region of the program's memory into staging memory. The protection of the region's pages does not change
/// meanwhile. `first`: what the calling thread does while other threads begin to copy.
///
/// # Errors
/// The memory cannot be read.
///
/// # Safety
/// The region is mapped; `to` holds `shape.bytes()` that no other thread and no device uses.
pub(super) unsafe fn gather(
    host: &HostMemory,
    from: Region,
    to: usize,
    shape: Shape,
    first: impl FnOnce(),
) -> Result<(), Errno> {
    let (start, end) = span(from, shape);
    let direct = pages(start, end) != Pages::Closed && handler::installed();
    // SAFETY: the caller's promise; readable if `direct`.
    unsafe { all(host, Way::Pack, direct, from, to, shape, first) }
}

/// Unpacks staging memory into a region of the program's memory. The region's pages may become inaccessible and
/// accessible meanwhile, unless they belong to no block.
///
/// # Errors
/// The memory cannot be written.
///
/// # Safety
/// The region is mapped, and exactly its runs may be overwritten; `from` holds `shape.bytes()`.
pub(super) unsafe fn scatter(
    host: &HostMemory,
    from: usize,
    to: Region,
    shape: Shape,
) -> Result<(), Errno> {
    let (start, end) = span(to, shape);
    let direct = pages(start, end) == Pages::Free && handler::installed();
    // SAFETY: the caller's promise; the runtime restricts none of the pages if `direct`.
    unsafe { all(host, Way::Unpack, direct, to, from, shape, || ()) }
}

/// # Safety
/// As [`gather`] and [`scatter`]; `direct` only if the runtime restricts none of the program's pages meanwhile.
unsafe fn all(
    host: &HostMemory,
    way: Way,
    direct: bool,
    program: Region,
    staging: usize,
    shape: Shape,
    first: impl FnOnce(),
) -> Result<(), Errno> {
    let total = shape.bytes();
    // SAFETY: for each part, the caller's promise; parts are disjoint.
    let part = |lo, hi| unsafe { some(host, way, direct, program, staging, shape.width, lo, hi) };
    if total < PARALLEL {
        first();
        return part(0, total);
    }
    // Bytes are unpacked also for a page fault, whose thread may hold locks that the creation of a thread needs.
    if way == Way::Pack {
        crew::recruit(THREADS);
    }
    let failed = AtomicBool::new(false);
    let copy = |chunk: usize| {
        let lo = chunk * CHUNK;
        if part(lo, (lo + CHUNK).min(total)).is_err() {
            failed.store(true, Ordering::Relaxed);
        }
    };
    crew::share_while(total.div_ceil(CHUNK), &copy, first);
    if failed.into_inner() {
        return Err(Errno::FAULT);
    }
    Ok(())
}

/// Copies bytes `lo .. hi` of the packed order.
///
/// # Safety
/// As [`all`].
#[expect(clippy::too_many_arguments, reason = "one loop, called from one place")]
unsafe fn some(
    host: &HostMemory,
    way: Way,
    direct: bool,
    program: Region,
    staging: usize,
    width: usize,
    lo: usize,
    hi: usize,
) -> Result<(), Errno> {
    let part = Part {
        way,
        program,
        staging,
        width,
        lo,
        hi,
    };
    if direct {
        let part = (&raw const part).cast();
        // SAFETY: `copy_part` only copies. Signals whose handlers could jump are blocked, since the caller holds a lock
        // of the runtime. Where `attempt` cannot catch a fault, the program's handler gets it, as for every access of a
        // BLAS to such memory.
        return match unsafe { attempt(copy_part, part) } {
            Some(true) => Ok(()),
            Some(false) => Err(Errno::FAULT),
            None => {
                // SAFETY: the caller's promise.
                unsafe { copy_part(part) };
                Ok(())
            }
        };
    }
    part.pieces().try_for_each(|(there, here, n)| {
        // SAFETY: `n` bytes within the staging memory; the kernel accesses the program's bytes and checks their
        // address.
        unsafe {
            match way {
                Way::Pack => host.read(there, here, n),
                Way::Unpack => host.write(there, here, n),
            }
        }
    })
}

/// The bytes that one thread copies.
struct Part {
    way: Way,
    program: Region,
    staging: usize,
    width: usize,
    lo: usize,
    hi: usize,
}

impl Part {
    /// Pieces within a run: the address in the program's memory, the address in staging memory, and the length.
    fn pieces(&self) -> impl Iterator<Item = (u64, *mut u8, usize)> {
        let mut lo = self.lo;
        core::iter::from_fn(move || {
            if lo >= self.hi {
                return None;
            }
            let (run, offset) = (lo / self.width, lo % self.width);
            let n = (self.width - offset).min(self.hi - lo);
            let there = self.program.addr + (run * self.program.pitch + offset) as u64;
            let here = core::ptr::with_exposed_provenance_mut(self.staging + lo);
            lo += n;
            Some((there, here, n))
        })
    }
}

/// Copies a [`Part`]; a fault may leave it at any instruction.
unsafe extern "C" fn copy_part(part: *const c_void) {
    // SAFETY: `some` passes a live `Part`.
    let part = unsafe { &*part.cast::<Part>() };
    for (there, here, n) in part.pieces() {
        let at: *mut u8 =
            core::ptr::with_exposed_provenance_mut(usize::try_from(there).unwrap_or(0));
        // SAFETY: `n` bytes within a run and within the staging memory, which are apart.
        unsafe {
            match part.way {
                Way::Pack => core::ptr::copy_nonoverlapping(at, here, n),
                Way::Unpack => core::ptr::copy_nonoverlapping(here, at, n),
            }
        }
    }
}
