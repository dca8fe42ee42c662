//! Copies between host memory and a device: in place where the engines make them alone, else through staging memory.
#![expect(
    unsafe_code,
    reason = "hands addresses to the driver that callers vouch for"
)]

use std::sync::MutexGuard;

use super::driver::{self, End};
use super::machine::{All, CudaMachine, Up, on_device, pending, queues};
use crate::base::DeviceId;
use crate::device::api::{DeviceError, Lane, Region, Shape, Ticket, undelivered};

fn address(addr: u64) -> usize {
    usize::try_from(addr).unwrap_or(0)
}

/// An end of a copy in host memory.
fn in_memory(r: Region) -> (End, usize) {
    (End::Host(address(r.addr)), r.pitch)
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

    /// Whether the engines may copy the host region in place.
    fn direct(&self, up: &Up, host: Region, shape: Shape, lane: Lane) -> bool {
        let start = address(host.addr);
        let end = start + shape.count.saturating_sub(1) * host.pitch + shape.width;
        let safe = if lane == Lane::Out {
            up.rules.out
        } else if shape.count == 1 {
            up.rules.line.is_some_and(|least| shape.width >= least)
        } else {
            up.rules.rows.is_some_and(|least| shape.width >= least)
        };
        safe && (shape.count == 1 || host.pitch <= up.pitch) && self.pins.holds(start, end)
    }

    /// A copy between the host and a device: to it on [`Lane::In`], from it on [`Lane::Out`].
    ///
    /// # Safety
    /// As the backend's copies.
    pub(super) unsafe fn copy_host(
        &self,
        (device, lane): (DeviceId, Lane),
        after: &[Ticket],
        host: Region,
        there: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let (up, _current) = self.enter(device)?;
        let shape = shape.joined(host, there);
        let direct = self.direct(up, host, shape, lane)
            && (lane == Lane::In || !undelivered::lacks(host, shape));
        if lane == Lane::In {
            if !direct {
                self.landed(after)?;
            }
            if undelivered::lacks(host, shape) {
                return Err(DeviceError::Unreadable { device });
            }
        }
        // Bytes that are still in staging memory are not where a copy in place reads them, and must not land on what
        // this one writes.
        let mut all = self.settled(self.lock(), after)?;
        self.order(&mut all, device, lane, after)?;
        if !direct {
            return self.stage(&mut all, (device, lane), host, there, shape);
        }
        let (to, from) = match lane {
            Lane::Out => (in_memory(host), on_device(there)),
            Lane::In | Lane::Compute => (on_device(there), in_memory(host)),
        };
        let s = &mut queues(&mut all, device)?.lanes[lane as usize];
        // SAFETY: the caller vouches for both regions; the shape is one that the engine copies alone.
        unsafe { driver::copy(to, from, shape, s.raw) }
            .map_err(|e| self.failed(device, "copy", e))?;
        Ok(Ticket {
            device,
            lane,
            seq: s.queued(true),
        })
    }
}
