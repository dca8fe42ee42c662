//! The kernels of the BLAS that block columns and right sides have in common.

use crate::base::{Diag, Form, Op, Routine, Side, Uplo, Value};
use crate::cache::task::Use;
use crate::device::api::{Kernel, Operand};
use crate::solver::queue::{Queueing, ROOM, Refused};

pub(super) const MINUS_ONE: Value = Value { re: -1.0, im: 0.0 };

impl Queueing<'_> {
    /// Queues, on the current device, a solve of these rows and columns with a triangle from the left.
    pub(super) fn solve(
        &mut self,
        triangle: Use,
        (uplo, op, diag): (Uplo, Op, Diag),
        changed: Use,
        (rows, cols): (usize, usize),
    ) -> Result<(), Refused> {
        let form = Form {
            side: Side::Left,
            uplo,
            diag,
        };
        let kernel = Kernel {
            form,
            op_a: op,
            m: rows,
            n: cols,
            k: rows,
            ..Kernel::of(Routine::Trsm, self.system.dtype, [Operand::default(); 3])
        };
        self.cache
            .queue(self.device, &[triangle, changed], ROOM, &|at| Kernel {
                at: [at[0], at[1], Operand::default()],
                ..kernel
            })?;
        Ok(())
    }

    /// Queues, on the current device, the subtraction of a product of `left` and `right` from `changed`. The sizes are rows and columns of
    /// that, and how many columns `left` has, or rows if it is transposed.
    pub(super) fn subtract(
        &mut self,
        (left, op): (Use, Op),
        right: Use,
        changed: Use,
        [m, n, k]: [usize; 3],
    ) -> Result<(), Refused> {
        let kernel = Kernel {
            op_a: op,
            m,
            n,
            k,
            alpha: MINUS_ONE,
            beta: Value::ONE,
            ..Kernel::of(Routine::Gemm, self.system.dtype, [Operand::default(); 3])
        };
        self.cache
            .queue(self.device, &[left, right, changed], ROOM, &|at| Kernel {
                at: [at[0], at[1], at[2]],
                ..kernel
            })?;
        Ok(())
    }
}
