//! What a plan may count on.

use super::tiling::Tiling;
use crate::base::work::{GRAIN, RunShares};
use crate::base::{DeviceId, DeviceSet, TileSize};

/// How fast the devices are, as far as the choice of tiles and blocks depends on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Multiplications and additions of large products, pairs per second.
    pub products_per_s: f64,
    /// Size of a dimension that halves this rate.
    pub half_size: f64,
    /// Seconds from launch to end that a kernel adds.
    pub launch_s: f64,
    /// Seconds that each row of a triangle adds to the routine's own kernel.
    pub row_s: f64,
    /// Seconds in which the calling thread queues a kernel, its copies and the evictions for them, the driver's functions
    /// included. By traces on an H100: 40 to 58 us of 64 tasks of order 512 or less, 70 us of 512 tasks out of core, 95 us of 1024
    /// tasks that evict one tile for two.
    pub issue_s: f64,
    /// Bytes per second of the link from the host, and of the one to the host.
    pub bytes_per_s: f64,
    /// The share of this rate that copies of tiles reach.
    pub runs: RunShares,
}

impl Pace {
    /// A data centre GPU of 2022 in double precision.
    pub const USUAL: Pace = Pace {
        products_per_s: 30e12,
        half_size: 16.0,
        launch_s: 5e-6,
        row_s: 0.0,
        issue_s: 40e-6,
        bytes_per_s: 50e9,
        runs: RunShares::ALL,
    };
}

/// The devices that a plan may use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resources {
    /// The devices, and how fast each is for the call.
    pub devices: DeviceSet,
    /// Tile size of level 3, for operands that fit into the memory. A plan uses a larger one if this one would
    /// cut the problem into more than `MOST_TASKS` tasks.
    pub tile: TileSize,
    /// Whether tiles have this size whatever the number of devices and the memory, as long as memory holds three tiles: so
    /// that the sums of a result are rounded alike.
    pub fixed: bool,
    /// Whether operands that fit are computed in blocks of one tile: so that at any time few chains ([`super::chains`]) are begun
    /// and not finished, and the others can go to another device.
    pub apart: bool,
    /// Tiles and blocks for operands that exceed the memory, one of [`super::tilings`]; `None`: the first of these.
    pub tiling: Option<Tiling>,
    /// What [`super::tilings`] expects of the devices.
    pub pace: Pace,
    /// Bytes that the call may occupy on each device: as many as on the device with the least memory.
    pub memory: usize,
    /// The device for work that is not distributed: the one that holds most of the operands.
    pub prefer: DeviceId,
    /// Bytes of the matrix of a level-2 routine that are worth one more device.
    pub grain: usize,
}

impl Resources {
    /// The first devices, which are equally fast, with square tiles and the model's grain; the first device is preferred.
    #[must_use]
    pub const fn new(devices: usize, tile: usize, memory: usize) -> Resources {
        Resources {
            devices: DeviceSet::equal(devices),
            tile: TileSize::square(tile),
            fixed: false,
            apart: false,
            tiling: None,
            pace: Pace::USUAL,
            memory,
            prefer: DeviceId(0),
            grain: GRAIN,
        }
    }

    /// The device with index `i` of `used` devices: the fastest ones, or the preferred one alone.
    pub(super) fn device(&self, i: usize, used: usize) -> DeviceId {
        if used == 1 {
            self.prefer
        } else {
            self.devices.id(i)
        }
    }
}

/// The most tasks of a plan whose operands fit: larger tiles are as good.
pub(super) const MOST_TASKS: usize = 1 << 16;
/// The most tasks of a plan at all: the list of more would take more memory and time than the call is worth.
pub(super) const MOST_TASKS_AT_ALL: usize = 1 << 18;
