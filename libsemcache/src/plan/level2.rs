//! Matrix-vector routines, and sums, copies and transpositions of matrices. A resident matrix is one kernel per device,
//! whatever its size; only what does not fit is cut into pieces that pass through a quarter of the memory.

use super::problem::{Access, Operand, Part, Problem, Task};
use super::resources::{MOST_TASKS, Resources};
use super::split::{self, Span};
use crate::base::Op;
use crate::base::Value;
use crate::base::kernel::{Kernel, TRANSPOSED_SHARE};

/// Rows of a block of a column-major matrix below which its copies are too narrow (2 KiB of doubles).
const LEAST_ROWS: usize = 256;
/// Columns of a panel that are worth a device.
const LEAST_COLS: usize = 16;

/// `y := alpha op(A) x + beta y`: y is distributed, with the rows of A, or its columns when transposed; x
/// goes to every device.
pub(super) fn gemv(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    if p.m == 0 || p.n == 0 {
        return Some(Vec::new());
    }
    let transposed = p.op_a != Op::None;
    let (len, least) = if transposed {
        (p.n, LEAST_COLS)
    } else {
        (p.m, LEAST_ROWS)
    };
    let shares = shares(p, machine, len, least);
    let used = shares.len();
    let mut lists = Vec::with_capacity(used);
    for (i, share) in shares.into_iter().enumerate() {
        let (rows, cols) = if transposed {
            (whole(p.m), share)
        } else {
            (share, whole(p.n))
        };
        let device = machine.device(i, used);
        let (row_pieces, col_pieces) = pieces(p, machine, rows, cols)?;
        let mut list = Vec::with_capacity(row_pieces.len() * col_pieces.len());
        for &c in &col_pieces {
            for &r in &row_pieces {
                // Pieces along the summed dimension, which is not distributed, add up: beta belongs to
                // the first.
                let (summed, kept) = if transposed { (r, c) } else { (c, r) };
                let beta = if summed.start == 0 {
                    p.beta
                } else {
                    Value::ONE
                };
                let written = if beta.is_zero() {
                    Access::Overwrite
                } else {
                    Access::Update
                };
                list.push(Task {
                    device,
                    kernel: Kernel {
                        m: r.len,
                        n: c.len,
                        beta,
                        ..p.kernel()
                    },
                    parts: vec![
                        matrix(0, r, c, Access::Read),
                        vector(&p.operands[1], 1, summed, Access::Read),
                        vector(&p.operands[2], 2, kept, written),
                    ],
                });
            }
        }
        lists.push(list);
    }
    Some(lists)
}

/// `A := A + alpha x y^T` (or `y^H`): column panels of A with their part of y; x goes to every device.
pub(super) fn ger(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    if p.m == 0 || p.n == 0 {
        return Some(Vec::new());
    }
    let shares = shares(p, machine, p.n, LEAST_COLS);
    let used = shares.len();
    let mut lists = Vec::with_capacity(used);
    for (i, cols) in shares.into_iter().enumerate() {
        let device = machine.device(i, used);
        let (row_pieces, col_pieces) = pieces(p, machine, whole(p.m), cols)?;
        let mut list = Vec::with_capacity(row_pieces.len() * col_pieces.len());
        for &c in &col_pieces {
            for &r in &row_pieces {
                list.push(Task {
                    device,
                    kernel: Kernel {
                        m: r.len,
                        n: c.len,
                        ..p.kernel()
                    },
                    parts: vec![
                        vector(&p.operands[0], 0, r, Access::Read),
                        vector(&p.operands[1], 1, c, Access::Read),
                        matrix(2, r, c, Access::Update),
                    ],
                });
            }
        }
        lists.push(list);
    }
    Some(lists)
}

/// The distributed dimension, cut for as many devices as are worth it.
fn shares(p: &Problem, machine: &Resources, len: usize, least: usize) -> Vec<Span> {
    let bytes = p.m.saturating_mul(p.n).saturating_mul(p.dtype.size());
    let worth = split::sharers(bytes, machine.devices, machine.grain);
    let used = split::sharers(len, worth, least.min(machine.tile));
    split::share(len, used, least)
}

