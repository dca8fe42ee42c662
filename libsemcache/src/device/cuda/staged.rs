//! Copies that pass through staging memory: shapes and memory that the engines do not copy alone.
//!
//! Towards the device the CPU packs at once, so the program's bytes are free when the copy is queued. Towards the
//! host the engine fills staging memory, and the CPU carries the bytes the last part when somebody waits for
//! them or asks: a download is done when it has landed.
#![expect(
    unsafe_code,
    reason = "moves raw bytes between regions that callers vouch for"
)]

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::driver::{self, End};
use super::machine::{All, CudaMachine, Landing, Queues, on_device, queues};
use crate::base::DeviceId;
use crate::device::api::{Backend, DeviceError, Lane, Region, Shape, Ticket, cut, undelivered};

impl CudaMachine {
    /// The host is about to read bytes itself: what still writes them must be through.
    pub(super) fn landed(&self, after: &[Ticket]) -> Result<(), DeviceError> {
        after
            .iter()
            .filter(|t| t.lane == Lane::Out)
            .try_for_each(|&t| self.wait(t))
    }

    /// Carries what has arrived in staging memory to the program, up to an operation that is complete.
    pub(super) fn land(
        &self,
        q: &mut Queues,
        device: DeviceId,
        seq: u64,
    ) -> Result<(), DeviceError> {
        while let Some(&l) = q.landings.front() {
            if l.seq > seq {
                break;
            }
            // SAFETY: exactly the runs are the device's to write until the ticket is done, which it is not before this;
            // the piece of the ring is ours until it is completed below.
            let written = unsafe {
                let scattered = if undelivered::lacks(l.to, l.shape) {
                    Err(Errno::FAULT)
                } else {
                    super::host::scatter(&self.host, l.from, l.to, l.shape)
                };
                scattered.or_else(|_| {
                    let from = Region {
                        addr: l.from as u64,
                        pitch: l.shape.width,
                    };
                    undelivered::store(&self.host, from, l.to, l.shape)
                })
            };
            if written.is_err() {
                // No memory to keep them in: nothing can be true of these bytes any more.
                self.lost[device.index()].store(true, Ordering::Relaxed);
                return Err(DeviceError::Lost { device });
            }
            q.landings.pop_front();
            q.ring_out.complete(l.seq);
        }
        Ok(())
    }

    /// Queues a copy from the host (lane in) or to it (lane out) through staging memory, in pieces. What comes home
    /// is carried the last part when somebody waits for it.
    pub(super) fn stage(
        &self,
        all: &mut All,
        (device, lane): (DeviceId, Lane),
        host: Region,
        there: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let failed = |s| self.failed(device, "copy", s);
        let mut seq = 0;
        let largest = queues(all, device)?.ring(lane).largest();
        for (host, there, shape) in cut(host, there, shape, largest) {
            let q = queues(all, device)?;
            let at = self.room(q, device, lane, shape.bytes())?;
            let piece = (End::Host(at), shape.width);
            let stream = q.lanes[lane as usize].raw;
            let queued = if lane == Lane::In {
                // SAFETY: the piece of the ring is ours; we leave the protection of the host region as it is under the
                // caller's lock.
                if unsafe { super::host::gather(&self.host, host, at, shape) }.is_err() {
                    q.ring(lane).untake();
                    return Err(DeviceError::Unreadable { device });
                }
                // SAFETY: both ends hold the shape until the stream is past the copy.
                unsafe { driver::copy(on_device(there), piece, shape, stream) }
            } else {
                // SAFETY: as above.
                unsafe { driver::copy(piece, on_device(there), shape, stream) }
            };
            if let Err(s) = queued {
                q.ring(lane).untake();
                return Err(failed(s));
            }
            seq = q.lanes[lane as usize].queued(true);
            q.ring(lane).used_until(seq);
            if lane == Lane::Out {
                q.landings.push_back(Landing {
                    seq,
                    from: at,
                    to: host,
                    shape,
                });
            }
        }
        Ok(Ticket { device, lane, seq })
    }

    /// A piece of a ring, once what was in it is through.
    fn room(
        &self,
        q: &mut Queues,
        device: DeviceId,
        lane: Lane,
        bytes: usize,
    ) -> Result<usize, DeviceError> {
        let failed = |s| self.failed(device, "copy", s);
        loop {
            let until = match q.ring(lane).take(bytes) {
                Ok(at) => return Ok(at),
                Err(until) => until,
            };
            let stream = &mut q.lanes[lane as usize];
            if let Some(e) = stream.event(until).map_err(failed)? {
                driver::event_wait(e).map_err(failed)?;
                stream.known(until);
            }
            let through = if lane == Lane::Out {
                // A piece is free once its bytes have been carried on.
                self.land(q, device, until)?;
                until
            } else {
                stream.completed()
            };
            q.ring(lane).complete(through);
        }
    }
}
