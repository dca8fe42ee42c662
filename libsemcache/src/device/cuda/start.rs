//! Start of the CUDA backend: the libraries and the list of GPUs, then a context per GPU.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use log::debug;

use super::blas::Blas;
use super::clock::{Clock, Idle};
use super::driver::{self, Attribute, CUcontext, CUdevice, Current, PeerAttribute, Status};
use super::machine::{BUFFERS, CELLS, Ctx, CudaMachine, Gpu, LANES, Queues, Up};
use super::probe::{self, Rules};
use super::ring::Ring;
use super::stream::Stream;
use super::{CudaError, Hooks, hardware, library, loads};
use crate::base::config::{CudaSet, Memory};
use crate::base::ids::MAX_DEVICES;
use crate::base::{DeviceId, Link};
use crate::device::api::{BUFFER_BYTES, CELL_BYTES, Caps, Lane};
use crate::device::host_memory::HostMemory;
use crate::process::background::Busy;
use crate::process::driver_scope::DriverScope;
use crate::process::loads::Loading;

/// Bytes of a device's staging memory for uploads. New inputs of 2 GiB each reached four H100 at 34 GB/s with 32 MiB while another
/// thread page-locked the result, at 55 with 128; AB + AC of new memory took 0.29 to 0.31 s with 64, 0.39 to 0.45 with 32.
const RING_IN: usize = 64 << 20;
/// The same for downloads.
const RING_OUT: usize = 32 << 20;

fn refused(what: &'static str) -> impl Fn(Status) -> CudaError {
    move |s| CudaError::Refused(what, s.0)
}

/// Loads the libraries and lists the GPUs. None of them can be used before [`CudaMachine::bring_up`].
///
/// # Errors
/// Why there are no GPUs.
pub fn open(set: &CudaSet, memory: Memory, hooks: &Hooks) -> Result<CudaMachine, CudaError> {
    let _scope = DriverScope::new();
    {
        let _loading = Loading::new();
        library::driver()?;
    }
    let began = std::time::Instant::now();
    // Initialising the driver and loading cuBLAS take about the same time and are independent, so two threads do them.
    let (init, cublas) = std::thread::scope(|scope| {
        let Hooks {
            environment,
            secure,
            ..
        } = *hooks;
        let load = move || {
            let _scope = DriverScope::new();
            let _loading = Loading::new();
            let _busy = Busy::new();
            library::cublas(&environment, secure)
        };
        let loading = std::thread::Builder::new().spawn_scoped(scope, load);
        let init = {
            // `cuInit` loads libraries of the driver's.
            let _loading = Loading::new();
            driver::init()
        };
        let initialised = began.elapsed();
        let cublas = match loading {
            Ok(thread) => thread.join().unwrap_or(Err(CudaError::NoDriver)),
            Err(_) => load(),
        };
        debug!(
            "driver until {initialised:?}, cuBLAS loaded until {:?}",
            began.elapsed()
        );
        (init, cublas)
    });
    match init {
        Ok(()) => {}
        // `CUDA_ERROR_NO_DEVICE`
        Err(Status(100)) => return Err(CudaError::NoDriver),
        Err(s) => return Err(CudaError::Refused("cuInit", s.0)),
    }
    let count = driver::device_count().map_err(refused("cuDeviceGetCount"))?;
    let ordinals: Vec<usize> = match set {
        CudaSet::All => (0..count.min(MAX_DEVICES)).collect(),
        CudaSet::List(list) => list.clone(),
    };
    if let Some(&none) = ordinals.iter().find(|&&i| i >= count) {
        return Err(CudaError::NoSuchGpu(none));
    }
    let (ordinals, processes) = (hooks.choose)(&ordinals);
    if ordinals.is_empty() {
        return Err(CudaError::NoDriver);
    }
    cublas?;
    let host = HostMemory::open().map_err(|e| CudaError::HostAccess(e.to_string()))?;
    let mut gpus = Vec::with_capacity(ordinals.len());
    for &i in &ordinals {
        gpus.push(Gpu {
            device: driver::device(i).map_err(refused("cuDeviceGet"))?,
        });
    }
    let mut caps = Vec::with_capacity(gpus.len());
    for (i, g) in gpus.iter().enumerate() {
        let memory = |total| memory.of(total, processes);
        caps.push(describe(i, g.device, &gpus, &memory)?);
    }
    Ok(CudaMachine::new(caps, gpus, host, *hooks))
}

fn describe(
    i: usize,
    device: CUdevice,
    all: &[Gpu],
    memory: &dyn Fn(usize) -> usize,
) -> Result<Caps, CudaError> {
    let total = driver::total_memory(device).map_err(refused("cuDeviceTotalMem"))?;
    let links = all.iter().enumerate().map(|(j, peer)| match j == i {
        true => Link::None,
        false => link(device, peer.device),
    });
    Ok(Caps {
        name: driver::name(device).map_err(refused("cuDeviceGetName"))?,
        kind: "cuda",
        memory: memory(total),
        links: links.collect(),
    })
}

/// How a GPU reads the memory of a peer. Atomic operations in a peer's memory work over NVLink and not over PCIe, which is
/// no faster than the GPU's own link to the host.
fn link(device: CUdevice, peer: CUdevice) -> Link {
    use PeerAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED as ATOMICS;
    use PeerAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK as RANK;
    let attribute = |which| driver::peer_attribute(device, peer, which).unwrap_or(0);
    match driver::can_access(device, peer) {
        Ok(true) if attribute(ATOMICS) != 0 => {
            Link::Faster(u8::try_from(attribute(RANK)).unwrap_or(u8::MAX))
        }
        Ok(true) => Link::Slower,
        _ => Link::None,
    }
}

