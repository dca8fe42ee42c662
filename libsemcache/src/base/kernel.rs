//! A kernel: one BLAS operation that a plan contains and a device runs.

use super::dtype::{Dtype, Value};
use super::routine::{Form, Op, Routine, Sizes, Slot};
use super::work::Work;

/// A matrix or vector on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operand {
    /// Device address: of element (0, 0) of a column-major matrix; for a vector, of the element with the lowest
    /// address.
    pub addr: u64,
    /// For a matrix, elements from column to column (leading dimension); for a vector, elements from element to element
    /// (increment, not zero). With a negative increment the logical first element is the one at the highest address.
    pub step: isize,
}

impl Operand {
    /// A column-major matrix with leading dimension `ld`.
    #[must_use]
    pub fn matrix(addr: u64, ld: usize) -> Operand {
        Operand::vector(addr, isize::try_from(ld).unwrap_or(isize::MAX))
    }

    /// A vector with increment `inc`.
    #[must_use]
    pub const fn vector(addr: u64, inc: isize) -> Operand {
        Operand { addr, step: inc }
    }

    /// The leading dimension of a matrix; the distance between elements of a vector.
    #[must_use]
    pub const fn ld(self) -> usize {
        self.step.unsigned_abs()
    }
}

/// A kernel: one BLAS operation on device memory. Flags, `op`s, scalars and operands that the routine does not have are
/// ignored.
///
/// Semantics are those of the reference BLAS: a zero `beta` does not read the output, a zero `alpha` does not read the
/// inputs. No kernel with a symmetric, Hermitian or triangular matrix is launched with a zero `alpha`: NaN in its
/// inputs would reach the result in cuBLAS.
///
/// The variants of [`Routine`] say what is computed. A triangle that is written has an order of at most `most_order` in
/// the routine's record; a matrix that imatcopy transposes is square.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kernel {
    /// The operation; never `GemmBatch`.
    pub routine: Routine,
    /// Element type.
    pub dtype: Dtype,
    /// Which triangle and which diagonal of the symmetric, Hermitian or triangular matrix.
    pub form: Form,
    /// `op(A)`; for the rank-k updates, `op` of both inputs.
    pub op_a: Op,
    /// `op(B)`.
    pub op_b: Op,
    /// Rows of the matrix that is written (level 3) or of A as stored (level 2); length of the vectors (level 1).
    pub m: usize,
    /// Columns of the matrix that is written (level 3) or of A as stored (level 2), equal to `m` where that matrix is
    /// square; 1 (level 1).
    pub n: usize,
    /// Inner dimension of products and rank-k updates; for products with a symmetric or triangular A, the order of A; 1
    /// otherwise.
    pub k: usize,
    /// `alpha`; for rotations see [`Routine`].
    pub alpha: Value,
    /// `beta`; for rotations see [`Routine`].
    pub beta: Value,
    /// The operands, in the order of [`Routine::operands`].
    pub at: [Operand; 3],
    /// Device address at which a reduction writes its value.
    pub out: u64,
}

/// The largest matrix that is transposed in place, and the largest vector that is added to a vector of the opposite
/// direction, as a share (1/`TRANSPOSED_SHARE`) of a device's memory: devices need a copy of such an operand, in memory
/// beside that which caches matrices.
pub const TRANSPOSED_SHARE: usize = 32;

impl Kernel {
    /// A kernel of these operands, with all sizes one, no transposition and the default form; `alpha` is one, `beta`
    /// zero.
    #[must_use]
    pub fn of<const N: usize>(routine: Routine, dtype: Dtype, operands: [Operand; N]) -> Kernel {
        let mut operands = operands.into_iter();
        Kernel {
            routine,
            dtype,
            form: Form::default(),
            op_a: Op::None,
            op_b: Op::None,
            m: 1,
            n: 1,
            k: 1,
            alpha: Value::ONE,
            beta: Value::ZERO,
            at: core::array::from_fn(|_| operands.next().unwrap_or_default()),
            out: 0,
        }
    }

    /// The operands that the routine has: for each its slot in the routine's record, its rows and columns as stored
    /// (for a vector its length, and one), and its address and step.
    pub fn operands(&self) -> impl Iterator<Item = (&'static Slot, (usize, usize), Operand)> {
        let &Kernel { op_a, op_b, .. } = self;
        let sizes = Sizes {
            m: self.m,
            n: self.n,
            k: self.k,
            op_a,
            op_b,
        };
        let slots = self.routine.operands().iter().zip(self.at);
        slots.map(move |(slot, at)| (slot, slot.extent.stored(&sizes), at))
    }

    /// A rough measure of the kernel's work: multiply-adds, or elements touched.
    #[must_use]
    pub fn work(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k.max(1))
    }

    /// Routine, element type and sizes.
    #[must_use]
    pub fn timed_work(&self) -> Work {
        Work {
            routine: self.routine,
            side: self.form.side,
            dtype: self.dtype,
            m: self.m,
            n: self.n,
            k: self.k,
        }
    }
}
