//! Kernels. Simulated ones work on memory of their device only: operands in pinned host memory are brought there
//! and, if written, back.

#![expect(unsafe_code, reason = "queues kernels on the program's operands")]

use semcache::base::{DeviceId, Op, Side};
use semcache::device::api::{Backend, DevMat, DevVec, Kernel, Region, Shape, Ticket};

use crate::calls::complain;
use crate::cpu;
use crate::memory::Place;
use crate::names::{Outcome, Status};
use crate::state::{State, machine, status};
use crate::stream::Tickets;

/// Bytes of device memory for a reduction's value.
const VALUE: usize = 16;

/// Where a reduction's value goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The host, before the call returns.
    Host(u64),
    /// Device or pinned memory, in stream order.
    Device(u64),
}

/// The distance between columns or elements, in elements.
enum Step<'a> {
    Leading(&'a mut usize, usize),
    Increment(&'a mut isize),
}

/// A matrix or vector of a kernel.
struct Operand<'a> {
    addr: &'a mut u64,
    step: Step<'a>,
    pitch: usize,
    shape: Shape,
    writes: bool,
}

impl Operand<'_> {
    fn region(&self) -> Region {
        Region {
            addr: *self.addr,
            pitch: self.pitch,
        }
    }

    /// Makes it a packed one at `addr`.
    fn pack(self, addr: u64) {
        *self.addr = addr;
        match self.step {
            Step::Leading(ld, rows) => *ld = rows,
            Step::Increment(inc) => *inc = inc.signum(),
        }
    }
}

fn matrix(m: &mut DevMat, rows: usize, cols: usize, size: usize, writes: bool) -> Operand<'_> {
    Operand {
        pitch: m.ld * size,
        shape: Shape {
            width: rows * size,
            count: cols,
        },
        addr: &mut m.addr,
        step: Step::Leading(&mut m.ld, rows),
        writes,
    }
}

fn vector(v: &mut DevVec, n: usize, size: usize, writes: bool) -> Operand<'_> {
    let apart = v.inc.unsigned_abs();
    let (width, count) = if apart == 1 { (n * size, 1) } else { (size, n) };
    Operand {
        pitch: apart * size,
        shape: Shape { width, count },
        addr: &mut v.addr,
        step: Step::Increment(&mut v.inc),
        writes,
    }
}

/// The order of the square matrix on this side of an m x n one.
fn order(side: Side, m: usize, n: usize) -> usize {
    if side == Side::Left { m } else { n }
}

/// The operands of a kernel, without a reduction's value.
fn operands(kernel: &mut Kernel) -> Vec<Operand<'_>> {
    let turn = |op: Op, rows, cols| {
        if op == Op::None {
            (rows, cols)
        } else {
            (cols, rows)
        }
    };
    match kernel {
        Kernel::Gemm {
            dtype,
            op_a,
            op_b,
            m,
            n,
            k,
            a,
            b,
            c,
            ..
        } => {
            let size = dtype.size();
            let (am, an) = turn(*op_a, *m, *k);
            let (bm, bn) = turn(*op_b, *k, *n);
            vec![
                matrix(a, am, an, size, false),
                matrix(b, bm, bn, size, false),
                matrix(c, *m, *n, size, true),
            ]
        }
        // Of which one triangle is touched, the whole square travels: it is the program's too.
        Kernel::Symm {
            dtype,
            side,
            m,
            n,
            a,
            b,
            c,
            ..
        } => {
            let (size, order) = (dtype.size(), order(*side, *m, *n));
            vec![
                matrix(a, order, order, size, false),
                matrix(b, *m, *n, size, false),
                matrix(c, *m, *n, size, true),
            ]
        }
        Kernel::Syrk {
            dtype,
            op,
            n,
            k,
            a,
            c,
            ..
        } => {
            let (rows, cols) = turn(*op, *n, *k);
            vec![
                matrix(a, rows, cols, dtype.size(), false),
                matrix(c, *n, *n, dtype.size(), true),
            ]
        }
        Kernel::Syr2k {
            dtype,
            op,
            n,
            k,
            a,
            b,
            c,
            ..
        } => {
            let (rows, cols) = turn(*op, *n, *k);
            vec![
                matrix(a, rows, cols, dtype.size(), false),
                matrix(b, rows, cols, dtype.size(), false),
                matrix(c, *n, *n, dtype.size(), true),
            ]
        }
        Kernel::Gemmt {
            dtype,
            op_a,
            op_b,
            n,
            k,
            a,
            b,
            c,
            ..
        } => {
            let size = dtype.size();
            let (am, an) = turn(*op_a, *n, *k);
            let (bm, bn) = turn(*op_b, *k, *n);
            vec![
                matrix(a, am, an, size, false),
                matrix(b, bm, bn, size, false),
                matrix(c, *n, *n, size, true),
            ]
        }
        Kernel::Trmm {
            dtype,
            side,
            m,
            n,
            a,
            b,
            ..
        }
        | Kernel::Trsm {
            dtype,
            side,
            m,
            n,
            a,
            b,
            ..
        } => {
            let (size, order) = (dtype.size(), order(*side, *m, *n));
            vec![
                matrix(a, order, order, size, false),
                matrix(b, *m, *n, size, true),
            ]
        }
        Kernel::Gemv {
            dtype,
            op,
            m,
            n,
            a,
            x,
            y,
            ..
        } => {
            let size = dtype.size();
            let (rows, cols) = turn(*op, *m, *n);
            vec![
                matrix(a, *m, *n, size, false),
                vector(x, cols, size, false),
                vector(y, rows, size, true),
            ]
        }
        Kernel::Ger {
            dtype,
            m,
            n,
            x,
            y,
            a,
            ..
        } => {
            let size = dtype.size();
            vec![
                vector(x, *m, size, false),
                vector(y, *n, size, false),
                matrix(a, *m, *n, size, true),
            ]
        }
        Kernel::Symv {
            dtype, n, a, x, y, ..
        } => {
            let size = dtype.size();
            vec![
                matrix(a, *n, *n, size, false),
                vector(x, *n, size, false),
                vector(y, *n, size, true),
            ]
        }
        Kernel::Trmv { dtype, n, a, x, .. } | Kernel::Trsv { dtype, n, a, x, .. } => vec![
            matrix(a, *n, *n, dtype.size(), false),
            vector(x, *n, dtype.size(), true),
        ],
        Kernel::Syr { dtype, n, x, a, .. } => vec![
            vector(x, *n, dtype.size(), false),
            matrix(a, *n, *n, dtype.size(), true),
        ],
        Kernel::Syr2 {
            dtype, n, x, y, a, ..
        } => {
            let size = dtype.size();
            vec![
                vector(x, *n, size, false),
                vector(y, *n, size, false),
                matrix(a, *n, *n, size, true),
            ]
        }
        Kernel::Axpy { dtype, n, x, y, .. } | Kernel::Copy { dtype, n, x, y } => vec![
            vector(x, *n, dtype.size(), false),
            vector(y, *n, dtype.size(), true),
        ],
        Kernel::Swap { dtype, n, x, y }
        | Kernel::Rot { dtype, n, x, y, .. }
        | Kernel::Rotm { dtype, n, x, y, .. } => vec![
            vector(x, *n, dtype.size(), true),
            vector(y, *n, dtype.size(), true),
        ],
        Kernel::Scal { dtype, n, x, .. } => vec![vector(x, *n, dtype.size(), true)],
        Kernel::Dot { dtype, n, x, y, .. } => vec![
            vector(x, *n, dtype.size(), false),
            vector(y, *n, dtype.size(), false),
        ],
        Kernel::Nrm2 { dtype, n, x, .. }
        | Kernel::Asum { dtype, n, x, .. }
        | Kernel::Iamax { dtype, n, x, .. } => vec![vector(x, *n, dtype.size(), false)],
    }
}

