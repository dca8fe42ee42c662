//! Copies and fills of memory on simulated devices. The crate's documentation says which of them read host memory by
//! the CPU.

#![expect(unsafe_code, reason = "moves the program's memory, as it asked")]

use semcache::device::api::{Backend, Region, Shape};

use crate::cpu;
use crate::machine::{machine, status};
use crate::memory::Place;
use crate::names::{Outcome, Status};
use crate::staging::Needed;
use crate::state::State;
use crate::stream::Tickets;

/// A registered source of fewer bytes in one piece is read by the CPU.
const SMALL_PIECE: usize = 32 << 10;

/// The single row of a 2-D copy of up to this many bytes is also read by the CPU.
const SMALL_ROW: usize = 16 << 10;

/// Bytes of one run of a fill; a longer fill has several.
const FILL: usize = 64 << 10;

/// The largest pitch of a 2-D copy, an attribute of every CUDA device.
pub(crate) const MAX_PITCH: usize = 0x7fff_ffff;

/// Which form of copy the program called: small sources are read by the CPU in one form or the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Piece,
    Rows,
}

impl Form {
    fn read_by_cpu(self, shape: Shape) -> bool {
        match self {
            Form::Piece => shape.bytes() < SMALL_PIECE,
            Form::Rows => shape.count == 1 && shape.width <= SMALL_ROW,
        }
    }
}

impl State {
    /// Copies between any two places, in the order of `stream`.
    ///
    /// # Safety
    /// The regions are as the program describes them; host memory stays mapped until the copy is complete.
    pub(crate) unsafe fn copy(
        &mut self,
        stream: usize,
        src: Region,
        dst: Region,
        shape: Shape,
        form: Form,
    ) -> Outcome {
        if shape.bytes() == 0 {
            return Ok(());
        }
        let places = (
            self.memory.place(src, shape)?,
            self.memory.place(dst, shape)?,
        );
        let after = self.order(stream);
        let after = after.as_slice();
        let machine = machine()?;
        // SAFETY: device regions lie within blocks; the caller vouches for host memory; this function's buffers are
        // held until the copy is complete.
        let ticket = unsafe {
            match places {
                (Place::Device(from), Place::Device(to)) => machine
                    .copy_peer(from, to, after, src, dst, shape)
                    .map_err(status)?,
                (Place::Pinned { registered }, Place::Device(to)) => {
                    let src = if registered && form.read_by_cpu(shape) {
                        for run in 0..shape.count {
                            cpu::look(src.addr + (run * src.pitch) as u64, shape.width);
                        }
                        src
                    } else {
                        self.memory.engine_view(src, shape)
                    };
                    machine
                        .upload(to, after, after, src, dst, shape)
                        .map_err(status)?
                }
                (Place::Device(from), Place::Pinned { .. }) => {
                    let dst = self.memory.engine_view(dst, shape);
                    machine
                        .download(from, after, src, dst, shape)
                        .map_err(status)?
                }
                (Place::Pageable, Place::Device(to)) => {
                    let mut buffer = vec![0u8; shape.bytes()];
                    cpu::gather(src, shape, buffer.as_mut_ptr());
                    let ticket = machine
                        .upload(to, after, after, packed(&mut buffer, shape), dst, shape)
                        .map_err(status)?;
                    // Waited for also if the copy fails: after this call the buffer must not be read any more.
                    machine.wait(ticket).map_err(status)?;
                    ticket
                }
                (Place::Device(from), Place::Pageable) => {
                    let mut buffer = vec![0u8; shape.bytes()];
                    let ticket = machine
                        .download(from, after, src, packed(&mut buffer, shape), shape)
                        .map_err(status)?;
                    machine.wait(ticket).map_err(status)?;
                    cpu::scatter(buffer.as_ptr(), dst, shape);
                    ticket
                }
                _ => return Err(Status::InvalidValue),
            }
        };
        self.book(stream, ticket);
        Ok(())
    }

