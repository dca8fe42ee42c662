//! Host computation of one task on the calling thread: it completes calls that devices refused where the host BLAS has no
//! function for the task, and is the last resort for routines that the host BLAS does not have.
#![expect(unsafe_code, reason = "computes on the program's operands")]

use super::kernel::kernel;
use crate::base::{Scalar, Value};
use crate::cache::task::Use;
use crate::device::api::{Kernel, Operand};
use crate::device::arith;
use crate::plan::{Problem, Task};

/// The kernel of a task on the program's operands in host memory.
#[must_use]
pub fn in_place(problem: &Problem, task: &Task, operands: &[Use], result: Option<&Use>) -> Kernel {
    let at = |addr: usize, step| Operand {
        addr: addr as u64,
        step,
    };
    let parts = task.parts.iter().map(|part| {
        let whole = &operands[part.operand];
        at(problem.bytes(part, whole.addr()).start, whole.step)
    });
    let at: Vec<Operand> = parts.chain(result.map(|r| at(r.addr(), r.step))).collect();
    kernel(task, &at)
}

/// Computes a kernel in place. The caller holds no lock: a load or store on an inaccessible panel faults, and the fault
/// is served.
///
/// # Safety
/// The operands (and the place of the result of a reduction) are host memory of the extents that the kernel says, which
/// the program promised by its call.
pub unsafe fn compute(kernel: &Kernel) {
    // SAFETY: the caller's promise.
    unsafe { arith::run(kernel) };
}

/// Multiplies the elements of `count` runs of `width` bytes, `stride` apart, by `factor`; for a zero factor it writes
/// zeros and reads nothing. The caller holds no lock, as in [`compute`].
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
            // SAFETY: the caller's promise; no alignment is assumed.
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

/// Reads one byte of an operand, so that a bad address faults here: on the program's own thread with no lock held, as
/// it would in the host BLAS.
///
/// # Safety
/// The program passed the byte as part of an operand, so it promises that it may be read. If that is not true, the
/// fault is the program's own.
pub unsafe fn touch(addr: usize) {
    let at: *const u8 = std::ptr::with_exposed_provenance(addr);
    // SAFETY: the caller's promise.
    let _ = unsafe { at.read_volatile() };
}
