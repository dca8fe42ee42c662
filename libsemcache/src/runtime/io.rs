//! System calls (I/O) on tracked memory: at a protected page the kernel returns EFAULT instead of raising a fault, so
//! the pages of the buffer are made accessible before the call and stay so while it runs. All of these functions may be
//! called by a signal handler: they take no lock and allocate nothing unless signals are blocked.

use super::started::get;
use crate::process::signals_blocked::SignalsBlocked;

use crate::base::counters::COUNTERS;
use crate::cache::HELD;
use crate::cache::flush::io_done;
use crate::host;
use crate::protect;
use semcache_fault::held::Hold;
use smallvec::SmallVec;

/// Keeps the pages of a buffer accessible for one system call or operation of MPI.
#[derive(Debug)]
#[must_use = "the buffer may be closed again when this is dropped"]
pub struct IoGuard(Option<Hold>);

/// Makes `len` bytes at `addr` accessible; the kernel is about to write them (`will_write`) or to read their contents.
pub fn open_for_io(addr: usize, len: usize, will_write: bool) -> IoGuard {
    let cache = get().and_then(|r| r.cache).filter(|_| len > 0);
    if cache.is_some() {
        host::runs_here();
    }
    IoGuard(cache.map(|c| c.open_for_io(addr, len, will_write, SignalsBlocked::new)))
}

/// Whether devices are in use, or may come into use.
#[must_use]
pub fn may_be_protected() -> bool {
    get().is_none_or(|r| r.cache.is_some())
}

/// Notes that a network adapter may have written a buffer that is kept accessible: the kernel does not record what it writes to memory
/// that it had registered before, so that copies of write-tracked pages would stay valid.
pub fn wrote(buffer: Buffer) {
    if let Some(cache) = get().and_then(|r| r.cache) {
        cache.wrote(buffer.addr, buffer.len, SignalsBlocked::new);
    }
}

/// Makes parts of a buffer accessible, and keeps the pages of all of it accessible that are so, for an operation that may go on when the
/// call that began it returns, whether or not devices are in use yet. `parts` calls what it is given with each part; it is not called if
/// all pages of the buffer permit the access.
pub fn keep(buffer: Buffer, parts: impl FnOnce(&mut dyn FnMut(Buffer))) -> IoGuard {
    let Buffer { addr, len, written } = buffer;
    let place = HELD.enter(addr, len, written);
    if let Some(cache) = get().and_then(|r| r.cache)
        && !protect::range_permits(addr, len, written)
    {
        COUNTERS.mpi.buffers.add(1);
        parts(&mut |Buffer { addr, len, written }| {
            if !protect::range_permits(addr, len, written) {
                COUNTERS.mpi.opened.add(len as u64);
                cache.open_held(addr, len, written, SignalsBlocked::new);
            }
        });
    }
    IoGuard(Some(place))
}

impl Drop for IoGuard {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            io_done(place);
        }
    }
}

/// Number of guards that [`IoGuards`] holds without an allocation.
const FEW: usize = 8;

/// Keeps the buffers of one system call accessible.
#[derive(Debug, Default)]
#[must_use = "the buffers may be closed again when this is dropped"]
pub struct IoGuards(SmallVec<[IoGuard; FEW]>);

/// One buffer of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The first byte.
    pub addr: usize,
    /// The length in bytes.
    pub len: usize,
    /// Whether the kernel writes the buffer; otherwise the kernel reads it.
    pub written: bool,
}

impl IoGuards {
    /// Makes one more buffer accessible, as [`open_for_io`] does.
    pub fn add(&mut self, buffer: Buffer) {
        if buffer.len == 0 {
            return;
        }
        let guard = open_for_io(buffer.addr, buffer.len, buffer.written);
        let _blocked = (self.0.len() == self.0.capacity()).then(SignalsBlocked::new);
        self.0.push(guard);
    }
}

impl Extend<Buffer> for IoGuards {
    fn extend<I: IntoIterator<Item = Buffer>>(&mut self, buffers: I) {
        buffers.into_iter().for_each(|b| self.add(b));
    }
}

/// Makes several buffers accessible, as [`open_for_io`] does.
pub fn open_all(buffers: impl IntoIterator<Item = Buffer>) -> IoGuards {
    let mut guards = IoGuards::default();
    guards.extend(buffers);
    guards
}

impl Drop for IoGuards {
    fn drop(&mut self) {
        if self.0.spilled() {
            let _blocked = SignalsBlocked::new();
            self.0 = SmallVec::new();
        }
    }
}

/// Makes all memory that devices use accessible: for a system call that failed with EFAULT although the buffers that
/// its arguments name are accessible.
pub fn open_everything() -> IoGuards {
    let mut guards = IoGuards::default();
    if let Some(cache) = get().and_then(|r| r.cache) {
        let place = cache.open_all_for_io(SignalsBlocked::new);
        guards.0.push(IoGuard(Some(place)));
    }
    guards
}
