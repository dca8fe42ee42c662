//! The functions of `semcache.h`, which finds them by the name of one table: no program needs this library to be linked or to start.
//! Functions are added at the end of the table, whose first field is its size.

#![expect(unsafe_code, reason = "arguments arrive as raw pointers from C")]

use core::ffi::{c_int, c_void};

use semcache::hints::Status;
use semcache::hints::view::View;
use semcache::runtime::hints;
use semcache_fault::cancel;

use crate::core as runtime;
use crate::hooks::real::with_errno_kept;

/// `semcache_matrix`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    size: u32,
    element: u32,
    data: *const c_void,
    rows: i64,
    cols: i64,
    ld: i64,
}

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
};

/// `SEMCACHE_HOST`: in place of a device.
const HOST: c_int = -2;

/// Runs a request. A cancellation of the thread must not unwind through the library, nor a panic through the caller.
fn guarded(request: impl FnOnce() -> Result<(), Status>) -> c_int {
    let cancellation = cancel::deferred();
    let done = with_errno_kept(|| runtime::caught(request));
    cancellation.restore();
    let status = match done {
        Some(Ok(())) => Status::Ok,
        Some(Err(status)) => status,
        None => Status::Failed,
    };
    status as c_int
}

/// # Safety
/// Null, or a structure of the size that its first field says.
unsafe fn view(matrix: *const Matrix) -> Result<View, Status> {
    // SAFETY: the caller keeps this function's contract; the size is the first field in all versions.
    let size = match unsafe { matrix.cast::<u32>().as_ref() } {
        Some(&size) => size as usize,
        None => return Err(Status::Invalid),
    };
    if size < size_of::<Matrix>() {
        return Err(Status::Invalid);
    }
    // SAFETY: the structure has at least these fields.
    let Matrix {
        element,
        data,
        rows,
        cols,
        ld,
        ..
    } = unsafe { *matrix };
    let count = |n: i64| usize::try_from(n).map_err(|_| Status::Invalid);
    Ok(View {
        addr: data.addr(),
        rows: count(rows)?,
        cols: count(cols)?,
        ld: count(ld)?,
        element: element as usize,
    })
}

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
    guarded(|| {
        // SAFETY: null, or a structure of the size that its first field says.
        let out = unsafe { out.as_mut() }.ok_or(Status::Invalid)?;
        if out.size < size_of::<Statistics>() as u64 {
            return Err(Status::Invalid);
        }
        let found = hints::statistics();
        let [h2d, d2h, p2p] = found.bytes;
        *out = Statistics {
            size: size_of::<Statistics>() as u64,
            offloaded: found.offloaded,
            h2d,
            d2h,
            p2p,
            faults: found.faults,
        };
        Ok(())
    })
}
