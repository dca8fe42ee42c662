//! The functions of `semcache.h`, which finds them by the name of one table: no program needs this library to be linked or to start.
//! Functions are added at the end of the table, whose first field is its size.

#![expect(unsafe_code, reason = "arguments arrive as raw pointers from C")]

mod args;
mod csr;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use semcache::base::DeviceId;
use semcache::base::distribution::{Distribution as Owners, grid};
use semcache::base::ids::MAX_DEVICES;
use semcache::hints::Status;
use semcache::hints::view::View;
use semcache::runtime::hints;
use semcache_fault::cancel;

use args::{Matrix, Sized32, fill, guarded, sized, taken, view};
use csr::{Csr, csr_multiply};

/// `semcache_statistics`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Statistics {
    size: u64,
    offloaded: u64,
    h2d: u64,
    d2h: u64,
    p2p: u64,
    faults: u64,
}

/// `semcache_distribution`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Distribution {
    size: u32,
    kind: u32,
    mb: i64,
    nb: i64,
    p: i32,
    q: i32,
    owner: Option<unsafe extern "C" fn(i64, i64, *mut c_void) -> i32>,
    user: *mut c_void,
}

/// `semcache_device_matrix`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DeviceMatrix {
    size: u32,
    device: i32,
    address: u64,
    ld: i64,
    hold: u64,
    context: *mut c_void,
}

/// `semcache_rates`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    size: u64,
    bytes_per_s: [f64; 3],
    latency_s: f64,
    device_flops: [f64; 2],
    host_flops: [f64; 2],
    memory: u64,
}

/// `semcache_prediction`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Prediction {
    size: u32,
    devices: i32,
    host_s: f64,
    devices_s: f64,
}

// SAFETY: numbers, pointers and optional functions, the size first.
unsafe impl Sized32 for Distribution {}
// SAFETY: as above.
unsafe impl Sized32 for DeviceMatrix {}
// SAFETY: as above; of an eight-byte size the low half comes first.
unsafe impl Sized32 for Rates {}
// SAFETY: as above.
unsafe impl Sized32 for Prediction {}
// SAFETY: as above.
unsafe impl Sized32 for Statistics {}

/// `semcache_interface`.
#[repr(C)]
pub(crate) struct Interface {
    size: usize,
    devices: extern "C" fn() -> c_int,
    prefetch: unsafe extern "C" fn(*const Matrix, c_int, *mut u64) -> c_int,
    coherent: unsafe extern "C" fn(*const Matrix, *mut u64) -> c_int,
    to_cpu: unsafe extern "C" fn(*const Matrix, c_int) -> c_int,
    evict: unsafe extern "C" fn(*const Matrix, c_int) -> c_int,
    residency: unsafe extern "C" fn(*const Matrix, c_int, *mut i64) -> c_int,
    wait: unsafe extern "C" fn(*const u64, c_int) -> c_int,
    statistics: unsafe extern "C" fn(*mut Statistics) -> c_int,
    section: unsafe extern "C" fn(c_int, *mut u64) -> c_int,
    distribute: unsafe extern "C" fn(*const Matrix, *const Distribution, *mut u64) -> c_int,
    pin: unsafe extern "C" fn(*const Matrix, c_int, c_int, *mut u64) -> c_int,
    to_gpu: unsafe extern "C" fn(*const Matrix, c_int, c_int, *mut DeviceMatrix) -> c_int,
    release: extern "C" fn(u64) -> c_int,
    name: unsafe extern "C" fn(*const Matrix, *const c_char) -> c_int,
    range: unsafe extern "C" fn(*const c_char) -> c_int,
    rates: unsafe extern "C" fn(c_int, *mut Rates) -> c_int,
    predict: unsafe extern "C" fn(*const c_char, *const i64, c_int, *mut Prediction) -> c_int,
    csr_multiply: unsafe extern "C" fn(
        *const Csr,
        c_int,
        *const c_void,
        *const Matrix,
        *const c_void,
        *const Matrix,
    ) -> c_int,
}

/// Looked up by `semcache.h`.
#[unsafe(no_mangle)]
pub(crate) static semcache_interface_1: Interface = Interface {
    size: size_of::<Interface>(),
    devices,
    prefetch,
    coherent,
    to_cpu,
    evict,
    residency,
    wait,
    statistics,
    section,
    distribute,
    pin,
    to_gpu,
    release,
    name,
    range,
    rates,
    predict,
    csr_multiply,
};

/// `SEMCACHE_HOST`: in place of a device.
const HOST: c_int = -2;

extern "C" fn devices() -> c_int {
    c_int::try_from(hints::devices()).unwrap_or(c_int::MAX)
}

