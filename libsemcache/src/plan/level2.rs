//! Plans of matrix-vector routines (gemv, ger), and of sums, copies and transpositions of matrices. A matrix that fits
//! into device memory is one kernel per device, whatever its size; a larger one is cut into pieces of a quarter of the
//! memory, which pass through the device one after the other.

use super::problem::{Access, Operand, Part, Problem, Task};
use super::resources::{MOST_TASKS, Resources};
use super::split::{self, Span};
use crate::base::Op;
use crate::base::Value;
use crate::base::kernel::{Kernel, TRANSPOSED_SHARE};

/// The least rows of a block of a column-major matrix: with fewer rows, the runs of its copies are too short (2 KiB for
/// 256 doubles).
const LEAST_ROWS: usize = 256;
/// The least columns of a panel that is worth a device.
const LEAST_COLS: usize = 16;

/// `y := alpha op(A) x + beta y`: each device gets a part of y and the matching rows of A (columns if A is transposed);
/// x goes to every device.
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
                // Pieces along the summed dimension, which is not distributed, add up: the first one multiplies y by
                // beta.
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

/// `A := A + alpha x y^T` (or `y^H`): each device gets a column panel of A and its part of y; x goes to every device.
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

/// The distributed dimension, cut into one share for each device that is worth using.
fn shares(p: &Problem, machine: &Resources, len: usize, least: usize) -> Vec<Span> {
    let bytes = p.m.saturating_mul(p.n).saturating_mul(p.dtype.size());
    let worth = machine
        .devices
        .first(machine.devices.sharers(bytes, machine.grain));
    let used = worth.first(worth.sharers(len, least.min(machine.tile.n)));
    split::share(len, &used, least)
}

/// The rows and columns of one device: in one piece if they fit into nine tenths of the memory, else in pieces of a
/// quarter of the memory; these are whole columns, which are contiguous, as long as one column fits.
fn pieces(
    p: &Problem,
    machine: &Resources,
    rows: Span,
    cols: Span,
) -> Option<(Vec<Span>, Vec<Span>)> {
    // The pieces of all matrices of the call have the same number of elements, so each matrix gets an equal share of
    // the memory.
    let matrices = p.operands.iter().filter(|o| !o.vector).count();
    let memory = machine.memory / p.dtype.size() / matrices;
    let need = |r: usize, c: usize| r.saturating_mul(c).saturating_add(r).saturating_add(c);
    if need(rows.len, cols.len) <= memory - memory / 10 {
        return Some((vec![rows], vec![cols]));
    }
    let most = memory / 4;
    // Even the smallest piece has one element of each operand.
    if most < need(1, 1) {
        return None;
    }
    let r = rows.len.min(most / 3).max(1);
    let c = ((most - r) / (r + 1)).clamp(1, cols.len);
    let count = rows.len.div_ceil(r).saturating_mul(cols.len.div_ceil(c));
    (count <= MOST_TASKS).then(|| (within(rows, r), within(cols, c)))
}

pub(super) fn within(whole: Span, piece: usize) -> Vec<Span> {
    (0..whole.len.div_ceil(piece))
        .map(|i| Span {
            start: whole.start + i * piece,
            len: piece.min(whole.len - i * piece),
        })
        .collect()
}

/// `C := alpha A + beta C`, `B := alpha op(A)` and `A := alpha A`: each device gets a column panel of the output and
/// the part of the input that is copied there. `A := alpha op(A)` of a square matrix with a transposition is one
/// kernel.
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
    // A column panel of a transposed matrix is read from a panel of rows.
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

pub(super) fn matrix(operand: usize, rows: Span, cols: Span, access: Access) -> Part {
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
