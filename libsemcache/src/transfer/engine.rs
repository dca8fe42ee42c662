//! Copies between the host and replicas: each is queued behind the operations in flight over its bytes.
#![expect(unsafe_code, reason = "hands host and device addresses to the backend")]

use super::ops::{Deps, Ops};
use super::store::Store;
use crate::base::Rect;
use crate::base::counters::{COUNTERS, on_device};
use crate::device::api::{Backend, DeviceError, Region, Shape};

/// The host side of an allocation: where its bytes are, and the operations in flight over them.
#[derive(Debug)]
pub struct HostSide {
    /// Address of offset 0.
    pub base: usize,
    /// Operations in flight over the host bytes: uploads read them, downloads write them.
    pub ops: Ops,
}

impl HostSide {
    fn region(&self, r: &Rect) -> Region {
        Region {
            addr: (self.base + r.start) as u64,
            pitch: r.stride,
        }
    }
}

/// Queues copies on a backend.
#[derive(Clone, Copy, Debug)]
pub struct Engine<'a> {
    /// The machine whose devices copy.
    pub backend: &'a dyn Backend,
}

/// `rect`, or its runs one by one if it is not regular in each of `stores`.
fn pieces(rect: &Rect, stores: &[&Store]) -> Vec<Rect> {
    if stores.iter().all(|s| s.covers(rect)) {
        return vec![*rect];
    }
    rect.runs()
        .map(|run| Rect::interval(run.start, run.end))
        .collect()
}

fn shape(r: &Rect) -> Shape {
    Shape {
        width: r.width,
        count: r.count,
    }
}

impl Engine<'_> {
    /// Queues the copy of `rect` from the host to a replica.
    ///
    /// # Errors
    /// Refused or lost. Copies queued before the refusal stay in flight, which is harmless: the directory does not call
    /// their bytes valid.
    pub fn upload(
        &self,
        host: &mut HostSide,
        to: &mut Store,
        rect: &Rect,
    ) -> Result<(), DeviceError> {
        for r in pieces(rect, &[to]) {
            let mut written = Deps::default();
            host.ops.deps(&r, false, &mut written);
            let mut deps = written.clone();
            to.ops.deps(&r, true, &mut deps);
            let (from, into, shape) = (host.region(&r), to.region(&r), shape(&r));
            let (after, written) = (deps.tickets(), written.tickets());
            // SAFETY: pinned host bytes belong to a live allocation that is not released while operations over it are
            // in flight (`host.ops`), and bytes that are not pinned need not be mapped; the destination is this
            // replica's own memory, which goes back to the pool only behind `to.ops`.
            let t = unsafe {
                self.backend
                    .upload(to.device, after, written, from, into, shape)
            }?;
            host.ops.push(self.backend, r, t, false);
            to.ops.push(self.backend, r, t, true);
            COUNTERS.bytes.h2d.add(r.bytes() as u64);
            on_device(to.device).h2d.add(r.bytes() as u64);
        }
        Ok(())
    }

    /// Queues the copy of `rect` from a replica to the host.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub fn download(
        &self,
        from: &mut Store,
        host: &mut HostSide,
        rect: &Rect,
    ) -> Result<(), DeviceError> {
        for r in pieces(rect, &[from]) {
            let mut deps = Deps::default();
            from.ops.deps(&r, false, &mut deps);
            host.ops.deps(&r, true, &mut deps);
            let (of, into, shape) = (from.region(&r), host.region(&r), shape(&r));
            let after = deps.tickets();
            // SAFETY: as in `upload`, with the roles exchanged; exactly the rectangle is written.
            let t = unsafe { self.backend.download(from.device, after, of, into, shape) }?;
            from.ops.push(self.backend, r, t, false);
            host.ops.push(self.backend, r, t, true);
            COUNTERS.bytes.d2h.add(r.bytes() as u64);
            on_device(from.device).d2h.add(r.bytes() as u64);
        }
        Ok(())
    }

    /// Queues the copy of `rect` from replica to replica, on one device or two.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub fn peer(&self, from: &mut Store, to: &mut Store, rect: &Rect) -> Result<(), DeviceError> {
        for r in pieces(rect, &[from, to]) {
            let mut deps = Deps::default();
            from.ops.deps(&r, false, &mut deps);
            to.ops.deps(&r, true, &mut deps);
            // SAFETY: both regions are the replicas' own memory, which goes back to the pool only behind their
            // operations.
            let t = unsafe {
                self.backend.copy_peer(
                    from.device,
                    to.device,
                    deps.tickets(),
                    from.region(&r),
                    to.region(&r),
                    shape(&r),
                )
            }?;
            from.ops.push(self.backend, r, t, false);
            to.ops.push(self.backend, r, t, true);
            if from.device != to.device {
                COUNTERS.bytes.p2p.add(r.bytes() as u64);
                on_device(to.device).p2p.add(r.bytes() as u64);
            }
        }
        Ok(())
    }

    /// Tells the device that bytes of a replica are no longer valid (the simulated devices' poison mode overwrites
    /// them).
    pub fn invalid(&self, at: &mut Store, rect: &Rect) {
        for r in pieces(rect, &[at]) {
            let mut deps = Deps::default();
            at.ops.deps(&r, true, &mut deps);
            // SAFETY: the region is the replica's own memory, and the operation is ordered behind all that use these
            // bytes.
            if let Some(t) = unsafe {
                self.backend
                    .poison(at.device, deps.tickets(), at.region(&r), shape(&r))
            } {
                at.ops.push(self.backend, r, t, true);
            }
        }
    }
}
