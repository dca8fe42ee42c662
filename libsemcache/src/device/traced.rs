//! A machine whose operations are recorded in the trace: each as it is queued, with what it waits for; each wait of a
//! thread; and each page lock. When a device executed an operation, the machine itself records.
#![expect(unsafe_code, reason = "hands the raw device contract on")]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use super::api::{
    Backend, Caps, Cell, CsrKernel, DenseKernel, DeviceError, Kernel, Lane, Region, Shape, Ticket,
};
use crate::base::{DeviceId, Hardware};
use crate::trace::{Event, OpId, What, cause, now, record};

/// Waits of less than this number of nanoseconds are not recorded: the operation was complete.
const SHORT_NS: u64 = 1000;

/// See the module.
#[derive(Debug)]
pub struct Traced {
    inner: &'static dyn Backend,
    /// For each stream the position of its last operation; 0: none.
    last: Vec<[AtomicU64; Lane::ALL.len()]>,
}

fn id(t: Ticket) -> OpId {
    OpId::new(t.device, t.lane as u8, t.seq)
}

/// The operations among `after` that complete last, as far as their order is known: those that were queued last.
fn latest(after: &[Ticket]) -> [OpId; 3] {
    let mut out = [OpId::default(); 3];
    for (to, t) in out.iter_mut().zip(after.iter().rev()) {
        *to = id(*t);
    }
    out
}

impl Traced {
    /// Records the operations of this machine.
    #[must_use]
    pub fn new(inner: &'static dyn Backend) -> Traced {
        let none = || [const { AtomicU64::new(0) }; Lane::ALL.len()];
        let last = inner.devices().iter().map(|_| none()).collect();
        Traced { inner, last }
    }

    /// `begun`: when the machine was asked to queue it.
    fn queued(
        &self,
        begun: u64,
        queued: Result<Ticket, DeviceError>,
        after: &[Ticket],
        what: What,
        amount: usize,
    ) -> Result<Ticket, DeviceError> {
        if let Ok(ticket) = queued {
            if let Some(lanes) = self.last.get(ticket.device.index()) {
                lanes[ticket.lane as usize].fetch_max(ticket.seq, Relaxed);
            }
            let at = now();
            record(Event::Queued {
                at,
                took: u32::try_from(at.saturating_sub(begun)).unwrap_or(u32::MAX),
                op: id(ticket),
                cause: cause(),
                what,
                amount: amount as u64,
                after: latest(after),
            });
        }
        queued
    }
}

impl Backend for Traced {
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
        let begun = now();
        let pinned = self.inner.pin(start, len);
        record(Event::Pin {
            span: (begun, now()),
            bytes: len as u64,
            done: pinned.is_ok(),
        });
        pinned
    }

    fn unpin(&self, start: usize, len: usize) {
        let begun = now();
        self.inner.unpin(start, len);
        record(Event::Unpin {
            span: (begun, now()),
            bytes: len as u64,
        });
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
        let begun = now();
        // SAFETY: the caller's promise.
        let queued = unsafe { self.inner.upload(device, after, host, src, dst, shape) };
        self.queued(begun, queued, after, What::Upload, shape.bytes())
    }

    unsafe fn download(
        &self,
        device: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        let begun = now();
        // SAFETY: the caller's promise.
        let queued = unsafe { self.inner.download(device, after, src, dst, shape) };
        self.queued(begun, queued, after, What::Download, shape.bytes())
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
        let begun = now();
        // SAFETY: the caller's promise.
        let queued = unsafe { self.inner.copy_peer(from, to, after, src, dst, shape) };
        let what = if from == to {
            What::Within
        } else {
            What::Peer(from)
        };
        self.queued(begun, queued, after, what, shape.bytes())
    }

    unsafe fn launch(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        let begun = now();
        // SAFETY: the caller's promise.
        let queued = unsafe { self.inner.launch(device, after, kernel) };
        let what = What::Kernel(kernel.routine.name(kernel.dtype));
        self.queued(begun, queued, after, what, kernel.work())
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
        let begun = now();
        // SAFETY: the caller's promise.
        let queued = unsafe { self.inner.multiply_csr(device, after, kernel) };
        self.queued(begun, queued, after, What::Kernel("csr"), kernel.nnz)
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
        let begun = now();
        // SAFETY: the caller's promise.
        let queued = unsafe { self.inner.solve(device, after, kernel) };
        let work = kernel.m.saturating_mul(kernel.n);
        self.queued(begun, queued, after, What::Kernel(kernel.step.name()), work)
    }

    fn load(&self, device: DeviceId, kernel: &Kernel) -> Result<(), DeviceError> {
        let begun = now();
        let loaded = self.inner.load(device, kernel);
        record(Event::Start {
            span: (begun, now()),
            step: "code of a kernel",
        });
        loaded
    }

    unsafe fn poison(
        &self,
        device: DeviceId,
        after: &[Ticket],
        dst: Region,
        shape: Shape,
    ) -> Option<Ticket> {
        let begun = now();
        // SAFETY: the caller's promise.
        let queued = unsafe { self.inner.poison(device, after, dst, shape) }?;
        self.queued(
            begun,
            Ok(queued),
            after,
            What::Kernel("poison"),
            shape.bytes(),
        )
        .ok()
    }

    fn done(&self, ticket: Ticket) -> Result<bool, DeviceError> {
        self.inner.done(ticket)
    }

    fn read_times(&self) {
        for (device, lanes) in (0..).zip(&self.last) {
            for (lane, last) in Lane::ALL.into_iter().zip(lanes) {
                let seq = last.load(Relaxed);
                if seq > 0 {
                    let device = DeviceId(device);
                    // A device that is lost has no times.
                    let _ = self.inner.done(Ticket { device, lane, seq });
                }
            }
        }
    }

    fn now(&self) -> Option<f64> {
        self.inner.now()
    }

    fn end(&self, ticket: Ticket) -> Option<f64> {
        self.inner.end(ticket)
    }

    fn wait(&self, ticket: Ticket) -> Result<(), DeviceError> {
        waited(ticket, || self.inner.wait(ticket))
    }

    fn wait_at_most(&self, ticket: Ticket, limit: Duration) -> Result<bool, DeviceError> {
        waited(ticket, || self.inner.wait_at_most(ticket, limit))
    }
}

/// Records a wait that is not short.
fn waited<T>(ticket: Ticket, wait: impl FnOnce() -> T) -> T {
    let begun = now();
    let waited = wait();
    let ended = now();
    if ended - begun >= SHORT_NS {
        record(Event::Wait {
            span: (begun, ended),
            op: id(ticket),
            cause: cause(),
        });
    }
    waited
}
