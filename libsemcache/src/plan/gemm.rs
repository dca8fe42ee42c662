//! `C := alpha op(A) op(B) + beta C` on several devices.
//!
//! Each device owns a panel of C and computes it alone (BLASX, section III). Within a panel the tiles of C
//! are taken in square blocks; in a block the inner dimension is the outer loop. The first kernel starts
//! when the first two (three, with a beta) tiles have arrived, and while a block of `b x b` tiles grows,
//! every further tile of A or B starts up to `b` kernels: the innermost-k order would start only one per
//! two tiles until a row of A had arrived, and a full outer product would finish all of C in its last step.

use super::problem::{Access, Part, Problem, Task, TaskOp};
use super::split::{self, Span};
use super::{MOST_TASKS, Shape, Value};
use crate::base::DeviceId;
use crate::device::api::Op;
use crate::model::work::LEAST_PANEL;

/// Tiles are never made smaller than this to fit the memory.
const LEAST_TILE: usize = 16;
/// Tiles per side of a block of C when everything fits: enough for one kernel per arriving tile to become
/// four, few enough for finished blocks to leave while others are computed.
const BLOCK: usize = 4;
/// Tiles per side of a block of C out of core, where it is the reuse of A and B.
const BLOCK_OUT_OF_CORE: usize = 8;

/// The tile of one device's panel and the block that it is visited in.
struct Tiling {
    tile: usize,
    block_rows: usize,
    block_cols: usize,
}

pub(super) fn lower(p: &Problem, machine: &Shape) -> Option<Vec<Vec<Task>>> {
    if p.m == 0 || p.n == 0 {
        return Some(Vec::new());
    }
    if p.k == 0 {
        return None;
    }
    let panels = panels(p, machine);
    let used = panels.len();
    let (m, n) = panels.iter().fold((0, 0), |(m, n), (rows, cols)| {
        (m.max(rows.len), n.max(cols.len))
    });
    let tiling = tiling(p, machine, m, n)?;
    let depth = split::grid(p.k, tiling.tile);
    let lists = panels
        .iter()
        .enumerate()
        .map(|(i, &(rows, cols))| {
            // Each device starts at another place of the inner dimension: it fetches tiles of the shared
            // operand from the host that the others then get from it.
            let mut depth = depth.clone();
            let turn = i * depth.len() / used;
            depth.rotate_left(turn);
            panel(p, machine.device(i, used), rows, cols, &depth, &tiling)
        })
        .collect();
    Some(lists)
}

/// Rows and columns of C per device: column panels, which are contiguous in memory; blocks of rows when
/// there are too few columns, or when sending all of A to each device would dwarf the rest.
fn panels(p: &Problem, machine: &Shape) -> Vec<(Span, Span)> {
    // A tile that is smaller still was asked for: then its panels are, too.
    let least = machine.tile.min(LEAST_PANEL);
    let by_cols = split::sharers(p.n, machine.devices, least);
    let by_rows = split::sharers(p.m, machine.devices, least);
    let all = |len| Span { start: 0, len };
    if by_rows > by_cols || (by_rows == by_cols && p.m / 8 >= p.n) {
        split::share(p.m, by_rows, machine.tile)
            .into_iter()
            .map(|rows| (rows, all(p.n)))
            .collect()
    } else {
        split::share(p.n, by_cols, machine.tile)
            .into_iter()
            .map(|cols| (all(p.m), cols))
            .collect()
    }
}

