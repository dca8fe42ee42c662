//! Kernels of the BLAS that a system takes besides those of solvers: copies, identities, diagonals, what is made of triangles, and the
//! solutions of a condition number.

#![expect(unsafe_code, reason = "reads the bytes of numbers")]

use super::condition::{Apply, one_norm};
use super::queue::{Ended, Queueing, ROOM, Refused, Solution};
use super::system::Condition;
use crate::base::{
    Diag, Dtype, Form, Intent, Op, Rect, Routine, Scalar, Side, Solver, Uplo, Value,
};
use crate::cache::CacheError;
use crate::cache::task::Use;
use crate::device::api::{Kernel, Operand};
use crate::hints::view::View;
use crate::sparse::arrays::Own;
use crate::with_dtype;

impl Queueing<'_> {
    /// A copy of a matrix in memory of the library, without gaps.
    pub(super) fn copied(&mut self, view: View, from: &Use) -> Result<Use, Refused> {
        let bytes = view.rows * view.cols * view.element;
        let own = Own::zeroed(self.cache, bytes).ok_or(Refused::NoRoom)?;
        let width = view.rows * view.element;
        let whole = Rect::new(0, width, width, view.cols);
        let to = own.part(whole, (view.element, view.rows), Intent::Overwrite);
        self.own(own);
        self.queue_copy(view, &[from.clone(), to.clone()])?;
        Ok(Use {
            access: Intent::Update,
            ..to
        })
    }

    /// The diagonal of A or of its factor, in memory of the library. Returns where.
    pub(super) fn diagonal(&mut self, a: &Use) -> Result<usize, Refused> {
        let View {
            rows,
            cols,
            element,
            ..
        } = self.system.a;
        let order = rows.min(cols);
        let own = Own::zeroed(self.cache, order * element).ok_or(Refused::NoRoom)?;
        let to = own.part(
            Rect::interval(0, order * element),
            (element, 1),
            Intent::Overwrite,
        );
        let diagonal = diagonal_of(a, order);
        let row = View {
            rows: 1,
            cols: order,
            ..self.system.a
        };
        let kept = self.own(own);
        self.queue_copy(row, &[diagonal, to])?;
        Ok(kept)
    }

    /// An identity of the size of A, in memory of the library, which is made on the device.
    pub(super) fn identity(&mut self) -> Result<Use, Refused> {
        let View {
            rows,
            cols,
            element,
            ..
        } = self.system.a;
        let (dtype, order) = (self.system.dtype, rows.min(cols));
        let own = Own::zeroed(self.cache, rows * cols * element).ok_or(Refused::NoRoom)?;
        let whole = Rect::interval(0, rows * cols * element);
        let all = own.part(whole, (element, rows), Intent::Overwrite);
        self.own(own);
        // Neither factor is read where both are multiplied by zero.
        let zeros = Kernel {
            m: rows,
            n: cols,
            alpha: Value::ZERO,
            ..Kernel::of(Routine::Geadd, dtype, [Operand::default(); 2])
        };
        let fill = |at: &[Operand]| Kernel {
            at: [at[0], at[0], Operand::default()],
            ..zeros
        };
        self.cache
            .queue(self.device, core::slice::from_ref(&all), ROOM, &fill)?;
        let one = with_dtype!(dtype, T => bytes_of(&T::from_value(Value::ONE)).to_vec());
        let ones = Own::new(self.cache, one.repeat(order).into());
        let from = ones.part(
            Rect::interval(0, order * element),
            (element, 1),
            Intent::Read,
        );
        self.own(ones);
        let row = View {
            rows: 1,
            cols: order,
            ..self.system.a
        };
        let all = Use {
            access: Intent::Update,
            ..all
        };
        self.queue_copy(row, &[from, diagonal_of(&all, order)])?;
        Ok(all)
    }

    /// Queues a solution with a triangle.
    pub(super) fn triangular(&self, a: &Use, b: &Use) -> Result<(), Refused> {
        let system = self.system;
        let kernel = Kernel {
            form: Form {
                side: Side::Left,
                uplo: system.uplo,
                diag: system.diag,
            },
            op_a: system.op,
            m: system.a.rows,
            n: system.sides(),
            k: system.a.rows,
            ..Kernel::of(Routine::Trsm, system.dtype, [Operand::default(); 2])
        };
        let solve = |at: &[Operand]| Kernel {
            at: [at[0], at[1], Operand::default()],
            ..kernel
        };
        self.cache
            .queue(self.device, &[a.clone(), b.clone()], ROOM, &solve)?;
        Ok(())
    }

    /// The reciprocal condition number of a matrix by its factor. Vectors go to the device and come back, one after the other.
    #[expect(clippy::cast_precision_loss, reason = "an order of a matrix")]
    pub(super) fn estimated(&mut self, a: &Use, condition: Condition) -> Result<Ended, Refused> {
        let (system, dtype) = (self.system, self.system.dtype);
        let order = system.a.rows;
        let adjoint = match dtype.is_complex() {
            true => Op::ConjTrans,
            false => Op::Trans,
        };
        let lower = |op| (Uplo::Lower, op, Diag::Unit);
        let triangle = |uplo, op| (uplo, op, Diag::NonUnit);
        let mut unlike = false;
        let norm = one_norm(order, !dtype.is_complex(), |apply, x| {
            // The infinity norm is the one-norm of the conjugate transpose.
            let forward = (apply == Apply::Itself) == (system.op == Op::None);
            let solutions = match (system.solver, system.uplo, forward) {
                (Solver::Pocon, Uplo::Upper, _) => [
                    triangle(Uplo::Upper, adjoint),
                    triangle(Uplo::Upper, Op::None),
                ],
                (Solver::Pocon, Uplo::Lower, _) => [
                    triangle(Uplo::Lower, Op::None),
                    triangle(Uplo::Lower, adjoint),
                ],
                (_, _, true) => [lower(Op::None), triangle(Uplo::Upper, Op::None)],
                (_, _, false) => [triangle(Uplo::Upper, adjoint), lower(adjoint)],
            };
            let bytes = with_dtype!(dtype, T => {
                x.iter().flat_map(|x| bytes_of(&T::from_value(*x)).to_vec()).collect::<Vec<u8>>()
            });
            let whole = Rect::interval(0, bytes.len());
            let own = Own::new(self.cache, bytes.into());
            let vector = own.part(whole, (dtype.size(), 1), Intent::Update);
            let at = self.own(own);
            for (uplo, op_a, diag) in solutions {
                let kernel = Kernel {
                    form: Form {
                        uplo,
                        diag,
                        ..Form::default()
                    },
                    op_a,
                    m: order,
                    n: order,
                    ..Kernel::of(Routine::Trsv, dtype, [Operand::default(); 2])
                };
                let solve = |at: &[Operand]| Kernel {
                    at: [at[0], Operand { step: 1, ..at[1] }, Operand::default()],
                    ..kernel
                };
                self.cache
                    .queue(self.device, &[a.clone(), vector.clone()], ROOM, &solve)?;
            }
            let solved: Vec<Value> = values(dtype, self.answer(at)?).collect();
            unlike |= solved
                .iter()
                .any(|x| !x.re.is_finite() || !x.im.is_finite());
            match unlike {
                // LAPACK scales what would overflow.
                true => Err(Refused::Other),
                false => Ok(solved),
            }
        });
        let largest = match dtype.real() {
            Dtype::S => f64::from(f32::MAX),
            _ => f64::MAX,
        };
        match norm {
            Err(_) if unlike => Ok(Ended::Info),
            Err(refused) => Err(refused),
            // Sums of LAPACK, which are of the matrix's precision, may overflow.
            Ok(norm) if norm > 0.0 && norm < largest / (10.0 * order as f64) => {
                Ok(Ended::Solved(Solution {
                    condition: Some(1.0 / norm / condition.norm),
                    ..Solution::default()
                }))
            }
            Ok(_) => Ok(Ended::Info),
        }
    }

    /// Queues the product of the inverse of a Cholesky factor with its conjugate transpose, which is the inverse of the matrix, into one
    /// triangle of a copy of A.
    pub(super) fn squared(&mut self, inverse: &Use, a: &Use) -> Result<Use, Refused> {
        let (uplo, order) = (self.system.uplo, self.system.a.rows);
        let copy = self.copied(self.system.a, a)?;
        let kernel = Kernel {
            form: Form {
                uplo,
                ..Form::default()
            },
            // L^-H L^-1, or U^-1 U^-H.
            op_a: match (uplo, self.system.dtype.is_complex()) {
                (Uplo::Upper, _) => Op::None,
                (Uplo::Lower, true) => Op::ConjTrans,
                (Uplo::Lower, false) => Op::Trans,
            },
            m: order,
            n: order,
            k: order,
            ..Kernel::of(Routine::Herk, self.system.dtype, [Operand::default(); 2])
        };
        let square = |at: &[Operand]| Kernel {
            at: [at[0], at[1], Operand::default()],
            ..kernel
        };
        let inverse = Use {
            access: Intent::Read,
            ..inverse.clone()
        };
        self.cache
            .queue(self.device, &[inverse, copy.clone()], ROOM, &square)?;
        Ok(copy)
    }

    /// Queues the copy of a matrix within the device.
    pub(super) fn queue_copy(&self, view: View, uses: &[Use; 2]) -> Result<(), CacheError> {
        // The parts of complex numbers are copied as real numbers: a complex product of (1, 0) and an infinite number has NaN in it, and
        // the triangle that LAPACK does not read may hold any.
        let dtype = self.system.dtype.real();
        let parts = self.system.dtype.size() / dtype.size();
        let copy = Kernel {
            m: view.rows * parts,
            n: view.cols,
            ..Kernel::of(Routine::Geadd, dtype, [Operand::default(); 2])
        };
        let of_parts = |at: Operand| Operand::matrix(at.addr, at.ld() * parts);
        self.cache.queue(self.device, uses, ROOM, &|at| Kernel {
            at: [of_parts(at[0]), of_parts(at[1]), Operand::default()],
            ..copy
        })?;
        Ok(())
    }
}

/// The diagonal of a matrix as a row.
fn diagonal_of(of: &Use, order: usize) -> Use {
    let step = of.step.unsigned_abs() + 1;
    let view = Rect::new(of.view.start, of.size, step * of.size, order);
    Use {
        view,
        footprint: view,
        step: isize::try_from(step).unwrap_or(isize::MAX),
        ..of.clone()
    }
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
