//! What a plan may count on.

use crate::base::DeviceId;
use crate::base::work::GRAIN;

/// The devices that a plan may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// Number of devices; they are numbered from zero.
    pub devices: usize,
    /// Tile size of level 3 in elements. A plan uses a smaller one if the memory demands it, a larger one if this one
    /// would cut the problem into more than `MOST_TASKS` tasks.
    pub tile: usize,
    /// Bytes that the call may occupy on each device.
    pub memory: usize,
    /// The device for work that is not distributed: the one that holds most of the operands.
    pub prefer: DeviceId,
    /// Bytes of the matrix of a level-2 routine that are worth one more device.
    pub grain: usize,
}

impl Resources {
    /// Resources with the model's grain; the first device is preferred.
    #[must_use]
    pub const fn new(devices: usize, tile: usize, memory: usize) -> Resources {
        Resources {
            devices,
            tile,
            memory,
            prefer: DeviceId(0),
            grain: GRAIN,
        }
    }

    /// The device with index `i` of `used` devices: all are used from zero on, or the preferred one alone.
    pub(super) fn device(&self, i: usize, used: usize) -> DeviceId {
        if used == 1 {
            self.prefer
        } else {
            DeviceId(u8::try_from(i).unwrap_or(u8::MAX))
        }
    }
}

/// The most tasks of a plan: issuing more costs more time than the devices save.
pub(super) const MOST_TASKS: usize = 1 << 16;
