//! How a matrix is cut into tiles, which device owns each, and how much of it devices work on at a time.

use core::ops::Range;

use crate::base::DeviceId;
use crate::base::dense::Step;
use crate::hints::view::View;
use crate::solver::system::System;

/// The largest order of a tile, and the most columns of a block of LU, whose panel one device factors. No larger ones are needed for the
/// rate of large products; a guess, not measured.
const MOST: [usize; 2] = [2048, 1024];
/// No tile is smaller: kernels would take no time beside their launches. Tests have such matrices.
const LEAST: usize = 16;
/// How many columns of tiles each device is to have at least, so that all have work until near the end.
const COLUMNS: usize = 8;
/// Devices keep this share of their memory for the columns of a span and for those that are applied to it.
const USED: (usize, usize) = (5, 8);
/// Columns of tiles that a span has at least, unless tiles are small: each span has all earlier columns sent once more.
const SPAN: usize = 4;
/// Tiles that one device uses at a time: three of a product, a part of the program's matrix, and scratch memory for as many as two.
const AT_A_TIME: usize = 6;

/// How a matrix is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tiling {
    /// Rows and columns of the matrix.
    size: (usize, usize),
    /// Whether tiles are whole columns.
    by_columns: bool,
    /// Rows and columns of a tile, but for the last ones; of a block column, its columns.
    pub tile: usize,
    /// How many devices the tiles of a column, and those of a row, have as owners, one after the other.
    pub shape: (usize, usize),
    /// The devices.
    pub devices: Vec<DeviceId>,
    /// Columns of tiles that are in the devices' memory at a time.
    pub spans: Vec<Range<usize>>,
}

impl Tiling {
    /// The tiling of the matrix that a system factors, on devices with this much memory each; `None` if it factors none by tiles, the
    /// matrix has one tile only, or no tile is small enough.
    #[must_use]
    pub fn of(system: &System, rooms: &[(DeviceId, usize)]) -> Option<Tiling> {
        let by_columns = match system.factors()? {
            Step::Lu => true,
            Step::Cholesky => false,
            _ => return None,
        };
        let size = (system.a.rows, system.a.cols);
        let element = system.a.element;
        // Work is shared equally, so that the least memory counts.
        let count = rooms.len();
        let room = rooms.iter().map(|(_, room)| *room).min()?;
        // Each device has some columns of the right sides, and copies of them.
        let sides = |b: View| 2 * b.rows * b.cols.div_ceil(count) * element;
        let room = room.checked_sub(system.b.map_or(0, sides))?;
        let shape = match by_columns {
            true => (1, count),
            false => square(count),
        };
        let even = size.1.div_ceil(COLUMNS * shape.0.max(shape.1));
        let most = MOST[usize::from(by_columns)];
        let mut tile = even.next_multiple_of(LEAST).clamp(LEAST, most);
        let all = room.checked_mul(count)? / USED.1 * USED.0;
        // What is taken besides the span: of block columns, one that is applied and is on all devices, one that is being sent, and a part
        // of the program's matrix; of tiles, two columns.
        let budget = |tile: usize| {
            let column = size.0.checked_mul(tile)?.checked_mul(element)?;
            let (fits, beside) = match by_columns {
                true => (4 * column <= room / USED.1 * USED.0, 3 * count * column),
                false => (AT_A_TIME * tile * tile * element <= room, 2 * column),
            };
            let least = match tile > LEAST {
                true => SPAN.max(shape.1),
                false => 1,
            };
            let left = all.checked_sub(beside);
            left.filter(|left| fits && *left / column >= least)
        };
        let budget = loop {
            match budget(tile) {
                Some(budget) => break budget,
                None if tile <= LEAST => return None,
                None => tile = (tile / 2).next_multiple_of(LEAST),
            }
        };
        let mut tiling = Tiling {
            size,
            by_columns,
            tile,
            shape,
            devices: rooms.iter().map(|(device, _)| *device).collect(),
            spans: Vec::new(),
        };
        if tiling.columns() < 2 {
            return None;
        }
        tiling.spans = spans(tiling.columns(), budget, |column| {
            tiling.column_rows(column) * tiling.width(column) * element
        });
        Some(tiling)
    }

    /// Whether tiles are whole columns, as of LU.
    #[must_use]
    pub const fn by_columns(&self) -> bool {
        self.by_columns
    }

    /// How many columns of tiles there are.
    #[must_use]
    pub const fn columns(&self) -> usize {
        self.size.1.div_ceil(self.tile)
    }

    /// How many of them are factored.
    #[must_use]
    pub const fn panels(&self) -> usize {
        let least = if self.size.0 < self.size.1 {
            self.size.0
        } else {
            self.size.1
        };
        least.div_ceil(self.tile)
    }

    /// The first row, or column, of a tile.
    #[must_use]
    pub const fn at(&self, tile: usize) -> usize {
        tile * self.tile
    }

    /// The columns of a column of tiles; for a square matrix also the rows of a row of tiles.
    #[must_use]
    pub fn width(&self, column: usize) -> usize {
        self.tile.min(self.size.1 - self.at(column))
    }

    /// Rows from a panel's diagonal on.
    #[must_use]
    pub const fn rows_from(&self, panel: usize) -> usize {
        self.size.0 - self.at(panel)
    }

    /// Rows and columns of what one device factors of a panel.
    #[must_use]
    pub fn panel(&self, panel: usize) -> (usize, usize) {
        let width = self.width(panel);
        match self.by_columns {
            true => (self.rows_from(panel), width),
            false => (width, width),
        }
    }

    /// How many kernels there are, roughly.
    #[must_use]
    pub const fn kernels(&self) -> usize {
        let (columns, panels) = (self.columns(), self.panels());
        match self.by_columns {
            true => 3 * columns * panels,
            false => columns * columns * (columns / 6 + 2),
        }
    }

