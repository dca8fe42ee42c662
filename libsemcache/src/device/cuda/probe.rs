//! Self-test of in-place copies, once per device: which copies the engines make without the CPU.
//!
//! The driver must not make copies from and to inaccessible pages with the CPU, which would fault while it holds the
//! driver's locks. A test on inaccessible pages would fault in the same way. Instead the registered pages are replaced
//! in the process's page table (`MADV_DONTNEED`): the copy engine still reads and writes the physical pages that were
//! page-locked, the CPU sees fresh zero pages, and the bytes tell which of the two copied.
#![expect(unsafe_code, reason = "maps memory and lets the driver copy it")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::driver::{self, CUstream, End, Status};
use crate::device::api::Shape;

/// The copies that a device's engines make without the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// One run of at least this number of bytes to the device; `None` if no size is safe.
    pub(crate) line: Option<usize>,
    /// Two or more runs of at least this number of bytes each to the device; `None` if no size is safe.
    pub(crate) rows: Option<usize>,
    /// Whether copies of any shape to the host are safe.
    pub(crate) out: bool,
}

impl Rules {
    /// No copy is known to be safe: all bytes pass through staging memory.
    pub(crate) const NONE: Rules = Rules {
        line: None,
        rows: None,
        out: false,
    };
}

pub(super) const AREA: usize = 1 << 20;
const MARK: u8 = 0xA5;
/// The sizes tried, ascending: a size is safe if it and all larger ones passed.
const LINES: [usize; 6] = [4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 512 << 10];
const WIDTHS: [usize; 5] = [64, 512, 4 << 10, 16 << 10, 64 << 10];

/// Tests the device whose context is current, with a block of [`AREA`] bytes of its memory.
pub(super) fn probe(stream: CUstream, device: u64) -> Rules {
    let area = mmap();
    let Some(area) = area else { return Rules::NONE };
    let rules = tried(area, stream, device).unwrap_or(Rules::NONE);
    // SAFETY: mapped above, no longer registered, and its copies are complete.
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
    // SAFETY: mapped until `probe` ends, and unregistered before that.
    unsafe { driver::register(area, AREA) }?;
    let rules = parted(area, stream, device);
    // Waits for the copies first: a failure in `parted` may have left some in flight.
    let _ = driver::stream_wait(stream);
    // SAFETY: registered above, and its copies are complete.
    unsafe { driver::unregister(area) }?;
    rules
}

fn parted(area: usize, stream: CUstream, device: u64) -> Result<Rules, Status> {
    // SAFETY: memory of this test that no other thread uses; its contents are not needed.
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
        // Only on an idle stream does the driver copy small sizes with the CPU, which this test is to find out.
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
    // To the host: if the engine writes, the CPU does not see the bytes change.
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

/// The last byte of the first run on the device, copied to the host.
fn brought(device: u64, width: usize, stream: CUstream) -> Result<u8, Status> {
    let mut byte = [0_u8];
    // SAFETY: a copy to pageable memory is complete when it returns or the stream has been waited for; the local lives
    // on.
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
