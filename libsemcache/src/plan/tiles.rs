//! Tiling of level-3 routines: panels of the output for each device, tiles, and the order in which a device computes
//! the tiles of its panel.
//!
//! Each device owns a part of the output and computes it alone (BLASX, section III; the owner-computes rule of XKBlas).
//! Its tiles are taken in square blocks; in a block the inner dimension is the outer loop. The first kernel starts when
//! the first two (three, with a beta) tiles have arrived, and while a block of `b x b` tiles grows, every further tile
//! of an input starts up to `b` kernels: the innermost-k order would start only one per two tiles until a row of A had
//! arrived, and a full outer product would finish all of the output in its last step.

use super::problem::{Access, Part, Problem};
use super::resources::{MOST_TASKS, Resources};
use super::split::{self, Span};
use crate::base::Op;
use crate::base::Value;
use crate::base::work::LEAST_PANEL;

/// Tiles are never made smaller than this to fit the memory.
const LEAST_TILE: usize = 16;
/// Tiles per side of a block if the operands fit: then each arriving tile starts up to four kernels, and finished
/// blocks can be written back while others are computed.
const BLOCK: usize = 4;
/// The most tiles per side of a block out of core, where each input tile is reused once per tile of this side.
const BLOCK_OUT_OF_CORE: usize = 8;

/// The tile size for one device's panel, and the size of its blocks in tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub(super) tile: usize,
    pub(super) block_rows: usize,
    pub(super) block_cols: usize,
}

/// The largest share of any device, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Largest {
    /// Rows of the device's part of the output.
    pub(super) m: usize,
    /// Columns of the device's part of the output.
    pub(super) n: usize,
    /// Inner dimension.
    pub(super) k: usize,
    /// Elements of all operands that the device uses.
    pub(super) elements: usize,
    /// Number of products of tiles for each tile of the output and each step of the inner dimension.
    pub(super) products: usize,
}

/// Contiguous shares of a dimension of `len` elements, one for each device that is worth using.
pub(super) fn shares(len: usize, machine: &Resources) -> Vec<Span> {
    split::share(len, sharers(len, machine), machine.tile)
}

/// The number of devices for which a panel of a dimension of `len` elements is worth it.
pub(super) fn sharers(len: usize, machine: &Resources) -> usize {
    // If the user asked for a tile that is smaller than the least panel, panels may be as small as that tile.
    split::sharers(len, machine.devices, machine.tile.min(LEAST_PANEL))
}

/// The tile size for shares up to the largest, starting from the wanted one; `None` if the memory is too small.
pub(super) fn tiling(p: &Problem, machine: &Resources, largest: &Largest) -> Option<Tiling> {
    let &Largest { m, n, k, .. } = largest;
    let size = p.dtype.size();
    let area = |a: usize, b: usize| a.saturating_mul(b).saturating_mul(size);
    let usable = machine.memory - machine.memory / 10;
    let count = |tile| {
        split::pieces(m, tile)
            .saturating_mul(split::pieces(n, tile))
            .saturating_mul(split::pieces(k, tile))
            .saturating_mul(largest.products)
    };
    let mut tile = machine.tile.max(1);
    if largest.elements.saturating_mul(size) <= usable {
        while count(tile).saturating_mul(machine.devices) > MOST_TASKS {
            tile *= 2;
        }
        return Some(Tiling {
            tile,
            block_rows: BLOCK,
            block_cols: BLOCK,
        });
    }
    // Bytes of one tile of either input, and of the output, at their largest.
    let tiles = |tile: usize| {
        let (tm, tn, tk) = (
            split::longest(m, tile),
            split::longest(n, tile),
            split::longest(k, tile),
        );
        (area(tm, tk), area(tk, tn), area(tm, tn))
    };
    let fits = |tile: usize, rows: usize, cols: usize| {
        let (a, b, c) = tiles(tile);
        // Memory for inputs three times: in use, arriving, and not yet evicted. For outputs a block, one tile that is
        // written back and one that arrives.
        let inputs = a
            .saturating_mul(rows)
            .saturating_add(b.saturating_mul(cols))
            .saturating_mul(largest.products);
        let outputs = c.saturating_mul(rows * cols + 2);
        inputs.saturating_mul(3).saturating_add(outputs) <= usable
    };
    while !fits(tile, 1, 1) {
        let less = tile.min(m.max(n).max(k)) * 3 / 4;
        let less = if less > 64 { less / 16 * 16 } else { less };
        if tile <= LEAST_TILE {
            return None;
        }
        tile = less.max(LEAST_TILE);
    }
    if count(tile) > MOST_TASKS {
        return None;
    }
    let mut tiling = Tiling {
        tile,
        block_rows: 1,
        block_cols: 1,
    };
    for side in 2..=BLOCK_OUT_OF_CORE {
        if fits(tile, side, tiling.block_cols) {
            tiling.block_rows = side;
        }
        if fits(tile, tiling.block_rows, side) {
            tiling.block_cols = side;
        }
    }
    Some(tiling)
}

