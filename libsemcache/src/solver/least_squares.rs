//! Least squares: the right sides as a device begins with them, what it leaves to be finished by LAPACK, and what LAPACK would scale.

use super::queue::{Made, Queueing, Refused};
use super::system::{System, precision, range};
use super::triangle::block;
use crate::base::{Intent, Solver};
use crate::cache::task::Use;
use crate::hints::view::View;

impl Queueing<'_> {
    /// A copy of B that a device computes on. Of the right sides for shortest solutions, which have more rows, LAPACK reads the first rows
    /// only, and takes the others to be zero.
    pub(super) fn right_sides(&mut self, view: View, b: &Use) -> Result<Use, Refused> {
        let system = self.system;
        if system.solver != Solver::Gels || !system.is_underdetermined() {
            return self.copied(view, b);
        }
        let given = view.block((0, 0), (system.worked().cols, view.cols));
        let all = self.zeros(view)?;
        let size = (given.rows, given.cols);
        let uses = [
            block(b, (0, 0), size, Intent::Read),
            block(&all, (0, 0), size, Intent::Update),
        ];
        self.queue_copy(given, &uses)?;
        Ok(all)
    }

    /// R of a factorization of a tall A beside zeros, and its place, the first rows of A. The others are not needed any more.
    pub(super) fn upper(&mut self, factor: &Use, a: &Use) -> Result<Made, Refused> {
        let View { cols, .. } = self.system.a;
        let view = self.system.a.block((0, 0), (cols, cols));
        let upper = self.cleaned(view, factor)?;
        let place = block(a, (0, 0), (cols, cols), Intent::Read);
        Ok(self.made(view, &upper, &place))
    }
}

/// Whether LAPACK computes the call without scaling, by the sums of the sizes of elements: of least squares of the factor, of the right sides and of
/// the solutions. LAPACK scales A or B if the largest element is less than the least normal number over the precision, or larger than the
/// inverse of that. No element of A is larger than the sum of the factor's elements, since a column of R is as long as one of A; and as no
/// diagonal element of R is small (`compute::usual`), A has an element that is not.
pub(super) fn is_unscaled(system: &System, sums: &[f64]) -> bool {
    let (least, _) = range(system.dtype);
    let small = least / precision(system.dtype);
    // Rounding changes a sum by much less than a factor of 2.
    let large = 0.5 / small;
    match (system.solver, sums) {
        (solver, [factor, given, ..]) if solver.scales() => {
            #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
            let parts = system.b.map_or(0, |b| 2 * b.rows * b.cols) as f64;
            *factor < large && *given < large && (*given == 0.0 || *given > 2.0 * parts * small)
        }
        // Their sum bounds the elements of a square.
        (Solver::Potri | Solver::Lauum, [.., triangle]) => {
            triangle * triangle < range(system.dtype).1
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_right_sides_are_lapacks() {
        let b = View {
            addr: 1 << 30,
            rows: 100,
            cols: 2,
            ld: 100,
            element: 8,
        };
        let gels = System {
            solver: Solver::Gels,
            b: Some(b),
            ..System::potrf(100)
        };
        let unscaled = |factor, given| is_unscaled(&gels, &[factor, given, 1.0]);
        assert!(unscaled(1e3, 0.0) && unscaled(1e3, 1.0) && unscaled(1e-100, 1e200));
        assert!(!unscaled(1e300, 1.0) && !unscaled(1.0, 1e300) && !unscaled(1.0, 1e-290));
    }
}
