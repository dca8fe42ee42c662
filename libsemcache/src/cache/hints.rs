//! What a program asks for outside of BLAS calls: copies of a rectangle to a device or to the host ahead of their use, room on a
//! device, and device addresses for kernels of its own. Each is a step of the protocol that a call could have taken, so what the CPU and
//! later calls see stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::HELD;
use super::edges::PendingCopies;
use super::holds::Hold;
use super::orders::{Layout, Orders};
use super::place::tile_bytes;
use super::room::Room;
use super::task::{Use, store};
use super::{Cache, CacheError, State, is_transient};
use crate::base::distribution::{Distributed, Distribution};
use crate::base::{Access, AllocId, DeviceId, Intent, Interval, Rect, ReplicaId};
use crate::device::api::Operand;
use crate::directory::Event;
use crate::transfer::pool::Range;
use crate::transfer::{Deps, Pool};

/// What a request has queued.
#[derive(Debug, Default)]
pub struct Queued {
    /// Complete when the bytes have arrived.
    pub deps: Deps,
    /// What has to be waited for before other threads of the program may change the bytes ([`Cache::arrive`]).
    pub pending: PendingCopies,
}

/// A matrix that a kernel of the program may use.
#[derive(Debug)]
pub struct Held {
    /// What [`Cache::release_held`] takes.
    pub number: u64,
    /// Where it lies on the device.
    pub at: Operand,
    /// Complete when the kernel may begin.
    pub queued: Queued,
}

/// What the caller has to wait for after a release ([`Cache::arrive`]), and what it has to end then ([`Cache::finish_transient`]).
#[derive(Debug, Default)]
pub struct Released {
    /// Write-backs to pages that are never protected.
    pub pending: PendingCopies,
    /// An entry that was made for them.
    pub transient: Option<AllocId>,
}

impl Cache {
    /// Whether devices could keep most of a matrix, which is a part of a block that is in use: its pages may be protected from now on.
    /// If not, its bytes would be sent again at each call. `share`: what this device, or each, is to hold at most.
    ///
    /// # Errors
    /// [`CacheError::NoRoom`]: more than it holds. [`CacheError::Gone`]: the block ends before the matrix does.
    pub fn would_keep(
        &self,
        (id, whole): (AllocId, &Rect),
        (device, share): (Option<DeviceId>, &Rect),
    ) -> Result<bool, CacheError> {
        let mut guard = self.lock();
        let of = |(i, _): &(usize, &Pool)| device.is_none_or(|device| device.index() == *i);
        let pools = guard.pools.iter().enumerate().filter(of);
        let least = pools.map(|(_, pool)| pool.capacity()).min().unwrap_or(0);
        if tile_bytes(share) > least {
            return Err(CacheError::NoRoom);
        }
        self.enclose(&mut guard, id, whole);
        let e = guard.entries.get(&id).ok_or(CacheError::Gone)?;
        if whole.end() > e.block.len {
            return Err(CacheError::Gone);
        }
        let open: usize = e.dir.untrapped(whole).iter().map(Rect::bytes).sum();
        Ok(open <= whole.bytes() / 2)
    }

    /// A product is about to use these bytes of a block that is in use, in pieces: what the CPU wrote to write-tracked pages of them is
    /// collected, and their pages may be protected from now on.
    ///
    /// # Errors
    /// A device is lost. [`CacheError::Gone`]: the block ends before the bytes do.
    pub fn announce(&self, id: AllocId, rect: &Rect) -> Result<(), CacheError> {
        let mut guard = self.lock();
        self.inspect_locked(&mut guard, id, rect.span())?;
        let e = guard.entries.get(&id).ok_or(CacheError::Gone)?;
        if rect.end() > e.block.len {
            return Err(CacheError::Gone);
        }
        self.enclose(&mut guard, id, rect);
        Ok(())
    }

