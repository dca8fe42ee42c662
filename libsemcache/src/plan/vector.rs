//! Plans of vector routines (level 1): they run on one device, as more devices would not make them faster, unless devices hold
//! parts of long vectors: then each device computes its part (owner computes).

use super::level2::{vector, within};
use super::lowered::Plan;
use super::problem::{Operand, Problem, Task};
use super::resources::{MOST_TASKS, Resources};
use super::split::Span;
use super::strips::Strips;
use crate::base::kernel::{Kernel, TRANSPOSED_SHARE};
use crate::base::routine::Cut;
use crate::base::{DeviceId, Routine};

/// The most elements of a piece: the libraries of devices count them in 32 bits.
const MOST_ELEMENTS: usize = i32::MAX as usize;
/// The most tasks of a reduction: each returns a value in memory of its own.
const MOST_VALUES: usize = 1 << 10;

/// axpy, axpby, scal, copy, swap, rot, rotm: one task, unless the vectors exceed a quarter of the memory, or a vector
/// that the device must copy exceeds the memory reserved for such copies.
pub(super) fn elementwise(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    let mut most = machine.memory / 4 / each(p);
    // For axpby on vectors of opposite directions a device first makes a copy of x.
    if let (Routine::Axpby, [x, y]) = (p.routine, &p.operands[..])
        && x.reversed != y.reversed
    {
        most = most.min(machine.memory / TRANSPOSED_SHARE / p.dtype.size());
    }
    pieces(p, machine, most, MOST_TASKS)
}

/// dot, nrm2, asum, iamax: one task, if nine tenths of the memory hold the vectors and their elements can be counted in 32
/// bits. For longer vectors dot, nrm2 and asum have a task, and a value, for each piece of a quarter of the memory; the caller
/// makes one value of these. Not so iamax: the indices of the largest elements of two pieces do not tell which of them is
/// larger.
pub(super) fn reduction(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    let fits = p.m.saturating_mul(each(p)) <= machine.memory - machine.memory / 10;
    if fits && p.m <= MOST_ELEMENTS {
        return pieces(p, machine, p.m.max(1), 1);
    }
    if p.routine == Routine::Iamax {
        return None;
    }
    pieces(p, machine, machine.memory / 4 / each(p), MOST_VALUES)
}

/// A part of a vector, up to the element `end` in memory order, and the device that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owned {
    /// One past the part's last element.
    pub end: usize,
    /// The device.
    pub device: DeviceId,
}

/// Whether a routine computes each element of its vectors, or a sum over all of them, without regard to where these lie: so
/// that each device may compute a part.
#[must_use]
pub fn divides(p: &Problem) -> bool {
    let cut = p.routine.record().signature.cut;
    let whole = |v: &Operand| v.vector && v.ld == 1 && !v.reversed && v.rows == p.m;
    matches!(cut, Cut::Vectors | Cut::Value)
        && p.routine != Routine::Iamax
        && p.operands.iter().all(whole)
}

/// The plan of a call of level 1 that each device computes on its part of the vectors. `None` if the parts are not those of a
/// problem that [`divides`], or too many.
#[must_use]
pub fn by_owners(p: &Problem, machine: &Resources, owners: &[Owned]) -> Option<Plan> {
    if !divides(p) || owners.last().is_none_or(|last| last.end != p.m) {
        return None;
    }
    let most = (machine.memory / 4 / each(p)).min(MOST_ELEMENTS);
    let most_tasks = if p.routine.reduces() {
        MOST_VALUES
    } else {
        MOST_TASKS
    };
    if most == 0 || p.m.div_ceil(most) + owners.len() > most_tasks {
        return None;
    }
    let (mut tasks, mut start) = (Vec::new(), 0);
    for Owned { end, device } in owners {
        let len = end.checked_sub(start).filter(|&len| len > 0)?;
        let part = within(Span { start, len }, most);
        tasks.extend(part.into_iter().map(|span| task(p, *device, span)));
        start = *end;
    }
    Some(Plan::of(tasks, Strips::default()))
}

/// Bytes of device memory for one element of each vector. Elements that do not lie next to each other in host memory are 16
/// bytes apart on a device: the cache aligns them to the largest element.
fn each(p: &Problem) -> usize {
    let of = |v: &Operand| match v.ld {
        1 => p.dtype.size(),
        _ => 16,
    };
    p.operands.iter().map(of).sum::<usize>().max(1)
}

/// A task for each piece of `most` elements, or of [`MOST_ELEMENTS`] if that is less; `None` if these are more than `most_tasks`.
fn pieces(
    p: &Problem,
    machine: &Resources,
    most: usize,
    most_tasks: usize,
) -> Option<Vec<Vec<Task>>> {
    let most = most.min(MOST_ELEMENTS);
    if most == 0 || p.m.div_ceil(most) > most_tasks {
        return None;
    }
    let spans = within(Span::all(p.m), most).into_iter();
    let device = machine.prefer;
    Some(vec![spans.map(|span| task(p, device, span)).collect()])
}

fn task(p: &Problem, device: DeviceId, span: Span) -> Task {
    Task {
        device,
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
