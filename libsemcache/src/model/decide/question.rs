//! What is asked before a call, and what must be known for that.

use crate::base::{DeviceId, DeviceSet, TileSize, Work};
use crate::model::select::{Choice, Fetch};

/// `SEMCACHE_OFFLOAD`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// By prediction.
    #[default]
    Auto,
    /// Always devices, against the prediction and the floor.
    Always,
    /// Always the host.
    Never,
}

/// The state of one operand before a call.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OperandState<'a> {
    /// Bytes of the operand, gaps between columns not counted.
    pub bytes: usize,
    /// Whether the call reads the operand.
    pub read: bool,
    /// Whether the call writes the operand.
    pub written: bool,
    /// Bytes that are valid on some device.
    pub resident: usize,
    /// Bytes that are valid on each device. If empty, the resident bytes are taken to be on the devices that use them.
    pub on: &'a [usize],
    /// Bytes that must be page-locked before the first copy. (Bytes that cannot be page-locked pass through staging
    /// memory, which costs as much.)
    pub unpinned: usize,
    /// Bytes whose newest copy is on devices only; the host BLAS would have to wait for their write-back.
    pub stale: usize,
    /// The share of the result that the CPU is likely to read before a device writes the next result: the share of
    /// earlier results in this place that it did read, or 1 for a result that must be in host memory when the call
    /// returns.
    pub read_back: f64,
    /// The probability that the CPU reads any byte of the result: each such read waits for a copy.
    pub looked: f64,
    /// The prediction error that the last uses of the same number of panels lead to expect, in seconds, the CPU's page
    /// faults after the calls included.
    pub beyond_s: f64,
    /// For how many calls in a row the same call, and no other, has used these bytes. Bytes that only one call uses
    /// move to the other side once and stay there.
    pub alone: u32,
    /// Earlier calls that read these bytes since the CPU last wrote them. An upload is amortised: its cost is shared
    /// among the calls that are expected to use the bytes, which is this call and as many more as there have been.
    pub seen: u32,
    /// Earlier calls that used the block, whatever the CPU wrote meanwhile: page-locking, which lasts as long as the block, is amortised
    /// over these in the same way.
    pub calls: u32,
}

/// Predicts a call of level 3 by the timeline of its plan.
pub trait Planner: std::fmt::Debug {
    /// Whether the operands exceed the memory of every device.
    fn exceeds(&self) -> bool;
    /// The tile and the seconds of the call on these devices, `moved` being how much of each operand has to be sent and
    /// written back. With `tile`, that tile. `None`: one task, or more than can be looked at in time.
    fn choice(
        &self,
        devices: &DeviceSet,
        tile: Option<TileSize>,
        moved: &[Fetch],
    ) -> Option<Choice>;
}

/// What the model needs to know of a call.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Routine, element type and sizes.
    pub work: Work,
    /// Measured seconds of the host BLAS for such a call with its operands in host memory, if they are known.
    pub host_s: Option<f64>,
    /// The operands in the order of the kernel.
    pub operands: &'a [OperandState<'a>],
    /// The devices that can be used now, by their speed for this call.
    pub devices: DeviceSet,
    /// The device for a call that uses only one.
    pub prefer: DeviceId,
    /// Bytes of memory of each device; if there are more devices, they have as much as the last one.
    pub memory: &'a [usize],
    /// The user's choice (`SEMCACHE_OFFLOAD`).
    pub mode: Mode,
    /// The user's tile size (`SEMCACHE_TILE`), if set.
    pub tile: Option<usize>,
    /// For a single call of level 3.
    pub planner: Option<&'a dyn Planner>,
}

impl Question<'_> {
    /// Bytes of memory of the device of a set that has the least.
    pub(super) fn memory_of(&self, devices: &DeviceSet) -> usize {
        let of = |id: DeviceId| self.memory.get(id.index()).or(self.memory.last());
        let each = devices.ids().filter_map(of);
        each.min().copied().unwrap_or(usize::MAX)
    }

    /// Whether the operands exceed the memory of every device.
    pub(super) fn exceeds(&self) -> bool {
        self.planner.is_some_and(|p| p.exceeds())
    }
}
