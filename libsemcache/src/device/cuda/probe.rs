//! Which copies the engines make without help of the CPU (decision D2): measured once per device.
//!
//! Copies from and to closed pages must not be made by the driver with the CPU, which would fault with the
//! driver's locks held. Trying that on closed pages would do the harm it looks for. Instead the pages that
//! are registered are replaced in the process's page table (`MADV_DONTNEED`): the engine still reads and
//! writes the pages that were pinned, the CPU sees fresh zero pages, and the bytes tell who copied.
#![expect(unsafe_code, reason = "maps memory and lets the driver copy it")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::driver::{self, CUstream, End, Status};
use crate::device::api::Shape;

/// What the engines of a device do alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// One run of at least that many bytes to the device; `None` if no size is safe.
    pub(crate) line: Option<usize>,
    /// Two runs or more of at least that many bytes each to the device.
    pub(crate) rows: Option<usize>,
    /// Any shape to the host.
    pub(crate) out: bool,
}

impl Rules {
    /// Nothing is known to be safe: everything passes through staging memory.
    pub(crate) const NONE: Rules = Rules {
        line: None,
        rows: None,
        out: false,
    };
}

pub(super) const AREA: usize = 1 << 20;
const MARK: u8 = 0xA5;
/// Sizes tried, ascending: a size is safe if it and all larger ones were.
const LINES: [usize; 6] = [4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 512 << 10];
const WIDTHS: [usize; 5] = [64, 512, 4 << 10, 16 << 10, 64 << 10];

/// Tries the device whose context is current, with a block of [`AREA`] bytes of its memory.
pub(super) fn probe(stream: CUstream, device: u64) -> Rules {
    let area = mmap();
    let Some(area) = area else { return Rules::NONE };
    let rules = tried(area, stream, device).unwrap_or(Rules::NONE);
    // SAFETY: mapped above, no longer registered, copies complete.
    let _ = unsafe { munmap(core::ptr::with_exposed_provenance_mut(area), AREA) };
    rules
}

fn mmap() -> Option<usize> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let at = unsafe {
        mmap_anonymous(
            core::ptr::null_mut(),
            AREA,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    at.ok().map(|p| p.expose_provenance())
}

/// The area as bytes.
///
/// # Safety
/// Mapped, and no copy to it in flight.
unsafe fn bytes<'a>(area: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(area), AREA) }
}

fn tried(area: usize, stream: CUstream, device: u64) -> Result<Rules, Status> {
    // SAFETY: nothing is in flight yet.
    unsafe { bytes(area) }.fill(MARK);
    // SAFETY: mapped until `probe` ends, and unregistered before.
    unsafe { driver::register(area, AREA) }?;
    let rules = parted(area, stream, device);
    // Copies first: a failure above may have left some in flight.
    let _ = driver::stream_wait(stream);
    // SAFETY: registered above, copies complete.
    unsafe { driver::unregister(area) }?;
    rules
}

fn parted(area: usize, stream: CUstream, device: u64) -> Result<Rules, Status> {
    // SAFETY: memory of ours that nobody else knows; its contents are not wanted.
    unsafe {
        madvise(
            core::ptr::with_exposed_provenance_mut(area),
            AREA,
            Advice::LinuxDontNeed,
        )
    }
    .map_err(|_| Status(0))?;
    let engine = |width: usize, rows: usize| -> Result<bool, Status> {
        let pitch = AREA / 2;
        // SAFETY: within the block.
        unsafe { driver::clear(device, AREA, stream) }?;
        // Only on an idle stream does the driver take the short way, which is the one to find out about.
        driver::stream_wait(stream)?;
        // SAFETY: both areas hold the shape.
        unsafe {
            let (from, to) = ((End::Host(area), pitch), (End::Device(device), pitch));
            driver::copy(to, from, Shape { width, count: rows }, stream)?;
        }
        driver::stream_wait(stream)?;
        Ok(brought(device, width, stream)? == MARK)
    };
    let least = |sizes: &[usize], rows: usize| -> Result<Option<usize>, Status> {
        let mut least = None;
        for &size in sizes.iter().rev() {
            if !engine(size, rows)? {
                break;
            }
            least = Some(size);
        }
        Ok(least)
    };
    let line = least(&LINES, 1)?;
    let rows = least(&WIDTHS, 2)?;
    // To the host: bytes written by the engine do not show.
    let mut out = true;
    for size in [64, LINES[0], LINES[5]] {
        // SAFETY: within the block.
        unsafe { driver::clear(device, AREA, stream) }?;
        driver::stream_wait(stream)?;
        // SAFETY: both areas hold the bytes.
        unsafe {
            bytes(area)[..size].fill(MARK);
            driver::copy_out(area, device, size, stream)?;
        }
        driver::stream_wait(stream)?;
        // SAFETY: the copy is complete.
        out &= unsafe { bytes(area) }[..size].iter().all(|&b| b == MARK);
    }
    Ok(Rules { line, rows, out })
}

/// The last byte of the first run on the device, by way of page-locked memory.
fn brought(device: u64, width: usize, stream: CUstream) -> Result<u8, Status> {
    let mut byte = [0_u8];
    // SAFETY: a pageable copy is complete when it returns or the stream is waited for; the local lives on.
    unsafe {
        driver::copy_out(
            byte.as_mut_ptr().expose_provenance(),
            device + width as u64 - 1,
            1,
            stream,
        )?;
    }
    driver::stream_wait(stream)?;
    Ok(byte[0])
}
