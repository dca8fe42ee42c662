//! What a call of a solver asks for.

use crate::base::dense::{DenseWork, Step};
use crate::base::{Dtype, Op, Rect, Solver, Uplo};
use crate::hints::view::View;

/// Pivots in the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pivots {
    /// The address of the first one.
    pub addr: usize,
    /// Whether integers have 64 bits.
    pub wide: bool,
}

impl Pivots {
    /// Bytes of one.
    #[must_use]
    pub const fn size(self) -> usize {
        if self.wide { 8 } else { 4 }
    }
}

/// A call of getrf, getrs, gesv, potrf, potrs or posv.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct System {
    /// Which of them.
    pub solver: Solver,
    /// The element type.
    pub dtype: Dtype,
    /// The triangle of a positive definite matrix.
    pub uplo: Uplo,
    /// `op(A)` of getrs.
    pub op: Op,
    /// The matrix, or its factor.
    pub a: View,
    /// The right sides.
    pub b: Option<View>,
    /// The pivots of getrf, getrs and gesv.
    pub pivots: Option<Pivots>,
}

impl System {
    /// The factorization that the call makes, if it makes one.
    #[must_use]
    pub const fn factors(&self) -> Option<Step> {
        match self.solver {
            Solver::Getrf | Solver::Gesv => Some(Step::Lu),
            Solver::Potrf | Solver::Posv => Some(Step::Cholesky),
            _ => None,
        }
    }

    /// The solution that the call computes, if it computes one.
    #[must_use]
    pub const fn solves(&self) -> Option<Step> {
        match self.solver {
            Solver::Getrs | Solver::Gesv => Some(Step::LuSolve),
            Solver::Potrs | Solver::Posv => Some(Step::CholeskySolve),
            _ => None,
        }
    }

    /// Both, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        [self.factors(), self.solves()].into_iter().flatten()
    }

    /// A, and B if there is one.
    pub fn matrices(&self) -> impl Iterator<Item = View> + use<> {
        [Some(self.a), self.b].into_iter().flatten()
    }

    /// The addresses of their bytes.
    pub fn places(&self) -> impl Iterator<Item = Rect> + use<> {
        self.matrices().filter_map(|view| view.place().ok()?)
    }

    /// Columns of B.
    #[must_use]
    pub fn sides(&self) -> usize {
        self.b.map_or(0, |b| b.cols)
    }

    /// What is to be computed.
    pub fn work(&self) -> impl Iterator<Item = DenseWork> {
        self.steps().map(|step| DenseWork {
            step,
            dtype: self.dtype,
            sizes: [self.a.rows, self.a.cols, self.sides()],
        })
    }

    /// The number of pivots.
    #[must_use]
    pub fn pivot_count(&self) -> usize {
        self.pivots.map_or(0, |_| self.a.rows.min(self.a.cols))
    }

    /// Whether devices can compute it: matrices that are not empty and do not overlap each other, nor the pivots.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let square = self.factors() == Some(Step::Lu) && self.b.is_none();
        let span = |view: &View| Some(view.place().ok()??.span());
        let Some(a) = span(&self.a).filter(|_| square || self.a.rows == self.a.cols) else {
            return false;
        };
        let mut all = vec![(a.start, a.end)];
        if let Some(b) = &self.b {
            let Some(span) = span(b).filter(|_| b.rows == self.a.rows) else {
                return false;
            };
            all.push((span.start, span.end));
        }
        if let Some(pivots) = self.pivots {
            let end = pivots.addr.checked_add(self.pivot_count() * pivots.size());
            let Some(end) = end.filter(|_| pivots.addr != 0) else {
                return false;
            };
            all.push((pivots.addr, end));
        }
        all.sort_unstable();
        all.windows(2).all(|two| two[0].1 <= two[1].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: View = View {
        addr: 1 << 20,
        rows: 10,
        cols: 10,
        ld: 12,
        element: 8,
    };
    const GESV: System = System {
        solver: Solver::Gesv,
        dtype: Dtype::D,
        uplo: Uplo::Lower,
        op: Op::None,
        a: A,
        b: Some(View {
            addr: 2 << 20,
            cols: 3,
            ..A
        }),
        pivots: Some(Pivots {
            addr: 3 << 20,
            wide: false,
        }),
    };

    #[test]
    fn a_driver_is_a_factorization_and_a_solution() {
        let steps: Vec<Step> = GESV.work().map(|work| work.step).collect();
        assert_eq!(steps, [Step::Lu, Step::LuSolve]);
        let potrf = System {
            solver: Solver::Potrf,
            b: None,
            pivots: None,
            ..GESV
        };
        assert_eq!(
            potrf.work().map(|w| w.step).collect::<Vec<_>>(),
            [Step::Cholesky]
        );
        assert!(Solver::ALL.iter().filter(|s| s.runs_on_devices()).count() == 6);
    }

    #[test]
    fn operands_must_not_meet() {
        assert!(GESV.is_plain());
        let at = |addr| System {
            b: Some(View { addr, ..A }),
            ..GESV
        };
        assert!(!at(A.addr + 800).is_plain());
        assert!(at(A.addr + 960).is_plain());
        let pivots = |addr| System {
            pivots: Some(Pivots { addr, wide: true }),
            ..GESV
        };
        assert!(!pivots(A.addr - 40).is_plain());
        assert!(!pivots(0).is_plain());
        let empty = System {
            a: View { cols: 0, ..A },
            ..GESV
        };
        assert!(!empty.is_plain());
        let tall = System {
            a: View { cols: 4, ..A },
            ..GESV
        };
        assert!(!tall.is_plain());
        let factored = System {
            solver: Solver::Getrf,
            b: None,
            ..tall
        };
        assert!(factored.is_plain());
    }
}
