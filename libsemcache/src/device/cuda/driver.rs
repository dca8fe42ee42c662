//! The CUDA driver's functions, with results instead of statuses. Only this file calls them, and it makes no decisions.
//!
//! [`library::driver`](super::library::driver) has succeeded before any of these functions runs: the bindings panic on
//! functions that the driver does not export.
#![expect(unsafe_code, reason = "calls the CUDA driver")]

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use cudarc::driver::sys::{self, CUresult};

use crate::device::api::Shape;
use crate::device::host_memory::{own_pages, return_pages};
use crate::process::driver_scope::DriverScope;
use crate::process::spent::Spent;
use crate::process::waited::Waiting;

pub(super) use sys::CUcontext;
pub(super) use sys::CUdevice;
pub(super) use sys::CUdevice_P2PAttribute as PeerAttribute;
pub(super) use sys::CUdevice_attribute as Attribute;
pub(super) use sys::CUevent;
pub(super) use sys::CUstream;

/// A status that is not success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Status(pub(super) i32);

pub(super) const OUT_OF_MEMORY: Status = Status(2);
/// `CUDA_ERROR_NOT_FOUND`: the driver has no such symbol.
const NOT_FOUND: Status = Status(500);
pub(super) const NOT_READY: Status = Status(600);

type Result<T> = core::result::Result<T, Status>;

fn check(r: CUresult) -> Result<()> {
    match r {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(Status(other as i32)),
    }
}

/// Calls a function of the driver.
macro_rules! call {
    ($f:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: the driver is loaded and exports the function (see the module); pointers are to live locals, or the
        // caller of the unsafe function around this vouches for them.
        check(unsafe { sys::$f($($arg),*) })
    };
}

pub(super) fn init() -> Result<()> {
    call!(cuInit(0))
}

pub(super) fn version() -> Result<i32> {
    let mut v: c_int = 0;
    call!(cuDriverGetVersion(&mut v))?;
    Ok(v)
}

pub(super) fn device_count() -> Result<usize> {
    let mut n: c_int = 0;
    call!(cuDeviceGetCount(&mut n))?;
    Ok(usize::try_from(n).unwrap_or(0))
}

pub(super) fn device(ordinal: usize) -> Result<CUdevice> {
    let mut d: CUdevice = 0;
    call!(cuDeviceGet(
        &mut d,
        c_int::try_from(ordinal).unwrap_or(c_int::MAX)
    ))?;
    Ok(d)
}

pub(super) fn name(device: CUdevice) -> Result<String> {
    let mut text = [0_u8; 256];
    call!(cuDeviceGetName(text.as_mut_ptr().cast(), 255, device))?;
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}

pub(super) fn total_memory(device: CUdevice) -> Result<usize> {
    let mut bytes = 0;
    call!(cuDeviceTotalMem_v2(&mut bytes, device))?;
    Ok(bytes)
}

pub(super) fn attribute(device: CUdevice, which: Attribute) -> Result<usize> {
    let mut v: c_int = 0;
    call!(cuDeviceGetAttribute(&mut v, which, device))?;
    Ok(usize::try_from(v).unwrap_or(0))
}

pub(super) fn can_access(device: CUdevice, peer: CUdevice) -> Result<bool> {
    let mut yes: c_int = 0;
    call!(cuDeviceCanAccessPeer(&mut yes, device, peer))?;
    Ok(yes != 0)
}

/// An attribute of the link over which a GPU reads the memory of a peer.
pub(super) fn peer_attribute(
    device: CUdevice,
    peer: CUdevice,
    which: PeerAttribute,
) -> Result<usize> {
    let mut v: c_int = 0;
    call!(cuDeviceGetP2PAttribute(&mut v, which, device, peer))?;
    Ok(usize::try_from(v).unwrap_or(0))
}

