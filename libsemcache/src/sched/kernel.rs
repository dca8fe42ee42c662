//! Builds the kernel of a task from the addresses of its operands, in device or host memory.

use crate::device::api::{Kernel, Operand};
use crate::plan::Task;

/// The kernel of one task. `at[i]` is where part `i` lies. For a reduction, the place of the result comes last, or is
/// set by the caller later.
#[must_use]
pub fn kernel(t: &Task, at: &[Operand]) -> Kernel {
    let (parts, value) = at.split_at(t.parts.len().min(at.len()));
    let mut kernel = Kernel {
        out: value.first().map_or(0, |v| v.addr),
        ..t.kernel
    };
    for (operand, part) in kernel.at.iter_mut().zip(parts) {
        *operand = *part;
    }
    kernel
}
