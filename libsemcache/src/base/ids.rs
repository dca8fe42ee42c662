//! Identities of devices, blocks and replicas. Each is a small copyable number that is never reused within its meaning.

use core::fmt;

/// The most devices that one process drives.
pub const MAX_DEVICES: usize = 64;

/// A device, numbered from zero in the order in which the backend lists them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u8);

impl DeviceId {
    /// The device at a position in per-device tables.
    #[must_use]
    pub fn at(index: usize) -> DeviceId {
        DeviceId(u8::try_from(index).unwrap_or(u8::MAX))
    }

    /// The device's position in per-device tables.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dev{}", self.0)
    }
}

/// One lifetime of a host memory block: an address that is freed and handed out again gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AllocId(pub u64);

/// Device memory that holds (part of) one allocation on one device. Unique in the process, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReplicaId(pub u64);
