//! Kernels of the BLAS that a system takes besides those of solvers: identities, diagonals, and what is made of triangles.

#![expect(unsafe_code, reason = "reads the bytes of numbers")]

use super::queue::{OF_SECOND, Queueing, ROOM, Refused, SUMS};
use super::system::adjoint;
use crate::base::{Dtype, Form, Intent, Op, Rect, Routine, Scalar, Side, Uplo, Value};
use crate::cache::task::Use;
use crate::device::api::{Kernel, Operand};
use crate::hints::view::View;
use crate::sparse::arrays::Own;
use crate::with_dtype;

impl Queueing<'_> {
    /// The diagonal of a matrix of this size, in memory of the library. Returns where.
    pub(super) fn diagonal(&mut self, of: View, a: &Use) -> Result<usize, Refused> {
        let row = diagonal_row(of);
        let own = Own::zeroed(self.cache, row.bytes()).ok_or(Refused::NoRoom)?;
        let to = vector(&own, &row, Intent::Overwrite);
        let kept = self.own(own);
        self.queue_copy(row, &[diagonal_of(a, row.cols), to])?;
        Ok(kept)
    }

    /// Zeros, a matrix of this size in memory of the library, which is made on the device.
    pub(super) fn zeros(&mut self, view: View) -> Result<Use, Refused> {
        let all = self.unset(view)?;
        // Neither factor is read where both are multiplied by zero.
        let zeros = Kernel {
            m: view.rows,
            n: view.cols,
            alpha: Value::ZERO,
            ..Kernel::of(Routine::Geadd, self.system.dtype, [Operand::default(); 2])
        };
        let fill = |at: &[Operand]| Kernel {
            at: [at[0], at[0], Operand::default()],
            ..zeros
        };
        self.cache
            .queue(self.device, core::slice::from_ref(&all), ROOM, &fill)?;
        Ok(Use {
            access: Intent::Update,
            ..all
        })
    }

    /// An identity of this size, in memory of the library, which is made on the device.
    pub(super) fn identity(&mut self, view: View) -> Result<Use, Refused> {
        let (all, dtype) = (self.zeros(view)?, self.system.dtype);
        let row = diagonal_row(view);
        let one = elements(dtype, &[Value::ONE]);
        let ones = Own::new(self.cache, one.repeat(row.cols).into());
        let from = vector(&ones, &row, Intent::Read);
        self.own(ones);
        self.queue_copy(row, &[from, diagonal_of(&all, row.cols)])?;
        Ok(all)
    }

    /// Queues the sum of the sizes of all elements of a copy, into the answer of the device behind this number of sums: it is infinite, or
    /// no number, if one of them is. Returns how many sums there are then.
    pub(super) fn sum(&self, copy: &Use, answer: usize, before: usize) -> Result<usize, Refused> {
        // cuBLAS takes lengths of 31 bits.
        const PART: usize = 1 << 30;
        let span = copy.view.span();
        let mut sums = before;
        for start in (span.start..span.end).step_by(PART * copy.size) {
            let part = Rect::interval(start, span.end.min(start + PART * copy.size));
            let at = SUMS * (1 + sums);
            if at + SUMS > OF_SECOND {
                return Err(Refused::NoRoom);
            }
            let part = Use {
                view: part,
                footprint: part,
                step: 1,
                access: Intent::Read,
                ..copy.clone()
            };
            let len = part.view.bytes() / copy.size;
            self.reduce(Routine::Asum, (part, len), (answer, at))?;
            sums += 1;
        }
        Ok(sums)
    }

    /// Queues the reduction of a vector to a real number, into the answer of the device at this byte.
    pub(super) fn reduce(
        &self,
        routine: Routine,
        (of, len): (Use, usize),
        (answer, at): (usize, usize),
    ) -> Result<(), Refused> {
        let kernel = Kernel {
            m: len,
            ..Kernel::of(routine, self.system.dtype, [Operand::default()])
        };
        let uses = [of, self.answer_operand(answer, Intent::Update)?];
        self.cache.queue(self.device, &uses, ROOM, &|of| Kernel {
            at: [of[0], Operand::default(), Operand::default()],
            out: of[1].addr + at as u64,
            ..kernel
        })?;
        Ok(())
    }

    /// Queues a solution with a triangle.
    pub(super) fn triangular(&self, a: &Use, b: &Use) -> Result<(), Refused> {
        let system = self.system;
        let (uplo, op_a, diag) = system.triangle();
        // The first rows of B, if it has more of them.
        let order = system.worked().cols;
        let kernel = Kernel {
            form: Form {
                side: Side::Left,
                uplo,
                diag,
            },
            op_a,
            m: order,
            n: system.sides(),
            k: order,
            ..Kernel::of(Routine::Trsm, system.dtype, [Operand::default(); 2])
        };
        self.run(kernel, &[a.clone(), b.clone()])
    }

    /// Queues the product of a triangle beside zeros with its conjugate transpose into one triangle of a copy of A: of the inverse of a
    /// Cholesky factor that is the inverse of the matrix.
    pub(super) fn squared(&mut self, triangle: &Use, a: &Use) -> Result<Use, Refused> {
        let (uplo, order) = (self.system.uplo, self.system.a.rows);
        let copy = self.copied(self.system.a, a)?;
        let kernel = Kernel {
            form: Form {
                uplo,
                ..Form::default()
            },
            // L^H L, or U U^H.
            op_a: match uplo {
                Uplo::Upper => Op::None,
                Uplo::Lower => adjoint(self.system.dtype),
            },
            m: order,
            n: order,
            k: order,
            ..Kernel::of(Routine::Herk, self.system.dtype, [Operand::default(); 2])
        };
        let triangle = Use {
            access: Intent::Read,
            ..triangle.clone()
        };
        self.run(kernel, &[triangle, copy.clone()])?;
        Ok(copy)
    }
}

/// The size of the diagonal of a matrix, as a row.
pub(super) fn diagonal_row(of: View) -> View {
    of.block((0, 0), (1, of.rows.min(of.cols)))
}

/// All of this memory, which has the elements of the row side by side.
pub(super) fn vector(own: &Own, row: &View, access: Intent) -> Use {
    own.part(Rect::interval(0, row.bytes()), (row.element, 1), access)
}

/// The diagonal of a matrix as a row.
pub(super) fn diagonal_of(of: &Use, order: usize) -> Use {
    let step = of.step.unsigned_abs() + 1;
    let view = Rect::new(of.view.start, of.size, step * of.size, order);
    Use {
        view,
        footprint: view,
        step: isize::try_from(step).unwrap_or(isize::MAX),
        ..of.clone()
    }
}

/// The bytes of these numbers, as elements of this type.
pub(super) fn elements(dtype: Dtype, all: &[Value]) -> Vec<u8> {
    with_dtype!(dtype, T => all.iter().flat_map(|x| bytes_of(&T::from_value(*x)).to_vec()).collect())
}

/// The bytes of a number.
fn bytes_of<T: Scalar>(number: &T) -> &[u8] {
    // SAFETY: a number has no padding.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(number).cast(), size_of::<T>()) }
}

/// The elements that these bytes are.
pub(super) fn values(dtype: Dtype, bytes: &[u8]) -> impl Iterator<Item = Value> {
    bytes.chunks_exact(dtype.size()).map(move |element| {
        // SAFETY: the bytes of an element; any are a number.
        with_dtype!(dtype, T => unsafe { element.as_ptr().cast::<T>().read_unaligned() }.to_value())
    })
}
