//! From a task and the places of its operands to a kernel, on device or host memory.

use crate::base::Routine;
use crate::device::api::{Kernel, Operand};
use crate::plan::{Problem, Task};

/// The kernel of one task. `at[i]` is where part `i` lies; a reduction has its result place last, or gets it later.
#[must_use]
pub fn kernel(p: &Problem, t: &Task, at: &[Operand]) -> Kernel {
    let own = (p.routine, p.op_a, p.op_b);
    let product = t.op.product.map(|(a, b)| (Routine::Gemm, a, b));
    let (routine, op_a, op_b) = product.unwrap_or(own);
    let (parts, value) = at.split_at(t.parts.len().min(at.len()));
    let mut kernel = Kernel {
        form: p.form,
        op_a,
        op_b,
        m: t.op.m,
        n: t.op.n,
        k: t.op.k,
        alpha: t.op.alpha,
        beta: t.op.beta,
        out: value.first().map_or(0, |v| v.addr),
        ..Kernel::of(routine, p.dtype, [])
    };
    for (operand, part) in kernel.at.iter_mut().zip(parts) {
        *operand = *part;
    }
    kernel
}
