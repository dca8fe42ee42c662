//! Device memory pool of one device: memory is taken from the backend in few large chunks and divided here.
//!
//! Memory is reused in stream order: a range that is given back carries the tickets of the operations that still use
//! it, and the next user's operations are queued behind them. No function here blocks, except for giving a whole chunk
//! back to the backend.

use std::collections::BTreeMap;

use super::ops::Deps;
use crate::base::DeviceId;
use crate::device::api::{Backend, DeviceError};

/// Alignment of every range, in bytes.
pub const ALIGN: usize = 256;

#[derive(Debug)]
struct Chunk {
    addr: u64,
    len: usize,
}

#[derive(Debug)]
struct Free {
    len: usize,
    deps: Deps,
}

/// A range of device memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Device address, aligned to [`ALIGN`].
    pub addr: u64,
    /// Bytes, a multiple of [`ALIGN`].
    pub len: usize,
}

/// The device memory pool of one device.
#[derive(Debug)]
pub struct Pool {
    device: DeviceId,
    capacity: usize,
    chunks: Vec<Chunk>,
    free: BTreeMap<u64, Free>,
    taken: usize,
}

/// Rounds up to the pool's alignment; `None` on overflow.
fn round(bytes: usize) -> Option<usize> {
    Some(bytes.max(1).checked_add(ALIGN - 1)? & !(ALIGN - 1))
}

impl Pool {
    /// An empty pool that takes at most `capacity` bytes from the backend.
    #[must_use]
    pub fn new(device: DeviceId, capacity: usize) -> Self {
        Self {
            device,
            capacity,
            chunks: Vec::new(),
            free: BTreeMap::new(),
            taken: 0,
        }
    }

    /// Bytes that this pool may take in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes not in use, which may lie in many pieces.
    #[must_use]
    pub fn available(&self) -> usize {
        self.capacity - self.taken + self.free.values().map(|f| f.len).sum::<usize>()
    }

    /// Allocates a range of at least `bytes`; returns it with the tickets that its first operation must wait for, or
    /// `Ok(None)` if there is no room without eviction.
    ///
    /// # Errors
    /// The backend refused to give memory, or the device is lost.
    pub fn alloc(
        &mut self,
        backend: &dyn Backend,
        bytes: usize,
    ) -> Result<Option<(Range, Deps)>, DeviceError> {
        self.alloc_in(backend, bytes, |chunk| chunk)
    }

    /// As [`Pool::alloc`], for one of many ranges of the same length: chunks are taken whose length is a multiple of it, so
    /// that nothing is left over.
    ///
    /// # Errors
    /// As [`Pool::alloc`].
    pub fn alloc_slot(
        &mut self,
        backend: &dyn Backend,
        bytes: usize,
    ) -> Result<Option<(Range, Deps)>, DeviceError> {
        let len = round(bytes).unwrap_or(usize::MAX);
        self.alloc_in(backend, bytes, |chunk| chunk / len * len)
    }

    /// The number of ranges of this length that [`Pool::alloc_slot`] could give. If chunks of other lengths would leave more than
    /// an eighth of the memory unused, those that are free are returned to the backend first; that waits for the operations
    /// that still use them.
    pub fn slots(&mut self, backend: &dyn Backend, bytes: usize) -> usize {
        let Some(len) = round(bytes) else { return 0 };
        let most = self.capacity / len;
        if self.slots_now(len) < most - most / 8 {
            self.give_back_whole_chunks(backend);
        }
        self.slots_now(len)
    }

    fn slots_now(&self, len: usize) -> usize {
        let free: usize = self.free.values().map(|f| f.len / len).sum();
        free + (self.capacity - self.taken) / len
    }

