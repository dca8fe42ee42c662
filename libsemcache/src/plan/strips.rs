//! Strips: tiles of an operand that lie below each other, and are moved and kept as one.
//!
//! Copies of short columns do not reach the rate of the link: those of 8 or 16 KiB, the columns of usual tiles, 0.58 of it
//! on an H100 while products run, those of 64 KiB all of it. Products of larger tiles need more memory than there is; so a
//! tile of a product may be a part of what is moved.

use rustc_hash::FxHashMap;

use super::problem::{Part, Task};
use super::tiling::Tiling;
use crate::base::{DeviceId, TileSize};

/// Tiles of one operand with the same columns, on one device: operand, first column, columns.
type Column = (DeviceId, usize, usize, usize);

/// The strips of a plan. A tile that is not in any is moved alone.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Strips {
    rows: FxHashMap<(Column, usize), (usize, usize)>,
    /// The size of the tiles; `None` if there are no strips.
    tile: Option<TileSize>,
}

impl Strips {
    /// The strips of a list of tasks, whose tiles are cut as the tiling says.
    pub(super) fn of(tasks: &[Task], tiling: &Tiling) -> Strips {
        Strips::cut(tasks, Some(tiling.tile).filter(TileSize::in_strips))
    }

    /// The strips of the same tasks, of which some are on other devices now.
    pub(super) fn again(&mut self, tasks: &[Task]) {
        *self = Strips::cut(tasks, self.tile);
    }

    fn cut(tasks: &[Task], tile: Option<TileSize>) -> Strips {
        let Some(tile) = tile else {
            return Strips::default();
        };
        let most = tile.longest_strip();
        let mut columns: FxHashMap<Column, Vec<(usize, usize)>> = FxHashMap::default();
        for task in tasks {
            for part in &task.parts {
                let column = columns.entry(column(task.device, part)).or_default();
                column.push((part.row, part.rows));
            }
        }
        let mut all = FxHashMap::default();
        for (column, mut parts) in columns {
            parts.sort_unstable();
            parts.dedup();
            // As `split::joined`, of parts that may also overlap.
            let mut rest = &parts[..];
            while let Some(&(start, _)) = rest.first() {
                let mut end = start;
                let joined = rest.iter().take_while(|&&(row, rows)| {
                    let near = row <= end && row / tile.strip == start / tile.strip;
                    let joins = row == start || near && row + rows - start <= most;
                    end = if joins { end.max(row + rows) } else { end };
                    joins
                });
                let (strip, behind) = rest.split_at(joined.count());
                let rows = (start, end - start);
                all.extend(strip.iter().map(|part| ((column, part.0), rows)));
                rest = behind;
            }
        }
        Strips {
            rows: all,
            tile: Some(tile),
        }
    }

    /// The part of an operand that is moved and kept with a part that a task on this device uses.
    #[must_use]
    pub fn around(&self, device: DeviceId, part: &Part) -> Part {
        match self.rows.get(&(column(device, part), part.row)) {
            Some(&(row, rows)) if part.row + part.rows <= row + rows => Part { row, rows, ..*part },
            _ => *part,
        }
    }
}

fn column(device: DeviceId, part: &Part) -> Column {
    (device, part.operand, part.col, part.cols)
}