/// A context of our own, so that streams, settings and memory of the program's context stay apart.
pub(super) fn create_context(device: CUdevice) -> Result<CUcontext> {
    type Create = unsafe extern "C" fn(*mut CUcontext, c_uint, CUdevice) -> CUresult;
    let mut ctx = ptr::null_mut();
    // Every driver has the second version; the bindings of CUDA 13 have only the fourth.
    // SAFETY: the driver is loaded and exports the function, of this type; the context is a live local.
    unsafe {
        let create = sys::culib()
            .get::<Create>(b"cuCtxCreate_v2")
            .map_err(|_| NOT_FOUND)?;
        // 0: the driver chooses between spinning and yielding by the number of processors.
        check(create(&mut ctx, 0, device))?;
    }
    // `cuCtxCreate` has made the context current; the thread's former context becomes current again.
    let mut popped = ptr::null_mut();
    call!(cuCtxPopCurrent_v2(&mut popped))?;
    Ok(ctx)
}

/// Ends a context, and with it its streams, its memory and the handles that use it.
///
/// # Safety
/// Nothing of the context is in use, and nothing will be used.
#[expect(unsafe_code, reason = "a function of the driver")]
pub(super) unsafe fn destroy_context(ctx: CUcontext) -> Result<()> {
    call!(cuCtxDestroy_v2(ctx))
}

/// Makes a context current on the calling thread until dropped; then the former context is current again.
#[derive(Debug)]
pub(super) struct Current {
    _scope: DriverScope,
}

impl Current {
    pub(super) fn enter(ctx: CUcontext) -> Result<Current> {
        let scope = DriverScope::new();
        call!(cuCtxPushCurrent_v2(ctx))?;
        Ok(Current { _scope: scope })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // A failure is ignored; the thread's next entry pushes a context again.
        let _ = call!(cuCtxPopCurrent_v2(&mut popped));
    }
}

/// Lets the current context reach the memory of `peer`.
pub(super) fn enable_peer(peer: CUcontext) -> Result<()> {
    call!(cuCtxEnablePeerAccess(peer, 0))
}

/// Free bytes of the current context's device.
pub(super) fn free_memory() -> Result<usize> {
    let (mut free, mut total) = (0, 0);
    call!(cuMemGetInfo_v2(&mut free, &mut total))?;
    Ok(free)
}

pub(super) fn alloc(bytes: usize) -> Result<u64> {
    let mut at = 0;
    call!(cuMemAlloc_v2(&mut at, bytes))?;
    Ok(at)
}

/// # Safety
/// `at` came from [`alloc`], and no operation uses it any more.
pub(super) unsafe fn free(at: u64) -> Result<()> {
    call!(cuMemFree_v2(at))
}

/// Page-locked host memory in huge pages, which all contexts copy. Never freed. Allocated by the driver if it cannot page-lock what
/// this process maps: 256 MiB take 0.1 s then.
pub(super) fn alloc_staging(bytes: usize) -> Result<usize> {
    if let Ok(at) = own_pages(bytes) {
        // SAFETY: the pages stay mapped.
        if unsafe { register(at, bytes) }.is_ok() {
            return Ok(at);
        }
        // SAFETY: mapped above and not registered.
        unsafe { return_pages(at, bytes) };
    }
    Ok(alloc_host(bytes)?.expose_provenance())
}

/// Page-locked host memory, reachable by all contexts at the same address. Never freed.
pub(super) fn alloc_host(bytes: usize) -> Result<*mut u8> {
    /// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
    const FLAGS: c_uint = 1 | 2;
    let mut at: *mut c_void = ptr::null_mut();
    call!(cuMemHostAlloc(&mut at, bytes, FLAGS))?;
    Ok(at.cast())
}

/// # Safety
/// Page-locking changes no contents; the range is mapped until [`unregister`].
pub(super) unsafe fn register(start: usize, len: usize) -> Result<()> {
    /// `CU_MEMHOSTREGISTER_PORTABLE`
    const FLAGS: c_uint = 1;
    call!(cuMemHostRegister_v2(
        ptr::with_exposed_provenance_mut(start),
        len,
        FLAGS
    ))
}