    /// Whether devices hold all bytes that these operands read, and whether no page of an operand needs to be announced
    /// ([`Cache::announce`]). Collects what the CPU has written to write-tracked pages of them first.
    ///
    /// # Errors
    /// A device is lost.
    pub fn has_on_devices<'a>(
        &self,
        operands: impl Iterator<Item = &'a Use>,
    ) -> Result<bool, CacheError> {
        let mut guard = self.lock();
        for Use {
            id, view, access, ..
        } in operands
        {
            if self.inspect_locked(&mut guard, *id, view.span())? {
                return Ok(false);
            }
            let Some(e) = guard.entries.get(id) else {
                return Ok(false);
            };
            let has = *access == Intent::Overwrite || e.dir.on_devices(view);
            let within = view.end() <= e.block.len;
            if !has || !within || !e.dir.ready(&Event::Enclose { rect: *view }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes of copies of matrices that a device can hold.
    #[must_use]
    pub fn room(&self, device: DeviceId) -> usize {
        let state = self.lock();
        state.pools.get(device.index()).map_or(0, Pool::capacity)
    }

    /// Copies those bytes of an input to a device that it lacks, as the first task of a call would ([`Cache::bring`]). The block is in
    /// use, and the cache keeps bytes there ([`Cache::would_keep`]).
    ///
    /// The program may do anything with the memory meanwhile. A store faults, or marks the page for the next scan; but while a system
    /// call writes to the bytes through pages that the kernel has looked up before, or replaces them, devices keep none of them.
    ///
    /// # Errors
    /// Refused, lost, no room, or a block that was freed or shortened.
    pub fn send_ahead(&self, device: DeviceId, input: &Use) -> Result<Queued, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let span = input.view.span();
        self.inspect_locked(state, input.id, span)?;
        let e = state.entries.get(&input.id).ok_or(CacheError::Gone)?;
        if span.end > e.block.len {
            return Err(CacheError::Gone);
        }
        let held = self.send(state, device, input, room_of(state, device, input));
        let mut queued = Queued::default();
        let settled = self.settle_locked(state, input.id, &input.view, &mut queued.pending);
        let State { entries, pools, .. } = state;
        let e = entries.get_mut(&input.id).ok_or(CacheError::Gone)?;
        if HELD.forbids(e.host.base + span.start, span.len(), Access::Read) {
            let pages = vec![span.align_out(self.page)];
            self.step(e, pools, &Event::Dirty { pages }, None)?;
        }
        let replica = held?;
        settled?;
        if let Some(s) = e.stores.get(&replica) {
            s.ops.deps(&input.view, false, &mut queued.deps);
        }
        Ok(queued)
    }

    /// Queues the write-back of the newest bytes of a rectangle. Devices keep their copies, and the pages stay as they are until the
    /// CPU touches them.
    ///
    /// # Errors
    /// The bytes are lost, or a device refused a copy.
    pub fn write_home(&self, id: AllocId, rect: &Rect) -> Result<Deps, CacheError> {
        let mut guard = self.lock();
        let State { entries, pools, .. } = &mut *guard;
        let mut deps = Deps::default();
        let Some(e) = entries.get_mut(&id) else {
            return Ok(deps);
        };
        if e.lost.overlaps(rect) {
            return Err(CacheError::DataLost);
        }
        self.queue_write_back(e, pools, rect)?;
        e.host.ops.deps(rect, false, &mut deps);
        Ok(deps)
    }

    /// Steps the directory as for a kernel that reads a matrix on a device, or changes it ([`Use::access`]), and keeps the device memory
    /// in use until [`Cache::release_held`]. The block is in use, and the cache keeps bytes there ([`Cache::would_keep`]).
    ///
    /// # Errors
    /// As [`Cache::send_ahead`].
    pub fn hold(&self, device: DeviceId, operand: &Use) -> Result<Held, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.inspect_locked(state, operand.id, operand.view.span())?;
        let e = state.entries.get(&operand.id).ok_or(CacheError::Gone)?;
        if operand.view.span().end > e.block.len {
            return Err(CacheError::Gone);
        }
        let writes = operand.access != Intent::Read;
        let (room, uses) = (
            room_of(state, device, operand),
            std::slice::from_ref(operand),
        );
        let mut queued = Queued::default();
        let placed = self.with_acquired(state, device, uses, room, |state, replicas| {
            let replica = replicas.first().ok_or(CacheError::Gone)?;
            let s = store(state, operand, *replica)?;
            s.ops.deps(&operand.view, writes, &mut queued.deps);
            let held = Hold {
                id: operand.id,
                base: operand.base,
                view: operand.view,
                writes,
                device,
                replica: *replica,
                rect: s.rect,
                addr: s.range.addr,
                pitch: s.pitch,
                freed: false,
            };
            Ok((operand.located(s), held, s.range))
        });
        if !writes {
            self.settle_locked(state, operand.id, &operand.view, &mut queued.pending)?;
        }
        let (at, hold, range) = placed?;
        let e = state.entries.get_mut(&hold.id).ok_or(CacheError::Gone)?;
        let s = e.stores.get_mut(&hold.replica).ok_or(CacheError::Gone)?;
        s.held += 1;
        state.pools[device.index()].hold(range);
        let number = state.holds.add(hold);
        Ok(Held { number, at, queued })
    }

    /// The kernels of the program that used a held matrix are complete. `None`: nothing was held by this number.
    ///
    /// What they have written becomes the newest contents of the matrix, whatever happened to the replica in between: a fault beside the
    /// matrix, a fork or a system call may have written back what was there at that time.
    pub fn release_held(&self, number: u64) -> Option<Result<Released, CacheError>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let hold = state.holds.remove(number)?;
        let again = state.pools[hold.device.index()].retake(hold.addr);
        let e = state.entries.get_mut(&hold.id);
        if let Some(s) = e.and_then(|e| e.stores.get_mut(&hold.replica)) {
            s.held = s.held.saturating_sub(1);
        }
        if !hold.writes || hold.freed {
            if let Some((range, deps)) = again {
                state.pools[hold.device.index()].give(range, deps);
            }
            return Some(Ok(Released::default()));
        }
        Some(self.written_by_program(state, &hold, again))
    }

    /// Steps the directory as if a kernel had just written a held matrix. `again`: its device memory, if the replica has gone.
    fn written_by_program(
        &self,
        state: &mut State,
        hold: &Hold,
        again: Option<(Range, Deps)>,
    ) -> Result<Released, CacheError> {
        let device = hold.device;
        let id = match again {
            None => hold.id,
            Some(_) => self.block_again(state, hold),
        };
        // The program may have made the block shorter.
        let len = state.entries.get(&id).map_or(0, |e| e.block.len);
        let (view, rect) = (within(&hold.view, len), within(&hold.rect, len));
        let replica = match again {
            None => hold.replica,
            Some((range, deps)) => {
                let Some(rect) = rect.filter(|_| self.whole()) else {
                    if is_transient(id) {
                        state.remove(id);
                    }
                    state.pools[device.index()].give(range, deps);
                    return Err(CacheError::DataLost);
                };
                state.add_replica((id, device, rect), (range, hold.pitch), &deps)?
            }
        };
        let mut released = Released {
            transient: is_transient(id).then_some(id),
            ..Released::default()
        };
        let Some(view) = view else {
            return Ok(released);
        };
        let State { entries, pools, .. } = state;
        let e = entries.get_mut(&id).ok_or(CacheError::Gone)?;
        let mut later = Vec::new();
        let event = Event::DeviceWrite {
            replica,
            rect: view,
            keep: false,
        };
        self.step_of_task(replica, e, pools, &event, Some(&mut later))?;
        e.lost.remove(&view);
        self.execute_deferred(e, &later);
        self.settle_locked(state, id, &view, &mut released.pending)?;
        Ok(released)
    }

    /// The block of a held matrix, or, if the cache has given up that block, an entry for its memory.
    fn block_again(&self, state: &mut State, hold: &Hold) -> AllocId {
        if state.entries.contains_key(&hold.id) {
            return hold.id;
        }
        let end = hold.view.end().max(hold.rect.end());
        self.add_transient_locked(state, hold.base, end)
    }

    /// Whether devices have used a block that still exists.
    #[must_use]
    pub fn knows(&self, id: AllocId) -> bool {
        self.lock().entries.contains_key(&id)
    }

    /// What completes when kernels that calls have queued until now have written these bytes, and what was queued of their write-back.
    pub fn computed(&self, results: &BTreeMap<AllocId, Interval>) -> Deps {
        let mut deps = Deps::default();
        let guard = self.lock();
        for (id, span) in results {
            let rect = Rect::from(*span);
            if let Some(e) = guard.entries.get(id) {
                e.host.ops.deps(&rect, false, &mut deps);
                let stores = e.stores.values();
                for s in stores.filter(|s| s.rect.overlaps(&rect)) {
                    s.ops.deps(&rect, false, &mut deps);
                }
            }
        }
        deps
    }

    /// Makes pages of results readable whose newest bytes have been written back, as a call does that waits for them: the CPU takes no
    /// fault there.
    pub fn open_arrived(&self, results: &BTreeMap<AllocId, Interval>) {
        let mut guard = self.lock();
        for (id, span) in results {
            if let Some(e) = guard.entries.get_mut(id) {
                let span = Interval::new(span.start, span.end.min(e.block.len));
                if !span.is_empty() && !e.dir.stale().overlaps(&Rect::from(span)) {
                    // If the pages cannot be made readable now, the CPU's first access faults, and the fault makes them readable.
                    let _ = self.apply_derived(e, span);
                }
            }
        }
    }

    /// Releases the replicas on a device, or on all, that hold bytes of a rectangle and that no kernel of the program uses; bytes that
    /// only they have are written back.
    ///
    /// # Errors
    /// The bytes are lost, or a device refused a copy: the other replicas stay.
    pub fn evict_from(
        &self,
        id: AllocId,
        rect: &Rect,
        device: Option<DeviceId>,
    ) -> Result<(), CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let replicas: Vec<(ReplicaId, DeviceId)> = match state.entries.get(&id) {
            Some(e) => {
                let on = |d| device.is_none_or(|device| device == d);
                let of = e.stores.iter();
                of.filter(|(_, s)| on(s.device) && s.rect.overlaps(rect) && s.held == 0)
                    .map(|(&replica, s)| (replica, s.device))
                    .collect()
            }
            None => Vec::new(),
        };
        for (replica, device) in replicas {
            self.evict(state, device, id, replica)?;
        }
        Ok(())
    }

    fn order(&self, id: AllocId, change: impl FnOnce(&mut Orders)) {
        let mut guard = self.lock();
        if let Some(e) = guard.entries.get_mut(&id) {
            change(e.orders.get_or_insert_default());
        }
    }

    /// Orders which device computes which part of a matrix that level-3 calls write, from now on (`None`: as each call's plan says).
    pub fn distribute(
        &self,
        id: AllocId,
        layout: Layout,
        of: ((usize, usize), Option<Arc<Distribution>>),
    ) {
        self.distributes.store(true, Ordering::Relaxed);
        self.order(id, |orders| orders.distribute(layout, of));
    }

    /// The distribution of a matrix that lies in one with a distribution.
    #[must_use]
    pub fn distributed(
        &self,
        id: AllocId,
        layout: &Layout,
        extents: (usize, usize),
    ) -> Option<Distributed> {
        if !self.distributes.load(Ordering::Relaxed) {
            return None;
        }
        let guard = self.lock();
        let orders = guard.entries.get(&id)?.orders.as_deref()?;
        orders.distributed(layout, extents)
    }

    /// Copies of these bytes on a device, or on any, are evicted last from now on, or (`keep` is false) no longer.
    pub fn keep(&self, id: AllocId, rect: &Rect, device: Option<DeviceId>, keep: bool) {
        self.order(id, |orders| orders.set_keep(rect, device, keep));
    }
}

/// Replicas of the whole footprint, with the gaps between columns if they take at most half of the device.
fn room_of(state: &State, device: DeviceId, operand: &Use) -> Room<'static> {
    let half = state.pools[device.index()].capacity() / 2;
    Room::Whole {
        flat: operand.footprint.span().len() <= half,
    }
}

/// The part of a rectangle that lies within a block of this length: all of its whole columns, or the bytes of a contiguous one.
fn within(rect: &Rect, len: usize) -> Option<Rect> {
    let room = len.checked_sub(rect.start).filter(|&room| room > 0)?;
    if rect.count == 1 {
        return Some(Rect::interval(
            rect.start,
            rect.start + rect.width.min(room),
        ));
    }
    let columns = room.checked_sub(rect.width)? / rect.stride + 1;
    Rect::try_new(rect.start, rect.width, rect.stride, rect.count.min(columns))
}
