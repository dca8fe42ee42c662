//! Errors of devices: out of memory, refused, unreadable host memory, lost.

use crate::base::DeviceId;

/// Why a device did not execute an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// Not enough device memory in one piece.
    OutOfMemory {
        /// The device.
        device: DeviceId,
        /// Bytes asked for.
        bytes: usize,
    },
    /// The device refused this one operation; nothing has changed.
    Refused {
        /// The device.
        device: DeviceId,
        /// What was refused: `"alloc"`, `"copy"` or `"launch"`.
        what: &'static str,
        /// The vendor's status, 0 for injected refusals.
        code: i32,
    },
    /// The program's memory could not be read for this one operation; nothing has changed.
    Unreadable {
        /// The device.
        device: DeviceId,
    },
    /// The device is lost, with everything in its memory.
    Lost {
        /// The device.
        device: DeviceId,
    },
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            DeviceError::OutOfMemory { device, bytes } => {
                write!(f, "{device:?} has no {bytes} bytes free in one piece")
            }
            DeviceError::Refused { device, what, code } => {
                write!(f, "{device:?} refused a {what} (status {code})")
            }
            DeviceError::Unreadable { device } => {
                write!(f, "{device:?} could not be given the program's bytes")
            }
            DeviceError::Lost { device } => write!(f, "{device:?} is lost"),
        }
    }
}

impl core::error::Error for DeviceError {}
