//! Device memory pool of one device: memory is taken from the backend in few large chunks and divided here.
//!
//! Memory is reused in stream order: a range that is given back carries the tickets of the operations that still use
//! it, and the next user's operations are queued behind them. No function here blocks, except for giving a whole chunk
//! back to the backend.

use std::collections::BTreeMap;

use super::ops::Deps;
use crate::base::DeviceId;
use crate::device::api::{Backend, DeviceError};
use crate::trace;

/// Alignment of every range, in bytes.
pub const ALIGN: usize = 256;

/// After a refusal the backend is asked for more memory again when this many allocations have found no room.
const ASK_AGAIN: usize = 16;

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
    /// Bytes that the pool may take from the backend.
    most: usize,
    /// As many, or those that the pool had when the backend last refused more.
    capacity: usize,
    /// Allocations that found no room since then.
    misses: usize,
    chunks: Vec<Chunk>,
    free: BTreeMap<u64, Free>,
    taken: usize,
    /// Bytes of the ranges in use.
    in_use: usize,
    /// Ranges that kernels of the program may use, by address.
    held: BTreeMap<u64, Held>,
}

/// A range that is in use until it is released, also if it is given back before.
#[derive(Debug, Default)]
struct Held {
    /// How often it has to be released.
    times: usize,
    /// The range, and the operations that still use it, if it was given back meanwhile.
    given: Option<(Range, Deps)>,
}

/// Rounds up to the pool's alignment; `None` on overflow.
fn round(bytes: usize) -> Option<usize> {
    Some(bytes.max(1).checked_add(ALIGN - 1)? & !(ALIGN - 1))
}

impl Pool {
    /// An empty pool that takes at most `most` bytes from the backend.
    #[must_use]
    pub fn new(device: DeviceId, most: usize) -> Self {
        Self {
            device,
            most,
            capacity: most,
            misses: 0,
            chunks: Vec::new(),
            free: BTreeMap::new(),
            taken: 0,
            in_use: 0,
            held: BTreeMap::new(),
        }
    }

    /// Bytes that this pool can have in all, as far as it knows: other users of the device may hold some, and give them
    /// back later.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes not in use, which may lie in many pieces.
    #[must_use]
    pub fn available(&self) -> usize {
        self.capacity - self.in_use
    }

