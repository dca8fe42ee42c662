//! Rank-k and rank-2k updates of one triangle of C on several devices.
//!
//! Only tiles that hold elements of the stored triangle are computed: those on the diagonal, which are square, by the
//! routine's own kernel, which leaves their other triangle as it is (so some of the old tile is needed also with a zero
//! beta: `touched` tells what); the others by products, one of the rank-k and two of the rank-2k updates (BLASX, section III-B). A device
//! owns columns of C: contiguous, and as many as make its share of the triangle as large as the others'.

use super::problem::{Access, Problem, Task};
use super::split::{self, Span};
use super::tiles::{self, Largest, Tiling, part, stored};
use super::{Resources, Value};
use crate::base::{DeviceId, Op, Routine, Uplo};
use crate::device::api::Kernel;

pub(super) fn lower(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    triangle(p, machine, p.operands.len() - 1, &|cell, tasks| {
        if cell.row == cell.col {
            tasks.push(diagonal(p, cell));
        } else {
            products(p, cell, tasks);
        }
    })
}

/// A tile that holds elements of the stored triangle, at one step of the inner dimension.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) device: DeviceId,
    pub(super) row: Span,
    pub(super) col: Span,
    pub(super) depth: Span,
    /// The first step for this tile.
    pub(super) first: bool,
}

/// The tasks of each device: those that `each` makes of its tiles, of which each takes so many products of tiles.
pub(super) fn triangle(
    p: &Problem,
    machine: &Resources,
    products: usize,
    each: &dyn Fn(Cell, &mut Vec<Task>),
) -> Option<Vec<Vec<Task>>> {
    if p.n == 0 {
        return Some(Vec::new());
    }
    if p.k == 0 {
        return None;
    }
    let uplo = p.form.uplo;
    let panels = shares(p.n, tiles::sharers(p.n, machine), machine.tile, uplo);
    let used = panels.len();
    let (m, n) = panels.iter().fold((0, 0), |(m, n), cols| {
        (m.max(rows_of(*cols, p.n, uplo).len), n.max(cols.len))
    });
    let inputs = p.operands.len() - 1;
    let elements = |cols: &Span| {
        let rows = rows_of(*cols, p.n, uplo).len;
        let read = rows.saturating_mul(p.k).saturating_mul(inputs);
        read.saturating_add(rows.saturating_mul(cols.len))
    };
    let largest = Largest {
        m,
        n,
        k: p.k,
        elements: panels.iter().map(elements).max()?,
        products,
    };
    let tiling = tiles::tiling(p, machine, &largest)?;
    let depth = split::grid(p.k, tiling.tile);
    let lists = panels.iter().enumerate().map(|(i, &cols)| {
        let depth = tiles::turned(&depth, i, used);
        panel(p, machine.device(i, used), cols, &depth, &tiling, each)
    });
    Some(lists.collect())
}

/// The rows of C that hold elements of the stored triangle in these columns.
fn rows_of(cols: Span, n: usize, uplo: Uplo) -> Span {
    match uplo {
        Uplo::Lower => Span {
            start: cols.start,
            len: n - cols.start,
        },
        Uplo::Upper => Span::all(cols.end()),
    }
}

/// At most `parts` contiguous ranges of columns that hold about equal shares of the triangle, none empty. The cuts lie
/// at multiples of `tile`, or of half of it and so on, as coarse as leaves no share more than a tenth too large.
fn shares(n: usize, parts: usize, tile: usize, uplo: Uplo) -> Vec<Span> {
    let order = n as f64;
    let area = |s: &Span| {
        let middle = s.start as f64 + s.len as f64 / 2.0;
        let height = match uplo {
            Uplo::Lower => order - middle,
            Uplo::Upper => middle,
        };
        s.len as f64 * height
    };
    let even = order * order / 2.0 / parts as f64;
    // The first i columns of a lower triangle hold 1 - (1 - i / n)^2 of it, those of an upper one (i / n)^2.
    let ideal = |i: usize| {
        let share = i as f64 / parts as f64;
        order
            * match uplo {
                Uplo::Lower => 1.0 - (1.0 - share).sqrt(),
                Uplo::Upper => share.sqrt(),
            }
    };
    let mut step = tile.clamp(1, n);
    loop {
        let at = |i: usize| match i {
            0 => 0,
            _ if i == parts => n,
            _ => (((ideal(i) / step as f64).round() as usize).saturating_mul(step)).min(n),
        };
        let spans: Vec<Span> = (0..parts)
            .map(|i| Span {
                start: at(i),
                len: at(i + 1) - at(i),
            })
            .filter(|s| s.len > 0)
            .collect();
        let fair = spans.len() == parts && spans.iter().all(|s| area(s) <= even * 1.1);
        if fair || step == 1 {
            return spans;
        }
        step /= 2;
    }
}

