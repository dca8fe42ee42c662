//! What a GPU is made of, by the driver's attributes, and how fast its link is, by a few copies when it is brought up.

use super::driver::{self, Attribute, CUdevice, CUevent, CUstream, Elapsed, End, Status};
use crate::base::Hardware;
use crate::device::api::Shape;

/// Bytes of the copies that are timed: 0.15 ms over PCIe 5.0, 3 ms at 3 GB/s.
pub(super) const TIMED: usize = 8 << 20;
/// Bytes of the copies that they are compared with.
const SHORT: usize = 1 << 20;
/// Each direction is timed this number of times. Other GPUs, which come up at the same time, may hold up some of the copies, so the
/// fastest one counts.
const TIMES: usize = 3;

/// The GPU by the driver's attributes.
pub(super) fn described(device: CUdevice) -> Hardware {
    use Attribute::*;
    let attribute = |which| driver::attribute(device, which).unwrap_or(0);
    let kilohertz = |which| 1e3 * attribute(which) as f64;
    let bus_bytes = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) as f64 / 8.0;
    Hardware {
        capability: (
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        clock_hz: kilohertz(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        // Memory transfers twice per cycle.
        memory_bytes_per_s: 2.0 * kilohertz(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * bus_bytes,
        ..Hardware::default()
    }
}

/// Adds the rates of the link: [`TIMED`] bytes are copied from page-locked host memory to a block of the device whose context is
/// current, and back. What cannot be timed stays zero.
pub(super) fn timed(hardware: &mut Hardware, host: usize, stream: CUstream) {
    let Ok(block) = driver::alloc(TIMED) else {
        return;
    };
    let events = || {
        Some((
            driver::create_timing_event().ok()?,
            driver::create_timing_event().ok()?,
        ))
    };
    if let (Some(elapsed), Some(events)) = (Elapsed::find(), events()) {
        let rate = |to, from| {
            let fastest = (0..TIMES).map(|_| seconds((to, from), stream, events, elapsed));
            let fastest = fastest.flatten().filter(|s| *s > 0.0);
            let fastest = fastest.fold(f64::INFINITY, f64::min);
            if fastest > 0.0 {
                (TIMED - SHORT) as f64 / fastest
            } else {
                0.0
            }
        };
        hardware.h2d_bytes_per_s = rate(End::Device(block), End::Host(host));
        hardware.d2h_bytes_per_s = rate(End::Host(host), End::Device(block));
    }
    // A copy whose time could not be read may still be in flight.
    let _ = driver::stream_wait(stream);
    // SAFETY: allocated above, and its copies are complete.
    #[expect(unsafe_code, reason = "returns device memory")]
    let _ = unsafe { driver::free(block) };
}

/// Seconds that a copy of [`TIMED`] bytes takes longer than one of [`SHORT`] bytes, so that what each copy costs is left out. Each is
/// timed behind another copy: the device would reach the first event on an idle stream before the copy is queued.
fn seconds(
    (to, from): (End, End),
    stream: CUstream,
    (begun, ended): (CUevent, CUevent),
    elapsed: Elapsed,
) -> Result<f64, Status> {
    let copy = |bytes| {
        let shape = Shape {
            width: bytes,
            count: 1,
        };
        // SAFETY: both areas hold the bytes, and the caller waits for the stream before it gives them back.
        #[expect(unsafe_code, reason = "lets the driver copy")]
        unsafe {
            driver::copy((to, bytes), (from, bytes), shape, stream)
        }
    };
    let timed = |bytes| {
        copy(SHORT)?;
        driver::record(begun, stream)?;
        copy(bytes)?;
        driver::record(ended, stream)?;
        driver::stream_wait(stream)?;
        Ok(f64::from(elapsed.milliseconds(begun, ended)?) * 1e-3)
    };
    Ok(timed(TIMED)? - timed(SHORT)?)
}
