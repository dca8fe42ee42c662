//! Plans of matrix-vector routines that use one triangle of the matrix (symv, trmv, trsv, syr and their relatives): one
//! kernel on one device. A device that holds the matrix does them in one pass; more devices would have to exchange
//! vectors, and no machine gains from that.

use super::level2::vector;
use super::problem::{Operand, Problem, Task};
use super::split::Span;
use super::{Resources, tiles};

/// The one task of symv, hemv, trmv, trsv, syr, her, syr2 or her2; `None` if nine tenths of the memory do not hold the
/// operands.
pub(super) fn lower(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
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
        kernel: p.kernel(),
        parts: p.operands.iter().enumerate().map(part).collect(),
    }]])
}
