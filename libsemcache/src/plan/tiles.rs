//! Tiling of level-3 routines: panels of the output for each device, tiles, and the order in which a device computes
//! the tiles of its panel.
//!
//! Each device owns a part of the output and computes it alone (BLASX, section III; the owner-computes rule of XKBlas).
//! Its tiles are taken in square blocks; in a block the inner dimension is the outer loop. The first kernel starts when
//! the first two (three, with a beta) tiles have arrived, and while a block of `b x b` tiles grows, every further tile
//! of an input starts up to `b` kernels: the innermost-k order would start only one per two tiles until a row of A had
//! arrived, and a full outer product would finish all of the output in its last step.

use super::problem::{Access, Part, Problem};
use super::resources::Resources;
use super::split::{self, Span};
use super::tiling::{Order, Tiling};
use crate::base::work::LEAST_PANEL;
use crate::base::{Op, Side, Value};

/// For a product with a symmetric or triangular A: the order of A, and the other dimension of the output.
pub(super) fn extents(p: &Problem) -> (usize, usize) {
    if p.form.side == Side::Left {
        (p.m, p.n)
    } else {
        (p.n, p.m)
    }
}

/// Contiguous shares of a dimension of `len` elements, one for each device that is worth using.
pub(super) fn shares(len: usize, machine: &Resources, tile: usize) -> Vec<Span> {
    let devices = &machine.devices.first(sharers(len, machine, tile));
    if machine.fixed {
        split::share_tiles(len, devices, tile)
    } else {
        split::share(len, devices, tile)
    }
}

/// The number of devices for which a panel of a dimension of `len` elements is worth it.
pub(super) fn sharers(len: usize, machine: &Resources, tile: usize) -> usize {
    // If the user asked for a tile that is smaller than the least panel, panels may be as small as that tile.
    let sharers = machine.devices.sharers(len, tile.min(LEAST_PANEL));
    if machine.fixed {
        sharers.min(split::pieces(len, tile)).max(1)
    } else {
        sharers
    }
}

/// Calls `each` with row, column and step for all tiles of a panel of `rows` x `cols` tiles and all steps of the inner
/// dimension, block after block.
pub(super) fn visit(
    rows: &[Span],
    cols: &[Span],
    steps: usize,
    tiling: &Tiling,
    mut each: impl FnMut(Span, Span, usize),
) {
    let by_rows = tiling.order == Order::RowsOfBlocks;
    let (outer, inner) = if by_rows {
        (
            rows.chunks(tiling.block_rows),
            cols.chunks(tiling.block_cols),
        )
    } else {
        (
            cols.chunks(tiling.block_cols),
            rows.chunks(tiling.block_rows),
        )
    };
    for (pass, line) in outer.enumerate() {
        let mut blocks: Vec<_> = inner.clone().collect();
        // Back and forth: the tiles of the block that was last are used first in the next line, while they are resident.
        if pass % 2 == 1 {
            blocks.reverse();
        }
        for block in blocks {
            let (rows, cols) = if by_rows {
                (line, block)
            } else {
                (block, line)
            };
            let order = growing(rows.len(), cols.len());
            for step in 0..steps {
                for &(i, j) in &order {
                    each(rows[i], cols[j], step);
                }
            }
        }
    }
}

/// Lines of tiles in the order of the device with index `i` of `used` devices. Each device begins at another line: it
/// fetches tiles of the operand that all devices need from the host which the other devices then copy from it.
pub(super) fn turned(lines: &[Span], i: usize, used: usize) -> Vec<Span> {
    let mut lines = lines.to_vec();
    let turn = i * lines.len() / used.max(1);
    lines.rotate_left(turn);
    lines
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