    /// Rows of the tiles of a column: those from the diagonal on, or all.
    fn column_rows(&self, column: usize) -> usize {
        match self.by_columns {
            true => self.size.0,
            false => self.size.0 - self.at(column),
        }
    }

    /// The owner of a tile.
    #[must_use]
    pub fn owner(&self, row: usize, column: usize) -> DeviceId {
        let (down, along) = self.shape;
        let at = row % down * along + column % along;
        self.devices.get(at).copied().unwrap_or(DeviceId(0))
    }

    /// Elements of earlier columns that are sent to devices once more, each for a span, or its part of the devices.
    #[must_use]
    pub fn streamed(&self) -> usize {
        let of_span = |span: &Range<usize>| {
            let rows = self.column_rows(span.start);
            rows * self.at(span.start)
        };
        self.spans.iter().map(of_span).sum()
    }

    /// Elements of tiles that devices get from other ones.
    #[must_use]
    pub fn exchanged(&self) -> usize {
        let (down, along) = self.shape;
        let elements: usize = (0..self.panels())
            .map(|panel| self.rows_from(panel) * self.width(panel))
            .sum();
        elements * (down + along - 2)
    }
}

/// The factors of a number that are closest to each other, the lesser one first.
fn square(count: usize) -> (usize, usize) {
    let divides = |side: &usize| count.is_multiple_of(*side) && side * side <= count;
    let side = (1..=count).filter(divides).max().unwrap_or(1);
    (side, count / side)
}

/// Columns in order, cut so that those of each part take no more than this; each has one at least.
fn spans(columns: usize, budget: usize, bytes: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut left = 0;
    for column in 0..columns {
        let needed = bytes(column);
        match spans.last_mut() {
            Some(last) if needed <= left => {
                last.end += 1;
                left -= needed;
            }
            _ => {
                spans.push(column..column + 1);
                left = budget.saturating_sub(needed);
            }
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Solver;

    fn rooms(count: usize, room: usize) -> Vec<(DeviceId, usize)> {
        (0..count).map(|at| (DeviceId::at(at), room)).collect()
    }

    fn getrf(rows: usize, cols: usize) -> System {
        let mut system = System::potrf(rows);
        system.solver = Solver::Getrf;
        system.a.cols = cols;
        system
    }

    #[test]
    fn devices_own_tiles_in_turn() {
        let tiling = Tiling::of(&System::potrf(230), &rooms(4, 1 << 30)).unwrap();
        assert_eq!(
            (tiling.tile, tiling.shape, tiling.columns()),
            (16, (2, 2), 15)
        );
        assert_eq!(tiling.spans.as_slice(), core::slice::from_ref(&(0..15)));
        assert_eq!((tiling.width(0), tiling.width(14)), (16, 6));
        let owners = |column| [0, 1, 2].map(|row| tiling.owner(row, column).index());
        assert_eq!(
            [owners(0), owners(1), owners(2)],
            [[0, 2, 0], [1, 3, 1], [0, 2, 0]]
        );
        let lu = Tiling::of(&getrf(230, 230), &rooms(3, 1 << 30)).unwrap();
        assert_eq!((lu.tile, lu.shape, lu.panels()), (16, (1, 3), 15));
        assert_eq!(lu.owner(0, 4).index(), 1);
        assert_eq!(
            [1, 2, 3, 6, 8, 12].map(square),
            [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
        );
    }

    #[test]
    fn large_tiles_are_of_large_matrices() {
        let tile = |order, count| {
            Tiling::of(&System::potrf(order), &rooms(count, 100 << 30)).map(|t| t.tile)
        };
        assert_eq!(tile(16384, 4), Some(1024));
        assert_eq!(tile(131_072, 4), Some(2048));
        assert_eq!(tile(16, 4), None);
        assert_eq!(tile(17, 4), Some(16));
        let lu = Tiling::of(&getrf(32768, 32768), &rooms(2, 100 << 30)).unwrap();
        assert_eq!((lu.tile, lu.spans.len()), (1024, 1));
    }

    #[test]
    fn what_has_no_room_is_taken_in_spans() {
        // A third of the matrix.
        let order: usize = 3000;
        let tiling = Tiling::of(&System::potrf(order), &rooms(1, order * order * 8 / 3)).unwrap();
        assert!(tiling.spans.len() > 2);
        assert_eq!(tiling.spans.last().unwrap().end, tiling.columns());
        // Later columns are shorter: more of them have room.
        assert!(tiling.spans[1].len() > tiling.spans[0].len());
        assert!(tiling.streamed() > 0);
        // Three columns of tiles have no room.
        assert_eq!(
            Tiling::of(&System::potrf(order), &rooms(1, order * 3 * 16 * 8)),
            None
        );
        let lu = Tiling::of(&getrf(3000, 2000), &rooms(2, 3000 * 2000 * 8 / 3)).unwrap();
        assert!(lu.spans.len() > 1 && lu.tile < 128);
        assert!(Tiling::of(&getrf(3000, 2000), &rooms(2, 3000 * 64 * 8)).is_none());
        assert_eq!(lu.panels(), lu.columns());
        let flat = Tiling::of(&getrf(100, 300), &rooms(2, 1 << 30)).unwrap();
        assert!(flat.panels() < flat.columns());
    }

    #[test]
    fn spans_have_what_fits() {
        assert_eq!(spans(5, 10, |_| 4), [0..2, 2..4, 4..5]);
        assert_eq!(spans(3, 1, |_| 4), [0..1, 1..2, 2..3]);
        assert_eq!(spans(3, 100, |_| 4).len(), 1);
    }
}
