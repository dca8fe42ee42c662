//! Address ranges that a kernel touches, one for each operand.

use crate::base::routine::{Number, Slot, Usage};
use crate::base::{Dtype, Routine};
use crate::device::api::{Kernel, Operand};

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First byte.
    pub addr: u64,
    /// Length in bytes, not zero.
    pub bytes: usize,
}

/// The ranges from the first to the last byte of each operand that `kernel` may touch; the result of a reduction is the
/// last one. Operands that the kernel does not touch (zero `alpha`, empty dimensions) are absent. For a matrix of which
/// one triangle is touched the range is that of the square. An extent beyond `usize` saturates.
#[must_use]
pub fn spans(kernel: &Kernel) -> [Option<Span>; 3] {
    let mut spans = [None; 3];
    if kernel.m > 0 && kernel.n > 0 {
        for (span, (slot, extent, at)) in spans.iter_mut().zip(kernel.operands()) {
            if touched(kernel, slot) {
                *span = range(kernel.dtype, slot, extent, at);
            }
        }
    }
    if kernel.routine.reduces() {
        spans[2] = Some(Span {
            addr: kernel.out,
            bytes: value_bytes(kernel.routine, kernel.dtype),
        });
    }
    spans
}

/// Whether a kernel touches an operand. If the routine has inputs that `alpha` multiplies, a zero `alpha` leaves at
/// most the output to be scaled or set to zero.
fn touched(kernel: &Kernel, slot: &Slot) -> bool {
    let scaled = matches!(
        slot.usage,
        Usage::Accumulate | Usage::Multiply | Usage::Overwrite
    );
    let mut operands = kernel.routine.operands().iter();
    let multiplies = kernel.routine.record().alpha != Number::Absent
        && operands.any(|slot| slot.usage == Usage::Read);
    scaled || !multiplies || !kernel.alpha.is_zero()
}

fn range(dtype: Dtype, slot: &Slot, (rows, cols): (usize, usize), at: Operand) -> Option<Span> {
    if rows == 0 || cols == 0 {
        return None;
    }
    let elements = if slot.extent.is_vector() {
        (rows - 1).saturating_mul(at.ld()).saturating_add(1)
    } else {
        (cols - 1).saturating_mul(at.ld()).saturating_add(rows)
    };
    Some(Span {
        addr: at.addr,
        bytes: elements.saturating_mul(dtype.size()),
    })
}

/// Bytes of the value that a reduction writes.
fn value_bytes(routine: Routine, dtype: Dtype) -> usize {
    match routine {
        Routine::Iamax => size_of::<i64>(),
        Routine::Dot | Routine::Dotc => dtype.size(),
        _ => dtype.size() / if dtype.is_complex() { 2 } else { 1 },
    }
}
