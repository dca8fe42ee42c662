//! Calls of which the host BLAS computes a part while devices compute the rest: whole columns of the output, so that the
//! part is one range of addresses.
//!
//! Of a product, and of routines whose symmetric or triangular matrix stands on the left, each column of the output
//! depends on the same column of the inputs alone: the host gets the last ones. Of a triangle that is written the host gets
//! the first columns of a lower one, or the last ones of an upper one, so that a triangle is left for the devices. With
//! the matrix on the right only rows could be divided; then every page of the output would have bytes of both.

use super::problem::{Problem, Task};
use super::rank_k;
use super::split::Span;
use super::tiles;
use crate::base::routine::{Cut, Sizes};
use crate::base::{DeviceId, Side, Uplo};

/// A call that is divided between devices and the host.
#[derive(Clone, PartialEq, Debug)]
pub struct HostPart {
    /// What devices compute.
    pub devices: Problem,
    /// For each operand, the row and the column at which the devices' part of it begins.
    pub begins: Vec<(usize, usize)>,
    /// What the host computes, as tasks of the whole problem. They use no byte that the devices write, and write none that
    /// these use.
    pub tasks: Vec<Task>,
}

/// Whether the columns of the output can be divided.
#[must_use]
pub fn divides_columns(problem: &Problem) -> bool {
    let cut = problem.routine.record().signature.cut;
    match cut {
        Cut::Product | Cut::RankK => true,
        Cut::Symmetric | Cut::Triangular => problem.form.side == Side::Left,
        _ => false,
    }
}

/// Whether the host gets the first columns.
fn takes_first(problem: &Problem) -> bool {
    problem.routine.writes_triangle() && problem.form.uplo == Uplo::Lower
}

/// How many columns of the output have this share of the work, to the nearest number for which a page of the output begins
/// where the two parts meet; the first column begins one. `None` if one of the parts would be empty.
#[must_use]
pub fn columns(problem: &Problem, share: f64, page: usize) -> Option<usize> {
    let n = problem.n;
    let part = if problem.routine.writes_triangle() {
        1.0 - (1.0 - share).max(0.0).sqrt()
    } else {
        share
    };
    let exact = ((n as f64 * part).round() as usize).min(n);
    // The devices' part of a lower triangle begins on the diagonal.
    let apart = problem.operands.last()?.ld + usize::from(takes_first(problem));
    let apart = apart.saturating_mul(problem.dtype.size());
    let step = (page >> apart.trailing_zeros().min(page.trailing_zeros())).max(1);
    let to_step = |columns: usize| (columns + step / 2) / step * step;
    let columns = if takes_first(problem) {
        to_step(exact)
    } else {
        n.saturating_sub(to_step(n - exact))
    };
    (columns > 0 && columns < n).then_some(columns)
}

/// Divides a problem: `columns` of the output for the host. `None` if one of the parts would be empty, or the routine is not
/// divided ([`divides_columns`]).
#[must_use]
pub fn host_part(problem: &Problem, columns: usize) -> Option<HostPart> {
    let left = problem.n.checked_sub(columns)?;
    if left == 0 || columns == 0 || !divides_columns(problem) {
        return None;
    }
    let first = takes_first(problem);
    let (host, devices) = if first {
        (
            Span::all(columns),
            Span {
                start: columns,
                len: left,
            },
        )
    } else {
        (
            Span {
                start: left,
                len: columns,
            },
            Span::all(left),
        )
    };
    let tasks = if problem.routine.writes_triangle() {
        rank_k::columns(problem, host)
    } else {
        vec![task(problem, host)]
    };
    let mut operands = problem.operands.clone();
    for (i, operand) in operands.iter_mut().enumerate() {
        (operand.rows, operand.cols) = shape(problem, i, devices.len);
    }
    let begins = (0..operands.len()).map(|i| begin(problem, i, devices.start));
    Some(HostPart {
        begins: begins.collect(),
        tasks,
        devices: Problem {
            m: order(problem, devices.len),
            n: devices.len,
            operands,
            ..problem.clone()
        },
    })
}

/// The rows of an output with `n` columns.
fn order(problem: &Problem, n: usize) -> usize {
    if problem.routine.writes_triangle() {
        n
    } else {
        problem.m
    }
}

/// Rows and columns of an operand of the same problem with `n` columns.
fn shape(problem: &Problem, operand: usize, n: usize) -> (usize, usize) {
    stored(problem, operand, (order(problem, n), n, problem.k))
}

/// The row and the column of an operand that belong to column `n` of the output: what depends on other sizes begins at zero.
fn begin(problem: &Problem, operand: usize, n: usize) -> (usize, usize) {
    stored(problem, operand, (0, n, 0))
}

/// Rows and columns of an operand of a problem with these sizes.
fn stored(problem: &Problem, operand: usize, (m, n, k): (usize, usize, usize)) -> (usize, usize) {
    let (op_a, op_b) = (problem.op_a, problem.op_b);
    let sizes = Sizes {
        m,
        n,
        k,
        op_a,
        op_b,
    };
    problem.routine.operands()[operand].extent.stored(&sizes)
}

/// The call of the problem's own routine on these columns.
fn task(problem: &Problem, columns: Span) -> Task {
    let part = |i: usize| {
        let (row, col) = begin(problem, i, columns.start);
        let (rows, cols) = shape(problem, i, columns.len);
        let (rows, cols) = (
            Span {
                start: row,
                len: rows,
            },
            Span {
                start: col,
                len: cols,
            },
        );
        tiles::part(i, rows, cols, problem.access(i))
    };
    let mut kernel = problem.kernel();
    kernel.n = columns.len;
    Task {
        device: DeviceId(0),
        kernel,
        parts: (0..problem.operands.len()).map(part).collect(),
    }
}