/// An operand that was brought to the device.
struct Guest {
    addr: u64,
    home: Region,
    shape: Shape,
    writes: bool,
}

impl State {
    /// The device of a stream.
    fn device_of(&self, stream: usize) -> Outcome<DeviceId> {
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
    /// The operands are what the program says they are.
    pub(crate) unsafe fn launch(&mut self, stream: usize, mut kernel: Kernel) -> Outcome {
        let device = self.device_of(stream)?;
        let machine = machine()?;
        let order = self.order(stream);
        let mut after = order.clone();
        let mut guests = Vec::new();
        for operand in operands(&mut kernel) {
            if operand.shape.bytes() == 0 {
                continue;
            }
            // What lies elsewhere may not be needed at all, with an alpha of zero; else the machine refuses it.
            let place = self.memory.place(operand.region(), operand.shape);
            if !matches!(place, Ok(Place::Pinned { .. })) {
                continue;
            }
            let (home, shape, writes) = (operand.region(), operand.shape, operand.writes);
            let addr = machine.alloc(device, shape.bytes()).map_err(status)?;
            let pitch = shape.width;
            // SAFETY: the block is fresh; the caller vouches for the host memory.
            let ticket = unsafe {
                machine
                    .upload(
                        device,
                        order.as_slice(),
                        home,
                        Region { addr, pitch },
                        shape,
                    )
                    .map_err(status)?
            };
            after.add(&Tickets::one(ticket));
            operand.pack(addr);
            guests.push(Guest {
                addr,
                home,
                shape,
                writes,
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
                // Behind each other, so that the last one covers all.
                last = self.send(device, last, guest.addr, guest.home, guest.shape)?;
            }
            self.staging.hold_block(last, device, guest.addr);
        }
        self.book(stream, last);
        Ok(())
    }

    /// Queues the copy of packed device memory to pinned memory or a block.
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
        // SAFETY: the target was found to be what the program told of; the source is ours.
        let ticket = unsafe {
            match self.memory.place(to, shape)? {
                Place::Device(other) => machine.copy_peer(device, other, &[after], src, to, shape),
                Place::Pinned { .. } => machine.download(device, &[after], src, to, shape),
                Place::Pageable => return Err(Status::IllegalAddress),
            }
        };
        ticket.map_err(status)
    }

    /// Queues a reduction, whose value's first `bytes` go to `target`.
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
        match &mut kernel {
            Kernel::Dot { out, .. }
            | Kernel::Nrm2 { out, .. }
            | Kernel::Asum { out, .. }
            | Kernel::Iamax { out, .. } => *out = value,
            _ => return Err(Status::Unknown),
        }
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
