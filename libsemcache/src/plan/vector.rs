//! Plans of vector routines (level 1): they run on one device, as more devices would not make them faster.

use super::level2::vector;
use super::problem::{Problem, Task};
use super::resources::{MOST_TASKS, Resources};
use super::split::Span;
use crate::base::Routine;
use crate::base::kernel::{Kernel, TRANSPOSED_SHARE};

/// axpy, axpby, scal, copy, swap, rot, rotm: one task, unless the vectors exceed a quarter of the memory, or a vector
/// that the device must copy exceeds the memory reserved for such copies.
pub(super) fn elementwise(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    let each = p.operands.len() * p.dtype.size();
    let mut most = machine.memory / 4 / each.max(1);
    // For axpby on vectors of opposite directions a device first makes a copy of x.
    if let (Routine::Axpby, [x, y]) = (p.routine, &p.operands[..])
        && x.reversed != y.reversed
    {
        most = most.min(machine.memory / TRANSPOSED_SHARE / p.dtype.size());
    }
    if most == 0 || p.m.div_ceil(most) > MOST_TASKS {
        return None;
    }
    let list = (0..p.m.div_ceil(most)).map(|i| {
        let start = i * most;
        let len = most.min(p.m - start);
        task(p, machine, Span { start, len })
    });
    Some(vec![list.collect()])
}

/// dot, nrm2, asum, iamax: one task, if half of the memory holds the vectors.
pub(super) fn reduction(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    let each = p.operands.len() * p.dtype.size();
    if p.m.saturating_mul(each) > machine.memory / 2 {
        return None;
    }
    if p.m == 0 {
        return Some(Vec::new());
    }
    Some(vec![vec![task(p, machine, Span { start: 0, len: p.m })]])
}

fn task(p: &Problem, machine: &Resources, span: Span) -> Task {
    Task {
        device: machine.prefer,
        kernel: Kernel {
            m: span.len,
            ..p.kernel()
        },
        parts: p
            .operands
            .iter()
            .enumerate()
            .map(|(i, v)| vector(v, i, span, p.access(i)))
            .collect(),
    }
}
