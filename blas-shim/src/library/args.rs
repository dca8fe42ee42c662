//! How arguments of `semcache.h` are read, and how its functions end.

#![expect(unsafe_code, reason = "arguments arrive as raw pointers from C")]

use core::ffi::{c_int, c_void};

use semcache::hints::Status;
use semcache::hints::view::View;
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

/// A structure of the caller, which begins with its size.
///
/// # Safety
/// Any bytes are a value of it, and its first four bytes are its size in the caller's version.
pub(crate) unsafe trait Sized32: Copy {}

// SAFETY: numbers and a pointer, the size first.
unsafe impl Sized32 for Matrix {}

/// Checks that the caller's structure has at least the fields that are known here.
///
/// # Safety
/// Null, or a structure of the size that its first field says.
pub(crate) unsafe fn sized<T: Sized32>(at: *const T) -> Result<(), Status> {
    // SAFETY: the caller keeps this function's contract.
    let size = unsafe { at.cast::<u32>().as_ref() }.ok_or(Status::Invalid)?;
    match *size as usize >= size_of::<T>() {
        true => Ok(()),
        false => Err(Status::Invalid),
    }
}

/// The caller's structure.
///
/// # Safety
/// As [`sized`].
pub(crate) unsafe fn taken<T: Sized32>(at: *const T) -> Result<T, Status> {
    // SAFETY: the caller keeps the contract, and the structure has all fields.
    unsafe {
        sized(at)?;
        Ok(*at)
    }
}

/// Fills in the caller's structure.
///
/// # Safety
/// As [`sized`]; the structure may be written.
pub(crate) unsafe fn fill<T: Sized32>(at: *mut T, found: Result<T, Status>) -> Result<(), Status> {
    // SAFETY: the caller keeps the contract, and the structure has all fields.
    unsafe {
        sized(at)?;
        *at = found?;
    }
    Ok(())
}

/// Runs a request. A cancellation of the thread must not unwind through the library, nor a panic through the caller.
pub(crate) fn guarded(request: impl FnOnce() -> Result<(), Status>) -> c_int {
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
pub(crate) unsafe fn view(matrix: *const Matrix) -> Result<View, Status> {
    // SAFETY: the caller keeps this function's contract.
    let Matrix {
        element,
        data,
        rows,
        cols,
        ld,
        ..
    } = unsafe { taken(matrix) }?;
    let count = |n: i64| usize::try_from(n).map_err(|_| Status::Invalid);
    Ok(View {
        addr: data.addr(),
        rows: count(rows)?,
        cols: count(cols)?,
        ld: count(ld)?,
        element: element as usize,
    })
}
