//! What concerns no matrix: devices, counts, rates, predictions, and ranges of a trace.

#![expect(unsafe_code, reason = "calls functions of another library")]

use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::null;

use crate::device::number;
use crate::error::{Error, Result};
use crate::table;

/// The number of devices in use: zero before the first large BLAS call or prefetch, and without the library.
///
/// ```
/// println!("{} devices", semcache_api::devices());
/// ```
#[must_use]
pub fn devices() -> usize {
    // SAFETY: the function takes nothing.
    let count = table::devices().map_or(0, |devices| unsafe { devices() });
    usize::try_from(count).unwrap_or(0)
}

/// What the process did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// BLAS calls that ran on devices.
    pub offloaded: u64,
    /// Bytes copied to devices from the host.
    pub h2d: u64,
    /// Bytes copied to the host.
    pub d2h: u64,
    /// Bytes copied between devices.
    pub p2p: u64,
    /// Page faults that the CPU took because a device had newer bytes, or kept copies.
    pub faults: u64,
}

/// What the process did so far.
///
/// ```
/// if let Ok(so_far) = semcache_api::statistics() {
///     println!("{} calls on devices", so_far.offloaded);
/// }
/// ```
///
/// # Errors
/// See [`Error`].
pub fn statistics() -> Result<Statistics> {
    let statistics = table::statistics()?;
    let mut found = table::Statistics {
        size: table::size::<table::Statistics>().into(),
        ..Default::default()
    };
    // SAFETY: the structure is of the size that it says.
    Error::check(unsafe { statistics(&raw mut found) })?;
    let table::Statistics {
        offloaded,
        h2d,
        d2h,
        p2p,
        faults,
        ..
    } = found;
    Ok(Statistics {
        offloaded,
        h2d,
        d2h,
        p2p,
        faults,
    })
}

/// What the library knows of a device and its links. Bytes, multiply-adds and seconds; zero where unknown.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Rates {
    /// From the host to the device.
    pub h2d_bytes_per_s: f64,
    /// From the device to the host.
    pub d2h_bytes_per_s: f64,
    /// From device to device.
    pub p2p_bytes_per_s: f64,
    /// Latency of a copy from the host.
    pub latency_s: f64,
    /// Large products of `f32` on the device.
    pub sgemm_flops: f64,
    /// Large products of `f64` on the device.
    pub dgemm_flops: f64,
    /// Large products of `f32` by the host's BLAS.
    pub host_sgemm_flops: f64,
    /// Large products of `f64` by the host's BLAS.
    pub host_dgemm_flops: f64,
    /// Bytes that copies of matrices may take on the device.
    pub memory: u64,
}

/// What the library knows of a device and its links: built in, measured by `semcache calibrate`, and corrected by calls.
///
/// ```
/// if let Ok(rates) = semcache_api::rates(0) {
///     println!("{:.1} GB/s to device 0", rates.h2d_bytes_per_s / 1e9);
/// }
/// ```
///
/// # Errors
/// See [`Error`].
pub fn rates(device: u32) -> Result<Rates> {
    let rates = table::rates()?;
    let mut found = table::Rates {
        size: table::size::<table::Rates>().into(),
        ..Default::default()
    };
    // SAFETY: the structure is of the size that it says.
    Error::check(unsafe { rates(number(device), &raw mut found) })?;
    Ok(Rates {
        h2d_bytes_per_s: found.h2d_bytes_per_s,
        d2h_bytes_per_s: found.d2h_bytes_per_s,
        p2p_bytes_per_s: found.p2p_bytes_per_s,
        latency_s: found.latency_s,
        sgemm_flops: found.sgemm_flops,
        dgemm_flops: found.dgemm_flops,
        host_sgemm_flops: found.host_sgemm_flops,
        host_dgemm_flops: found.host_dgemm_flops,
        memory: found.memory,
    })
}

/// What the library expects of a call.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Prediction {
    /// On how many devices it would run; zero: on the host.
    pub devices: usize,
    /// Seconds on the host.
    pub host_s: f64,
    /// Seconds on devices; zero if none can run it.
    pub devices_s: f64,
}

/// What the library expects of a call of a routine (`"dgemm"`) with the sizes m, n and k, whose operands are on the host, or on the
/// devices (`resident`).
///
/// ```
/// if let Ok(expected) = semcache_api::predict("dgemm", [4096, 4096, 4096], false) {
///     println!("{} s on the host, {} s on devices", expected.host_s, expected.devices_s);
/// }
/// ```
///
/// # Errors
/// The library does not know the routine, or see [`Error`].
pub fn predict(routine: &str, sizes: [usize; 3], resident: bool) -> Result<Prediction> {
    let predict = table::predict()?;
    let routine = CString::new(routine).map_err(|_| Error::Invalid)?;
    let sizes = sizes.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let mut found = table::Prediction {
        size: table::size::<table::Prediction>(),
        ..Default::default()
    };
    // SAFETY: a string with a zero at its end, three sizes, and a structure of the size that it says.
    Error::check(unsafe {
        predict(
            routine.as_ptr(),
            sizes.as_ptr(),
            resident.into(),
            &raw mut found,
        )
    })?;
    Ok(Prediction {
        devices: usize::try_from(found.devices).unwrap_or(0),
        host_s: found.host_s,
        devices_s: found.devices_s,
    })
}

/// A range of the calling thread in the trace, until this is dropped. Ranges may be nested.
#[derive(Debug)]
#[must_use = "the range ends when this is dropped"]
pub struct Range {
    begun: bool,
    /// Ranges belong to threads.
    thread: PhantomData<*const ()>,
}

/// Begins a range of the calling thread in the trace (`SEMCACHE_TRACE`, NVTX). Without the library there is none.
///
/// ```
/// let assembly = semcache_api::range("assembly");
/// // ...
/// drop(assembly);
/// ```
pub fn range(name: &str) -> Range {
    let begin = || {
        let range = table::range()?;
        let name = CString::new(name).map_err(|_| Error::Invalid)?;
        // SAFETY: a string with a zero at its end.
        Error::check(unsafe { range(name.as_ptr()) })
    };
    Range {
        begun: begin().is_ok(),
        thread: PhantomData,
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let (true, Ok(range)) = (self.begun, table::range()) {
            // SAFETY: null ends a range.
            unsafe { range(null()) };
        }
    }
}