/// Runs a request that has an event if the caller wants one: zero if the request is complete.
///
/// # Safety
/// `event` is null, or may be written.
unsafe fn with_event(
    event: *mut u64,
    request: impl FnOnce(bool) -> Result<hints::Number, Status>,
) -> Result<(), Status> {
    let number = request(!event.is_null());
    // SAFETY: the caller keeps this function's contract.
    if let Some(event) = unsafe { event.as_mut() } {
        *event = number.unwrap_or(0);
    }
    number.map(|_| ())
}

unsafe extern "C" fn prefetch(matrix: *const Matrix, to: c_int, event: *mut u64) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe {
        let view = view(matrix);
        with_event(event, |asynchronous| {
            hints::prefetch(&view?, to, asynchronous)
        })
    })
}

unsafe extern "C" fn coherent(matrix: *const Matrix, event: *mut u64) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe {
        let view = view(matrix);
        with_event(event, |asynchronous| hints::coherent(&view?, asynchronous))
    })
}

unsafe extern "C" fn to_cpu(matrix: *const Matrix, write: c_int) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| hints::to_cpu(&unsafe { view(matrix) }?, write != 0))
}

unsafe extern "C" fn evict(matrix: *const Matrix, from: c_int) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| hints::evict(&unsafe { view(matrix) }?, from))
}

unsafe extern "C" fn residency(matrix: *const Matrix, on: c_int, bytes: *mut i64) -> c_int {
    guarded(|| {
        // SAFETY: the program passes what `semcache.h` says.
        let (view, bytes) = unsafe { (view(matrix)?, bytes.as_mut()) };
        let bytes = bytes.ok_or(Status::Invalid)?;
        let found = hints::residency(&view)?;
        let all = view.place()?.map_or(0, |place| place.bytes());
        let there = match on {
            HOST => all - found.stale,
            hints::ALL => found.union,
            device => {
                let index = usize::try_from(device).map_err(|_| Status::Invalid)?;
                let known = hints::devices() > index || hints::devices() == 0;
                let known = known.then(|| found.resident.get(index).copied().unwrap_or(0));
                known.ok_or(Status::Invalid)?
            }
        };
        *bytes = i64::try_from(there).unwrap_or(i64::MAX);
        Ok(())
    })
}

unsafe extern "C" fn wait(event: *const u64, waits: c_int) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| match unsafe { event.as_ref() } {
        Some(&number) => hints::event(number, waits != 0),
        None => Err(Status::Invalid),
    })
}

unsafe extern "C" fn statistics(out: *mut Statistics) -> c_int {
    let found = || {
        let found = hints::statistics();
        let [h2d, d2h, p2p] = found.bytes;
        Statistics {
            size: size_of::<Statistics>() as u64,
            offloaded: found.offloaded,
            h2d,
            d2h,
            p2p,
            faults: found.faults,
        }
    };
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe { fill(out, Ok(found())) })
}

unsafe extern "C" fn section(begin: c_int, event: *mut u64) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe {
        with_event(event, |asynchronous| {
            hints::section(begin != 0, asynchronous)
        })
    })
}

/// `SEMCACHE_NOWHERE` and its kin.
const NOWHERE: u32 = 0;
const ROWS: u32 = 1;
const COLUMNS: u32 = 2;
const BLOCKS: u32 = 3;
const CYCLIC: u32 = 4;
const OWNERS: u32 = 5;

/// The distribution of a matrix over devices; `None` ends an earlier one.
fn owners(view: &View, of: &Distribution, devices: usize) -> Result<Option<Owners>, Status> {
    let (rows, cols) = (view.rows, view.cols);
    let size = |n: i64| usize::try_from(n).map_err(|_| Status::Invalid);
    let number = |n: i32| usize::try_from(n).map_err(|_| Status::Invalid);
    let (square, given) = (grid(devices), (number(of.p)?, number(of.q)?));
    let (p, q) = match of.kind {
        NOWHERE => return Ok(None),
        ROWS => (devices, 1),
        COLUMNS => (1, devices),
        BLOCKS | CYCLIC if given == (0, 0) => square,
        BLOCKS | CYCLIC => given,
        OWNERS => (1, 1),
        _ => return Err(Status::Invalid),
    };
    if p == 0 || q == 0 || p.checked_mul(q).is_none_or(|all| all > devices) {
        return Err(Status::Invalid);
    }
    let block = match of.kind {
        CYCLIC | OWNERS => (size(of.mb)?, size(of.nb)?),
        _ => (rows.div_ceil(p), cols.div_ceil(q)),
    };
    let dealt = |i: usize, j: usize| Some(i % p * q + j % q);
    let asked = |i: usize, j: usize| {
        let (i, j) = (i64::try_from(i).ok()?, i64::try_from(j).ok()?);
        // A cancellation of the thread must not unwind from the program's code through the library.
        let cancellation = cancel::disabled();
        // SAFETY: the program passes a function of this type.
        let owner = of.owner.map(|owner| unsafe { owner(i, j, of.user) });
        cancellation.restore();
        let owner = owner?;
        usize::try_from(owner).ok()
    };
    let owner = |i, j| {
        let index = if of.kind == OWNERS {
            asked(i, j)
        } else {
            dealt(i, j)
        };
        index.filter(|&index| index < devices).map(DeviceId::at)
    };
    if of.kind == OWNERS && of.owner.is_none() {
        return Err(Status::Invalid);
    }
    Owners::new((rows, cols), block, owner)
        .map(Some)
        .ok_or(Status::Invalid)
}

