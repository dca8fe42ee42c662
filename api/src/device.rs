//! Devices by their numbers.

use std::ffi::c_int;

/// A device, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Device {
    /// All devices.
    All,
    /// One device; the first is zero.
    Number(u32),
}

/// Where bytes of a matrix may be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// In the host's memory.
    Host,
    /// On any device.
    AnyDevice,
    /// On one device; the first is zero.
    Device(u32),
}

pub(crate) const ALL_DEVICES: c_int = -1;
const HOST: c_int = -2;

/// A device as the table's functions want it. What is too large is no device either.
pub(crate) fn number(device: u32) -> c_int {
    c_int::try_from(device).unwrap_or(c_int::MAX)
}

impl Device {
    pub(crate) fn number(self) -> c_int {
        match self {
            Device::All => ALL_DEVICES,
            Device::Number(device) => number(device),
        }
    }
}

impl Place {
    pub(crate) fn number(self) -> c_int {
        match self {
            Place::Host => HOST,
            Place::AnyDevice => ALL_DEVICES,
            Place::Device(device) => number(device),
        }
    }
}
