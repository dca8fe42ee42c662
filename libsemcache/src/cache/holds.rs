//! What kernels of the program use on devices (`semcache.h`), by the numbers that the program got.

use std::collections::BTreeMap;

use crate::base::{AllocId, DeviceId, Rect, ReplicaId};

/// One matrix on one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) id: AllocId,
    /// Address of offset 0 of the block.
    pub(super) base: usize,
    pub(super) view: Rect,
    /// Whether the program's kernels change it.
    pub(super) writes: bool,
    pub(super) device: DeviceId,
    /// The replica that the kernels use: the bytes that it has memory for, the address of that memory, and its pitch.
    pub(super) replica: ReplicaId,
    pub(super) rect: Rect,
    pub(super) addr: u64,
    pub(super) pitch: usize,
    /// The program has freed the matrix.
    pub(super) freed: bool,
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

    /// The program has freed a block: what kernels write to matrices in it is nobody's.
    pub(super) fn freed(&mut self, id: AllocId) {
        let holds = self.held.values_mut();
        holds
            .filter(|hold| hold.id == id)
            .for_each(|hold| hold.freed = true);
    }
}