/// Calls `each` with row, column and step for all tiles of a panel of `rows` x `cols` tiles and all steps of the inner
/// dimension.
pub(super) fn visit(
    rows: &[Span],
    cols: &[Span],
    steps: usize,
    tiling: &Tiling,
    mut each: impl FnMut(Span, Span, usize),
) {
    for (pass, block_cols) in cols.chunks(tiling.block_cols).enumerate() {
        let mut blocks: Vec<_> = rows.chunks(tiling.block_rows).collect();
        // Back and forth: the rows that were used last are used first in the next block of columns, while they are
        // resident.
        if pass % 2 == 1 {
            blocks.reverse();
        }
        for block_rows in blocks {
            let order = growing(block_rows.len(), block_cols.len());
            for step in 0..steps {
                for &(i, j) in &order {
                    each(block_rows[i], block_cols[j], step);
                }
            }
        }
    }
}

/// The steps of the inner dimension in the order of the device with index `i` of `used` devices. Each device begins at
/// another step: it fetches tiles of the shared operand from the host that the other devices then copy from it.
pub(super) fn turned(steps: &[Span], i: usize, used: usize) -> Vec<Span> {
    let mut steps = steps.to_vec();
    let turn = i * steps.len() / used.max(1);
    steps.rotate_left(turn);
    steps
}

/// The positions of a block in an order that grows from one corner: after `t` tiles of A and `t` of B, the `t` x `t`
/// corner is done.
pub(super) fn growing(rows: usize, cols: usize) -> Vec<(usize, usize)> {
    let mut order: Vec<_> = (0..rows)
        .flat_map(|i| (0..cols).map(move |j| (i, j)))
        .collect();
    order.sort_by_key(|&(i, j)| (i.max(j), i < j, i.min(j)));
    order
}

/// The part of an operand with these rows and columns.
pub(super) fn part(operand: usize, rows: Span, cols: Span, access: Access) -> Part {
    Part {
        operand,
        row: rows.start,
        col: cols.start,
        rows: rows.len,
        cols: cols.len,
        access,
    }
}

/// The stored part of an input that holds these rows and columns of `op(X)`.
pub(super) fn stored(operand: usize, op: Op, rows: Span, cols: Span) -> Part {
    match op {
        Op::None => part(operand, rows, cols, Access::Read),
        Op::Trans | Op::ConjTrans => part(operand, cols, rows, Access::Read),
    }
}

/// How a kernel with this `beta` accesses its whole output.
pub(super) fn written(beta: Value) -> Access {
    if beta.is_zero() {
        Access::Overwrite
    } else {
        Access::Update
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_from_a_corner() {
        let order = growing(3, 3);
        assert_eq!(order[0], (0, 0));
        assert!(order[..4].iter().all(|&(i, j)| i < 2 && j < 2));
        assert_eq!(order.len(), 9);
        // Each position after the first needs at most one new input tile.
        let mut seen = std::collections::BTreeSet::from([(0, 0usize), (1, 0)]);
        for (i, j) in &order[1..] {
            let new = usize::from(seen.insert((0, *i))) + usize::from(seen.insert((1, *j)));
            assert!(new <= 1);
        }
        assert_eq!(growing(1, 4), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    }
}
