//! The device contract ([`Backend`]) on the simulated machine: queueing calls check and count, then queue; waiting
//! calls look up a ticket, demand it, then wait.

#![expect(
    unsafe_code,
    reason = "implements the raw device contract; callers vouch for the addresses"
)]

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::cells::Cells;
use super::queue::{self, Status, StreamSet, Work};
use super::staged::{Failed, PIECE, Piece, Staged};
use super::{BAD_VALUE, Inner, NO_LINK, SimMachine, copy, worker};
use crate::base::{DeviceId, Link};
use crate::device::api::{
    Backend, Caps, Cell, CsrKernel, DenseKernel, DeviceError, Kernel, Lane, Region, Shape, Ticket,
    cut,
};
use crate::device::{arith, awaited};
use crate::process::spent::{Spending, Spent};

/// Bytes of memory beside the operands that a product of a sparse matrix gets, as on a GPU.
const SCRATCH: usize = 4096;

impl SimMachine {
    fn enqueue(
        &self,
        device: DeviceId,
        lane: Lane,
        after: &[Ticket],
        work: Work,
        what: &'static str,
    ) -> Result<Ticket, DeviceError> {
        let inner = &self.inner;
        let stream = queue::index(device, lane);
        let mut wake = StreamSet::default();
        let mut queues = inner.lock();
        if !inner.signals[stream].started.load(Ordering::Relaxed) && !queues.is_lost(device) {
            // Starts the threads of all streams of the device, while the device holds no data: if the system refused a
            // thread later, a result on the device could not be copied to the host.
            for lane in Lane::ALL {
                let stream = queue::index(device, lane);
                if inner.signals[stream].started.load(Ordering::Relaxed) {
                    continue;
                }
                if let Err(error) = worker::start(inner, stream) {
                    return Err(DeviceError::Refused {
                        device,
                        what,
                        code: error.raw_os_error().unwrap_or(BAD_VALUE),
                    });
                }
                inner.signals[stream].started.store(true, Ordering::Relaxed);
            }
        }
        let result = queues.enqueue(device, lane, after, work, &mut wake);
        drop(queues);
        inner.wake_streams(wake);
        result
    }
}

impl Backend for SimMachine {
    fn devices(&self) -> &[Caps] {
        &self.inner.caps
    }

    fn cell(&self, device: DeviceId, index: usize) -> Option<Cell> {
        self.inner.cells.get(device, index)
    }

    fn buffer(&self, device: DeviceId, index: usize) -> Option<Cell> {
        self.inner.cells.buffer(device, index)
    }

    fn pin(&self, start: usize, len: usize) -> Result<(), DeviceError> {
        self.inner.pins.pin(start, len)
    }

    fn unpin(&self, start: usize, len: usize) {
        self.inner.pins.unpin(start, len);
    }

    fn alloc(&self, device: DeviceId, bytes: usize) -> Result<u64, DeviceError> {
        let inner = &self.inner;
        inner.count(device, "alloc")?;
        if inner.lock().is_lost(device) {
            return Err(DeviceError::Lost { device });
        }
        let out_of_memory = DeviceError::OutOfMemory { device, bytes };
        let addr = inner
            .memory(device, "alloc")?
            .alloc(bytes)
            .ok_or(out_of_memory)?;
        if let Some(pattern) = &inner.pattern {
            // SAFETY: the block is fresh, and its address has not been returned yet.
            unsafe { pattern.cover(addr, bytes) };
        }
        Ok(addr)
    }

    unsafe fn free(&self, device: DeviceId, addr: u64) {
        if let Some(memory) = self.inner.memories.get(device.index()) {
            memory.free(addr);
        }
    }

    unsafe fn upload(
        &self,
        device: DeviceId,
        after: &[Ticket],
        host: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        self.inner.count(device, "copy")?;
        self.inner
            .check(device, dst.addr, copy::extent(dst, shape), "copy")?;
        // Downloads that are queued for these bytes write them to host memory first.
        for &download in host.iter().filter(|t| t.lane == Lane::Out) {
            self.wait(download)?;
        }
        let Inner {
            host,
            staged,
            config,
            ..
        } = &*self.inner;
        let again = config.late || config.seed != 0;
        let queue = |(src, dst, shape), piece| {
            let spending = Spending::on(Spent::Transfers);
            let read = match config.hollow {
                true => Ok(Staged::hollow(shape, staged)),
                false => Staged::read(host, src, shape, staged, again),
            };
            drop(spending);
            let src = read.map_err(|failed| match failed {
                Failed::Unreadable => DeviceError::Unreadable { device },
                Failed::NoMemory => DeviceError::Refused {
                    device,
                    what: "copy",
                    code: BAD_VALUE,
                },
            })?;
            let ticket = self.enqueue(
                device,
                Lane::In,
                after,
                Work::Upload { src, dst, piece },
                "copy",
            )?;
            if Staged::too_much(staged) {
                self.wait(ticket)?;
            }
            Ok(ticket)
        };
        let mut all: Vec<_> = cut(src, dst, shape, PIECE).collect();
        // A copy of no bytes is queued as well, since it needs a ticket.
        let last = all.pop().unwrap_or((src, dst, shape));
        if all.is_empty() {
            return queue(last, None);
        }
        let (piece, mut queued) = (Piece::default(), None);
        let mut next = |part, piece| {
            let ticket = queue(part, Some(piece))?;
            queued = Some(ticket);
            Ok(ticket)
        };
        let first = all.into_iter().map(|part| next(part, piece.clone()));
        let result = first.collect::<Result<Vec<_>, _>>();
        let result = result.and_then(|_| next(last, piece.last(shape.bytes())));
        if let (Err(_), Some(before)) = (&result, queued) {
            // Nothing is ordered behind the pieces that were queued. If the device is lost, they are never executed.
            let _ = self.wait(before);
        }
        result
    }

