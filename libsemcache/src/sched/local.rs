//! One task on the calling thread and host memory: how a call ends whose devices refused, and the last resort
//! of a routine for which there is no host BLAS.
#![expect(unsafe_code, reason = "computes on the program's operands")]

use super::kernel::kernel;
use crate::base::{Scalar, Value};
use crate::cache::task::Use;
use crate::device::api::Operand;
use crate::device::arith;
use crate::plan::{Problem, Task};

/// Computes a task in place. No lock is held: a closed panel that is touched faults and is served.
///
/// # Safety
/// The operands (and the place of the result of a reduction) are memory of the extents that the problem says,
/// which the program promised by its call.
pub unsafe fn compute(problem: &Problem, task: &Task, operands: &[Use], result: Option<&Use>) {
    let at = |addr: usize, step| Operand {
        addr: addr as u64,
        step,
    };
    let parts = task.parts.iter().map(|part| {
        let whole = &operands[part.operand];
        at(problem.bytes(part, whole.addr()).start, whole.step)
    });
    let at: Vec<Operand> = parts.chain(result.map(|r| at(r.addr(), r.step))).collect();
    // SAFETY: the caller's promise; parts lie inside their operands.
    unsafe { arith::run(&kernel(task, &at)) };
}

/// Multiplies the elements of `count` runs of `width` bytes, `stride` apart, by `factor`; a zero factor does
/// not read. No lock is held, as in [`compute`].
///
/// # Safety
/// The runs are an operand that the program's call writes.
pub unsafe fn scale<T: Scalar>(
    factor: Value,
    addr: usize,
    width: usize,
    stride: usize,
    count: usize,
) {
    let factor_of_type = T::from_value(factor);
    for run in 0..count {
        let first: *mut T = std::ptr::with_exposed_provenance_mut(addr + run * stride);
        for i in 0..width / size_of::<T>() {
            // SAFETY: the caller's promise; nothing is assumed of the alignment.
            unsafe {
                let at = first.add(i);
                let value = if factor.is_zero() {
                    T::from_value(Value::ZERO)
                } else {
                    factor_of_type * at.read_unaligned()
                };
                at.write_unaligned(value);
            }
        }
    }
}

/// Reads one byte, so that a bad address faults here: on the program's own thread and with nothing held, as it
/// would in the host BLAS.
///
/// # Safety
/// The program passed the byte as part of an operand, so it promises that it may be read. If it lies, the
/// fault is its own.
pub unsafe fn touch(addr: usize) {
    let at: *const u8 = std::ptr::with_exposed_provenance(addr);
    // SAFETY: the caller's promise.
    let _ = unsafe { at.read_volatile() };
}