/// One device's rows and columns, in one piece if they fit into nine tenths of the memory, else cut into
/// pieces of a quarter of it: whole columns, which are contiguous, as long as one fits.
fn pieces(
    p: &Problem,
    machine: &Resources,
    rows: Span,
    cols: Span,
) -> Option<(Vec<Span>, Vec<Span>)> {
    // Pieces of all matrices have as many elements.
    let matrices = p.operands.iter().filter(|o| !o.vector).count();
    let memory = machine.memory / p.dtype.size() / matrices;
    let need = |r: usize, c: usize| r.saturating_mul(c).saturating_add(r).saturating_add(c);
    if need(rows.len, cols.len) <= memory - memory / 10 {
        return Some((vec![rows], vec![cols]));
    }
    let most = memory / 4;
    // The smallest piece is one element of each operand.
    if most < need(1, 1) {
        return None;
    }
    let r = rows.len.min(most / 3).max(1);
    let c = ((most - r) / (r + 1)).clamp(1, cols.len);
    let count = rows.len.div_ceil(r).saturating_mul(cols.len.div_ceil(c));
    (count <= MOST_TASKS).then(|| (within(rows, r), within(cols, c)))
}

fn within(whole: Span, piece: usize) -> Vec<Span> {
    (0..whole.len.div_ceil(piece))
        .map(|i| Span {
            start: whole.start + i * piece,
            len: piece.min(whole.len - i * piece),
        })
        .collect()
}

/// `C := alpha A + beta C`, `B := alpha op(A)` and `A := alpha A`: column panels of what is written, with what becomes
/// them. `A := alpha op(A)` of a square matrix with a transposition is one kernel.
pub(super) fn elementwise(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    if p.m == 0 || p.n == 0 {
        return Some(Vec::new());
    }
    let transposed = p.op_a != Op::None;
    let last = p.operands.len() - 1;
    let task = |device, r: Span, c: Span| {
        let (m, n) = if transposed { (c, r) } else { (r, c) };
        let part = |i: usize| match i == last {
            true => matrix(i, r, c, p.access(i)),
            false => matrix(i, m, n, p.access(i)),
        };
        Task {
            device,
            kernel: Kernel {
                m: m.len,
                n: n.len,
                ..p.kernel()
            },
            parts: (0..=last).map(part).collect(),
        }
    };
    if transposed && last == 0 {
        let bytes = p.m.saturating_mul(p.n).saturating_mul(p.dtype.size());
        let fits = bytes <= machine.memory / TRANSPOSED_SHARE;
        return fits.then(|| vec![vec![task(machine.prefer, whole(p.m), whole(p.n))]]);
    }
    let written = &p.operands[last];
    // A panel of columns of a transposed matrix is one of rows where it is read.
    let least = if transposed { LEAST_ROWS } else { LEAST_COLS };
    let shares = shares(p, machine, written.cols, least);
    let used = shares.len();
    let mut lists = Vec::with_capacity(used);
    for (i, cols) in shares.into_iter().enumerate() {
        let device = machine.device(i, used);
        let (row_pieces, col_pieces) = pieces(p, machine, whole(written.rows), cols)?;
        let columns = col_pieces.iter();
        let all = columns.flat_map(|&c| row_pieces.iter().map(move |&r| (r, c)));
        lists.push(all.map(|(r, c)| task(device, r, c)).collect());
    }
    Some(lists)
}

fn whole(len: usize) -> Span {
    Span { start: 0, len }
}

fn matrix(operand: usize, rows: Span, cols: Span, access: Access) -> Part {
    Part {
        operand,
        row: rows.start,
        col: cols.start,
        rows: rows.len,
        cols: cols.len,
        access,
    }
}

/// The part of a vector that holds the logical elements of `span`.
pub(super) fn vector(v: &Operand, operand: usize, span: Span, access: Access) -> Part {
    Part {
        operand,
        row: v.memory_start(span.start, span.len),
        col: 0,
        rows: span.len,
        cols: 1,
        access,
    }
}