    unsafe fn download(
        &self,
        device: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        self.inner.count(device, "copy")?;
        self.inner
            .check(device, src.addr, copy::extent(src, shape), "copy")?;
        let work = Work::Download { src, dst, shape };
        self.enqueue(device, Lane::Out, after, work, "copy")
    }

    unsafe fn copy_peer(
        &self,
        from: DeviceId,
        to: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        self.inner.count(to, "copy")?;
        if from != to && self.inner.caps[to.index()].links[from.index()] == Link::None {
            log::error!("{to:?} has no link to {from:?}");
            return Err(DeviceError::Refused {
                device: to,
                what: "copy",
                code: NO_LINK,
            });
        }
        self.inner
            .check(from, src.addr, copy::extent(src, shape), "copy")?;
        self.inner
            .check(to, dst.addr, copy::extent(dst, shape), "copy")?;
        let work = Work::Peer {
            from,
            src,
            dst,
            shape,
        };
        self.enqueue(to, Lane::Peer, after, work, "copy")
    }

    unsafe fn launch(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        self.inner.count(device, "launch")?;
        for span in arith::spans(kernel).into_iter().flatten() {
            self.inner.check(device, span.addr, span.bytes, "launch")?;
            if self.inner.config.poison && self.inner.cells.hold(device, span.addr, span.bytes) {
                // SAFETY: within a cell that the caller gives to this kernel.
                unsafe { Cells::poison(span.addr, span.bytes) };
            }
        }
        self.enqueue(
            device,
            Lane::Compute,
            after,
            Work::Kernel(*kernel),
            "launch",
        )
    }

    fn multiplies_sparse(&self, _: DeviceId) -> bool {
        true
    }

    fn csr_scratch(&self, _: DeviceId, _: &CsrKernel) -> Result<usize, DeviceError> {
        Ok(SCRATCH)
    }

    unsafe fn multiply_csr(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &CsrKernel,
    ) -> Result<Ticket, DeviceError> {
        self.inner.count(device, "launch")?;
        let scratch = (kernel.scratch, SCRATCH);
        for (addr, bytes) in kernel.spans().chain([scratch]) {
            self.inner.check(device, addr, bytes, "launch")?;
        }
        let work = Work::Sparse(Box::new(*kernel));
        self.enqueue(device, Lane::Compute, after, work, "launch")
    }

    fn solves(&self, _: DeviceId) -> bool {
        true
    }

    fn load_solver(&self, device: DeviceId, _: &DenseKernel) -> Result<(), DeviceError> {
        self.inner.count(device, "load")
    }

    fn dense_scratch(&self, _: DeviceId, _: &DenseKernel) -> Result<usize, DeviceError> {
        Ok(SCRATCH)
    }

    unsafe fn solve(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &DenseKernel,
    ) -> Result<Ticket, DeviceError> {
        self.inner.count(device, "launch")?;
        for (addr, bytes) in kernel.spans() {
            self.inner.check(device, addr, bytes, "launch")?;
        }
        let work = Work::Dense(Box::new(*kernel));
        self.enqueue(device, Lane::Compute, after, work, "launch")
    }

    unsafe fn poison(
        &self,
        device: DeviceId,
        after: &[Ticket],
        dst: Region,
        shape: Shape,
    ) -> Option<Ticket> {
        if !self.inner.config.poison {
            return None;
        }
        self.inner
            .check(device, dst.addr, copy::extent(dst, shape), "poison")
            .ok()?;
        self.enqueue(
            device,
            Lane::Compute,
            after,
            Work::Poison { dst, shape },
            "poison",
        )
        .ok()
    }

    fn done(&self, ticket: Ticket) -> Result<bool, DeviceError> {
        if self.inner.plainly_done(ticket) {
            return Ok(true);
        }
        match self.inner.lock().status(ticket) {
            Status::Done => Ok(true),
            Status::Pending => Ok(false),
            Status::Lost(device) => Err(DeviceError::Lost { device }),
            Status::Unknown => Err(queue::unknown(ticket.device)),
        }
    }

    fn wait(&self, ticket: Ticket) -> Result<(), DeviceError> {
        if self.inner.plainly_done(ticket) {
            return Ok(());
        }
        let behind = |ticket| self.inner.lock().behind(ticket);
        awaited::in_turn(ticket, behind, |ticket| self.await_one(ticket))
    }
}

impl SimMachine {
    fn await_one(&self, ticket: Ticket) -> Result<(), DeviceError> {
        let inner = &self.inner;
        let helps = inner.config.seed == 0;
        let mut scratch = Vec::new();
        let mut queues = inner.lock();
        if inner.config.late && queues.status(ticket) == Status::Pending {
            let mut wake = StreamSet::default();
            queues.demand(ticket, &mut wake);
            if !helps {
                inner.wake_streams(wake);
            }
        }
        loop {
            match queues.status(ticket) {
                Status::Done => return Ok(()),
                Status::Lost(device) => return Err(DeviceError::Lost { device }),
                Status::Unknown => return Err(queue::unknown(ticket.device)),
                Status::Pending => {}
            }
            if helps {
                let helped;
                (queues, helped) = worker::help(inner, queues, ticket, &mut scratch);
                if helped {
                    continue;
                }
            }
            let signals = &inner.signals[queue::index(ticket.device, ticket.lane)];
            signals.wanted.fetch_min(ticket.seq, Ordering::Relaxed);
            // The threads that execute what this ticket needs may stop before they have executed all of it.
            queues.sleeper(true);
            inner.wake_streams(queues.pending());
            queues = signals
                .retired
                .wait(queues)
                .unwrap_or_else(PoisonError::into_inner);
            queues.sleeper(false);
        }
    }
}