/// The tile size for panels of at most `m` x `n`, from the wanted one; `None` when the memory is too small.
fn tiling(p: &Problem, machine: &Shape, m: usize, n: usize) -> Option<Tiling> {
    let size = p.dtype.size();
    let area = |a: usize, b: usize| a.saturating_mul(b).saturating_mul(size);
    let usable = machine.memory - machine.memory / 10;
    let whole = area(m, p.k)
        .saturating_add(area(p.k, n))
        .saturating_add(area(m, n));
    let count = |tile| {
        split::pieces(m, tile)
            .saturating_mul(split::pieces(n, tile))
            .saturating_mul(split::pieces(p.k, tile))
    };
    let mut tile = machine.tile.max(1);
    if whole <= usable {
        while count(tile).saturating_mul(machine.devices) > MOST_TASKS {
            tile *= 2;
        }
        return Some(Tiling {
            tile,
            block_rows: BLOCK,
            block_cols: BLOCK,
        });
    }
    // Bytes of one tile of A and B each, and of C, as large as the grids get.
    let tiles = |tile: usize| {
        let (tm, tn, tk) = (
            split::longest(m, tile),
            split::longest(n, tile),
            split::longest(p.k, tile),
        );
        (area(tm, tk), area(tk, tn), area(tm, tn))
    };
    let fits = |tile: usize, rows: usize, cols: usize| {
        let (a, b, c) = tiles(tile);
        // A and B three times: in use, arriving, and not yet evicted; C likewise, or as a block plus one
        // that leaves and one that arrives.
        let inputs = a
            .saturating_mul(rows)
            .saturating_add(b.saturating_mul(cols));
        let outputs = c.saturating_mul(rows * cols + 2);
        inputs.saturating_mul(3).saturating_add(outputs) <= usable
    };
    while !fits(tile, 1, 1) {
        let less = tile.min(m.max(n).max(p.k)) * 3 / 4;
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

/// The tasks of one device.
fn panel(
    p: &Problem,
    device: DeviceId,
    rows: Span,
    cols: Span,
    depth: &[Span],
    tiling: &Tiling,
) -> Vec<Task> {
    let within = |whole: Span| {
        let mut grid = split::grid(whole.len, tiling.tile);
        for span in &mut grid {
            span.start += whole.start;
        }
        grid
    };
    let (rows, cols) = (within(rows), within(cols));
    let mut tasks = Vec::with_capacity(rows.len() * cols.len() * depth.len());
    for (pass, block_cols) in cols.chunks(tiling.block_cols).enumerate() {
        let mut blocks: Vec<_> = rows.chunks(tiling.block_rows).collect();
        // Back and forth: what of A was used last is used first in the next block of columns.
        if pass % 2 == 1 {
            blocks.reverse();
        }
        for block_rows in blocks {
            let order = growing(block_rows.len(), block_cols.len());
            for (step, &k) in depth.iter().enumerate() {
                for &(i, j) in &order {
                    tasks.push(task(p, device, block_rows[i], block_cols[j], k, step == 0));
                }
            }
        }
    }
    tasks
}

/// The positions of a block, growing from one corner: after `t` tiles of A and `t` of B, the `t` x `t`
/// corner is done.
fn growing(rows: usize, cols: usize) -> Vec<(usize, usize)> {
    let mut order: Vec<_> = (0..rows)
        .flat_map(|i| (0..cols).map(move |j| (i, j)))
        .collect();
    order.sort_by_key(|&(i, j)| (i.max(j), i < j, i.min(j)));
    order
}

fn task(p: &Problem, device: DeviceId, rows: Span, cols: Span, depth: Span, first: bool) -> Task {
    let beta = if first { p.beta } else { Value::ONE };
    let part = |operand, r: Span, c: Span, access| Part {
        operand,
        row: r.start,
        col: c.start,
        rows: r.len,
        cols: c.len,
        access,
    };
    let stored = |operand, op, r, c| match op {
        Op::None => part(operand, r, c, Access::Read),
        Op::Trans | Op::ConjTrans => part(operand, c, r, Access::Read),
    };
    let written = if beta.is_zero() {
        Access::Overwrite
    } else {
        Access::Update
    };
    Task {
        device,
        op: TaskOp {
            m: rows.len,
            n: cols.len,
            k: depth.len,
            alpha: p.alpha,
            beta,
            product: None,
        },
        parts: vec![
            stored(0, p.op_a, rows, depth),
            stored(1, p.op_b, depth, cols),
            part(2, rows, cols, written),
        ],
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
        // Each step needs one new tile at most.
        let mut seen = std::collections::BTreeSet::from([(0, 0usize), (1, 0)]);
        for (i, j) in &order[1..] {
            let new = usize::from(seen.insert((0, *i))) + usize::from(seen.insert((1, *j)));
            assert!(new <= 1);
        }
        assert_eq!(growing(1, 4), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    }
}