    /// The bytes in use have become more or fewer.
    fn set_in_use(&mut self, bytes: usize) {
        self.in_use = bytes;
        if trace::on() {
            trace::record(trace::Event::Memory {
                at: trace::now(),
                device: self.device,
                bytes: bytes as u64,
            });
        }
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
    /// an eighth of the free memory unused, those that are free are returned to the backend first; that waits for the operations
    /// that still use them. If the backend has refused memory before, what it gives now is taken at once, so that the number
    /// holds.
    pub fn slots(&mut self, backend: &dyn Backend, bytes: usize) -> usize {
        let Some(len) = round(bytes) else { return 0 };
        let most = self.available() / len;
        if self.slots_now(len) < most - most / 8 {
            self.give_back_whole_chunks(backend);
        }
        if self.capacity < self.most {
            self.capacity = self.most;
            while self.grow(backend, len, |chunk| chunk / len * len) == Ok(true) {}
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
        if len > self.most {
            return Ok(None);
        }
        if let Some(found) = self.take(backend, len) {
            return Ok(Some(found));
        }
        if self.capacity - self.taken < len {
            self.give_back_whole_chunks(backend);
        }
        if self.capacity - self.taken < len && self.capacity < self.most {
            self.misses += 1;
            // A refusal costs more than an eviction; but no eviction makes room for a range that exceeds the capacity.
            if len > self.capacity || self.misses >= ASK_AGAIN {
                self.capacity = self.most;
            }
        }
        let grown = self.grow(backend, len, chunk)?;
        Ok(grown.then(|| self.take(backend, len)).flatten())
    }

    /// Takes a chunk for a range of `len` bytes from the backend; `chunk` as in [`Pool::alloc_in`]. False if the pool may take
    /// no more, or the backend gives no more.
    fn grow(
        &mut self,
        backend: &dyn Backend,
        len: usize,
        chunk: impl Fn(usize) -> usize,
    ) -> Result<bool, DeviceError> {
        let room = (self.capacity - self.taken) & !(ALIGN - 1);
        if room < len {
            return Ok(false);
        }
        // Few driver calls: a chunk is a sixteenth of the device's memory, at most a gigabyte, but not less than the
        // range.
        let mut chunk = chunk((self.most / 16).min(1 << 30).max(len).min(room) & !(ALIGN - 1));
        let taken = match backend.alloc(self.device, chunk) {
            Err(DeviceError::OutOfMemory { .. }) if chunk > len => {
                chunk = len;
                backend.alloc(self.device, chunk)
            }
            taken => taken,
        };
        let addr = match taken {
            Ok(addr) => addr,
            // Other users of the device hold the rest of its memory: the pool stays as large as it is for a while.
            Err(DeviceError::OutOfMemory { .. }) => {
                self.capacity = self.taken;
                self.misses = 0;
                return Ok(false);
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
        Ok(true)
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
        self.set_in_use(self.in_use + len);
        Some((Range { addr, len }, found.deps))
    }

    /// Kernels of the program, which have no tickets, may use a range until it is released, once for each time that it was held.
    pub fn hold(&mut self, range: Range) {
        self.held.entry(range.addr).or_default().times += 1;
    }

    /// The kernels of the program that used the range at this address are complete.
    pub fn release(&mut self, addr: u64) {
        if let Some((range, deps)) = self.retake(addr) {
            self.give(range, deps);
        }
    }

    /// As [`Pool::release`], but a range that was given back meanwhile is in use again, by the caller; it is returned with the operations
    /// that still use it.
    pub fn retake(&mut self, addr: u64) -> Option<(Range, Deps)> {
        let held = self.held.get_mut(&addr)?;
        held.times = held.times.saturating_sub(1);
        if held.times > 0 {
            return None;
        }
        self.held.remove(&addr)?.given
    }

    /// Gives a range back; `deps` are the tickets of the operations that still use it. If it is held, it stays in use until it is
    /// released.
    pub fn give(&mut self, range: Range, mut deps: Deps) {
        if let Some(held) = self.held.get_mut(&range.addr) {
            held.given = Some((range, deps));
            return;
        }
        let mut start = range.addr;
        let mut len = range.len;
        // Adjacent free ranges merge within a chunk only: chunks go back to the backend one by one.
        let chunk_start = self
            .chunks
            .iter()
            .find(|c| range.addr >= c.addr && range.addr < c.addr + c.len as u64)
            .map(|c| (c.addr, c.addr + c.len as u64));
        let Some((lo, hi)) = chunk_start else { return };
        self.set_in_use(self.in_use - range.len);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimConfig, SimMachine};

    const UNIT: usize = 1 << 16;
    const DEVICE: DeviceId = DeviceId(0);

    /// A device with eight units of memory, and a pool that may take all of it.
    fn eight() -> (SimMachine, Pool) {
        let cfg = SimConfig {
            memory: 8 * UNIT,
            ..SimConfig::default()
        };
        let machine = SimMachine::new(cfg).expect("a machine");
        (machine, Pool::new(DEVICE, 8 * UNIT))
    }

    /// Whether the pool has room for this number of units; they stay in use.
    fn has(machine: &SimMachine, pool: &mut Pool, units: usize) -> bool {
        pool.alloc(machine, units * UNIT).expect("given").is_some()
    }

    #[test]
    fn memory_that_another_user_gives_back_is_used() {
        let (machine, mut pool) = eight();
        let theirs = machine.alloc(DEVICE, 8 * UNIT).expect("all of it");
        assert!(!has(&machine, &mut pool, 1));
        assert_eq!(pool.capacity(), 0);
        give_chunk(&machine, DEVICE, theirs);
        // Nothing could be evicted for it.
        assert!(has(&machine, &mut pool, 4));
        let theirs = machine.alloc(DEVICE, 4 * UNIT).expect("the rest");
        assert!(!has(&machine, &mut pool, 4));
        assert_eq!(pool.capacity(), 4 * UNIT);
        give_chunk(&machine, DEVICE, theirs);
        // Eviction could make room for it, so the device is not asked each time.
        let misses = (0..100).take_while(|_| !has(&machine, &mut pool, 4));
        assert_eq!(misses.count(), ASK_AGAIN - 1);
        assert_eq!(pool.capacity(), 8 * UNIT);
    }

    #[test]
    fn memory_that_another_user_takes_meanwhile_is_missed_until_it_comes_back() {
        let (machine, mut pool) = eight();
        let (range, deps) = pool
            .alloc(&machine, 6 * UNIT)
            .expect("given")
            .expect("room");
        pool.give(range, deps);
        pool.give_back_whole_chunks(&machine);
        let theirs = machine.alloc(DEVICE, 7 * UNIT).expect("most of it");
        assert!(has(&machine, &mut pool, 1));
        assert!(!has(&machine, &mut pool, 6));
        assert_eq!(pool.capacity(), UNIT);
        give_chunk(&machine, DEVICE, theirs);
        assert!(has(&machine, &mut pool, 6));
    }

    #[test]
    fn a_held_range_stays_in_use_after_it_was_given_back() {
        let (machine, mut pool) = eight();
        let taken = pool.alloc(&machine, 8 * UNIT).expect("given");
        let (range, deps) = taken.expect("room");
        pool.hold(range);
        pool.hold(range);
        pool.give(range, deps);
        assert!(!has(&machine, &mut pool, 1));
        pool.release(range.addr);
        assert!(!has(&machine, &mut pool, 1));
        pool.release(range.addr);
        assert!(has(&machine, &mut pool, 8));
    }

    #[test]
    fn slots_that_are_counted_on_are_there() {
        let (machine, mut pool) = eight();
        let theirs = machine.alloc(DEVICE, 6 * UNIT).expect("most of it");
        // Nothing has been refused yet.
        assert_eq!(pool.slots(&machine, UNIT), 8);
        assert!(!has(&machine, &mut pool, 3));
        assert_eq!(pool.slots(&machine, UNIT), 2);
        give_chunk(&machine, DEVICE, theirs);
        let theirs = machine.alloc(DEVICE, 3 * UNIT).expect("a part of it");
        assert_eq!(pool.slots(&machine, UNIT), 5);
        for _ in 0..5 {
            let slot = pool.alloc_slot(&machine, UNIT).expect("given");
            assert!(slot.is_some());
        }
        give_chunk(&machine, DEVICE, theirs);
        assert_eq!(pool.slots(&machine, UNIT), 3);
        assert_eq!(pool.capacity(), 8 * UNIT);
    }

    /// Chunks of the right length stay, also beside a range that is in use.
    #[test]
    fn free_chunks_that_are_slots_stay() {
        let (machine, mut pool) = eight();
        assert!(has(&machine, &mut pool, 2));
        let slot = |pool: &mut Pool| pool.alloc_slot(&machine, UNIT).expect("given");
        let slots = [(); 6].map(|()| slot(&mut pool).expect("room"));
        slots
            .into_iter()
            .for_each(|(range, deps)| pool.give(range, deps));
        let chunks = pool.chunks.len();
        assert_eq!(pool.slots(&machine, UNIT), 6);
        assert_eq!(pool.chunks.len(), chunks);
    }
}
