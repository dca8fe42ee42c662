//! Copies of strided regions between host memory and simulated devices. On the host side every run costs a system call,
//! so dense regions are copied in one piece, and reads of nearly dense regions take the gaps along into scratch. Writes
//! never touch a gap, which may hold other data of the program.

#![expect(
    unsafe_code,
    reason = "moves raw bytes between regions that the caller vouches for"
)]

use rustix::io::Errno;

use crate::device::api::{Region, Shape};
use crate::device::host_memory::HostMemory;

/// Bytes of scratch that one gathered piece may use.
const SCRATCH: usize = 1 << 20;

/// Runs of at least this many bytes are read or written with a system call each.
const WIDE: usize = 32 << 10;

/// Reading a gap of up to this many bytes costs about as much as the system call that it saves.
const NEAR: usize = 2 << 10;

fn dense(region: Region, shape: Shape) -> bool {
    shape.count <= 1 || region.pitch == shape.width
}

fn at<T>(region: Region, run: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(run_addr(region, run) as usize)
}

fn run_addr(region: Region, run: usize) -> u64 {
    region.addr + (run * region.pitch) as u64
}

/// Uploads a strided region (host to device).
///
/// # Safety
/// The device region is writable and no other thread uses it meanwhile.
pub(super) unsafe fn upload(
    host: &HostMemory,
    src: Region,
    dst: Region,
    shape: Shape,
    scratch: &mut Vec<u8>,
) -> Result<(), Errno> {
    let Shape { width, count } = shape;
    if shape.bytes() == 0 {
        return Ok(());
    }
    // SAFETY: every run lies within its region.
    unsafe {
        if dense(src, shape) && dense(dst, shape) {
            return host.read(src.addr, at(dst, 0), shape.bytes());
        }
        let near = src.pitch <= (4 * width).max(NEAR) && src.pitch >= width;
        if width < WIDE && near {
            let group = (SCRATCH / src.pitch).clamp(1, count);
            scratch.resize(group * src.pitch, 0);
            for first in (0..count).step_by(group) {
                let runs = group.min(count - first);
                // The read ends with the last run: the bytes after it may not be mapped.
                let span = (runs - 1) * src.pitch + width;
                if host
                    .read(run_addr(src, first), scratch.as_mut_ptr(), span)
                    .is_err()
                {
                    // Perhaps a gap is not mapped; the runs themselves must be.
                    upload_runs(host, src, dst, width, first..first + runs)?;
                    continue;
                }
                for i in 0..runs {
                    let from = scratch.as_ptr().add(i * src.pitch);
                    core::ptr::copy_nonoverlapping(from, at(dst, first + i), width);
                }
            }
            return Ok(());
        }
        upload_runs(host, src, dst, width, 0..count)
    }
}

/// # Safety
/// As [`upload`].
unsafe fn upload_runs(
    host: &HostMemory,
    src: Region,
    dst: Region,
    width: usize,
    runs: core::ops::Range<usize>,
) -> Result<(), Errno> {
    for i in runs {
        // SAFETY: the run lies within its region.
        unsafe { host.read(run_addr(src, i), at(dst, i), width)? };
    }
    Ok(())
}

/// Downloads a strided region (device to host).
///
/// # Safety
/// The device region is readable and no other thread writes it meanwhile; the caller may overwrite the host runs.
pub(super) unsafe fn download(
    host: &HostMemory,
    src: Region,
    dst: Region,
    shape: Shape,
    scratch: &mut Vec<u8>,
) -> Result<(), Errno> {
    let Shape { width, count } = shape;
    if shape.bytes() == 0 {
        return Ok(());
    }
    // SAFETY: every run lies within its region.
    unsafe {
        if dense(src, shape) && dense(dst, shape) {
            return host.write(dst.addr, at(src, 0), shape.bytes());
        }
        if width < WIDE && dense(dst, shape) {
            let group = (SCRATCH / width).clamp(1, count);
            scratch.resize(group * width, 0);
            for first in (0..count).step_by(group) {
                let runs = group.min(count - first);
                for i in 0..runs {
                    let to = scratch.as_mut_ptr().add(i * width);
                    core::ptr::copy_nonoverlapping(at(src, first + i), to, width);
                }
                host.write(run_addr(dst, first), scratch.as_ptr(), runs * width)?;
            }
            return Ok(());
        }
        for i in 0..count {
            host.write(run_addr(dst, i), at(src, i), width)?;
        }
    }
    Ok(())
}

/// Copies a strided region from device to device.
///
/// # Safety
/// Both regions are valid, no other thread uses the destination, and no other thread writes the source.
pub(super) unsafe fn move_within(src: Region, dst: Region, shape: Shape) {
    // SAFETY: every run lies within its region; `copy` allows overlap.
    unsafe {
        if dense(src, shape) && dense(dst, shape) {
            core::ptr::copy(at::<u8>(src, 0), at(dst, 0), shape.bytes());
        } else {
            for i in 0..shape.count {
                core::ptr::copy(at::<u8>(src, i), at(dst, i), shape.width);
            }
        }
    }
}

/// Fills device memory with `byte`.
///
/// # Safety
/// The region is writable and no other thread uses it meanwhile.
pub(super) unsafe fn fill(dst: Region, shape: Shape, byte: u8) {
    // SAFETY: every run lies within the region.
    unsafe {
        if dense(dst, shape) {
            core::ptr::write_bytes(at::<u8>(dst, 0), byte, shape.bytes());
        } else {
            for i in 0..shape.count {
                core::ptr::write_bytes(at::<u8>(dst, i), byte, shape.width);
            }
        }
    }
}

/// Length of the span from the first to the last byte of a region.
pub(super) fn extent(region: Region, shape: Shape) -> usize {
    if shape.width == 0 || shape.count == 0 {
        return 0;
    }
    (shape.count - 1)
        .saturating_mul(region.pitch)
        .saturating_add(shape.width)
}
