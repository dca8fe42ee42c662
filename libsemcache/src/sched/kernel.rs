//! From a task and the places of its operands to a kernel, on device or host addresses.

use crate::base::Routine;
use crate::base::routine::Slot;
use crate::cache::task::Located;
use crate::device::api::{Kernel, Operand};
use crate::plan::{Part, Problem, Task};

/// The kernel of one task. `at[i]` is where part `i` lies; a reduction has its result place last, or gets it later.
#[must_use]
pub fn kernel(p: &Problem, t: &Task, at: &[Located]) -> Kernel {
    let own = (p.routine, p.op_a, p.op_b);
    let product = t.op.product.map(|(a, b)| (Routine::Gemm, a, b));
    let (routine, op_a, op_b) = product.unwrap_or(own);
    let mut kernel = Kernel {
        form: p.form,
        op_a,
        op_b,
        m: t.op.m,
        n: t.op.n,
        k: t.op.k,
        alpha: t.op.alpha,
        beta: t.op.beta,
        out: at.get(t.parts.len()).map_or(0, |l| l.addr),
        ..Kernel::of(routine, p.dtype, [])
    };
    let parts = routine.operands().iter().zip(&t.parts).zip(at);
    for (operand, ((slot, part), &l)) in kernel.at.iter_mut().zip(parts) {
        *operand = locate(p, slot, part, l);
    }
    kernel
}

/// Where a part is, as an operand.
fn locate(p: &Problem, slot: &Slot, part: &Part, Located { addr, pitch }: Located) -> Operand {
    let pitch = pitch / p.dtype.size();
    if !slot.extent.is_vector() {
        return Operand::matrix(addr, pitch.max(part.rows).max(1));
    }
    let vector = &p.operands[part.operand];
    // A contiguous vector stays so wherever it lies, also as a column of a compact replica.
    let step = if vector.ld == 1 || part.rows <= 1 {
        1
    } else {
        isize::try_from(pitch.max(1)).unwrap_or(isize::MAX)
    };
    Operand::vector(addr, if vector.reversed { -step } else { step })
}
