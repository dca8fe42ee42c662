//! Plans of symm and hemm: `C := alpha A B + beta C` and `C := alpha B A + beta C` with a symmetric or Hermitian A on
//! several devices.
//!
//! C is computed by products of tiles; tiles of A that are not stored are the (conjugate) transposes of stored ones
//! (BLASX, section III-B). Only the tiles on the diagonal of A, of which one triangle is stored, need the routine's own
//! kernel; so that they are square, rows and columns of A are cut at the same places. Therefore a device gets whole
//! columns of C if A stands on the left, whole rows if A stands on the right.

use super::blocks::Largest;
use super::problem::{Problem, Task};
use super::split::{self, Span};
use super::tiles::{self, part, stored};
use super::tiling::Tiling;
use super::{Resources, Value};
use crate::base::kernel::Kernel;
use crate::base::{DeviceId, Op, Routine, Side, TileSize, Uplo};

pub(super) fn lower(
    p: &Problem,
    machine: &Resources,
    tiling: Option<Tiling>,
) -> Option<Vec<Vec<Task>>> {
    if p.m == 0 || p.n == 0 {
        return Some(Vec::new());
    }
    let left = p.form.side == Side::Left;
    let (order, free) = tiles::extents(p);
    let tiling = tiling?;
    let panels = tiles::shares(free, machine, tiling.tile.m);
    let used = panels.len();
    let along = split::grid(order, tiling.tile.m);
    let lists = panels.iter().enumerate().map(|(i, panel)| {
        let device = machine.device(i, used);
        let lines = tiles::turned(&along, i, used);
        let across = panel.grid(tiling.tile.m);
        let (rows, cols) = if left {
            (&lines, &across)
        } else {
            (&across, &lines)
        };
        let mut tasks = Vec::with_capacity(rows.len() * cols.len() * along.len());
        tiles::visit(rows, cols, along.len(), &tiling, |row, col, step| {
            tasks.push(task(p, device, row, col, along[step], step == 0));
        });
        tasks
    });
    Some(lists.collect())
}

/// The largest share of any device.
pub(super) fn largest(p: &Problem, machine: &Resources, tile: &TileSize) -> Option<Largest> {
    let tile = tile.m;
    let (order, free) = tiles::extents(p);
    let shares = tiles::shares(free, machine, tile);
    let widest = shares.iter().map(|s| s.len).max()?;
    let line = split::longest(order, tile);
    let across = Largest::longest_of(shares.iter().map(|s| s.len), tile);
    let (m, n) = if p.form.side == Side::Left {
        (order, widest)
    } else {
        (widest, order)
    };
    Some(Largest {
        m,
        n,
        k: order,
        longest: [line, across, line],
        elements: order
            .saturating_mul(order)
            .saturating_add(m.saturating_mul(n).saturating_mul(2)),
        products: 1,
        triangle: false,
        ops: None,
    })
}

fn task(p: &Problem, device: DeviceId, rows: Span, cols: Span, depth: Span, first: bool) -> Task {
    let beta = if first { p.beta } else { Value::ONE };
    let left = p.form.side == Side::Left;
    let (a_rows, a_cols) = if left { (rows, depth) } else { (depth, cols) };
    let mirrored = match p.form.uplo {
        Uplo::Lower => a_rows.start < a_cols.start,
        Uplo::Upper => a_rows.start > a_cols.start,
    };
    let op = match (mirrored, p.routine) {
        (false, _) => Op::None,
        (true, Routine::Hemm) => Op::ConjTrans,
        (true, _) => Op::Trans,
    };
    let a = stored(0, op, a_rows, a_cols);
    let c = part(2, rows, cols, tiles::written(beta));
    let own = (p.routine, p.op_a, p.op_b);
    let ((routine, op_a, op_b), parts) = match (a_rows == a_cols, left) {
        (true, true) => (own, vec![a, stored(1, Op::None, depth, cols), c]),
        (true, false) => (own, vec![a, stored(1, Op::None, rows, depth), c]),
        (false, true) => (
            (Routine::Gemm, op, Op::None),
            vec![a, stored(1, Op::None, depth, cols), c],
        ),
        (false, false) => (
            (Routine::Gemm, Op::None, op),
            vec![stored(1, Op::None, rows, depth), a, c],
        ),
    };
    Task {
        device,
        kernel: Kernel {
            routine,
            op_a,
            op_b,
            m: rows.len,
            n: cols.len,
            k: depth.len,
            beta,
            ..p.kernel()
        },
        parts,
    }
}