    /// Allocates a range; `chunk` maps the length of a new chunk to the one that is taken, which may be shorter but not
    /// shorter than the range.
    fn alloc_in(
        &mut self,
        backend: &dyn Backend,
        bytes: usize,
        chunk: impl Fn(usize) -> usize,
    ) -> Result<Option<(Range, Deps)>, DeviceError> {
        let Some(len) = round(bytes) else {
            return Ok(None);
        };
        if len > self.capacity {
            return Ok(None);
        }
        if let Some(found) = self.take(backend, len) {
            return Ok(Some(found));
        }
        if self.capacity - self.taken < len {
            self.give_back_whole_chunks(backend);
        }
        let room = (self.capacity - self.taken) & !(ALIGN - 1);
        if room < len {
            return Ok(None);
        }
        // Few driver calls: a chunk is a sixteenth of the device's memory, at most a gigabyte, but not less than the
        // range.
        let mut chunk = chunk((self.capacity / 16).min(1 << 30).max(len).min(room) & !(ALIGN - 1));
        let taken = match backend.alloc(self.device, chunk) {
            Err(DeviceError::OutOfMemory { .. }) if chunk > len => {
                chunk = len;
                backend.alloc(self.device, chunk)
            }
            taken => taken,
        };
        let addr = match taken {
            Ok(addr) => addr,
            // Other users of the device hold the rest of its memory: the pool stays as large as it is.
            Err(DeviceError::OutOfMemory { .. }) => {
                self.capacity = self.taken;
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        self.taken += chunk;
        self.chunks.push(Chunk { addr, len: chunk });
        self.free.insert(
            addr,
            Free {
                len: chunk,
                deps: Deps::default(),
            },
        );
        Ok(self.take(backend, len))
    }

    /// Takes the smallest free range that is large enough.
    fn take(&mut self, backend: &dyn Backend, len: usize) -> Option<(Range, Deps)> {
        let (&addr, _) = self
            .free
            .iter()
            .filter(|(_, f)| f.len >= len)
            .min_by_key(|(_, f)| f.len)?;
        let mut found = self.free.remove(&addr)?;
        found.deps.prune(backend);
        if found.len > len {
            let rest = Free {
                len: found.len - len,
                deps: found.deps.clone(),
            };
            self.free.insert(addr + len as u64, rest);
        }
        Some((Range { addr, len }, found.deps))
    }

    /// Gives a range back; `deps` are the tickets of the operations that still use it.
    pub fn give(&mut self, range: Range, mut deps: Deps) {
        let mut start = range.addr;
        let mut len = range.len;
        // Adjacent free ranges merge within a chunk only: chunks go back to the backend one by one.
        let chunk_start = self
            .chunks
            .iter()
            .find(|c| range.addr >= c.addr && range.addr < c.addr + c.len as u64)
            .map(|c| (c.addr, c.addr + c.len as u64));
        let Some((lo, hi)) = chunk_start else { return };
        if let Some((&p, f)) = self.free.range(..start).next_back()
            && p >= lo
            && p + f.len as u64 == start
        {
            deps.extend(&f.deps);
            len += f.len;
            start = p;
            self.free.remove(&p);
        }
        let end = start + len as u64;
        if end < hi
            && let Some(f) = self.free.remove(&end)
        {
            deps.extend(&f.deps);
            len += f.len;
        }
        self.free.insert(start, Free { len, deps });
    }

    /// Returns wholly free chunks to the backend, so that a larger one can be allocated; waits for the operations that still
    /// use them.
    pub fn give_back_whole_chunks(&mut self, backend: &dyn Backend) {
        let free = &mut self.free;
        let taken = &mut self.taken;
        let device = self.device;
        self.chunks.retain(|c| {
            let whole = free.get(&c.addr).is_some_and(|f| f.len == c.len);
            if !whole {
                return true;
            }
            if let Some(f) = free.remove(&c.addr) {
                // An error is ignored: a lost device has no operation left to wait for.
                let _ = f.deps.wait(backend);
            }
            give_chunk(backend, device, c.addr);
            *taken -= c.len;
            false
        });
    }
}

#[expect(unsafe_code, reason = "returning device memory to the backend")]
fn give_chunk(backend: &dyn Backend, device: DeviceId, addr: u64) {
    // SAFETY: the address came from `alloc` of this device, no range of the chunk is in use (all of it is one free
    // range), and all operations over it were waited for.
    unsafe { backend.free(device, addr) };
}
