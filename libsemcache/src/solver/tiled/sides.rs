//! Right sides of a system that is solved by tiles. Each device has some columns of them, and gets the tiles of the factor one after the
//! other.

use super::tiling::Tiling;
use crate::base::dense::{DenseKernel, Step};
use crate::base::{DeviceId, Diag, Intent, Op, Rect, Uplo};
use crate::cache::task::Use;
use crate::hints::view::View;
use crate::solver::compute::{finite, sums_of};
use crate::solver::queue::{HEAD, Made, Queueing, Refused};
use crate::sparse::arrays::Own;

/// Columns of the right sides on one device.
#[derive(Clone)]
pub(super) struct Part {
    device: DeviceId,
    view: View,
    copy: Use,
    to: Use,
    /// Where the answer is kept that gets their sums, and how many there are.
    answer: usize,
    sums: usize,
}

/// Rows, from one on.
pub(super) type Rows = (usize, usize);

/// Copies the right sides, if there are any.
pub(super) fn load(queueing: &mut Queueing<'_>, tiling: &Tiling) -> Result<Vec<Part>, Refused> {
    let mut parts = Vec::new();
    let Some(b) = queueing.system.b else {
        return Ok(parts);
    };
    let (from, _) = queueing.program(b)?;
    let count = tiling.devices.len().min(b.cols);
    for (i, device) in tiling.devices.iter().take(count).enumerate() {
        queueing.device = *device;
        let at = |i: usize| b.cols * i / count;
        let view = b.columns(at(i), at(i + 1));
        let to = queueing.part(from, view)?;
        let copy = queueing.copied(view, &to)?;
        let answer = Own::new(queueing.cache, vec![0; HEAD].into());
        let answer = queueing.own(answer);
        parts.push(Part {
            device: *device,
            view,
            copy,
            to,
            answer,
            sums: 0,
        });
    }
    Ok(parts)
}

impl Part {
    fn rows(&self, (first, rows): Rows, access: Intent) -> Use {
        let element = self.view.element;
        let all = self.view.rows * element;
        Use {
            view: Rect::new(first * element, rows * element, all, self.view.cols),
            access,
            ..self.copy.clone()
        }
    }

    /// Exchanges rows from `first` on by the pivots of a panel.
    pub(super) fn exchange(
        &self,
        queueing: &mut Queueing<'_>,
        first: usize,
        (pivots, count): (usize, usize),
    ) -> Result<(), Refused> {
        queueing.device = self.device;
        let rows = (first, self.view.rows - first);
        let kernel = DenseKernel {
            m: rows.1,
            n: count,
            sides: self.view.cols,
            ..queueing.system.kernel(Step::Exchange)
        };
        let exchanged = self.rows(rows, Intent::Update);
        queueing.dense(kernel, None, Some(&exchanged), (pivots, Intent::Read))
    }

    /// Solves with a triangle for these rows.
    pub(super) fn solve(
        &self,
        queueing: &mut Queueing<'_>,
        triangle: Use,
        form: (Uplo, Op, Diag),
        rows: Rows,
    ) -> Result<(), Refused> {
        queueing.device = self.device;
        let changed = self.rows(rows, Intent::Update);
        queueing.solve(triangle, form, changed, (rows.1, self.view.cols))
    }

    /// Subtracts the product of a part of the factor and some rows from other rows.
    pub(super) fn subtract(
        &self,
        queueing: &mut Queueing<'_>,
        factor: (Use, Op),
        [to, by]: [Rows; 2],
    ) -> Result<(), Refused> {
        queueing.device = self.device;
        let (right, changed) = (self.rows(by, Intent::Read), self.rows(to, Intent::Update));
        queueing.subtract(factor, right, changed, [to.1, self.view.cols, by.1])
    }

    /// Queues the sums of the solution.
    pub(super) fn sum(&mut self, queueing: &mut Queueing<'_>) -> Result<(), Refused> {
        queueing.device = self.device;
        self.sums = queueing.sum(&self.copy, self.answer, 0)?;
        Ok(())
    }

    /// Whether the solution has usual numbers only, once the device has computed it.
    pub(super) fn usual(&self, queueing: &Queueing<'_>) -> Result<bool, Refused> {
        let answer = queueing.answer(self.answer)?;
        Ok(finite(&sums_of(queueing.system.dtype, answer, self.sums)))
    }

    /// The solution, which takes the place of the right sides.
    pub(super) fn made(&self, queueing: &mut Queueing<'_>) -> Made {
        queueing.device = self.device;
        queueing.made(self.view, &self.copy, &self.to)
    }
}
