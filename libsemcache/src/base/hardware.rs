//! What a driver tells of a device before anything has run on it.

/// The hardware of one device, and its link and its first kernel as timed when the device was brought up. A figure that is not known is zero.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Hardware {
    /// CUDA's compute capability, major and minor.
    pub capability: (usize, usize),
    /// Streaming multiprocessors.
    pub multiprocessors: usize,
    /// Cycles per second of a multiprocessor at its highest clock.
    pub clock_hz: f64,
    /// Bytes per second of device memory that its clock and its bus width allow.
    pub memory_bytes_per_s: f64,
    /// Bytes per second of a copy from page-locked host memory.
    pub h2d_bytes_per_s: f64,
    /// Bytes per second of a copy to page-locked host memory.
    pub d2h_bytes_per_s: f64,
    /// Seconds of the first launch of a kernel, of the least that there is: the driver loads its code.
    pub first_launch_s: f64,
}