/// # Safety
/// `start` was registered; copies over the range are complete.
pub(super) unsafe fn unregister(start: usize) -> Result<()> {
    call!(cuMemHostUnregister(ptr::with_exposed_provenance_mut(start)))
}

/// A stream that does not wait for the legacy default stream.
pub(super) fn create_stream() -> Result<CUstream> {
    const NON_BLOCKING: c_uint = 1;
    let mut s = ptr::null_mut();
    call!(cuStreamCreate(&mut s, NON_BLOCKING))?;
    Ok(s)
}

/// Whether all work of a stream is complete.
pub(super) fn stream_done(s: CUstream) -> Result<bool> {
    ready(call!(cuStreamQuery(s)))
}

pub(super) fn stream_wait(s: CUstream) -> Result<()> {
    let _waiting = Waiting::on(Spent::Transfers);
    call!(cuStreamSynchronize(s))
}

/// Makes operations that are queued on the stream from now on wait for the event.
pub(super) fn stream_after(s: CUstream, e: CUevent) -> Result<()> {
    call!(cuStreamWaitEvent(s, e, 0))
}

/// An event without a time stamp.
pub(super) fn create_event() -> Result<CUevent> {
    const DISABLE_TIMING: c_uint = 2;
    let mut e = ptr::null_mut();
    call!(cuEventCreate(&mut e, DISABLE_TIMING))?;
    Ok(e)
}

/// An event that the device stamps with the time at which it is reached.
pub(super) fn create_timing_event() -> Result<CUevent> {
    let mut e = ptr::null_mut();
    call!(cuEventCreate(&mut e, 0))?;
    Ok(e)
}

type ElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;

/// The driver's function that tells how much time lies between two events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elapsed(ElapsedTime);

impl Elapsed {
    /// Looks the function up; `None` if the driver does not export it.
    pub(super) fn find() -> Option<Elapsed> {
        // Every driver has the first version; the bindings of CUDA 13 have only the second.
        // SAFETY: the driver is loaded, and its function of this name has this type.
        let f = unsafe { sys::culib().get::<ElapsedTime>(b"cuEventElapsedTime") };
        f.ok().map(|f| Elapsed(*f))
    }

    /// Milliseconds from one event to another, negative if the second came first. Both are complete, were made by
    /// [`create_timing_event`] in the current context, and have been recorded.
    pub(super) fn milliseconds(self, from: CUevent, to: CUevent) -> Result<f32> {
        let mut ms = 0.0;
        // SAFETY: the library is never unloaded; the result is a live local.
        check(unsafe { (self.0)(&mut ms, from, to) })?;
        Ok(ms)
    }
}

pub(super) fn record(e: CUevent, s: CUstream) -> Result<()> {
    call!(cuEventRecord(e, s))
}

pub(super) fn event_done(e: CUevent) -> Result<bool> {
    ready(call!(cuEventQuery(e)))
}

pub(super) fn event_wait(e: CUevent) -> Result<()> {
    let _waiting = Waiting::on(Spent::Transfers);
    call!(cuEventSynchronize(e))
}

fn ready(r: Result<()>) -> Result<bool> {
    match r {
        Ok(()) => Ok(true),
        Err(NOT_READY) => Ok(false),
        Err(e) => Err(e),
    }
}

/// # Safety
/// Both ranges are valid until the stream has completed the copy.
pub(super) unsafe fn copy_in(dst: u64, src: usize, len: usize, s: CUstream) -> Result<()> {
    call!(cuMemcpyHtoDAsync_v2(
        dst,
        ptr::with_exposed_provenance(src),
        len,
        s
    ))
}

/// # Safety
/// As [`copy_in`].
pub(super) unsafe fn copy_out(dst: usize, src: u64, len: usize, s: CUstream) -> Result<()> {
    call!(cuMemcpyDtoHAsync_v2(
        ptr::with_exposed_provenance_mut(dst),
        src,
        len,
        s
    ))
}

