//! The device contract ([`Backend`]) on CUDA: queueing of copies and kernels on streams, order between them, and their
//! completion.
//!
//! One lock covers all streams: a thread that queues operations holds the cache's lock anyway. No thread waits for a
//! device while it holds the lock, except for staging memory that is full, and where larger scratch memory is needed
//! (`blas::scratch`).
#![expect(
    unsafe_code,
    reason = "implements the raw device contract; callers vouch for the addresses"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use log::debug;

use super::Hooks;
use super::blas::Blas;
use super::clock::{Clock, Idle};
use super::dense::Solver;
use super::driver::{self, CUcontext, CUdevice, Current, End, Status};
use super::library::Libraries;
use super::loads::Loader;
use super::pins::Pins;
use super::probe::Rules;
use super::rehearsal::Rehearsal;
use super::ring::Ring;
use super::sparse::Sparse;
use super::stream::Stream;
use crate::base::timed::Operation;
use crate::base::{DeviceId, Hardware};
use crate::device::api::{
    BUFFER_BYTES, Backend, CELL_BYTES, Caps, Cell, CsrKernel, DenseKernel, DeviceError, Kernel,
    Lane, Region, Shape, Ticket,
};
use crate::device::host_memory::HostMemory;
use crate::process::driver_scope::{DriverScope, in_driver_scope};
use crate::process::loads::Loading;
use crate::process::waited::Waiting;

/// Streams of a device.
pub(super) const LANES: usize = Lane::ALL.len();
/// Result cells of a device.
pub(super) const CELLS: usize = 64;
/// Buffers of a device for small operands.
pub(super) const BUFFERS: usize = 8;
/// How long page-locking makes way for other threads.
const MAKES_WAY: Duration = Duration::from_millis(20);
/// Kernels of fewer multiply-adds get no event of their own: recording it would take a good part of their time.
const WORTH_AN_EVENT: usize = 1 << 23;

/// A machine of CUDA GPUs.
#[derive(Debug)]
pub struct CudaMachine {
    pub(super) caps: Vec<Caps>,
    pub(super) gpus: Vec<Gpu>,
    up: Vec<OnceLock<Up>>,
    pub(super) usable: AtomicUsize,
    pub(super) lost: Vec<AtomicBool>,
    pub(super) pins: Pins,
    pub(super) host: HostMemory,
    /// Threads that allocate device memory.
    allocating: AtomicUsize,
    queues: Mutex<Vec<Option<Queues>>>,
    pub(super) hooks: Hooks,
    pub(super) libraries: Libraries,
}

/// A GPU as the driver lists it.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) device: CUdevice,
}

/// A context handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ctx(pub(super) CUcontext);

// SAFETY: a context may be made current by any thread.
unsafe impl Send for Ctx {}
// SAFETY: as above; the handle itself is never written.
unsafe impl Sync for Ctx {}

/// A GPU that can be used.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) ctx: Ctx,
    /// Page-locked result cells and buffers, at the same addresses on the device.
    pub(super) cells: usize,
    pub(super) buffers: usize,
    pub(super) rules: Rules,
    pub(super) hardware: Hardware,
    /// The largest pitch of a strided copy.
    pub(super) pitch: usize,
    pub(super) cublas: i32,
    /// Made when the first code is loaded.
    pub(super) loader: Mutex<Option<Loader>>,
    /// Made when a solver is first loaded.
    pub(super) rehearsal: Mutex<Option<Rehearsal>>,
}

/// The streams, the cuBLAS handle and the staging memory of a GPU.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) lanes: [Stream; LANES],
    pub(super) blas: Blas,
    /// Made when a sparse matrix is first multiplied.
    pub(super) sparse: Option<Sparse>,
    /// Made when a dense system is first solved.
    pub(super) solver: Option<Solver>,
    pub(super) clock: Clock<Idle>,
    /// Staging memory of uploads, and of downloads.
    pub(super) ring_in: Ring,
    pub(super) ring_out: Ring,
    /// Downloads into staging memory, oldest first.
    pub(super) landings: VecDeque<Landing>,
}

impl Queues {
    pub(super) fn new(
        lanes: [Stream; LANES],
        blas: Blas,
        clock: Clock<Idle>,
        (ring_in, ring_out): (Ring, Ring),
    ) -> Self {
        Self {
            lanes,
            blas,
            sparse: None,
            solver: None,
            clock,
            ring_in,
            ring_out,
            landings: VecDeque::new(),
        }
    }

    /// The staging memory of copies in this direction.
    pub(super) fn ring(&mut self, lane: Lane) -> &mut Ring {
        match lane {
            Lane::Out => &mut self.ring_out,
            Lane::In | Lane::Compute | Lane::Peer => &mut self.ring_in,
        }
    }
}

