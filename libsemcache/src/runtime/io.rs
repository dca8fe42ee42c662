//! System calls on tracked memory: the kernel reports EFAULT instead of faulting, so the bytes are opened
//! before, and kept open while the call runs. All of it may be called by a signal handler: it takes no lock and
//! allocates nothing unless signals are blocked.

use super::init;
use semcache_fault::handler::mask::Masked;

use crate::cache::Cache;
use crate::cache::held::Place;

/// Keeps a buffer open for one system call.
#[derive(Debug)]
#[must_use = "the buffer may be closed again when this is dropped"]
pub struct IoGuard(Option<(&'static Cache, Place)>);

/// Opens `len` bytes at `addr`, of which the kernel is about to write (`will_write`) or read the contents.
pub fn open_for_io(addr: usize, len: usize, will_write: bool) -> IoGuard {
    let cache = init::get().and_then(|r| r.cache).filter(|_| len > 0);
    IoGuard(cache.map(|c| (c, c.open_for_io(addr, len, will_write, Masked::new))))
}

impl Drop for IoGuard {
    fn drop(&mut self) {
        if let Some((cache, place)) = &self.0 {
            cache.io_done(place);
        }
    }
}

/// Buffers of a system call that are kept without an allocation.
const FEW: usize = 8;

/// Keeps the buffers of one system call open.
#[derive(Debug, Default)]
#[must_use = "the buffers may be closed again when this is dropped"]
pub struct IoGuards {
    few: [Option<IoGuard>; FEW],
    rest: Vec<IoGuard>,
}

/// Opens several buffers, given by address and length, as [`open_for_io`] does.
pub fn open_all(buffers: impl Iterator<Item = (usize, usize)>, will_write: bool) -> IoGuards {
    let mut guards = IoGuards::default();
    for (i, (addr, len)) in buffers.enumerate() {
        let guard = open_for_io(addr, len, will_write);
        if let Some(place) = guards.few.get_mut(i) {
            *place = Some(guard);
        } else {
            let _masked = Masked::new();
            guards.rest.push(guard);
        }
    }
    guards
}

impl Drop for IoGuards {
    fn drop(&mut self) {
        if !self.rest.is_empty() {
            let _masked = Masked::new();
            self.rest = Vec::new();
        }
    }
}
