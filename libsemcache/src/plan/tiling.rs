//! How a level-3 call is cut: tile size, blocks, and their order.

use crate::base::TileSize;

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