pub(super) type All = Vec<Option<Queues>>;

impl CudaMachine {
    pub(super) fn new(
        caps: Vec<Caps>,
        gpus: Vec<Gpu>,
        host: HostMemory,
        hooks: Hooks,
    ) -> CudaMachine {
        let n = gpus.len();
        CudaMachine {
            caps,
            up: (0..n).map(|_| OnceLock::new()).collect(),
            usable: AtomicUsize::new(0),
            lost: (0..n).map(|_| AtomicBool::new(false)).collect(),
            pins: Pins::default(),
            host,
            allocating: AtomicUsize::new(0),
            queues: Mutex::new((0..n).map(|_| None).collect()),
            hooks,
            libraries: Libraries::default(),
            gpus,
        }
    }

    pub(super) fn up(&self, i: usize) -> Option<&Up> {
        self.up.get(i)?.get()
    }

    pub(super) fn add(&self, i: usize, up: Up, queues: Queues) {
        self.lock()[i] = Some(queues);
        // Each GPU is brought up once, so this cannot fail.
        let _ = self.up[i].set(up);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, All> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, device: DeviceId) -> Result<(&Up, Current), DeviceError> {
        let i = device.index();
        let Some(up) = self.up(i) else {
            return Err(DeviceError::Refused {
                device,
                what: "call",
                code: 0,
            });
        };
        if self.lost[i].load(Ordering::Relaxed) {
            return Err(DeviceError::Lost { device });
        }
        // Entering is tried once more if only this call failed: the failure must not end a wait.
        let current =
            Current::enter(up.ctx.0).or_else(|s| match self.failed(device, "call", s) {
                DeviceError::Refused { .. } => {
                    Current::enter(up.ctx.0).map_err(|s| self.failed(device, "call", s))
                }
                lost => Err(lost),
            })?;
        Ok((up, current))
    }