impl CudaMachine {
    /// Brings up one GPU after the other. Ends at the first GPU that fails.
    ///
    /// # Errors
    /// Why the GPUs from that one on cannot be used.
    pub fn bring_up(&self) -> Result<(), CudaError> {
        (0..self.gpus.len()).try_for_each(|i| self.make(i).map(|()| self.admit(i)))
    }

    /// Makes the context, the streams and the handles of a GPU. Several threads may do this for different GPUs at the same time.
    ///
    /// # Errors
    /// Why the GPU cannot be used.
    pub fn make(&self, i: usize) -> Result<(), CudaError> {
        let (up, queues) = self.one(i)?;
        self.add(i, up, queues);
        Ok(())
    }

    /// Lets calls use a GPU that has been made, as all before it may be used: connects it with these.
    pub fn admit(&self, i: usize) {
        let _scope = DriverScope::new();
        let Some(up) = self.up(i) else {
            return;
        };
        if let Ok(_current) = Current::enter(up.ctx.0) {
            for (j, peer) in self.gpus[..i].iter().enumerate() {
                if self.caps[i].links[j] != Link::None
                    && let Some(other) = self.up(j)
                {
                    connect(up.ctx.0, other.ctx.0, self.gpus[i].device, peer.device);
                }
            }
        }
        self.usable.store(i + 1, Ordering::Release);
    }

    /// Gives back a GPU that has been made and will not be used: another process may be waiting for it.
    pub fn discard(&self, i: usize) {
        let _scope = DriverScope::new();
        if let Some(up) = self.up(i) {
            // SAFETY: calls use only GPUs that were admitted, so nothing of this context is in use, now or later.
            #[expect(unsafe_code, reason = "ends a context")]
            let _ = unsafe { driver::destroy_context(up.ctx.0) };
        }
    }

    fn one(&self, i: usize) -> Result<(Up, Queues), CudaError> {
        let (_scope, gpu) = (DriverScope::new(), &self.gpus[i]);
        // Making a context or a cuBLAS handle loads libraries, too.
        let _loading = Loading::new();
        let began = std::time::Instant::now();
        let ctx = driver::create_context(gpu.device).map_err(refused("cuCtxCreate"))?;
        let _current = Current::enter(ctx).map_err(refused("cuCtxPushCurrent"))?;
        let context = began.elapsed();
        let streams = LANES * self.gpus.len();
        let stream =
            |lane| Stream::new(streams, DeviceId::at(i), lane).map_err(refused("cuStreamCreate"));
        let lanes = [
            stream(Lane::In)?,
            stream(Lane::Out)?,
            stream(Lane::Compute)?,
            stream(Lane::Peer)?,
        ];
        let clock = Clock::new(Idle::new());
        let mut blas =
            Blas::new(lanes[2].raw, self.caps[i].memory).map_err(refused("cublasCreate"))?;
        let handle = began.elapsed();
        let up = Ring::new(RING_IN).map_err(refused("cuMemHostAlloc"))?;
        let down = Ring::new(RING_OUT).map_err(refused("cuMemHostAlloc"))?;
        let mapped = |bytes| driver::alloc_host(bytes).map_err(refused("cuMemHostAlloc"));
        let (cells, buffers) = (mapped(CELLS * CELL_BYTES)?, mapped(BUFFERS * BUFFER_BYTES)?);
        let memory = began.elapsed();
        let rules = self.rules(gpu.device, &lanes[0]);
        let self_test = began.elapsed();
        let mut known = hardware::described(gpu.device);
        let vectors = cells.expose_provenance() as u64;
        known.first_launch_s = loads::first_launch(&mut blas, lanes[2].raw, vectors);
        if let Some(at) = up.start_of(hardware::TIMED) {
            hardware::timed(&mut known, at, lanes[0].raw);
        }
        debug!(
            "GPU {i}: context {context:?}, cuBLAS until {handle:?}, staging memory until {memory:?}, self-test until {self_test:?}, link until {:?}; {known:?}",
            began.elapsed()
        );
        let version = blas.version();
        Ok((
            Up {
                ctx: Ctx(ctx),
                cells: cells.expose_provenance(),
                buffers: buffers.expose_provenance(),
                rules,
                hardware: known,
                pitch: driver::attribute(gpu.device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH)
                    .unwrap_or(0),
                cublas: version,
                loader: Mutex::default(),
                rehearsal: Mutex::default(),
            },
            Queues::new(lanes, blas, clock, (up, down)),
        ))
    }

    /// The self-test of in-place copies. A device that uses the host's page table also obeys its page protection, so no
    /// copy in place is safe there.
    fn rules(&self, device: CUdevice, stream: &Stream) -> Rules {
        let shares = driver::attribute(
            device,
            Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        );
        if shares != Ok(0) {
            return Rules::NONE;
        }
        let Ok(block) = driver::alloc(probe::AREA) else {
            return Rules::NONE;
        };
        let rules = probe::probe(stream.raw, block);
        // SAFETY: allocated above, and `probe` has waited for its copies.
        #[expect(unsafe_code, reason = "returns device memory")]
        let _ = unsafe { driver::free(block) };
        rules
    }
}

/// Lets the contexts of two GPUs reach each other's memory. Otherwise the driver copies between them through host
/// memory.
fn connect(a: CUcontext, b: CUcontext, da: CUdevice, db: CUdevice) {
    if driver::can_access(da, db) == Ok(true) {
        let _ = driver::enable_peer(b);
    }
    if driver::can_access(db, da) == Ok(true)
        && let Ok(_current) = Current::enter(b)
    {
        let _ = driver::enable_peer(a);
    }
}
