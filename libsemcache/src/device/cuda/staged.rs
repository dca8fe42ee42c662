//! Staged copies: they pass through page-locked staging memory, because their shape or their host memory is not one
//! that the copy engines handle without the CPU.
//!
//! For an upload the CPU packs the bytes at once, so the program may change its memory as soon as the copy is queued.
//! For a download the copy engine fills staging memory, and the CPU copies the bytes from there to the program's memory
//! when a thread waits for the ticket or polls it: only then is the download done.
#![expect(
    unsafe_code,
    reason = "moves raw bytes between regions that callers vouch for"
)]

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::driver::{self, End, Status};
use super::machine::{All, CudaMachine, Landing, Queues, on_device, queues};
use crate::base::DeviceId;
use crate::base::timed::Operation;
use crate::device::api::{
    Backend, DeviceError, Lane, Part, Region, Shape, Ticket, cut, undelivered,
};
use crate::process::spent::{Spending, Spent};

impl CudaMachine {
    /// Waits for the downloads among `after`, because the host is about to read the bytes that they write.
    pub(super) fn landed(&self, after: &[Ticket]) -> Result<(), DeviceError> {
        after
            .iter()
            .filter(|t| t.lane == Lane::Out)
            .try_for_each(|&t| self.wait(t))
    }

    /// Copies the bytes of complete downloads, up to operation `seq`, from staging memory to the program's memory.
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
            let _spending = Spending::on(Spent::Transfers);
            // SAFETY: until the ticket is done, only the device writes exactly these runs, and the ticket is not done
            // before this copy; the ring frees the piece of staging memory only below.
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
                // There is no memory in which to keep the undelivered bytes, so they are lost, and the device counts as
                // lost with them.
                self.lost[device.index()].store(true, Ordering::Relaxed);
                return Err(DeviceError::Lost { device });
            }
            q.landings.pop_front();
            q.ring_out.complete(l.seq);
        }
        Ok(())
    }

    /// Queues an upload (lane in) or a download (lane out) through staging memory, in pieces. The last part of a
    /// download, from staging memory to the program's memory, is copied when a thread waits for it. Returns the number of the
    /// last piece, with which the time of the operation `ends` ends.
    pub(super) fn stage(
        &self,
        all: &mut All,
        to: (DeviceId, Lane),
        part: Part,
        ends: Option<Operation>,
    ) -> Result<u64, DeviceError> {
        match to {
            (device, Lane::Out) => self.stage_out(all, device, part, ends),
            (device, _) => self.stage_in(all, device, part, ends),
        }
    }

    /// As [`CudaMachine::stage`] for an upload: while other threads begin to pack a piece, the calling thread queues the copy of the
    /// piece before.
    fn stage_in(
        &self,
        all: &mut All,
        device: DeviceId,
        (host, there, shape): Part,
        ends: Option<Operation>,
    ) -> Result<u64, DeviceError> {
        let _spending = Spending::on(Spent::Transfers);
        let q = queues(all, device)?;
        // The piece that is packed and not queued.
        let mut packed: Option<Piece> = None;
        for (host, there, shape) in cut(host, there, shape, q.ring_in.largest()) {
            let at = match self.room(q, device, Lane::In, shape.bytes()) {
                Ok(at) => at,
                Err(e) => {
                    if let Some(packed) = packed {
                        q.ring_in.give_back(packed.at);
                    }
                    return Err(e);
                }
            };
            let before = packed.replace(Piece { at, there, shape });
            let mut sent = Ok(0);
            let send = || {
                if let Some(before) = before {
                    sent = send(q, Lane::In, before, None);
                }
            };
            // SAFETY: the piece of the ring is this copy's; the caller's lock keeps the protection of the host region as it is.
            let gathered = unsafe { super::host::gather(&self.host, host, at, shape, send) };
            if gathered.is_err() || sent.is_err() {
                q.ring_in.give_back(at);
            }
            sent.map_err(|s| self.failed(device, "copy", s))?;
            gathered.map_err(|_| DeviceError::Unreadable { device })?;
        }
        let Some(last) = packed else { return Ok(0) };
        send(q, Lane::In, last, ends).map_err(|s| self.failed(device, "copy", s))
    }

    /// As [`CudaMachine::stage`] for a download.
    fn stage_out(
        &self,
        all: &mut All,
        device: DeviceId,
        (host, there, shape): Part,
        ends: Option<Operation>,
    ) -> Result<u64, DeviceError> {
        let q = queues(all, device)?;
        let mut seq = 0;
        let mut pieces = cut(host, there, shape, q.ring_out.largest()).peekable();
        while let Some((host, there, shape)) = pieces.next() {
            let at = self.room(q, device, Lane::Out, shape.bytes())?;
            let ended = ends.filter(|_| pieces.peek().is_none());
            seq = send(q, Lane::Out, Piece { at, there, shape }, ended)
                .map_err(|s| self.failed(device, "copy", s))?;
            q.landings.push_back(Landing {
                seq,
                from: at,
                to: host,
                shape,
            });
        }
        Ok(seq)
    }

    /// A free piece of a ring; waits until the operations that use the oldest pieces are complete.
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
                // A piece is free once its bytes have been copied to the program's memory.
                self.land(q, device, until)?;
                until
            } else {
                stream.completed()
            };
            q.ring(lane).complete(through);
        }
    }
}

/// A part of a copy in a piece of staging memory.
#[derive(Clone, Copy)]
struct Piece {
    /// Its address in staging memory.
    at: usize,
    there: Region,
    shape: Shape,
}

/// Queues the copy between a piece of staging memory and the device. If the driver refuses it, the piece is free again.
fn send(q: &mut Queues, lane: Lane, piece: Piece, ends: Option<Operation>) -> Result<u64, Status> {
    let Piece { at, there, shape } = piece;
    let staging = (End::Host(at), shape.width);
    let stream = q.lanes[lane as usize].raw;
    // SAFETY: both ends hold the shape until the stream has completed the copy.
    let queued = unsafe {
        match lane {
            Lane::Out => driver::copy(staging, on_device(there), shape, stream),
            Lane::In | Lane::Compute | Lane::Peer => {
                driver::copy(on_device(there), staging, shape, stream)
            }
        }
    };
    if let Err(s) = queued {
        q.ring(lane).give_back(at);
        return Err(s);
    }
    let seq = q.lanes[lane as usize].queued(true, ends);
    q.ring(lane).used_until(at, seq);
    Ok(seq)
}