/// The tasks of one device.
fn panel(
    p: &Problem,
    device: DeviceId,
    cols: Span,
    depth: &[Span],
    tiling: &Tiling,
    each: &dyn Fn(Cell, &mut Vec<Task>),
) -> Vec<Task> {
    let uplo = p.form.uplo;
    let own = cols.grid(tiling.tile);
    let rows = match uplo {
        Uplo::Lower => {
            let below = Span {
                start: cols.end(),
                len: p.n - cols.end(),
            };
            [own.clone(), below.grid(tiling.tile)].concat()
        }
        Uplo::Upper => [Span::all(cols.start).grid(tiling.tile), own.clone()].concat(),
    };
    let mut tasks = Vec::new();
    tiles::visit(&rows, &own, depth.len(), tiling, |row, col, step| {
        let is_stored = match uplo {
            Uplo::Lower => row.start >= col.start,
            Uplo::Upper => row.start <= col.start,
        };
        if is_stored {
            let cell = Cell {
                device,
                row,
                col,
                depth: depth[step],
                first: step == 0,
            };
            each(cell, &mut tasks);
        }
    });
    tasks
}

/// The update of a tile on the diagonal.
fn diagonal(p: &Problem, cell: Cell) -> Task {
    let Cell {
        device,
        row: rows,
        depth,
        first,
        ..
    } = cell;
    let output = p.operands.len() - 1;
    let mut parts: Vec<_> = (0..output)
        .map(|input| stored(input, p.op_a, rows, depth))
        .collect();
    // Whatever beta is: half of the tile is not written.
    parts.push(part(output, rows, rows, Access::Update));
    Task {
        device,
        kernel: Kernel {
            m: rows.len,
            n: rows.len,
            k: depth.len,
            beta: if first { p.beta } else { Value::ONE },
            ..p.kernel()
        },
        parts,
    }
}

/// The update of another tile: `alpha op(A) op(A)^T`, or `alpha op(A) op(B)^T` and `alpha op(B) op(A)^T`, of the
/// Hermitian routines `^H` and in the last product `conj(alpha)`.
fn products(p: &Problem, cell: Cell, tasks: &mut Vec<Task>) {
    let Cell {
        device,
        row: rows,
        col: cols,
        depth,
        first,
    } = cell;
    let hermitian = p.routine.hermitian();
    let (op_a, op_b) = match p.op_a {
        Op::None if hermitian => (Op::None, Op::ConjTrans),
        Op::None => (Op::None, Op::Trans),
        // op(X) is the transpose of what is stored, and its transpose is that itself.
        op => (op, Op::None),
    };
    let output = p.operands.len() - 1;
    let turned = if hermitian {
        Value {
            im: -p.alpha.im,
            ..p.alpha
        }
    } else {
        p.alpha
    };
    let pairs = [(0, output - 1, p.alpha), (output - 1, 0, turned)];
    for (i, &(x, y, alpha)) in pairs.iter().take(output).enumerate() {
        let beta = if first && i == 0 { p.beta } else { Value::ONE };
        tasks.push(Task {
            device,
            kernel: Kernel {
                routine: Routine::Gemm,
                op_a,
                op_b,
                m: rows.len,
                n: cols.len,
                k: depth.len,
                alpha,
                beta,
                ..p.kernel()
            },
            parts: vec![
                stored(x, p.op_a, rows, depth),
                stored(y, p.op_a, cols, depth),
                part(output, rows, cols, tiles::written(beta)),
            ],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_hold_equal_parts_of_the_triangle() {
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for n in [1, 2, 3, 7, 64, 300, 16384] {
                for parts in 1..=n.min(8) {
                    for tile in [1, 16, 2048] {
                        let found = shares(n, parts, tile, uplo);
                        let mut next = 0;
                        for s in &found {
                            assert_eq!(s.start, next);
                            assert!(s.len > 0);
                            next = s.end();
                        }
                        assert_eq!(next, n);
                        if n < 300 {
                            continue;
                        }
                        assert_eq!(found.len(), parts);
                        let area = |s: &Span| -> usize {
                            let height = |c| if uplo == Uplo::Lower { n - c } else { c + 1 };
                            (s.start..s.end()).map(height).sum()
                        };
                        let largest = found.iter().map(area).max().expect("some");
                        let even = n * (n + 1) / 2 / parts;
                        assert!(largest <= even + even / 7, "{n} {parts} {tile}: {found:?}");
                    }
                }
            }
        }
    }
}
