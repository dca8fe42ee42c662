//! What kernels of the program use on devices (`semcache.h`), by the numbers that the program got.

use std::collections::BTreeMap;

use crate::base::{AllocId, DeviceId, Rect};

/// One matrix on one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) id: AllocId,
    pub(super) view: Rect,
    /// Whether the program's kernels change it.
    pub(super) writes: bool,
    pub(super) device: DeviceId,
    /// The address of the device memory that stays in use.
    pub(super) addr: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    last: u64,
    held: BTreeMap<u64, Hold>,
}

impl Holds {
    /// The number of a new one.
    pub(super) fn add(&mut self, hold: Hold) -> u64 {
        self.last += 1;
        self.held.insert(self.last, hold);
        self.last
    }

    /// Ends the one of this number.
    pub(super) fn remove(&mut self, number: u64) -> Option<Hold> {
        self.held.remove(&number)
    }
}
