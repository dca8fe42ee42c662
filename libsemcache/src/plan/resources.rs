//! What a plan may count on.

use crate::base::DeviceId;
use crate::base::work::GRAIN;

/// What a plan may count on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// How many devices, numbered from zero.
    pub devices: usize,
    /// Tile size of level 3 in elements. Made smaller when the memory demands it, larger when it would cut
    /// the problem into an absurd number of tasks.
    pub tile: usize,
    /// Bytes that the call may occupy on each device.
    pub memory: usize,
    /// Where work that is not distributed runs: the device that holds most of the operands.
    pub prefer: DeviceId,
    /// Bytes of the matrix of a level-2 routine that are worth one more device.
    pub grain: usize,
}

impl Resources {
    /// Resources with the model's grain, that prefer the first device.
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

    /// The `i`-th of `used` devices: all from zero on, or the preferred one alone.
    pub(super) fn device(&self, i: usize, used: usize) -> DeviceId {
        if used == 1 {
            self.prefer
        } else {
            DeviceId(u8::try_from(i).unwrap_or(u8::MAX))
        }
    }
}

/// A plan of more tasks costs more than the devices save.
pub(super) const MOST_TASKS: usize = 1 << 16;
