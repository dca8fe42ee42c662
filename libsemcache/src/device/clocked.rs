//! A machine in virtual time: beside each operation that is queued, a clock says when it runs on the machine that is modelled. No
//! thread sleeps, and what the operations do, and in which order, is as without the clock.
//!
//! An operation names the tickets that it waits for when it is queued, and those belong to operations that were queued before it. So
//! its times are known at once, whenever the machine executes it. The thread that queues has a time, too: it moves on with each
//! kernel that it queues, and a wait for a ticket moves it to the end of that operation. Work of the program itself, and of the host
//! BLAS, takes no virtual time. All threads share one time.
#![expect(unsafe_code, reason = "hands the raw device contract on")]

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::api::{
    Backend, Caps, Cell, CsrKernel, DenseKernel, DeviceError, Kernel, Lane, Region, Shape, Ticket,
};
use crate::base::counters::{COUNTERS, on_device};
use crate::base::dense::DenseWork;
use crate::base::timed::{Copied, Operation};
use crate::base::{DeviceId, Hardware};

/// Says when operations run.
pub trait Clock: Send + core::fmt::Debug {
    /// The time of the thread that queues, in seconds.
    fn now(&self) -> f64;

    /// The thread that queues has waited until this time.
    fn wait_until(&mut self, at: f64);

    /// An operation is queued that waits for others until `ready`: when it starts and ends.
    fn queue(&mut self, device: DeviceId, operation: Operation, ready: f64) -> (f64, f64);
}

/// See the module.
#[derive(Debug)]
pub struct Clocked<B> {
    inner: B,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    clock: Box<dyn Clock>,
    /// For each device and stream, when the operation of each ticket ends.
    ends: Vec<[Vec<f64>; Lane::ALL.len()]>,
    /// The end of all operations, in nanoseconds.
    last_ns: u64,
}

impl State {
    fn end(&self, ticket: Ticket) -> f64 {
        let at = usize::try_from(ticket.seq).unwrap_or(0).checked_sub(1);
        let ends = self.ends.get(ticket.device.index());
        let end = ends.and_then(|lanes| lanes[ticket.lane as usize].get(at?));
        end.copied().unwrap_or(0.0)
    }

    /// Notes when an operation ends. Tickets that were skipped are those of pieces of the same operation.
    fn ends_at(&mut self, ticket: Ticket, end: f64) {
        let Some(lanes) = self.ends.get_mut(ticket.device.index()) else {
            return;
        };
        let ends = &mut lanes[ticket.lane as usize];
        let count = usize::try_from(ticket.seq).unwrap_or(0);
        ends.resize(count.max(ends.len()), end);
        let ns = (end * 1e9) as u64;
        COUNTERS
            .virtual_time
            .ns
            .add(ns.saturating_sub(self.last_ns));
        self.last_ns = self.last_ns.max(ns);
    }
}

