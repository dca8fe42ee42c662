//! Plans of gemm: `C := alpha op(A) op(B) + beta C` on several devices, one panel of C for each.

use super::blocks::Largest;
use super::problem::{Problem, Task};
use super::split::{self, Span};
use super::tiles::{self, part, stored};
use super::tiling::Tiling;
use super::{Resources, Value};
use crate::base::kernel::Kernel;
use crate::base::{DeviceId, TileSize};

pub(super) fn lower(
    p: &Problem,
    machine: &Resources,
    tiling: Option<Tiling>,
) -> Option<Vec<Vec<Task>>> {
    if p.m == 0 || p.n == 0 {
        return Some(Vec::new());
    }
    if p.k == 0 {
        return None;
    }
    let tiling = tiling?;
    let tile = tiling.tile;
    let panels = panels(p, machine, &tile);
    let used = panels.len();
    let depth = split::grid(p.k, tile.k);
    let by_rows = panels.first().is_some_and(|(rows, _)| rows.len < p.m);
    let lists = panels.iter().enumerate().map(|(i, &(rows, cols))| {
        let device = machine.device(i, used);
        let (rows, cols) = (rows.grid(tile.m), cols.grid(tile.n));
        let (rows, cols) = if by_rows {
            (rows, tiles::turned(&cols, i, used))
        } else {
            (tiles::turned(&rows, i, used), cols)
        };
        let mut tasks = Vec::with_capacity(rows.len() * cols.len() * depth.len());
        tiles::visit(&rows, &cols, depth.len(), &tiling, |row, col, step| {
            tasks.push(task(p, device, row, col, depth[step], step == 0));
        });
        tasks
    });
    Some(lists.collect())
}

/// The largest share of any device.
pub(super) fn largest(p: &Problem, machine: &Resources, tile: &TileSize) -> Option<Largest> {
    let panels = panels(p, machine, tile);
    let (m, n) = panels.iter().fold((0, 0), |(m, n), (rows, cols)| {
        (m.max(rows.len), n.max(cols.len))
    });
    let area = usize::saturating_mul;
    Some(Largest {
        m,
        n,
        k: p.k,
        longest: [
            Largest::longest_of(panels.iter().map(|(rows, _)| rows.len), tile.m),
            Largest::longest_of(panels.iter().map(|(_, cols)| cols.len), tile.n),
            split::longest(p.k, tile.k),
        ],
        elements: area(m, p.k)
            .saturating_add(area(p.k, n))
            .saturating_add(area(m, n)),
        products: 1,
        triangle: false,
        ops: Some((p.op_a, p.op_b)),
    })
}

/// Rows and columns of C for each device: column panels, which are contiguous in memory; blocks of rows if there are
/// too few columns, or if sending all of A to each device would cost far more than all other transfers.
fn panels(p: &Problem, machine: &Resources, tile: &TileSize) -> Vec<(Span, Span)> {
    let by_rows = tiles::sharers(p.m, machine, tile.m);
    let by_cols = tiles::sharers(p.n, machine, tile.n);
    if by_rows > by_cols || (by_rows == by_cols && p.m / 8 >= p.n) {
        tiles::shares(p.m, machine, tile.m)
            .into_iter()
            .map(|rows| (rows, Span::all(p.n)))
            .collect()
    } else {
        tiles::shares(p.n, machine, tile.n)
            .into_iter()
            .map(|cols| (Span::all(p.m), cols))
            .collect()
    }
}

#[inline]
fn task(p: &Problem, device: DeviceId, rows: Span, cols: Span, depth: Span, first: bool) -> Task {
    let beta = if first { p.beta } else { Value::ONE };
    Task {
        device,
        kernel: Kernel {
            m: rows.len,
            n: cols.len,
            k: depth.len,
            beta,
            ..p.kernel()
        },
        parts: vec![
            stored(0, p.op_a, rows, depth),
            stored(1, p.op_b, depth, cols),
            part(2, rows, cols, tiles::written(beta)),
        ],
    }
}
