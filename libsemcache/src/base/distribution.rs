//! Distributions: which device each block of a matrix belongs to, as a program orders it (`semcache.h`). 2-D block-cyclic ones are
//! those of Gautier et al. (XKBlas, PDP 2021, Fig. 4) and of ScaLAPACK.

use std::sync::Arc;

use super::DeviceId;

/// A matrix of `rows x cols` elements, cut into blocks of equal size (the last ones of each dimension may be shorter), each of which
/// belongs to a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution {
    rows: usize,
    cols: usize,
    block: (usize, usize),
    /// The owner of each block, in column-major order.
    owners: Box<[DeviceId]>,
}

/// The most blocks of a distribution.
pub const MOST_BLOCKS: usize = 1 << 16;

/// A block of a distributed matrix: its first row and column, its extents, and its owner.
pub type Owned = ((usize, usize), (usize, usize), DeviceId);

impl Distribution {
    /// Cuts a matrix into blocks of `block` rows and columns, of which `owner` says by number whom they belong to. `None` if a dimension
    /// is zero, there are more than [`MOST_BLOCKS`], or a block belongs to nobody.
    pub fn new(
        (rows, cols): (usize, usize),
        block: (usize, usize),
        mut owner: impl FnMut(usize, usize) -> Option<DeviceId>,
    ) -> Option<Distribution> {
        if [rows, cols, block.0, block.1].contains(&0) {
            return None;
        }
        let (down, across) = (rows.div_ceil(block.0), cols.div_ceil(block.1));
        down.checked_mul(across)
            .filter(|&blocks| blocks <= MOST_BLOCKS)?;
        let all = (0..across).flat_map(|j| (0..down).map(move |i| (i, j)));
        let owners: Option<Box<[DeviceId]>> = all.map(|(i, j)| owner(i, j)).collect();
        Some(Distribution {
            rows,
            cols,
            block,
            owners: owners?,
        })
    }

    /// Rows and columns of the matrix.
    #[must_use]
    pub fn extents(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Rows and columns of a block.
    #[must_use]
    pub fn block(&self) -> (usize, usize) {
        self.block
    }

    /// The device that owns an element.
    #[must_use]
    pub fn owner(&self, row: usize, col: usize) -> DeviceId {
        let down = self.rows.div_ceil(self.block.0);
        let (i, j) = (row / self.block.0, col / self.block.1);
        self.owners
            .get(j * down + i)
            .or(self.owners.last())
            .copied()
            .unwrap_or(DeviceId(0))
    }

    /// All blocks, column by column.
    pub fn blocks(&self) -> impl Iterator<Item = Owned> + '_ {
        let down = self.rows.div_ceil(self.block.0);
        self.owners.iter().enumerate().map(move |(at, &owner)| {
            let (row, col) = (at % down * self.block.0, at / down * self.block.1);
            let rows = self.block.0.min(self.rows - row);
            let cols = self.block.1.min(self.cols - col);
            ((row, col), (rows, cols), owner)
        })
    }

    /// The devices that own blocks.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceId> {
        let mut all = self.owners.to_vec();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A part of a distributed matrix.
#[derive(Clone, Debug)]
pub struct Distributed {
    /// The distribution of the whole matrix.
    pub of: Arc<Distribution>,
    /// The part's first row in that matrix.
    pub row: usize,
    /// The part's first column there.
    pub col: usize,
}

impl Distributed {
    /// The device that owns an element of the part.
    #[must_use]
    pub fn owner(&self, row: usize, col: usize) -> DeviceId {
        self.of.owner(self.row + row, self.col + col)
    }
}

/// A grid of `p x q` devices, as square as their number permits.
#[must_use]
pub fn grid(devices: usize) -> (usize, usize) {
    let p = (1..=devices).take_while(|p| p * p <= devices);
    let p = p.filter(|p| devices.is_multiple_of(*p)).last().unwrap_or(1);
    (p, devices / p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_dealt_in_two_dimensions() {
        let of = Distribution::new((10, 7), (4, 3), |i, j| {
            Some(DeviceId::at(i % 2 * 2 + j % 2))
        });
        let of = of.expect("a distribution");
        assert_eq!(of.owner(0, 0), DeviceId(0));
        assert_eq!(of.owner(4, 0), DeviceId(2));
        assert_eq!(of.owner(3, 3), DeviceId(1));
        assert_eq!(of.owner(9, 6), of.owner(8, 6));
        let blocks: Vec<Owned> = of.blocks().collect();
        assert_eq!(blocks.len(), 9);
        assert_eq!(blocks[2], ((8, 0), (2, 4 - 1), DeviceId(0)));
        assert_eq!(blocks[8], ((8, 6), (2, 1), DeviceId(0)));
        let area: usize = blocks.iter().map(|(_, (m, n), _)| m * n).sum();
        assert_eq!(area, 70);
        for ((row, col), _, owner) in blocks {
            assert_eq!(of.owner(row, col), owner);
        }
        assert_eq!(of.devices(), [0, 1, 2, 3].map(DeviceId));
        let part = Distributed {
            of: Arc::new(of),
            row: 4,
            col: 3,
        };
        assert_eq!(part.owner(0, 0), DeviceId(3));
    }

    #[test]
    fn nonsense_is_no_distribution() {
        let zero = |_, _| Some(DeviceId(0));
        assert!(Distribution::new((0, 5), (1, 1), zero).is_none());
        assert!(Distribution::new((5, 5), (0, 1), zero).is_none());
        assert!(Distribution::new((1 << 16, 2), (1, 1), zero).is_none());
        assert!(Distribution::new((5, 5), (2, 2), |i, _| (i < 2).then_some(DeviceId(0))).is_none());
    }

    #[test]
    fn grids_are_as_square_as_they_can_be() {
        let grids = [1, 2, 3, 4, 6, 7, 8, 12, 64].map(grid);
        let expected = [
            (1, 1),
            (1, 2),
            (1, 3),
            (2, 2),
            (2, 3),
            (1, 7),
            (2, 4),
            (3, 4),
            (8, 8),
        ];
        assert_eq!(grids, expected);
    }
}