/// # Safety
/// As [`copy_in`], within one device.
unsafe fn copy_within(dst: u64, src: u64, len: usize, s: CUstream) -> Result<()> {
    call!(cuMemcpyDtoDAsync_v2(dst, src, len, s))
}

/// One end of a strided copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Host(usize),
    Device(u64),
}

/// Copies the runs of a shape, each end with its own pitch; contiguous runs are copied as one piece.
///
/// # Safety
/// As [`copy_in`].
pub(super) unsafe fn copy(
    dst: (End, usize),
    src: (End, usize),
    shape: Shape,
    s: CUstream,
) -> Result<()> {
    let Shape { width, count } = shape;
    let bytes = shape.bytes();
    let one = count == 1 || (dst.1 == width && src.1 == width);
    if one {
        // SAFETY: the caller's promise.
        unsafe {
            match (dst.0, src.0) {
                (End::Device(to), End::Host(from)) => return copy_in(to, from, bytes, s),
                (End::Host(to), End::Device(from)) => return copy_out(to, from, bytes, s),
                (End::Device(to), End::Device(from)) => return copy_within(to, from, bytes, s),
                (End::Host(_), End::Host(_)) => {}
            }
        }
    }
    let mut c = copy_description();
    match src.0 {
        End::Host(at) => {
            c.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
            c.srcHost = ptr::with_exposed_provenance(at);
        }
        End::Device(at) => {
            c.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
            c.srcDevice = at;
        }
    }
    match dst.0 {
        End::Host(at) => {
            c.dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
            c.dstHost = ptr::with_exposed_provenance_mut(at);
        }
        End::Device(at) => {
            c.dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
            c.dstDevice = at;
        }
    }
    (c.dstPitch, c.srcPitch) = (dst.1, src.1);
    (c.WidthInBytes, c.Height) = (width, count);
    call!(cuMemcpy2DAsync_v2(&c, s))
}

/// An empty description of a strided copy within device memory.
fn copy_description() -> sys::CUDA_MEMCPY2D {
    let kind = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: kind,
        srcHost: ptr::null(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: kind,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: 0,
        Height: 0,
    }
}

/// Copies bytes between the devices of two contexts.
///
/// # Safety
/// As [`copy_in`].
pub(super) unsafe fn copy_peer(
    dst: (u64, CUcontext),
    src: (u64, CUcontext),
    len: usize,
    s: CUstream,
) -> Result<()> {
    call!(cuMemcpyPeerAsync(dst.0, dst.1, src.0, src.1, len, s))
}

/// Copies a strided region between the devices of two contexts; each end is an address, a pitch and a context.
///
/// # Safety
/// As [`copy_in`].
pub(super) unsafe fn copy_peer_2d(
    dst: (u64, usize, CUcontext),
    src: (u64, usize, CUcontext),
    width: usize,
    rows: usize,
    s: CUstream,
) -> Result<()> {
    let kind = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
    let c = sys::CUDA_MEMCPY3D_PEER {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: kind,
        srcHost: ptr::null(),
        srcDevice: src.0,
        srcArray: ptr::null_mut(),
        srcContext: src.2,
        srcPitch: src.1,
        srcHeight: rows,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: kind,
        dstHost: ptr::null_mut(),
        dstDevice: dst.0,
        dstArray: ptr::null_mut(),
        dstContext: dst.2,
        dstPitch: dst.1,
        dstHeight: rows,
        WidthInBytes: width,
        Height: rows,
        Depth: 1,
    };
    call!(cuMemcpy3DPeerAsync(&c, s))
}

/// # Safety
/// As [`copy_in`].
pub(super) unsafe fn clear(at: u64, len: usize, s: CUstream) -> Result<()> {
    call!(cuMemsetD8Async(at, 0, len, s))
}
