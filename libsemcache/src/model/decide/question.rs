//! What is asked before a call, and what must be known for that.

use crate::base::Work;

/// `SEMCACHE_OFFLOAD`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// By prediction.
    #[default]
    Auto,
    /// Whatever the prediction and the floor say.
    Always,
    /// Not at all.
    Never,
}

/// What is known of one operand before a call.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OperandState<'a> {
    /// Its bytes, gaps not counted.
    pub bytes: usize,
    /// The call reads it.
    pub read: bool,
    /// The call writes it.
    pub written: bool,
    /// Bytes that are valid on some device.
    pub resident: usize,
    /// Bytes that are valid on each device. Empty: the resident ones are where they will be used.
    pub on: &'a [usize],
    /// Bytes that must be page-locked first: what is not, passes through staging memory, which costs as much.
    pub unpinned: usize,
    /// Bytes whose newest copy is on devices only; the host BLAS would have to wait for them.
    pub stale: usize,
    /// How much of the result the CPU is likely to read before a device does: the share of earlier results in this
    /// place that it did read, 1 for a result that must be home when the call returns.
    pub read_back: f64,
    /// How likely the CPU looks at any of the result: each look is waited for.
    pub looked: f64,
    /// Seconds that the last uses of as many bytes of it by devices took beyond what was predicted, with the faults of the
    /// CPU that followed.
    pub beyond_s: f64,
    /// For how many calls in a row the same call, and no other, has used these bytes. If they move, they move once.
    pub alone: u32,
    /// Earlier calls that read these bytes since the CPU last wrote them. An upload is an investment: its
    /// cost is shared among the calls that are expected to use it, as many more as there have been.
    pub seen: u32,
}

/// A call to decide upon.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Question<'a> {
    /// Amount of work.
    pub work: Work,
    /// The operands in kernel order.
    pub operands: &'a [OperandState<'a>],
    /// Devices that can be used now, those from zero on.
    pub devices: usize,
    /// Where a call that uses one device runs.
    pub prefer: usize,
    /// Bytes of memory of each.
    pub memory: usize,
    /// The user's choice.
    pub mode: Mode,
    /// The user's tile size, if any.
    pub tile: Option<usize>,
}
