//! Plans of gemm: `C := alpha op(A) op(B) + beta C` on several devices, one panel of C for each.

use super::problem::{Problem, Task};
use super::split::{self, Span};
use super::tiles::{self, Largest, part, stored};
use super::{Resources, Value};
use crate::base::DeviceId;
use crate::base::kernel::Kernel;

pub(super) fn lower(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
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
    let area = usize::saturating_mul;
    let elements = area(m, p.k)
        .saturating_add(area(p.k, n))
        .saturating_add(area(m, n));
    let largest = Largest {
        m,
        n,
        k: p.k,
        elements,
        products: 1,
    };
    let tiling = tiles::tiling(p, machine, &largest)?;
    let depth = split::grid(p.k, tiling.tile);
    let lists = panels.iter().enumerate().map(|(i, &(rows, cols))| {
        let device = machine.device(i, used);
        let depth = tiles::turned(&depth, i, used);
        let (rows, cols) = (rows.grid(tiling.tile), cols.grid(tiling.tile));
        let mut tasks = Vec::with_capacity(rows.len() * cols.len() * depth.len());
        tiles::visit(&rows, &cols, depth.len(), &tiling, |row, col, step| {
            tasks.push(task(p, device, row, col, depth[step], step == 0));
        });
        tasks
    });
    Some(lists.collect())
}

/// Rows and columns of C for each device: column panels, which are contiguous in memory; blocks of rows if there are
/// too few columns, or if sending all of A to each device would cost far more than all other transfers.
fn panels(p: &Problem, machine: &Resources) -> Vec<(Span, Span)> {
    let (by_rows, by_cols) = (tiles::sharers(p.m, machine), tiles::sharers(p.n, machine));
    if by_rows > by_cols || (by_rows == by_cols && p.m / 8 >= p.n) {
        tiles::shares(p.m, machine)
            .into_iter()
            .map(|rows| (rows, Span::all(p.n)))
            .collect()
    } else {
        tiles::shares(p.n, machine)
            .into_iter()
            .map(|cols| (Span::all(p.m), cols))
            .collect()
    }
}

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
