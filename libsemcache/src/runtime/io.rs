//! System calls on tracked memory: the kernel reports EFAULT instead of faulting, so the bytes are opened
//! before, and kept open while the call runs.

use super::init;
use crate::cache::Cache;

/// Keeps a buffer open for one system call.
#[derive(Debug)]
#[must_use = "the buffer may be closed again when this is dropped"]
pub struct IoGuard {
    held: Option<(&'static Cache, usize, usize, bool)>,
}

/// Opens `len` bytes at `addr`, of which the kernel is about to write (`will_write`) or read the contents.
pub fn open_for_io(addr: usize, len: usize, will_write: bool) -> IoGuard {
    let cache = init::get().and_then(|r| r.cache);
    let held = cache
        .filter(|_| len > 0)
        .map(|c| (c, addr, len, will_write));
    if let Some((cache, ..)) = held {
        cache.open_for_io(addr, len, will_write);
    }
    IoGuard { held }
}

impl Drop for IoGuard {
    fn drop(&mut self) {
        if let Some((cache, addr, len, write)) = self.held {
            cache.io_done(addr, len, write);
        }
    }
}
