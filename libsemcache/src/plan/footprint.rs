//! What each device touches of each operand over a whole plan.

use super::problem::{Part, Task};
use crate::base::DeviceId;

/// The smallest rectangle of one operand that holds every part of it that one device touches, in the
/// coordinates of [`Part`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// The device.
    pub device: DeviceId,
    /// Index into the problem's operands.
    pub operand: usize,
    /// First row.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl Footprint {
    /// Whether a part lies within.
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

/// The footprints of a task list, by device and operand.
pub(super) fn of(tasks: &[Task]) -> Vec<Footprint> {
    let mut found: Vec<Footprint> = Vec::new();
    for task in tasks {
        for part in &task.parts {
            let known = found
                .iter_mut()
                .find(|f| f.device == task.device && f.operand == part.operand);
            match known {
                Some(footprint) => footprint.grow(part),
                None => found.push(Footprint {
                    device: task.device,
                    operand: part.operand,
                    row: part.row,
                    col: part.col,
                    rows: part.rows,
                    cols: part.cols,
                }),
            }
        }
    }
    found.sort_by_key(|f| (f.device, f.operand));
    found
}
