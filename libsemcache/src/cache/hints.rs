//! What a program asks for outside of BLAS calls: copies of a rectangle to a device or to the host ahead of their use, and room on a
//! device. Each is a step of the protocol that a call could have taken, so what the CPU and later calls see stays as it is.

use super::edges::PendingCopies;
use super::place::tile_bytes;
use super::room::Room;
use super::task::Use;
use super::{Cache, CacheError, State};
use crate::base::{Access, AllocId, DeviceId, Rect, ReplicaId};
use crate::directory::Event;
use crate::transfer::{Deps, Pool};

/// What a request has queued.
#[derive(Debug, Default)]
pub struct Queued {
    /// Complete when the bytes have arrived.
    pub deps: Deps,
    /// What has to be waited for before other threads of the program may change the bytes ([`Cache::arrive`]).
    pub pending: PendingCopies,
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
        let flat = Room::Whole {
            flat: input.footprint.span().len() <= state.pools[device.index()].capacity() / 2,
        };
        let held = self.send(state, device, input, flat);
        let mut queued = Queued::default();
        let settled = self.settle_locked(state, input.id, &input.view, &mut queued.pending);
        let State { entries, pools, .. } = state;
        let e = entries.get_mut(&input.id).ok_or(CacheError::Gone)?;
        if self
            .held
            .forbids(e.host.base + span.start, span.len(), Access::Read)
        {
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

    /// Releases the replicas on a device, or on all, that hold bytes of a rectangle; bytes that only they have are written back.
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
                of.filter(|(_, s)| on(s.device) && s.rect.overlaps(rect))
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
}