impl<B: Backend> Clocked<B> {
    /// The machine `inner`, whose operations take the times that `clock` says.
    #[must_use]
    pub fn new(inner: B, clock: Box<dyn Clock>) -> Clocked<B> {
        let ends = inner.devices().iter().map(|_| Default::default()).collect();
        Clocked {
            inner,
            state: Mutex::new(State {
                clock,
                ends,
                last_ns: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an operation by `queue`, with the clock held: so the operations of a stream have their times in the stream's order.
    fn queued(
        &self,
        device: DeviceId,
        after: [&[Ticket]; 2],
        operation: Operation,
        queue: impl FnOnce() -> Result<Ticket, DeviceError>,
    ) -> Result<Ticket, DeviceError> {
        let mut state = self.lock();
        let ticket = queue()?;
        let before = after.into_iter().flatten().map(|t| state.end(*t));
        let ready = before.fold(0.0, f64::max);
        let (start, end) = state.clock.queue(device, operation, ready);
        state.ends_at(ticket, end);
        count(device, operation, end - start, end);
        Ok(ticket)
    }

    fn waited(&self, ticket: Ticket) {
        let mut state = self.lock();
        let end = state.end(ticket);
        state.clock.wait_until(end);
    }
}

/// Counts what an operation takes.
fn count(device: DeviceId, operation: Operation, seconds: f64, end: f64) {
    let on = &on_device(device).in_virtual_time;
    let of = match operation {
        Operation::Upload(_) => &on.uploads_ns,
        Operation::Download(_) => &on.write_backs_ns,
        Operation::Peer(..) => &on.peers_ns,
        Operation::Kernel(_) | Operation::Sparse(_) | Operation::Dense(_) => &on.kernels_ns,
        Operation::Within => return,
    };
    of.add((seconds * 1e9) as u64);
    let end = (end * 1e9) as u64;
    on.end_ns.add(end.saturating_sub(on.end_ns.get()));
}

/// What a copy moves: `run` is what lies beside each other at both ends.
fn copied(src: Region, dst: Region, shape: Shape) -> Copied {
    Copied {
        bytes: shape.bytes(),
        run: shape.joined(src, dst).width,
    }
}

impl<B: Backend> Backend for Clocked<B> {
    fn devices(&self) -> &[Caps] {
        self.inner.devices()
    }

    fn usable(&self) -> usize {
        self.inner.usable()
    }

    fn hardware(&self, device: DeviceId) -> Option<Hardware> {
        self.inner.hardware(device)
    }

    fn context(&self, device: DeviceId) -> usize {
        self.inner.context(device)
    }

    fn pin(&self, start: usize, len: usize) -> Result<(), DeviceError> {
        self.inner.pin(start, len)
    }

    fn unpin(&self, start: usize, len: usize) {
        self.inner.unpin(start, len);
    }

    fn cell(&self, device: DeviceId, index: usize) -> Option<Cell> {
        self.inner.cell(device, index)
    }

    fn buffer(&self, device: DeviceId, index: usize) -> Option<Cell> {
        self.inner.buffer(device, index)
    }

    fn alloc(&self, device: DeviceId, bytes: usize) -> Result<u64, DeviceError> {
        self.inner.alloc(device, bytes)
    }

    unsafe fn free(&self, device: DeviceId, addr: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.free(device, addr) };
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
        let operation = Operation::Upload(copied(src, dst, shape));
        self.queued(device, [after, host], operation, || {
            // SAFETY: the caller's promise.
            unsafe { self.inner.upload(device, after, host, src, dst, shape) }
        })
    }

    unsafe fn download(
        &self,
        device: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let operation = Operation::Download(copied(src, dst, shape));
        self.queued(device, [after, &[]], operation, || {
            // SAFETY: the caller's promise.
            unsafe { self.inner.download(device, after, src, dst, shape) }
        })
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
        let operation = match from == to {
            true => Operation::Within,
            false => Operation::Peer(from, shape.bytes()),
        };
        self.queued(to, [after, &[]], operation, || {
            // SAFETY: the caller's promise.
            unsafe { self.inner.copy_peer(from, to, after, src, dst, shape) }
        })
    }

    unsafe fn launch(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        let operation = Operation::Kernel(kernel.timed_work());
        self.queued(device, [after, &[]], operation, || {
            // SAFETY: the caller's promise.
            unsafe { self.inner.launch(device, after, kernel) }
        })
    }

    fn multiplies_sparse(&self, device: DeviceId) -> bool {
        self.inner.multiplies_sparse(device)
    }

    fn csr_scratch(&self, device: DeviceId, kernel: &CsrKernel) -> Result<usize, DeviceError> {
        self.inner.csr_scratch(device, kernel)
    }

    unsafe fn multiply_csr(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &CsrKernel,
    ) -> Result<Ticket, DeviceError> {
        let operation = Operation::Sparse(kernel.bytes());
        self.queued(device, [after, &[]], operation, || {
            // SAFETY: the caller's promise.
            unsafe { self.inner.multiply_csr(device, after, kernel) }
        })
    }

    fn solves(&self, device: DeviceId) -> bool {
        self.inner.solves(device)
    }

    fn load_solver(&self, device: DeviceId, kernel: &DenseKernel) -> Result<(), DeviceError> {
        self.inner.load_solver(device, kernel)
    }

    fn dense_scratch(&self, device: DeviceId, kernel: &DenseKernel) -> Result<usize, DeviceError> {
        self.inner.dense_scratch(device, kernel)
    }

    unsafe fn solve(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &DenseKernel,
    ) -> Result<Ticket, DeviceError> {
        let operation = Operation::Dense(DenseWork::of(kernel));
        self.queued(device, [after, &[]], operation, || {
            // SAFETY: the caller's promise.
            unsafe { self.inner.solve(device, after, kernel) }
        })
    }

    fn load(&self, device: DeviceId, kernel: &Kernel) -> Result<(), DeviceError> {
        self.inner.load(device, kernel)
    }

    unsafe fn poison(
        &self,
        device: DeviceId,
        after: &[Ticket],
        dst: Region,
        shape: Shape,
    ) -> Option<Ticket> {
        // The overwriting of invalid bytes is no operation of the modelled machine. It ends with what it waits for.
        let mut state = self.lock();
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.inner.poison(device, after, dst, shape) }?;
        let ready = after.iter().map(|t| state.end(*t)).fold(0.0, f64::max);
        state.ends_at(ticket, ready);
        Some(ticket)
    }

    /// From its end on, and not before: else what is queued next would not wait for it. An operation that has ended by then and is not
    /// executed yet is waited for, so that the answer does not depend on how fast the simulation is.
    fn done(&self, ticket: Ticket) -> Result<bool, DeviceError> {
        let ended = {
            let state = self.lock();
            state.end(ticket) <= state.clock.now()
        };
        if ended {
            self.inner.wait(ticket)?;
        }
        Ok(ended)
    }

    fn now(&self) -> Option<f64> {
        Some(self.lock().clock.now())
    }

    fn end(&self, ticket: Ticket) -> Option<f64> {
        Some(self.lock().end(ticket))
    }

    fn read_times(&self) {
        self.inner.read_times();
    }

    fn wait(&self, ticket: Ticket) -> Result<(), DeviceError> {
        self.inner.wait(ticket)?;
        self.waited(ticket);
        Ok(())
    }

    fn wait_at_most(&self, ticket: Ticket, limit: Duration) -> Result<bool, DeviceError> {
        let complete = self.inner.wait_at_most(ticket, limit)?;
        if complete {
            self.waited(ticket);
        }
        Ok(complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimConfig, SimMachine};

    /// Each operation takes a second.
    #[derive(Debug, Default)]
    struct Seconds {
        now: f64,
    }

    impl Clock for Seconds {
        fn now(&self) -> f64 {
            self.now
        }

        fn wait_until(&mut self, at: f64) {
            self.now = self.now.max(at);
        }

        fn queue(&mut self, _: DeviceId, _: Operation, ready: f64) -> (f64, f64) {
            let start = ready.max(self.now);
            (start, start + 1.0)
        }
    }

    /// Copies 24 bytes to a device and back, and returns the tickets and what came back.
    fn there_and_back(hollow: bool) -> (Clocked<SimMachine>, [Ticket; 2], [u8; 24]) {
        let config = SimConfig {
            hollow,
            ..SimConfig::default()
        };
        let sim = SimMachine::new(config).expect("a machine");
        let machine = Clocked::new(sim, Box::new(Seconds::default()));
        let device = DeviceId(0);
        let (from, mut to) = ([7_u8; 24], [0_u8; 24]);
        let there = machine.alloc(device, 24).expect("memory");
        let at = |addr: u64| Region { addr, pitch: 24 };
        let shape = Shape {
            width: 24,
            count: 1,
        };
        let (src, dst) = (
            from.as_ptr().expose_provenance() as u64,
            to.as_mut_ptr().expose_provenance() as u64,
        );
        // SAFETY: all regions have 24 bytes, which nothing else uses until the tickets are done.
        let tickets = unsafe {
            let up = machine.upload(device, &[], &[], at(src), at(there), shape);
            let up = up.expect("an upload");
            let down = machine.download(device, &[up], at(there), at(dst), shape);
            [up, down.expect("a download")]
        };
        machine.inner.wait(tickets[1]).expect("a device");
        (machine, tickets, to)
    }

    #[test]
    fn operations_end_behind_those_that_they_name() {
        let (machine, [up, down], bytes) = there_and_back(false);
        assert_eq!(bytes, [7; 24]);
        assert_eq!((machine.end(up), machine.end(down)), (Some(1.0), Some(2.0)));
        // Both are executed, but on the modelled machine no time has passed.
        assert_eq!((machine.done(up), machine.now()), (Ok(false), Some(0.0)));
        machine.wait(up).expect("a device");
        assert_eq!(
            (machine.done(up), machine.done(down)),
            (Ok(true), Ok(false))
        );
        machine.wait(down).expect("a device");
        assert_eq!((machine.done(down), machine.now()), (Ok(true), Some(2.0)));
        assert!(COUNTERS.virtual_time.ns.get() >= 2_000_000_000);
    }

    #[test]
    fn hollow_devices_have_the_same_times_and_move_nothing() {
        let (machine, [up, down], bytes) = there_and_back(true);
        assert_eq!(bytes, [0; 24]);
        assert_eq!((machine.end(up), machine.end(down)), (Some(1.0), Some(2.0)));
    }
}
