//! The device contract: what the runtime needs of a machine with accelerators. One [`Backend`] drives all devices of a
//! process (CUDA contexts, or simulated devices), so that one device can wait for a ticket of another.
//!
//! Every operation is asynchronous: it is queued on one of the device's four streams behind the tickets that its
//! caller names, and returns a [`Ticket`] of its own at once. Operations of one stream complete in order. A refused
//! call (`Err` from the queueing function) has changed nothing and may be repeated.
//!
//! Addresses on a device are plain `u64`s and support pointer arithmetic. Host addresses may lie in inaccessible
//! (`PROT_NONE`) panels: a backend must be able to read and write them without making them accessible or raising a
//! signal (the simulated machine uses `/proc/self/mem`; CUDA's copy engine writes the page-locked physical pages).

#![expect(
    unsafe_code,
    reason = "the device contract moves raw bytes; callers vouch for the addresses"
)]

mod copies;
mod error;
pub mod undelivered;

pub(super) use copies::{Part, cut, cut_at};
pub use copies::{Region, Shape};
pub use error::DeviceError;

use core::time::Duration;

pub use crate::base::dense::DenseKernel;
pub use crate::base::kernel::{Kernel, Operand};
pub use crate::base::sparse::CsrKernel;
use crate::base::{DeviceId, Hardware, Link, Links};
use crate::process::spent::Spent;

/// The four queues (streams) of a device. Uploads, downloads, copies between devices and kernels overlap; only tickets order
/// operations of different queues.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Lane {
    /// Uploads (host to device).
    In = 0,
    /// Downloads (device to host).
    Out = 1,
    /// Kernels.
    Compute = 2,
    /// Copies from other devices to this one, and within this one.
    Peer = 3,
}

impl Lane {
    /// All streams of a device, in the order of their numbers.
    pub const ALL: [Lane; 4] = [Lane::In, Lane::Out, Lane::Compute, Lane::Peer];

    /// What a thread spends its time on that waits for this stream.
    #[must_use]
    pub const fn spent(self) -> Spent {
        match self {
            Lane::Compute => Spent::Kernels,
            Lane::In | Lane::Out | Lane::Peer => Spent::Transfers,
        }
    }
}

/// Completion of one queued operation. `seq` grows by one per operation of a stream: if a ticket is done, so are all
/// smaller ones of the same stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket {
    /// The device to which the stream belongs.
    pub device: DeviceId,
    /// The stream.
    pub lane: Lane,
    /// Position in the stream, from 1.
    pub seq: u64,
}

/// Static facts of a device.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Human name, e.g. `sim0 (2 cores shared)` or the GPU's product name.
    pub name: String,
    /// `"sim"` or `"cuda"`.
    pub kind: &'static str,
    /// Bytes of device memory that this process may use (`SEMCACHE_MEMORY` applied).
    pub memory: usize,
    /// How this device reads the memory of each device; of itself, [`Link::None`].
    pub links: Vec<Link>,
}

/// How the devices of a machine read each other's memory.
#[must_use]
pub fn links(devices: &[Caps]) -> Links {
    Links::new(devices.iter().map(|caps| caps.links.clone()))
}

/// A piece of mapped host memory: page-locked, and at an address of its own for kernels of one device, which write a result to it:
/// the value of a reduction (dot, nrm2, asum) to a cell, a small vector or matrix to a buffer. The host reads the result once the
/// kernel is done; no copy is queued. Small inputs are uploaded from buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Its address for kernels, 16-byte aligned.
    pub device: u64,
    /// Its address for the host.
    pub host: usize,
}

/// Bytes of a [`Cell`]: the largest value of a reduction.
pub const CELL_BYTES: usize = 16;

/// Bytes of a buffer, from [`Backend::buffer`]. On an H100 a kernel that writes its result to mapped memory saves 8 us of
/// a dgemv of order 1024 to 4096, and 5 us of a dgemm of order 192, against a copy behind the kernel; nothing from half a
/// megabyte on (bench/results/h100-strategies.md).
pub const BUFFER_BYTES: usize = 256 << 10;

/// What a device answers that has no code for an operation.
fn unable(device: DeviceId, what: &'static str) -> DeviceError {
    DeviceError::Refused {
        device,
        what,
        code: 0,
    }
}

/// A machine with accelerators. Object safe; all methods may be called from any thread.
pub trait Backend: Send + Sync + core::fmt::Debug {
    /// The devices, indexed by [`DeviceId`].
    fn devices(&self) -> &[Caps];

