//! The types of a plan: problem, operand, part and task.

pub use crate::base::Intent as Access;
use crate::base::kernel::Kernel;
use crate::base::{DeviceId, Dtype, Form, Op, Rect, Routine, Value};

/// The shape of an operand, in elements. A vector of `n` elements is `rows = n, cols = 1` with `ld` its |increment|;
/// `reversed` if the increment is negative (its logical first element is at the highest address).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Rows as stored (before `op`), or the length of a vector.
    pub rows: usize,
    /// Columns as stored; 1 for a vector.
    pub cols: usize,
    /// Leading dimension in elements, or |increment| of a vector.
    pub ld: usize,
    /// Whether the operand is a vector (whose consecutive elements are `ld` apart) rather than a matrix.
    pub vector: bool,
    /// Whether the operand is a vector with a negative increment.
    pub reversed: bool,
}

/// A BLAS call with checked arguments, in column-major terms.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// The operation.
    pub routine: Routine,
    /// Element type.
    pub dtype: Dtype,
    /// `side`, `uplo` and `diag` of the symmetric or triangular matrix, if the routine has one.
    pub form: Form,
    /// The transposition of A, if the routine has one; of both inputs for the rank-k updates.
    pub op_a: Op,
    /// The transposition of B, if the routine has one.
    pub op_b: Op,
    /// Rows of the matrix that is written (level 3), or of A as stored (level 2); length (level 1).
    pub m: usize,
    /// Columns of the matrix that is written (level 3), or of A as stored (level 2); 1 (level 1).
    pub n: usize,
    /// Inner dimension of products and rank-k updates; the order of A for products with a symmetric or triangular A; 1
    /// otherwise.
    pub k: usize,
    /// `alpha`; one if the routine has none.
    pub alpha: Value,
    /// `beta`; one if the routine has none.
    pub beta: Value,
    /// The operands, in the order of [`Routine::operands`].
    pub operands: Vec<Operand>,
}

impl Operand {
    /// A matrix, as stored.
    #[must_use]
    pub const fn matrix(rows: usize, cols: usize, ld: usize) -> Operand {
        Operand {
            rows,
            cols,
            ld,
            vector: false,
            reversed: false,
        }
    }

    /// A vector of `n` elements.
    #[must_use]
    pub const fn vector(n: usize, stride: usize, reversed: bool) -> Operand {
        Operand {
            rows: n,
            cols: 1,
            ld: stride,
            vector: true,
            reversed,
        }
    }

    /// Elements from column to column, or from element to element of a vector; negative for a negative increment.
    #[must_use]
    pub fn step(&self) -> isize {
        let step = isize::try_from(self.ld).unwrap_or(isize::MAX);
        if self.reversed { -step } else { step }
    }

    /// Position in memory order of the first of the logical elements `start .. start + len` of a vector. They are
    /// contiguous in memory order too, mirrored if the vector is reversed.
    #[must_use]
    pub const fn memory_start(&self, start: usize, len: usize) -> usize {
        if self.reversed {
            self.rows - start - len
        } else {
            start
        }
    }
}

impl Problem {
    /// The kernel that computes the whole problem, still without addresses of operands.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        Kernel {
            form: self.form,
            op_a: self.op_a,
            op_b: self.op_b,
            m: self.m,
            n: self.n,
            k: self.k,
            alpha: self.alpha,
            beta: self.beta,
            ..Kernel::of(self.routine, self.dtype, [])
        }
    }

    /// The part that is the whole of an operand.
    #[must_use]
    pub fn whole(&self, operand: usize) -> Part {
        let Operand { rows, cols, .. } = self.operands[operand];
        Part {
            operand,
            row: 0,
            col: 0,
            rows,
            cols,
            access: self.access(operand),
        }
    }

    /// The bytes of a part of an operand; `start` is the position of the operand's lowest byte.
    #[must_use]
    pub fn bytes(&self, part: &Part, start: usize) -> Rect {
        let (operand, size) = (&self.operands[part.operand], self.dtype.size());
        let apart = operand.ld * size;
        if operand.vector && operand.ld != 1 {
            return Rect::new(start + part.row * apart, size, apart, part.rows);
        }
        let (first, width) = (start + part.col * apart + part.row * size, part.rows * size);
        Rect::new(first, width, apart.max(width), part.cols)
    }

    /// How the whole call accesses an operand. Inputs that a zero `alpha` leaves unread count as read. If one triangle
    /// of a matrix is written, the opposite one keeps its bytes.
    #[must_use]
    pub fn access(&self, operand: usize) -> Access {
        self.routine.operands()[operand].access(self.beta)
    }
}

/// A rectangle of one operand, in elements as stored. Of a vector: elements `row .. row + rows` counted in **memory
/// order** (from the lowest address), `col = 0`, `cols = 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Index into [`Problem::operands`].
    pub operand: usize,
    /// First row.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// How the task accesses the part.
    pub access: Access,
}

/// One kernel on one device. Tasks of a plan are issued in order: if two tasks use the same bytes and one of them
/// writes these, their order in the list is the right one.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// The device that runs the task.
    pub device: DeviceId,
    /// The kernel: the problem's routine on a part of the problem, or a gemm that adds to the result. It has no
    /// addresses of operands yet.
    pub kernel: Kernel,
    /// The operands of the kernel, in its order; for the problem's own routine one part of each operand, in the
    /// problem's order.
    pub parts: Vec<Part>,
}
