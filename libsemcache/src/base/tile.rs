//! The size of the tiles into which a call of level 3 is cut.

use super::routine::Op;

/// The extents of the products of tiles, in elements, and of what is moved and kept of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

    /// Tiles of a product with these transpositions of its inputs whose strips have `parts * side` rows and `side` columns. Strips
    /// lie along the rows of the operands as stored; a dimension that is columns of no operand is cut into whole strips.
    #[must_use]
    pub fn long(side: usize, parts: usize, (op_a, op_b): (Op, Op)) -> TileSize {
        let (a_turned, b_turned) = (op_a != Op::None, op_b != Op::None);
        let strip = side * parts;
        TileSize {
            m: if a_turned { side } else { strip },
            n: side,
            k: if a_turned && !b_turned { strip } else { side },
            strip,
        }
    }

    /// Whether a strip may hold more than one tile of some operand.
    #[must_use]
    pub fn in_strips(&self) -> bool {
        self.strip > self.m.min(self.n).min(self.k)
    }

    /// The rows of a strip at most: the last tile of a dimension may be longer by a quarter.
    #[must_use]
    pub fn longest_strip(&self) -> usize {
        self.strip + self.m.min(self.n).min(self.k) / 4
    }

    /// The longest side of a product of tiles.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.m.max(self.n).max(self.k)
    }

    /// The products of tiles in one of these sizes.
    #[must_use]
    pub fn products(&self, m: usize, n: usize, k: usize) -> usize {
        m.div_ceil(self.m)
            .saturating_mul(n.div_ceil(self.n))
            .saturating_mul(k.div_ceil(self.k))
    }
}
