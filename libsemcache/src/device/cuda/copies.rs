//! Copies between host memory and a device: in place where the copy engines need no CPU, else through staging memory.
#![expect(
    unsafe_code,
    reason = "hands addresses to the driver that callers vouch for"
)]

use std::sync::MutexGuard;

use super::driver::{self, End};
use super::machine::{All, CudaMachine, Up, on_device, pending, queues, stream_ref};
use crate::base::DeviceId;
use crate::base::timed::{Copied, Operation};
use crate::device::api::{DeviceError, Lane, Part, Region, Shape, Ticket, cut_at, undelivered};

fn address(addr: u64) -> usize {
    usize::try_from(addr).unwrap_or(0)
}

/// One end of a copy, in host memory.
fn in_memory(r: Region) -> (End, usize) {
    (End::Host(address(r.addr)), r.pitch)
}

/// A copy between the host and a device, in place or with parts that pass through staging memory.
fn operation_of(lane: Lane, shape: Shape, in_place: bool) -> Operation {
    let copied = Copied {
        bytes: shape.bytes(),
        run: if in_place { shape.width } else { 0 },
    };
    match lane {
        Lane::Out => Operation::Download(copied),
        Lane::In | Lane::Compute | Lane::Peer => Operation::Upload(copied),
    }
}

/// Whether the copy engines may copy page-locked memory in this shape in place.
fn safe(up: &Up, (host, _, shape): &Part, lane: Lane) -> bool {
    let safe = if lane == Lane::Out {
        up.rules.out
    } else if shape.count == 1 {
        up.rules.line.is_some_and(|least| shape.width >= least)
    } else {
        up.rules.rows.is_some_and(|least| shape.width >= least)
    };
    safe && (shape.count == 1 || host.pitch <= up.pitch)
}

impl CudaMachine {
    /// Locks the queues when no download of `after` is in staging memory any more.
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

    /// The parts of a copy that are copied one after the other, each with whether the copy engines may copy it in place: the
    /// driver refuses copies that cross from one range of page-locked memory to the next.
    fn parts(&self, up: &Up, copy: Part, lane: Lane) -> Vec<(Part, bool)> {
        let (host, _, shape) = copy;
        let start = address(host.addr);
        let end = start + shape.count.saturating_sub(1) * host.pitch + shape.width;
        match self.pins.borders(start, end) {
            Some(borders) if lane == Lane::In || !undelivered::lacks(host, shape) => {
                let parts = cut_at(copy, &borders).into_iter();
                parts.map(|part| (part, safe(up, &part, lane))).collect()
            }
            _ => vec![(copy, false)],
        }
    }

    /// Queues a copy between the host and a device: an upload on [`Lane::In`], a download on [`Lane::Out`]. Of the
    /// operations it comes behind, `earlier` are those that write bytes of the host region.
    ///
    /// # Safety
    /// As for the backend's copies.
    pub(super) unsafe fn copy_host(
        &self,
        (device, lane): (DeviceId, Lane),
        after: &[Ticket],
        earlier: &[Ticket],
        host: Region,
        there: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let (up, _current) = self.enter(device)?;
        let shape = shape.joined(host, there);
        let parts = self.parts(up, (host, there, shape), lane);
        if lane == Lane::In {
            if parts.iter().any(|(_, direct)| !direct) {
                self.landed(earlier)?;
            }
            if undelivered::lacks(host, shape) {
                return Err(DeviceError::Unreadable { device });
            }
        }
        // Downloaded bytes that are still in staging memory are not yet at the host address that an upload in place
        // reads, and must not be copied later over bytes that this download writes.
        let mut all = self.settled(self.lock(), earlier)?;
        self.order(&mut all, device, lane, after)?;
        let operation = operation_of(lane, shape, parts.iter().all(|(_, direct)| *direct));
        // SAFETY: the caller's promise.
        let queued = unsafe { self.queue(&mut all, (device, lane), &parts, operation) };
        if queued.is_err()
            && let Some(stream) = stream_ref(&all, device, lane)
        {
            // No ticket names the parts that were queued before the failure. If the device is lost, they are not copied.
            let _ = driver::stream_wait(stream.raw);
        }
        let seq = queued?;
        Ok(Ticket { device, lane, seq })
    }

    /// Queues the parts of a copy, one after the other. Returns the number of the last one.
    ///
    /// # Safety
    /// As for the backend's copies.
    unsafe fn queue(
        &self,
        all: &mut All,
        (device, lane): (DeviceId, Lane),
        parts: &[(Part, bool)],
        operation: Operation,
    ) -> Result<u64, DeviceError> {
        let mut seq = 0;
        for (i, ((host, there, shape), direct)) in parts.iter().copied().enumerate() {
            // The time of the copy begins with its first part and ends with its last one.
            let ends = (i + 1 == parts.len()).then_some(operation);
            if i == 0 {
                let q = queues(all, device)?;
                q.lanes[lane as usize].begins(&mut q.clock);
            }
            if !direct {
                seq = self.stage(all, (device, lane), (host, there, shape), ends)?;
                continue;
            }
            let (to, from) = match lane {
                Lane::Out => (in_memory(host), on_device(there)),
                Lane::In | Lane::Compute | Lane::Peer => (on_device(there), in_memory(host)),
            };
            let s = &mut queues(all, device)?.lanes[lane as usize];
            // SAFETY: the caller vouches for both regions; the copy engine makes a copy of this shape without the CPU.
            unsafe { driver::copy(to, from, shape, s.raw) }
                .map_err(|e| self.failed(device, "copy", e))?;
            seq = s.queued(ends.is_some(), ends);
        }
        Ok(seq)
    }
}
