//! What may hold the operands of a task: replicas of what the whole call uses, or tiles.

use crate::base::{AllocId, Rect};

/// What may hold the operands of a task.
#[derive(Clone, Copy, Debug)]
pub enum Room<'a> {
    /// Replicas of what the whole call uses of each operand: together they fit into the device.
    Whole {
        /// Whether they fit even if they hold the gaps between columns as well.
        flat: bool,
    },
    /// Replicas of what the task uses of each operand.
    Tiles {
        /// Bytes of device memory for each, so that one can take the place of any other; 0: as many as it needs.
        slot: usize,
        /// Replicas of exactly these bytes leave the device before the task is queued.
        leave: &'a [(AllocId, Rect)],
    },
}
