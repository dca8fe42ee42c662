//! Footprints: for each device, the part of each operand that the tasks of a plan use.

use super::problem::{Part, Task};
use crate::base::DeviceId;

/// The smallest part of one operand that covers all parts of it that one device's tasks use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// The device.
    pub device: DeviceId,
    /// The part; its access is that of the first task that uses the operand.
    pub part: Part,
}

impl Part {
    /// Whether `part` lies within this part.
    #[must_use]
    pub const fn covers(&self, part: &Part) -> bool {
        self.operand == part.operand
            && self.row <= part.row
            && self.col <= part.col
            && part.row + part.rows <= self.row + self.rows
            && part.col + part.cols <= self.col + self.cols
    }

    fn grow(&mut self, part: &Part) {
        let row_end = (self.row + self.rows).max(part.row + part.rows);
        let col_end = (self.col + self.cols).max(part.col + part.cols);
        self.row = self.row.min(part.row);
        self.col = self.col.min(part.col);
        self.rows = row_end - self.row;
        self.cols = col_end - self.col;
    }
}

/// The footprints of a list of tasks, one for each device and operand.
pub(super) fn of(tasks: &[Task]) -> Vec<Footprint> {
    let mut found: Vec<Footprint> = Vec::new();
    for task in tasks {
        for part in &task.parts {
            let known = found
                .iter_mut()
                .find(|f| f.device == task.device && f.part.operand == part.operand);
            match known {
                Some(footprint) => footprint.part.grow(part),
                None => found.push(Footprint {
                    device: task.device,
                    part: *part,
                }),
            }
        }
    }
    found.sort_by_key(|f| (f.device, f.part.operand));
    found
}