    /// The number of devices that can be used now: those with the lowest ids. Grows while a machine starts.
    fn usable(&self) -> usize {
        self.devices().len()
    }

    /// What is known of a device that can be used before anything has run on it.
    fn hardware(&self, device: DeviceId) -> Option<Hardware> {
        let _ = device;
        None
    }

    /// The driver's handle of the context in which addresses of a device are valid; zero if the CPU can use them.
    fn context(&self, device: DeviceId) -> usize {
        let _ = device;
        0
    }

    /// Page-locks (pins) host memory, so that the copy engines reach it without staging buffers. All of it is
    /// accessible, and none of it is pinned. Never needed for correctness: memory that is not pinned is copied through
    /// staging buffers.
    ///
    /// # Errors
    /// The backend refuses; nothing has changed.
    fn pin(&self, start: usize, len: usize) -> Result<(), DeviceError> {
        let _ = (start, len);
        Ok(())
    }

    /// Ends the page lock that [`Backend::pin`] of the same range began. Waits for copies over the range that are in
    /// flight. The memory may be inaccessible.
    fn unpin(&self, start: usize, len: usize) {
        let _ = (start, len);
    }

    /// The `index`-th cell of a device; `None` for an index past its last cell.
    fn cell(&self, device: DeviceId, index: usize) -> Option<Cell> {
        let _ = (device, index);
        None
    }

    /// The `index`-th buffer of a device, of [`BUFFER_BYTES`] bytes; `None` for an index past its last one.
    fn buffer(&self, device: DeviceId, index: usize) -> Option<Cell> {
        let _ = (device, index);
        None
    }

    /// A fresh block of device memory, 256-byte aligned. The runtime takes few large blocks and divides them itself.
    ///
    /// # Errors
    /// Out of memory, refused, or lost.
    fn alloc(&self, device: DeviceId, bytes: usize) -> Result<u64, DeviceError>;

    /// Frees a block of device memory. All operations on it must be complete.
    ///
    /// # Safety
    /// `addr` came from [`Backend::alloc`] on this device and is not used again.
    unsafe fn free(&self, device: DeviceId, addr: u64);

