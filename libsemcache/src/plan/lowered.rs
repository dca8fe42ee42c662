//! A plan: what [`super::lower`] makes of a problem.

use super::footprint::{self, Footprint};
use super::problem::Task;
use super::strips::Strips;
use crate::base::DeviceId;

/// Tile tasks in the order in which they are to be issued, and the parts of operands that they use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Whether the problem can run on these devices. If not, the plan is empty.
    pub fits: bool,
    /// The tasks, in the order in which they are issued.
    pub tasks: Vec<Task>,
    /// For each device, the part of each operand that its tasks use over the whole call: the cache makes one replica of
    /// that shape if the memory permits, so that tiles lie in one block. May exceed the memory if the call runs out of
    /// core.
    pub footprints: Vec<Footprint>,
    /// The tiles that are moved and kept together, if operands exceed the memory.
    pub strips: Strips,
}

impl Plan {
    /// The plan with these tasks, each of which moves the strips around its tiles.
    pub(super) fn of(tasks: Vec<Task>, strips: Strips) -> Plan {
        Plan {
            fits: true,
            footprints: footprint::of(&tasks),
            tasks,
            strips,
        }
    }

    /// The number of devices that have tasks.
    #[must_use]
    pub fn devices(&self) -> usize {
        let all = self.footprints.iter().map(|f| f.device);
        all.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Gives these tasks to other devices. The footprints stay: they are what the plan first gave the devices.
    pub fn give(&mut self, tasks: impl IntoIterator<Item = (usize, DeviceId)>) {
        for (at, device) in tasks {
            self.tasks[at].device = device;
        }
        self.strips.again(&self.tasks);
    }
}
