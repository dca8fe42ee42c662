//! Triangles of matrices whose other triangle may hold anything, and must stay as it is.
//!
//! No kernel copies a triangle. Blocks beside the diagonal are rectangles, which are copied; those on the diagonal are products of a
//! triangle with an identity (trmm), whose triangle is stored by a product with an identity (gemmt): all products of finite numbers with
//! zeros and ones, which are exact.

use super::blas::{diagonal_of, diagonal_row};
use super::queue::{Queueing, Refused};
use crate::base::{Diag, Form, Intent, Rect, Routine, Uplo};
use crate::cache::task::Use;
use crate::device::api::{Kernel, Operand};
use crate::hints::view::View;

/// The order of blocks on the diagonal. Their products take a part of all arithmetic that is small for matrices of some thousands of rows.
const BLOCK: usize = 256;

impl Queueing<'_> {
    /// The triangle of a matrix of this size beside zeros, in memory of the library.
    pub(super) fn cleaned(&mut self, view: View, of: &Use) -> Result<Use, Refused> {
        let clean = self.zeros(view)?;
        self.copy_triangle(view, of, &clean)?;
        Ok(clean)
    }

    /// A copy of A whose triangle is that of an inverse. A diagonal that is taken to be 1 stays as it is.
    pub(super) fn inverted(&mut self, inverse: &Use, a: &Use) -> Result<Use, Refused> {
        let view = self.system.a;
        let copy = self.copied(view, a)?;
        self.copy_triangle(view, inverse, &copy)?;
        if self.system.diag == Diag::Unit {
            let diagonals = [diagonal_of(a, view.rows), diagonal_of(&copy, view.rows)];
            self.queue_copy(diagonal_row(view), &diagonals)?;
        }
        Ok(copy)
    }

    /// Copies the call's triangle of a matrix of this size, and leaves the other triangle of `to` as it is.
    fn copy_triangle(&mut self, view: View, from: &Use, to: &Use) -> Result<(), Refused> {
        let (uplo, ..) = self.system.triangle();
        let order = view.rows;
        let most = order.min(BLOCK);
        let square = View {
            rows: most,
            cols: most,
            ld: most,
            ..view
        };
        let identity = self.identity(square)?;
        let own = self.unset(square)?;
        for first in (0..order).step_by(BLOCK) {
            let width = BLOCK.min(order - first);
            let (row, rows) = match uplo {
                Uplo::Lower => (first + width, order - first - width),
                Uplo::Upper => (0, first),
            };
            if rows > 0 {
                let size = (rows, width);
                let uses = [
                    block(from, (row, first), size, Intent::Read),
                    block(to, (row, first), size, Intent::Update),
                ];
                self.queue_copy(view.block((row, first), size), &uses)?;
            }
            let (at, size) = ((first, first), (width, width));
            let one = block(&identity, (0, 0), size, Intent::Read);
            let uses = [one.clone(), block(&own, (0, 0), size, Intent::Overwrite)];
            self.queue_copy(square.block((0, 0), size), &uses)?;
            let uses = [
                block(from, at, size, Intent::Read),
                block(&own, (0, 0), size, Intent::Update),
            ];
            self.queue_product(Routine::Trmm, width, &uses)?;
            let uses = [
                block(&own, (0, 0), size, Intent::Read),
                one,
                block(to, at, size, Intent::Update),
            ];
            self.queue_product(Routine::Gemmt, width, &uses)?;
        }
        Ok(())
    }

    /// Queues a product of square blocks with a triangle of the call.
    fn queue_product(&self, routine: Routine, order: usize, uses: &[Use]) -> Result<(), Refused> {
        let kernel = Kernel {
            form: Form {
                uplo: self.system.triangle().0,
                ..Form::default()
            },
            m: order,
            n: order,
            k: order,
            ..Kernel::of(routine, self.system.dtype, [Operand::default(); 3])
        };
        self.run(kernel, uses)
    }
}

/// A block of a matrix.
pub(super) fn block(
    of: &Use,
    (row, col): (usize, usize),
    (rows, cols): (usize, usize),
    access: Intent,
) -> Use {
    let ld = of.step.unsigned_abs();
    let start = of.view.start + (col * ld + row) * of.size;
    Use {
        view: Rect::new(start, rows * of.size, ld * of.size, cols),
        access,
        ..of.clone()
    }
}