    /// Queues an upload (host to device) on `Lane::In` of `device`, behind `after`. Of these, `host` are the operations
    /// that write bytes of `src`: bytes that are not page-locked are read, by this thread, once those are complete, and
    /// have been read when this returns.
    ///
    /// # Errors
    /// Refused or lost, or the host memory cannot be read. Of the pieces that were queued before the failure none is in
    /// flight any more: nothing is ordered behind them.
    ///
    /// # Safety
    /// The page-locked bytes of `src` stay page-locked until the ticket is done (inaccessible panels are fine); the
    /// rest need not be mapped. `dst` is allocated device memory of `device`.
    unsafe fn upload(
        &self,
        device: DeviceId,
        after: &[Ticket],
        host: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError>;

    /// Queues a download (device to host) on `Lane::Out` of `device`, behind `after`. Bytes that cannot be written to
    /// their host address are [`undelivered`] when the ticket is done.
    ///
    /// # Errors
    /// Refused or lost; nothing was queued.
    ///
    /// # Safety
    /// As [`Backend::upload`], with the roles exchanged; the host runs of `dst` may be overwritten.
    unsafe fn download(
        &self,
        device: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError>;

    /// Queues a copy from device to device, or within one device, on `Lane::Peer` of `to`, behind `after`.
    ///
    /// # Errors
    /// Refused or lost; nothing was queued.
    ///
    /// # Safety
    /// Both regions are allocated memory of their devices until the ticket is done.
    unsafe fn copy_peer(
        &self,
        from: DeviceId,
        to: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError>;

    /// Queues a kernel on `Lane::Compute` of `device`, behind `after`.
    ///
    /// # Errors
    /// Refused or lost; nothing was queued.
    ///
    /// # Safety
    /// Every address in `kernel` is allocated memory of `device`, of the extent that the operation implies,
    /// until the ticket is done.
    unsafe fn launch(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError>;

    /// Whether the device computes products of sparse matrices.
    fn multiplies_sparse(&self, device: DeviceId) -> bool {
        let _ = device;
        false
    }

    /// Bytes of device memory that a product of a sparse matrix needs beside its operands ([`CsrKernel::scratch`]).
    ///
    /// # Errors
    /// Refused or lost.
    fn csr_scratch(&self, device: DeviceId, kernel: &CsrKernel) -> Result<usize, DeviceError> {
        let _ = kernel;
        Err(unable(device, "sparse"))
    }

    /// Queues a product of a sparse matrix on `Lane::Compute` of `device`, behind `after`.
    ///
    /// # Errors
    /// Refused or lost; nothing was queued.
    ///
    /// # Safety
    /// As [`Backend::launch`], with the extents of [`CsrKernel::spans`] and as much scratch memory as [`Backend::csr_scratch`] says.
    /// Offsets ascend from `first` to `first + nnz`, and columns lie within the matrix, which has `rows * cols` entries at most.
    /// [`CsrKernel::pattern`] is as it says.
    unsafe fn multiply_csr(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &CsrKernel,
    ) -> Result<Ticket, DeviceError> {
        let _ = (after, kernel);
        Err(unable(device, "sparse"))
    }

    /// Whether the device factors dense matrices and solves by factors, as far as is known without loading a library.
    fn solves(&self, device: DeviceId) -> bool {
        let _ = device;
        false
    }

    /// Loads what a factorization or solution of this kind needs: a library, and the code of kernels. It takes up to seconds; other
    /// threads' calls are held up for moments only.
    ///
    /// # Errors
    /// Refused or lost: the device does not compute it.
    fn load_solver(&self, device: DeviceId, kernel: &DenseKernel) -> Result<(), DeviceError> {
        let _ = kernel;
        Err(unable(device, "solve"))
    }

    /// Bytes of device memory that a factorization or solution needs beside its operands ([`DenseKernel::scratch`]).
    ///
    /// # Errors
    /// Refused or lost.
    fn dense_scratch(&self, device: DeviceId, kernel: &DenseKernel) -> Result<usize, DeviceError> {
        let _ = kernel;
        Err(unable(device, "solve"))
    }

    /// Queues a factorization or solution on `Lane::Compute` of `device`, behind `after`.
    ///
    /// # Errors
    /// Refused or lost. Parts of it may have been queued, so that its outputs, and nothing else, may have changed.
    ///
    /// # Safety
    /// As [`Backend::launch`], with the extents of [`DenseKernel::spans`] and at least as much scratch memory as
    /// [`Backend::dense_scratch`] says. Pivots that are read lie within the matrix.
    unsafe fn solve(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &DenseKernel,
    ) -> Result<Ticket, DeviceError> {
        let _ = (after, kernel);
        Err(unable(device, "solve"))
    }

    /// Has the code of a kernel of these flags and sizes loaded, whose operands have no addresses, and waits for that. Changes nothing
    /// that a call sees, and holds up other threads' calls for moments only.
    ///
    /// # Errors
    /// Refused or lost; then the first launch loads it.
    fn load(&self, device: DeviceId, kernel: &Kernel) -> Result<(), DeviceError> {
        let _ = (device, kernel);
        Ok(())
    }

    /// Tells the device that these bytes are no longer valid. A device in poison mode overwrites them, in
    /// `Lane::Compute` order behind `after`; other devices ignore the call and return `None`.
    ///
    /// # Safety
    /// As for a kernel that writes the region.
    unsafe fn poison(
        &self,
        device: DeviceId,
        after: &[Ticket],
        dst: Region,
        shape: Shape,
    ) -> Option<Ticket> {
        let _ = (device, after, dst, shape);
        None
    }

    /// Whether the operation is known to be complete. Never blocks, and never makes a late device execute the
    /// operation. An allocation inside the driver's own code may call this: the answer is `false` then.
    ///
    /// # Errors
    /// Lost: the operation will never complete.
    fn done(&self, ticket: Ticket) -> Result<bool, DeviceError>;

    /// Asks, as [`Backend::done`] does, which of the operations queued last are complete, so that the times of those
    /// are recorded in the trace. Never blocks.
    fn read_times(&self) {}

    /// The time of the thread that queues, in seconds, on a machine in virtual time ([`super::clocked`]).
    fn now(&self) -> Option<f64> {
        None
    }

    /// When an operation ends, in seconds, on a machine in virtual time.
    fn end(&self, ticket: Ticket) -> Option<f64> {
        let _ = ticket;
        None
    }

    /// Blocks until the operation is complete.
    ///
    /// # Errors
    /// Lost: the operation will never complete; its effects are undefined.
    fn wait(&self, ticket: Ticket) -> Result<(), DeviceError>;

    /// Blocks until the operation is complete, or for about this long, and returns whether it is complete. A machine whose
    /// operations are executed by the waiting thread returns only when it is.
    ///
    /// # Errors
    /// As [`Backend::wait`].
    fn wait_at_most(&self, ticket: Ticket, limit: Duration) -> Result<bool, DeviceError> {
        let _ = limit;
        self.wait(ticket).map(|()| true)
    }
}
