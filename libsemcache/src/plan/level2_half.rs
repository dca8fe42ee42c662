//! Matrix-vector routines of which one triangle of the matrix is used: one kernel on one device. A device that holds
//! the matrix does them in one pass; more devices would have to exchange vectors, and no machine gains from that.

use super::level2::vector;
use super::problem::{Operand, Part, Problem, Task, TaskOp};
use super::split::{Span, grid};
use super::{Shape, tiles};
use crate::device::api::Uplo;

/// symv, hemv, trmv, trsv, syr, her, syr2, her2; `None` if nine tenths of the memory do not hold the operands.
pub(super) fn lower(p: &Problem, machine: &Shape) -> Option<Vec<Vec<Task>>> {
    if p.n == 0 {
        return Some(Vec::new());
    }
    let elements = |o: &Operand| o.rows.saturating_mul(o.cols);
    let all = p
        .operands
        .iter()
        .map(elements)
        .fold(0, usize::saturating_add);
    if all.saturating_mul(p.dtype.size()) > machine.memory - machine.memory / 10 {
        return None;
    }
    let whole = Span::all(p.n);
    let part = |(i, o): (usize, &Operand)| {
        if o.vector {
            vector(o, i, whole, p.access(i))
        } else {
            tiles::part(i, whole, whole, p.access(i))
        }
    };
    Some(vec![vec![Task {
        device: machine.prefer,
        op: TaskOp {
            m: p.m,
            n: p.n,
            k: 1,
            alpha: p.alpha,
            beta: p.beta,
            product: None,
        },
        parts: p.operands.iter().enumerate().map(part).collect(),
    }]])
}

/// A column panel of a triangle is worth a copy of its own from so many bytes.
const LEAST_PANEL: usize = 256 << 10;
/// More panels save little: with eight of them, nine sixteenths of the matrix are moved.
const MOST_PANELS: usize = 8;

/// What of a part its kernel touches, as rectangles: of a matrix of which one triangle is used, column panels of that
/// triangle; else the part itself.
#[must_use]
pub fn touched(p: &Problem, part: &Part) -> Vec<Part> {
    let triangle = p.routine.uses_a_triangle() && !p.operands[part.operand].vector;
    let bytes = part
        .rows
        .saturating_mul(part.cols)
        .saturating_mul(p.dtype.size());
    let panels = (bytes / LEAST_PANEL).clamp(1, MOST_PANELS);
    if !triangle || panels == 1 {
        return vec![*part];
    }
    let panel = |columns: Span| {
        let (first, end) = match p.form.uplo {
            Uplo::Lower => (columns.start, part.rows),
            Uplo::Upper => (0, columns.end()),
        };
        Part {
            row: part.row + first,
            col: part.col + columns.start,
            rows: end - first,
            cols: columns.len,
            ..*part
        }
    };
    let width = part.cols.div_ceil(panels);
    grid(part.cols, width).into_iter().map(panel).collect()
}
