//! Stand-in for the CUDA functions that copy and fill memory.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_uint, c_void};

use semcache::device::api::{Region, Shape};

use crate::copy::{Form, MAX_PITCH};
use crate::names::{Outcome, Status};
use crate::order::stream_synchronize;
use crate::state::lock;

pub(crate) unsafe fn copy_in(dst: u64, src: *const c_void, bytes: usize, stream: usize) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { copy_piece(dst, src.expose_provenance() as u64, bytes, stream) }
}

pub(crate) unsafe fn copy_out(dst: *mut c_void, src: u64, bytes: usize, stream: usize) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { copy_piece(dst.expose_provenance() as u64, src, bytes, stream) }
}

/// A copy in the null stream that is complete when the function returns.
pub(crate) unsafe fn copy_in_now(dst: u64, src: *const c_void, bytes: usize) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { copy_in(dst, src, bytes, 0)? };
    stream_synchronize(0)
}

/// A copy in the null stream that is complete when the function returns.
pub(crate) unsafe fn copy_out_now(dst: *mut c_void, src: u64, bytes: usize) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { copy_out(dst, src, bytes, 0)? };
    stream_synchronize(0)
}

/// A copy of one piece between any two places. The addresses decide which side is on a device, as with unified
/// addressing; that they are where the function's name says is not checked.
pub(crate) unsafe fn copy_piece(dst: u64, src: u64, bytes: usize, stream: usize) -> Outcome {
    let mut state = lock()?;
    let stream = state.stream(stream)?;
    let region = |addr| Region { addr, pitch: bytes };
    let shape = Shape {
        width: bytes,
        count: 1,
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { state.copy(stream, region(src), region(dst), shape, Form::Piece) }
}

pub(crate) unsafe fn copy_peer(
    dst: u64,
    dst_context: usize,
    src: u64,
    src_context: usize,
    bytes: usize,
    stream: usize,
) -> Outcome {
    {
        let state = lock()?;
        let known = |context| state.contexts.contains_key(&context);
        if !known(dst_context) || !known(src_context) {
            return Err(Status::InvalidContext);
        }
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { copy_piece(dst, src, bytes, stream) }
}

/// One side of a 2-D or 3-D copy, as C lays it out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side2 {
    x: usize,
    y: usize,
    kind: c_uint,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy2 {
    src: Side2,
    dst: Side2,
    width: usize,
    height: usize,
}

/// One side of `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side3 {
    x: usize,
    y: usize,
    z: usize,
    lod: usize,
    kind: c_uint,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    context: usize,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D_PEER`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy3 {
    src: Side3,
    dst: Side3,
    width: usize,
    height: usize,
    depth: usize,
}

/// The region of the copy's first row; `kind` is a `CUmemorytype`.
fn region(
    kind: c_uint,
    host: *mut c_void,
    device: u64,
    pitch: usize,
    skip: usize,
) -> Outcome<Region> {
    let start = match kind {
        1 => host.expose_provenance() as u64,
        2 | 4 => device,
        _ => return Err(Status::NotSupported),
    };
    let addr = start + skip as u64;
    Ok(Region { addr, pitch })
}

/// The pitch; a pitch of zero means rows without gaps.
fn pitch(given: usize, x: usize, width: usize) -> Outcome<usize> {
    let pitch = if given == 0 { x + width } else { given };
    if pitch < x.saturating_add(width) || pitch > MAX_PITCH {
        return Err(Status::InvalidValue);
    }
    Ok(pitch)
}

pub(crate) unsafe fn copy_rows(copy: *const Copy2, stream: usize) -> Outcome {
    if copy.is_null() {
        return Err(Status::InvalidValue);
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    let Copy2 {
        src,
        dst,
        width,
        height,
    } = unsafe { copy.read_unaligned() };
    let mut state = lock()?;
    let stream = state.stream(stream)?;
    let side = |side: Side2| {
        let pitch = pitch(side.pitch, side.x, width)?;
        let skip = side.y * pitch + side.x;
        region(side.kind, side.host, side.device, pitch, skip)
    };
    let shape = Shape {
        width,
        count: height,
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { state.copy(stream, side(src)?, side(dst)?, shape, Form::Rows) }
}

pub(crate) unsafe fn copy_peer_rows(copy: *const Copy3, stream: usize) -> Outcome {
    if copy.is_null() {
        return Err(Status::InvalidValue);
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    let Copy3 {
        src,
        dst,
        width,
        height,
        depth,
    } = unsafe { copy.read_unaligned() };
    let mut state = lock()?;
    let stream = state.stream(stream)?;
    let shape = Shape {
        width,
        count: height,
    };
    for z in 0..depth {
        let side = |side: Side3| {
            if matches!(side.kind, 2 | 4) && !state.contexts.contains_key(&side.context) {
                return Err(Status::InvalidContext);
            }
            let pitch = pitch(side.pitch, side.x, width)?;
            let rows = if side.height == 0 {
                height
            } else {
                side.height
            };
            let skip = ((side.z + z) * rows + side.y) * pitch + side.x;
            region(side.kind, side.host, side.device, pitch, skip)
        };
        let (src, dst) = (side(src)?, side(dst)?);
        // SAFETY: the program's arguments, which keep the contract of the C function.
        unsafe { state.copy(stream, src, dst, shape, Form::Rows)? };
    }
    Ok(())
}

pub(crate) unsafe fn fill_bytes(dst: u64, value: u8, n: usize, stream: usize) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { fill(dst, n, n, 1, &[value], stream) }
}

pub(crate) unsafe fn fill_words(dst: u64, value: c_uint, n: usize, stream: usize) -> Outcome {
    let bytes = n.checked_mul(4).ok_or(Status::InvalidValue)?;
    if !dst.is_multiple_of(4) {
        return Err(Status::InvalidValue);
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { fill(dst, bytes, bytes, 1, &value.to_ne_bytes(), stream) }
}

pub(crate) unsafe fn fill_rows(
    dst: u64,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
    stream: usize,
) -> Outcome {
    if pitch < width && height > 1 {
        return Err(Status::InvalidValue);
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { fill(dst, pitch, width, height, &[value], stream) }
}

/// # Safety
/// The program allows the region to be overwritten.
unsafe fn fill(
    addr: u64,
    pitch: usize,
    width: usize,
    count: usize,
    pattern: &[u8],
    stream: usize,
) -> Outcome {
    let mut state = lock()?;
    let stream = state.stream(stream)?;
    let dst = Region { addr, pitch };
    // SAFETY: the caller keeps this function's contract.
    unsafe { state.fill(stream, dst, Shape { width, count }, pattern) }
}
