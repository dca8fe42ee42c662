//! What a program asks for outside of BLAS calls: copies of a rectangle to a device or to the host ahead of their use, and room on a
//! device. Each is a step of the protocol that a call could have taken, so what the CPU and later calls see stays as it is.

use super::edges::PendingCopies;
use super::room::Room;
use super::task::Use;
use super::{Cache, CacheError, State};
use crate::base::{AllocId, DeviceId, Rect, ReplicaId};
use crate::transfer::Deps;

/// What a request has queued.
#[derive(Debug, Default)]
pub struct Queued {
    /// Complete when the bytes have arrived.
    pub deps: Deps,
    /// What has to be waited for before other threads of the program may change the bytes ([`Cache::arrive`]).
    pub pending: PendingCopies,
}

impl Cache {
    /// Copies those bytes of an input to a device that it lacks, as the first task of a call would ([`Cache::bring`]). The input is a
    /// part of the matrix `whole`, whose pages may be protected from now on. The caller has marked the block as in use.
    ///
    /// # Errors
    /// Refused, lost, no room, or a freed block.
    pub fn send_ahead(
        &self,
        device: DeviceId,
        input: &Use,
        whole: &Rect,
    ) -> Result<Queued, CacheError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.inspect_locked(state, input.id, input.view.span())?;
        self.enclose(state, input.id, whole);
        let flat = Room::Whole {
            flat: input.footprint.span().len() <= state.pools[device.index()].capacity() / 2,
        };
        let held = self.send(state, device, input, flat);
        let mut queued = Queued::default();
        let settled = self.settle_locked(state, input.id, &input.view, &mut queued.pending);
        let replica = held?;
        settled?;
        let stores = state.entries.get(&input.id).map(|e| &e.stores);
        if let Some(s) = stores.and_then(|stores| stores.get(&replica)) {
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
