//! Copies between host memory and a device: in place where the engines make them alone, else through staging memory.
#![expect(
    unsafe_code,
    reason = "hands addresses to the driver that callers vouch for"
)]

use std::sync::MutexGuard;

use super::driver::{self, End};
use super::machine::{All, CudaMachine, Up, on_device, queues};
use super::staged::pending;
use crate::base::DeviceId;
use crate::device::api::{DeviceError, Lane, Region, Shape, Ticket, undelivered};

fn address(addr: u64) -> usize {
    usize::try_from(addr).unwrap_or(0)
}

/// An end of a copy in host memory.
fn in_memory(r: Region) -> (End, usize) {
    (End::Host(address(r.addr)), r.pitch)
}

/// A copy as one run, if it is contiguous at both ends.
pub(super) fn joined(src: Region, dst: Region, shape: Shape) -> Shape {
    if src.pitch == shape.width && dst.pitch == shape.width {
        Shape {
            width: shape.bytes(),
            count: 1,
        }
    } else {
        shape
    }
}

impl CudaMachine {
    /// The queues once no download of `after` is on its way through staging memory.
    fn settled<'a>(
        &'a self,
        all: MutexGuard<'a, All>,
        after: &[Ticket],
    ) -> Result<MutexGuard<'a, All>, DeviceError> {
        if !after.iter().any(|t| pending(&all, t)) {
            return Ok(all);
        }
        drop(all);
        self.landed(after)?;
        Ok(self.lock())
    }

    /// Queues a copy that an engine makes alone.
    ///
    /// # Safety
    /// As the backend's copies; the shape is one that the engine copies alone.
    unsafe fn direct_copy(
        &self,
        all: &mut All,
        device: DeviceId,
        lane: Lane,
        to: (End, usize),
        from: (End, usize),
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let s = &mut queues(all, device)?.lanes[lane as usize];
        // SAFETY: the caller's promise.
        unsafe { driver::copy(to, from, shape, s.raw) }
            .map_err(|e| self.failed(device, "copy", e))?;
        Ok(Ticket {
            device,
            lane,
            seq: s.queued(true),
        })
    }

    /// Whether the engines may copy the host region in place.
    fn direct(&self, up: &Up, host: Region, shape: Shape, to_device: bool) -> bool {
        let start = address(host.addr);
        let end = start + shape.count.saturating_sub(1) * host.pitch + shape.width;
        let safe = if !to_device {
            up.rules.out
        } else if shape.count == 1 {
            up.rules.line.is_some_and(|least| shape.width >= least)
        } else {
            up.rules.rows.is_some_and(|least| shape.width >= least)
        };
        safe && (shape.count == 1 || host.pitch <= up.pitch) && self.pins.holds(start, end)
    }

    /// Host to device; `transient` as in [`Landing`](super::staged::Landing).
    ///
    /// # Safety
    /// As the backend's upload.
    pub(super) unsafe fn send(
        &self,
        device: DeviceId,
        after: &[Ticket],
        (src, dst, shape): (Region, Region, Shape),
        transient: bool,
    ) -> Result<Ticket, DeviceError> {
        let (up, _current) = self.enter(device)?;
        let shape = joined(src, dst, shape);
        let direct = self.direct(up, src, shape, true);
        if !direct {
            self.landed(after)?;
        }
        if transient && undelivered::lacks(src, shape) {
            return Err(DeviceError::Unreadable { device });
        }
        let mut all = self.lock();
        self.order(&mut all, device, Lane::In, after)?;
        if !direct {
            return self.stage(&mut all, device, Lane::In, (src, dst, shape), transient);
        }
        // Bytes that are still in staging memory are not where this copy reads them.
        all = self.settled(all, after)?;
        let (to, from) = (on_device(dst), in_memory(src));
        // SAFETY: the caller vouches for both regions; the shape is one that the engine copies alone.
        unsafe { self.direct_copy(&mut all, device, Lane::In, to, from, shape) }
    }

    /// Device to host, likewise.
    ///
    /// # Safety
    /// As the backend's download.
    pub(super) unsafe fn fetch(
        &self,
        device: DeviceId,
        after: &[Ticket],
        (src, dst, shape): (Region, Region, Shape),
        transient: bool,
    ) -> Result<Ticket, DeviceError> {
        let (up, _current) = self.enter(device)?;
        let shape = joined(src, dst, shape);
        // An earlier landing on the same bytes must not come after this.
        let mut all = self.settled(self.lock(), after)?;
        self.order(&mut all, device, Lane::Out, after)?;
        if !self.direct(up, dst, shape, false) {
            return self.stage(&mut all, device, Lane::Out, (src, dst, shape), transient);
        }
        let (to, from) = (in_memory(dst), on_device(src));
        // SAFETY: the caller vouches for both regions.
        unsafe { self.direct_copy(&mut all, device, Lane::Out, to, from, shape) }
    }
}
