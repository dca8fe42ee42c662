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

use super::driver::{self, End, Status};
use super::machine::{All, CudaMachine, Queues, queues};
use crate::base::DeviceId;
use crate::device::api::{Backend, DeviceError, Lane, Region, Shape, Ticket};

/// Bytes on their way home through staging memory: the CPU carries them the last part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    pub(super) seq: u64,
    from: usize,
    to: Region,
    shape: Shape,
}

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
            // SAFETY: the program's memory is in flight until the ticket is done, which it is not before this; the
            // piece of the ring is ours until it is completed below.
            let written = unsafe { super::host::scatter(&self.host, l.from, l.to, l.shape) };
            if written.is_err() {
                // The program has unmapped it: nothing can be true of these bytes any more.
                self.lost[device.index()].store(true, Ordering::Relaxed);
                return Err(DeviceError::Lost { device });
            }
            q.landings.pop_front();
            q.ring_out.complete(l.seq);
        }
        Ok(())
    }

    /// Queues a copy from the host through staging memory, in pieces.
    pub(super) fn stage_in(
        &self,
        all: &mut All,
        device: DeviceId,
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let failed = |s| self.failed(device, "copy", s);
        let mut seq = 0;
        let largest = queues(all, device)?.ring_in.largest();
        for piece in cut(src, dst, shape, largest) {
            let (src, dst, shape) = piece;
            let q = queues(all, device)?;
            let at = loop {
                match q.ring_in.take(shape.bytes()) {
                    Ok(at) => break at,
                    Err(until) => {
                        if let Some(e) = q.lanes[0].event(until).map_err(failed)? {
                            driver::event_wait(e).map_err(failed)?;
                            q.lanes[0].known(until);
                        }
                        q.ring_in.complete(q.lanes[0].completed());
                    }
                }
            };
            // SAFETY: the piece of the ring is ours; the host region is mapped, and its protection stands still
            // under the caller's lock.
            let packed = unsafe { super::host::gather(&self.host, src, at, shape) };
            let queued = packed.map_err(|e| Status(e.raw_os_error())).and_then(|()| {
                // SAFETY: both ends hold the shape until the stream is past the copy.
                unsafe { packed_in(dst, at, shape, q.lanes[0].raw) }
            });
            if let Err(s) = queued {
                q.ring_in.untake();
                return Err(failed(s));
            }
            seq = q.lanes[0].queued(true);
            q.ring_in.used_until(seq);
        }
        Ok(Ticket {
            device,
            lane: Lane::In,
            seq,
        })
    }

    /// Queues a copy to the host through staging memory, in pieces; the CPU carries them home when they are
    /// waited for.
    pub(super) fn stage_out(
        &self,
        all: &mut All,
        device: DeviceId,
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let failed = |s| self.failed(device, "copy", s);
        let mut seq = 0;
        let largest = queues(all, device)?.ring_out.largest();
        for piece in cut(src, dst, shape, largest) {
            let (src, dst, shape) = piece;
            let q = queues(all, device)?;
            let at = loop {
                match q.ring_out.take(shape.bytes()) {
                    Ok(at) => break at,
                    Err(until) => {
                        if let Some(e) = q.lanes[1].event(until).map_err(failed)? {
                            driver::event_wait(e).map_err(failed)?;
                            q.lanes[1].known(until);
                        }
                        self.land(q, device, until)?;
                        q.ring_out.complete(until);
                    }
                }
            };
            // SAFETY: both ends hold the shape until the stream is past the copy.
            let queued = unsafe { packed_out(at, src, shape, q.lanes[1].raw) };
            if let Err(s) = queued {
                q.ring_out.untake();
                return Err(failed(s));
            }
            seq = q.lanes[1].queued(true);
            q.ring_out.used_until(seq);
            q.landings.push_back(Landing {
                seq,
                from: at,
                to: dst,
                shape,
            });
        }
        Ok(Ticket {
            device,
            lane: Lane::Out,
            seq,
        })
    }
}

/// Pieces of at most `largest` bytes: some runs each, or parts of one.
fn cut(
    src: Region,
    dst: Region,
    shape: Shape,
    largest: usize,
) -> impl Iterator<Item = (Region, Region, Shape)> {
    let at = |r: Region, run: usize, offset: usize| Region {
        addr: r.addr + (run * r.pitch + offset) as u64,
        pitch: r.pitch,
    };
    let runs = (largest / shape.width.max(1)).max(1);
    let width = shape.width.min(largest);
    (0..shape.count).step_by(runs).flat_map(move |run| {
        (0..shape.width).step_by(width.max(1)).map(move |offset| {
            let part = Shape {
                width: width.min(shape.width - offset),
                count: runs.min(shape.count - run),
            };
            (at(src, run, offset), at(dst, run, offset), part)
        })
    })
}

/// Packed staging memory to a strided region of the device.
///
/// # Safety
/// As `driver::copy_in`.
unsafe fn packed_in(
    dst: Region,
    at: usize,
    shape: Shape,
    s: driver::CUstream,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe {
        if shape.count == 1 || dst.pitch == shape.width {
            driver::copy_in(dst.addr, at, shape.bytes(), s)
        } else {
            let to = (End::Device(dst.addr), dst.pitch);
            driver::copy_2d(
                to,
                (End::Host(at), shape.width),
                shape.width,
                shape.count,
                s,
            )
        }
    }
}

/// A strided region of the device to packed staging memory.
///
/// # Safety
/// As `driver::copy_in`.
unsafe fn packed_out(
    at: usize,
    src: Region,
    shape: Shape,
    s: driver::CUstream,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe {
        if shape.count == 1 || src.pitch == shape.width {
            driver::copy_out(at, src.addr, shape.bytes(), s)
        } else {
            let from = (End::Device(src.addr), src.pitch);
            driver::copy_2d(
                (End::Host(at), shape.width),
                from,
                shape.width,
                shape.count,
                s,
            )
        }
    }
}

/// Whether bytes of a download are still in staging memory, or on their way there.
pub(super) fn pending(all: &All, t: &Ticket) -> bool {
    t.lane == Lane::Out
        && all
            .get(t.device.index())
            .and_then(Option::as_ref)
            .and_then(|q| q.landings.front())
            .is_some_and(|l| l.seq <= t.seq)
}
