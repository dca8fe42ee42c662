//! Launches kernels on simulated devices. A simulated kernel accesses memory of its own device only: operands in pinned
//! host memory are copied to the device before and, if the kernel writes them, back afterwards.

#![expect(unsafe_code, reason = "queues kernels on the program's operands")]

use semcache::base::routine::{Slot, Usage};
use semcache::base::{DeviceId, Dtype};
use semcache::device::api::{Backend, Kernel, Operand, Region, Shape, Ticket};

use crate::cpu;
use crate::machine::{machine, status};
use crate::memory::Place;
use crate::misuse::complain;
use crate::names::{Outcome, Status};
use crate::state::State;
use crate::stream::Tickets;

/// Bytes of device memory for a reduction's value.
const VALUE: usize = 16;

/// The destination of a reduction's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Host memory, written before the call returns.
    Host(u64),
    /// Device or pinned memory, written in stream order.
    Device(u64),
}

/// The place of a kernel's operand in memory, its shape, and its leading dimension or increment once it is packed. Of a
/// matrix of which the kernel accesses one triangle, the whole square is copied: it belongs to the program, too.
fn place(
    dtype: Dtype,
    slot: &Slot,
    (rows, cols): (usize, usize),
    at: Operand,
) -> (Region, Shape, isize) {
    let size = dtype.size();
    let (width, count, packed) = match (slot.extent.is_vector(), at.ld()) {
        (false, _) => (rows, cols, rows.cast_signed()),
        (true, 1) => (rows, 1, at.step),
        (true, _) => (1, rows, at.step.signum()),
    };
    let region = Region {
        addr: at.addr,
        pitch: at.ld() * size,
    };
    let width = width * size;
    (region, Shape { width, count }, packed)
}

/// An operand in pinned host memory that was copied to the device.
struct Guest {
    addr: u64,
    source: Region,
    shape: Shape,
    writes: bool,
}

impl State {
    /// The device of a stream.
    pub(crate) fn device_of(&self, stream: usize) -> Outcome<DeviceId> {
        let context = self
            .streams
            .get(&stream)
            .ok_or(Status::InvalidHandle)?
            .context;
        self.contexts
            .get(&context)
            .copied()
            .ok_or(Status::InvalidContext)
    }

    /// Queues a kernel in the order of `stream`.
    ///
    /// # Safety
    /// The operands are as the program describes them.
    pub(crate) unsafe fn launch(&mut self, stream: usize, mut kernel: Kernel) -> Outcome {
        let device = self.device_of(stream)?;
        let machine = machine()?;
        let order = self.order(stream);
        let mut after = order.clone();
        let mut guests = Vec::new();
        let operands: Vec<_> = kernel.operands().collect();
        for (to, (slot, extent, at)) in kernel.at.iter_mut().zip(operands) {
            let (source, shape, packed) = place(kernel.dtype, slot, extent, at);
            if shape.bytes() == 0 {
                continue;
            }
            // An operand elsewhere may not be accessed at all, if alpha is zero; otherwise the machine refuses the
            // kernel.
            if !matches!(self.memory.place(source, shape), Ok(Place::Pinned { .. })) {
                continue;
            }
            let addr = machine.alloc(device, shape.bytes()).map_err(status)?;
            let pitch = shape.width;
            // SAFETY: the block is fresh; the caller vouches for the host memory.
            let ticket = unsafe {
                machine
                    .upload(
                        device,
                        order.as_slice(),
                        order.as_slice(),
                        source,
                        Region { addr, pitch },
                        shape,
                    )
                    .map_err(status)?
            };
            after.add(&Tickets::one(ticket));
            *to = Operand { addr, step: packed };
            guests.push(Guest {
                addr,
                source,
                shape,
                writes: slot.usage != Usage::Read,
            });
        }
        // SAFETY: the machine checks that operands lie within its blocks.
        let done = unsafe { machine.launch(device, after.as_slice(), &kernel) };
        let mut last = done.map_err(status).inspect_err(|status| {
            if *status == Status::IllegalAddress {
                complain(format_args!("no memory of {device:?}: {kernel:x?}"));
            }
        })?;
        for guest in guests {
            if guest.writes {
                // Each copy waits for the one before, so that the last ticket covers all of them.
                last = self.send(device, last, guest.addr, guest.source, guest.shape)?;
            }
            self.staging.hold_block(last, device, guest.addr);
        }
        self.book(stream, last);
        Ok(())
    }

    /// Queues the copy of packed device memory to pinned memory or to a device block.
    fn send(
        &self,
        device: DeviceId,
        after: Ticket,
        from: u64,
        to: Region,
        shape: Shape,
    ) -> Outcome<Ticket> {
        let machine = machine()?;
        let src = Region {
            addr: from,
            pitch: shape.width,
        };
        // SAFETY: the target lies in memory that the program has allocated or registered; the source is a block of this
        // module's.
        let ticket = unsafe {
            match self.memory.place(to, shape)? {
                Place::Device(other) => machine.copy_peer(device, other, &[after], src, to, shape),
                Place::Pinned { .. } => machine.download(device, &[after], src, to, shape),
                Place::Pageable => return Err(Status::IllegalAddress),
            }
        };
        ticket.map_err(status)
    }

    /// Queues a reduction; the first `bytes` of its value are copied to `target`.
    ///
    /// # Safety
    /// As [`State::launch`], for the target too.
    pub(crate) unsafe fn reduce(
        &mut self,
        stream: usize,
        mut kernel: Kernel,
        bytes: usize,
        target: Target,
    ) -> Outcome {
        let device = self.device_of(stream)?;
        let machine = machine()?;
        let shape = Shape {
            width: bytes,
            count: 1,
        };
        let region = |addr| Region { addr, pitch: bytes };
        if let Target::Device(addr) = target
            && !matches!(
                self.memory.place(region(addr), shape),
                Ok(Place::Device(_) | Place::Pinned { .. })
            )
        {
            complain(format_args!(
                "a result at {addr:#x}: neither device nor pinned memory"
            ));
            return Err(Status::IllegalAddress);
        }
        let value = machine.alloc(device, VALUE).map_err(status)?;
        kernel.out = value;
        // SAFETY: the caller vouches for the operands.
        unsafe { self.launch(stream, kernel)? };
        let order = self.order(stream);
        let last = order.as_slice().last().copied().ok_or(Status::Unknown)?;
        let last = match target {
            Target::Device(addr) => self.send(device, last, value, region(addr), shape)?,
            Target::Host(addr) => {
                let mut buffer = [0u8; VALUE];
                let to = region(buffer.as_mut_ptr().expose_provenance() as u64);
                // SAFETY: the buffer lives until the copy is complete; the caller vouches for the target.
                unsafe {
                    let ticket = machine
                        .download(device, &[last], region(value), to, shape)
                        .map_err(status)?;
                    machine.wait(ticket).map_err(status)?;
                    cpu::scatter(buffer.as_ptr(), region(addr), shape);
                    ticket
                }
            }
        };
        self.staging.hold_block(last, device, value);
        self.book(stream, last);
        Ok(())
    }
}