    /// Fills device memory with a pattern of 1 or 4 bytes, in the order of `stream`.
    ///
    /// # Safety
    /// The program allows the region to be overwritten.
    pub(crate) unsafe fn fill(
        &mut self,
        stream: usize,
        dst: Region,
        shape: Shape,
        pattern: &[u8],
    ) -> Outcome {
        if shape.bytes() == 0 {
            return Ok(());
        }
        let device = match self.memory.place(dst, shape)? {
            Place::Device(device) => device,
            Place::Pinned { .. } => {
                let order: Tickets = self.order(stream);
                crate::machine::wait(&order)?;
                for run in 0..shape.count {
                    let first: *mut u8 =
                        core::ptr::with_exposed_provenance_mut(dst.addr as usize + run * dst.pitch);
                    for (i, &byte) in pattern.iter().cycle().take(shape.width).enumerate() {
                        // SAFETY: within pinned memory, which the caller allows to be overwritten; no queued operation
                        // uses it.
                        unsafe { first.add(i).write(byte) };
                    }
                }
                return Ok(());
            }
            Place::Pageable => return Err(Status::InvalidValue),
        };
        // One piece is filled in runs of FILL bytes and a rest; rows are filled as they are.
        let (whole, rest) = if shape.count == 1 {
            (shape.width / FILL, shape.width % FILL)
        } else {
            (0, 0)
        };
        let pieces = if shape.count > 1 {
            vec![(dst, shape)]
        } else {
            let pitch = FILL;
            let runs = Region { pitch, ..dst };
            let tail = Region {
                addr: dst.addr + (whole * FILL) as u64,
                pitch: rest,
            };
            let shape = |width, count| Shape { width, count };
            vec![(runs, shape(FILL, whole)), (tail, shape(rest, 1))]
        };
        for (dst, shape) in pieces.into_iter().filter(|(_, s)| s.bytes() > 0) {
            let mut buffer: Vec<u8> = pattern.iter().copied().cycle().take(shape.width).collect();
            let addr = buffer.as_mut_ptr().expose_provenance() as u64;
            // With pitch zero, every run of the destination is copied from the same source bytes.
            let src = Region { addr, pitch: 0 };
            let after = self.order(stream);
            // SAFETY: the destination lies within a block, the buffer is held until the copy is complete.
            let ticket = unsafe {
                machine()?
                    .upload(device, after.as_slice(), after.as_slice(), src, dst, shape)
                    .map_err(status)?
            };
            self.staging.hold(ticket, Needed::Buffer(buffer));
            self.book(stream, ticket);
        }
        Ok(())
    }

    /// Reads device or pinned memory after all operations that are queued in the stream.
    ///
    /// # Safety
    /// As [`State::copy`].
    pub(crate) unsafe fn read_now(&mut self, stream: usize, addr: u64, to: &mut [u8]) -> Outcome {
        let shape = Shape {
            width: to.len(),
            count: 1,
        };
        let pitch = to.len();
        let src = Region { addr, pitch };
        match self.memory.place(src, shape)? {
            Place::Device(device) => {
                let after = self.order(stream);
                let dst = packed(to, shape);
                // SAFETY: the source lies within a block; the destination lives until the copy is complete.
                unsafe {
                    let machine = machine()?;
                    let ticket = machine
                        .download(device, after.as_slice(), src, dst, shape)
                        .map_err(status)?;
                    machine.wait(ticket).map_err(status)
                }
            }
            Place::Pinned { .. } => {
                let order: Tickets = self.order(stream);
                crate::machine::wait(&order)?;
                // SAFETY: the caller vouches for the memory.
                unsafe { cpu::gather(src, shape, to.as_mut_ptr()) };
                Ok(())
            }
            Place::Pageable => Err(Status::IllegalAddress),
        }
    }
}

/// The region of `buffer` in which the runs of `shape` follow each other.
fn packed(buffer: &mut [u8], shape: Shape) -> Region {
    Region {
        addr: buffer.as_mut_ptr().expose_provenance() as u64,
        pitch: shape.width,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cpu_reads() {
        let reads = |form: Form, width, count| form.read_by_cpu(Shape { width, count });
        assert!(reads(Form::Piece, (32 << 10) - 1, 1) && !reads(Form::Piece, 32 << 10, 1));
        assert!(reads(Form::Rows, 16 << 10, 1) && !reads(Form::Rows, (16 << 10) + 1, 1));
        assert!(!reads(Form::Rows, 64, 2));
    }
}