unsafe extern "C" fn distribute(
    matrix: *const Matrix,
    of: *const Distribution,
    event: *mut u64,
) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe {
        let request = (view(matrix), taken(of));
        with_event(event, |asynchronous| {
            let (view, of) = (request.0?, request.1?);
            hints::distribute(&view, |devices| owners(&view, &of, devices), asynchronous)
        })
    })
}

unsafe extern "C" fn pin(
    matrix: *const Matrix,
    to: c_int,
    pinned: c_int,
    event: *mut u64,
) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe {
        let view = view(matrix);
        with_event(event, |asynchronous| {
            hints::pin(&view?, to, pinned != 0, asynchronous)
        })
    })
}

unsafe extern "C" fn to_gpu(
    matrix: *const Matrix,
    on: c_int,
    write: c_int,
    out: *mut DeviceMatrix,
) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe {
        // Before anything is held.
        sized(out)?;
        let found = hints::to_gpu(&view(matrix)?, on, write != 0)?;
        if let Some(told) = CONTEXTS.get(found.device) {
            told.store(found.context, Ordering::Release);
        }
        let found = DeviceMatrix {
            size: size_of::<DeviceMatrix>() as u32,
            device: i32::try_from(found.device).unwrap_or(i32::MAX),
            address: found.address,
            ld: found.ld,
            hold: found.hold,
            context: core::ptr::with_exposed_provenance_mut(found.context),
        };
        fill(out, Ok(found))
    })
}

/// The contexts that the program knows, by device.
static CONTEXTS: [AtomicUsize; MAX_DEVICES] = [const { AtomicUsize::new(0) }; MAX_DEVICES];

/// Whether this is a context that the program got together with the address of a matrix.
pub(crate) fn is_context(handle: usize) -> bool {
    let mut told = CONTEXTS.iter();
    handle != 0 && told.any(|told| told.load(Ordering::Acquire) == handle)
}

extern "C" fn release(hold: u64) -> c_int {
    guarded(|| hints::release(hold))
}

/// A text of the program's: what of it is UTF-8.
///
/// # Safety
/// Null, or a string that ends with a zero byte.
unsafe fn text<'a>(at: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: the caller keeps this function's contract.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy())
}

unsafe extern "C" fn name(matrix: *const Matrix, called: *const c_char) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe { hints::name(&view(matrix)?, text(called).as_deref()) })
}

unsafe extern "C" fn range(called: *const c_char) -> c_int {
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| hints::range(unsafe { text(called) }.as_deref()))
}

unsafe extern "C" fn rates(of: c_int, out: *mut Rates) -> c_int {
    let found = || {
        let told = hints::rates(of)?;
        Ok(Rates {
            size: size_of::<Rates>() as u64,
            bytes_per_s: told.bytes_per_s,
            latency_s: told.latency_s,
            device_flops: told.device_flops,
            host_flops: told.host_flops,
            memory: told.memory as u64,
        })
    };
    // SAFETY: the program passes what `semcache.h` says.
    guarded(|| unsafe { fill(out, found()) })
}

unsafe extern "C" fn predict(
    routine: *const c_char,
    sizes: *const i64,
    resident: c_int,
    out: *mut Prediction,
) -> c_int {
    let found = |sizes: &[i64; 3], routine: &str| {
        let expected = hints::predict(routine, *sizes, resident != 0)?;
        Ok(Prediction {
            size: size_of::<Prediction>() as u32,
            devices: i32::try_from(expected.devices).unwrap_or(i32::MAX),
            host_s: expected.host_s,
            devices_s: expected.devices_s,
        })
    };
    // SAFETY: the program passes what `semcache.h` says: three sizes.
    guarded(|| unsafe {
        let sizes = sizes.cast::<[i64; 3]>().as_ref().ok_or(Status::Invalid)?;
        let routine = text(routine).ok_or(Status::Invalid)?;
        fill(out, found(sizes, &routine))
    })
}