    /// Called before a thread page-locks a piece: waits while another one allocates device memory. The driver has one lock for both,
    /// and a thread that page-locks piece after piece takes it again before another thread that waits for it: 1 or 2 GiB took
    /// 4 to 14 ms on four H100, and 0.7 to 2 ms otherwise (bench/results/h100-x4.md).
    fn make_way(&self) {
        let began = Instant::now();
        while self.allocating.load(Ordering::Relaxed) > 0 && began.elapsed() < MAKES_WAY {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Whether a failure concerns one call, or is the end of the device: in a broken context every call fails.
    pub(super) fn failed(
        &self,
        device: DeviceId,
        what: &'static str,
        status: Status,
    ) -> DeviceError {
        let i = device.index();
        let alive = self
            .up(i)
            .is_some_and(|u| Current::enter(u.ctx.0).is_ok_and(|_c| driver::free_memory().is_ok()));
        if alive {
            return DeviceError::Refused {
                device,
                what,
                code: status.0,
            };
        }
        self.lost[i].store(true, Ordering::Relaxed);
        DeviceError::Lost { device }
    }
}

pub(super) fn queues(all: &mut All, device: DeviceId) -> Result<&mut Queues, DeviceError> {
    all.get_mut(device.index())
        .and_then(Option::as_mut)
        .ok_or(DeviceError::Refused {
            device,
            what: "call",
            code: 0,
        })
}

pub(super) fn stream(all: &mut All, device: DeviceId, lane: Lane) -> Option<&mut Stream> {
    Some(&mut all.get_mut(device.index())?.as_mut()?.lanes[lane as usize])
}

pub(super) fn stream_ref(all: &All, device: DeviceId, lane: Lane) -> Option<&Stream> {
    Some(&all.get(device.index())?.as_ref()?.lanes[lane as usize])
}

/// One end of a copy, in device memory.
pub(super) fn on_device(r: Region) -> (End, usize) {
    (End::Device(r.addr), r.pitch)
}

impl Backend for CudaMachine {
    fn devices(&self) -> &[Caps] {
        &self.caps
    }

    fn usable(&self) -> usize {
        self.usable.load(Ordering::Acquire)
    }

    fn hardware(&self, device: DeviceId) -> Option<Hardware> {
        Some(self.up(device.index())?.hardware)
    }

    fn context(&self, device: DeviceId) -> usize {
        self.up(device.index())
            .map_or(0, |up| up.ctx.0.expose_provenance())
    }

    fn pin(&self, start: usize, len: usize) -> Result<(), DeviceError> {
        let device = DeviceId(0);
        let (_, _current) = self.enter(device)?;
        self.make_way();
        // SAFETY: the caller keeps the range mapped until `unpin`.
        unsafe { driver::register(start, len) }.map_err(|s| self.failed(device, "pin", s))?;
        self.pins.add(start, len);
        Ok(())
    }

    fn unpin(&self, start: usize, len: usize) {
        if !self.pins.remove(start, len) {
            return;
        }
        // No copy in place over the range is queued from now on; copies that are queued already are waited for.
        for i in 0..self.gpus.len() {
            let device = DeviceId(u8::try_from(i).unwrap_or(u8::MAX));
            let Ok((_, _current)) = self.enter(device) else {
                continue;
            };
            for lane in [Lane::In, Lane::Out] {
                let raw = stream(&mut self.lock(), device, lane).map(|s| s.raw as usize);
                if let Some(raw) = raw {
                    // A failure also shows in the tickets of the copies.
                    let _ = driver::stream_wait(raw as _);
                }
            }
        }
        if let Ok((_, _current)) = self.enter(DeviceId(0)) {
            // SAFETY: registered by `pin`, and no queued copy uses the range any more.
            let _ = unsafe { driver::unregister(start) };
        }
    }

    fn cell(&self, device: DeviceId, index: usize) -> Option<Cell> {
        let host = self.up(device.index())?.cells + index * CELL_BYTES;
        (index < CELLS).then_some(Cell {
            device: host as u64,
            host,
        })
    }

    fn buffer(&self, device: DeviceId, index: usize) -> Option<Cell> {
        let host = self.up(device.index())?.buffers + index * BUFFER_BYTES;
        (index < BUFFERS).then_some(Cell {
            device: host as u64,
            host,
        })
    }

    fn alloc(&self, device: DeviceId, bytes: usize) -> Result<u64, DeviceError> {
        let (_, _current) = self.enter(device)?;
        self.allocating.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let taken = driver::alloc(bytes);
        debug!(
            "{bytes} bytes of device {} in {:?}",
            device.0,
            began.elapsed()
        );
        self.allocating.fetch_sub(1, Ordering::Relaxed);
        taken.map_err(|s| match self.failed(device, "alloc", s) {
            DeviceError::Refused { .. } if s == driver::OUT_OF_MEMORY => {
                DeviceError::OutOfMemory { device, bytes }
            }
            other => other,
        })
    }

    unsafe fn free(&self, device: DeviceId, addr: u64) {
        if let Ok((_, _current)) = self.enter(device) {
            // SAFETY: the caller's promise. A failure only wastes the memory.
            let _ = unsafe { driver::free(addr) };
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
        // SAFETY: the caller's promise.
        unsafe { self.copy_host((device, Lane::In), after, host, src, dst, shape) }
    }

    unsafe fn download(
        &self,
        device: DeviceId,
        after: &[Ticket],
        src: Region,
        dst: Region,
        shape: Shape,
    ) -> Result<Ticket, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.copy_host((device, Lane::Out), after, after, dst, src, shape) }
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
        let (source, _) = self.enter(from)?;
        let (target, _current) = self.enter(to)?;
        let shape = shape.joined(src, dst);
        let mut all = self.lock();
        self.order(&mut all, to, Lane::Peer, after)?;
        let q = queues(&mut all, to)?;
        let s = &mut q.lanes[Lane::Peer as usize];
        s.begins(&mut q.clock);
        let (width, count) = (shape.width, shape.count);
        // SAFETY: the caller vouches for both regions.
        let queued = unsafe {
            match (from == to, count) {
                (true, _) => driver::copy(on_device(dst), on_device(src), shape, s.raw),
                (false, 1) => driver::copy_peer(
                    (dst.addr, target.ctx.0),
                    (src.addr, source.ctx.0),
                    width,
                    s.raw,
                ),
                (false, _) => driver::copy_peer_2d(
                    (dst.addr, dst.pitch, target.ctx.0),
                    (src.addr, src.pitch, source.ctx.0),
                    width,
                    count,
                    s.raw,
                ),
            }
        };
        queued.map_err(|e| self.failed(to, "copy", e))?;
        let operation = if from == to {
            Operation::Within
        } else {
            Operation::Peer(from, shape.bytes())
        };
        Ok(Ticket {
            device: to,
            lane: Lane::Peer,
            seq: s.queued(true, Some(operation)),
        })
    }

    unsafe fn launch(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &Kernel,
    ) -> Result<Ticket, DeviceError> {
        let (_, _current) = self.enter(device)?;
        let mut all = self.lock();
        self.order(&mut all, device, Lane::Compute, after)?;
        let q = queues(&mut all, device)?;
        if kernel.work() >= WORTH_AN_EVENT && self.usable() > 1 {
            q.lanes[2].takes_long();
        }
        q.lanes[2].begins(&mut q.clock);
        // SAFETY: the caller's promise; the context of the handle is current.
        unsafe { q.blas.launch(kernel) }.map_err(|s| self.failed(device, "launch", s))?;
        Ok(Ticket {
            device,
            lane: Lane::Compute,
            seq: q.lanes[2].queued(
                kernel.work() >= WORTH_AN_EVENT,
                Some(Operation::Kernel(kernel.timed_work())),
            ),
        })
    }

    fn multiplies_sparse(&self, device: DeviceId) -> bool {
        self.has_cusparse(device)
    }

    fn csr_scratch(&self, device: DeviceId, kernel: &CsrKernel) -> Result<usize, DeviceError> {
        self.sparse_scratch(device, kernel)
    }

    unsafe fn multiply_csr(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &CsrKernel,
    ) -> Result<Ticket, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_sparse(device, after, kernel) }
    }

    fn solves(&self, device: DeviceId) -> bool {
        self.up(device.index()).is_some() && *self.libraries.cusolver.get().unwrap_or(&true)
    }

    fn load_solver(&self, device: DeviceId, kernel: &DenseKernel) -> Result<(), DeviceError> {
        self.bring_up_solver(device, kernel)
    }

    fn dense_scratch(&self, device: DeviceId, kernel: &DenseKernel) -> Result<usize, DeviceError> {
        self.solver_scratch(device, kernel)
    }

    unsafe fn solve(
        &self,
        device: DeviceId,
        after: &[Ticket],
        kernel: &DenseKernel,
    ) -> Result<Ticket, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.queue_solver(device, after, kernel) }
    }

    fn load(&self, device: DeviceId, kernel: &Kernel) -> Result<(), DeviceError> {
        let _scope = DriverScope::new();
        // A first launch may load libraries, too.
        let _loading = Loading::new();
        let (up, _current) = self.enter(device)?;
        let mut loader = up.loader.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = match &mut *loader {
            Some(loader) => loader.run(kernel),
            none => Loader::new(self.caps[device.index()].memory)
                .and_then(|made| none.insert(made).run(kernel)),
        };
        loaded.map_err(|s| self.failed(device, "load", s))
    }

    fn done(&self, ticket: Ticket) -> Result<bool, DeviceError> {
        // In driver scope (an allocation of the driver's own asks whether blocks have become free): the answer
        // is no.
        if in_driver_scope() {
            return Ok(false);
        }
        let mut all = self.lock();
        if pending(&all, &ticket)
            || stream_ref(&all, ticket.device, ticket.lane)
                .is_some_and(|s| s.completed() < ticket.seq)
        {
            let _current = match self.enter(ticket.device) {
                Ok((_, current)) => current,
                Err(DeviceError::Refused { .. }) => return Ok(false),
                Err(lost) => return Err(lost),
            };
            let q = queues(&mut all, ticket.device)?;
            match q.lanes[ticket.lane as usize].done(ticket.seq) {
                Ok(false) => return Ok(false),
                Ok(true) => {}
                Err(s) => {
                    return match self.failed(ticket.device, "call", s) {
                        DeviceError::Refused { .. } => Ok(false),
                        lost => Err(lost),
                    };
                }
            }
            if ticket.lane == Lane::Out {
                self.land(q, ticket.device, ticket.seq)?;
            }
        }
        Ok(true)
    }

    fn wait_at_most(&self, ticket: Ticket, limit: Duration) -> Result<bool, DeviceError> {
        /// An event is asked for this often.
        const PAUSE_NS: i64 = 20_000;
        let _waiting = Waiting::on(ticket.lane.spent());
        let begun = Instant::now();
        loop {
            if self.done(ticket)? {
                return Ok(true);
            }
            if begun.elapsed() >= limit {
                return Ok(false);
            }
            let _ = rustix::thread::nanosleep(&rustix::thread::Timespec {
                tv_sec: 0,
                tv_nsec: PAUSE_NS,
            });
        }
    }

    fn wait(&self, ticket: Ticket) -> Result<(), DeviceError> {
        {
            let all = self.lock();
            let complete = stream_ref(&all, ticket.device, ticket.lane)
                .is_none_or(|s| s.completed() >= ticket.seq);
            if complete && !pending(&all, &ticket) {
                return Ok(());
            }
        }
        self.await_in_turn(ticket)
    }
}

/// Bytes of a write-back through staging memory: the CPU carries them the last part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    pub(super) seq: u64,
    pub(super) from: usize,
    pub(super) to: Region,
    pub(super) shape: Shape,
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
