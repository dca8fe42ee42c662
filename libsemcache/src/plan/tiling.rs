//! How a level-3 call is cut: tile size, blocks, and their order.

/// The extents of the products of tiles, in elements, and of what is moved and kept of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileSize {
    /// Rows of a tile of the output.
    pub m: usize,
    /// Columns of a tile of the output.
    pub n: usize,
    /// Length of the sums of one product of tiles.
    pub k: usize,
    /// Rows, as stored, of a *strip*: tiles of an operand that lie below each other are moved and kept together up to this
    /// length, since the link is faster for longer columns. A strip is as wide as one tile and holds whole tiles.
    pub strip: usize,
}

impl TileSize {
    /// Tiles of equal sides, each a strip of its own.
    #[must_use]
    pub const fn square(side: usize) -> TileSize {
        TileSize {
            m: side,
            n: side,
            k: side,
            strip: side,
        }
    }

    /// The products of tiles in one of these sizes.
    #[must_use]
    pub fn products(&self, m: usize, n: usize, k: usize) -> usize {
        m.div_ceil(self.m)
            .saturating_mul(n.div_ceil(self.n))
            .saturating_mul(k.div_ceil(self.k))
    }

    /// The longest side of a product of tiles.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.m.max(self.n).max(self.k)
    }
}

/// The order in which the blocks of a device's panel are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Column of blocks by column of blocks: the second input's tiles for a column may stay.
    ColumnsOfBlocks,
    /// Row of blocks by row of blocks: the first input's tiles for a row may stay.
    RowsOfBlocks,
}

/// The tile size for one device's panel, and the size of its blocks in tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiling {
    /// The size of the tiles. Only products ([`crate::base::routine::Cut::Product`]) have tiles that are not square.
    pub tile: TileSize,
    /// Rows of tiles of a block.
    pub block_rows: usize,
    /// Columns of tiles of a block.
    pub block_cols: usize,
    /// The order of the blocks.
    pub order: Order,
    /// Whether all operands fit into nine tenths of the memory.
    pub in_core: bool,
}
