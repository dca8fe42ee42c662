//! What a call of a solver asks for.

use crate::base::dense::{DenseWork, Step};
use crate::base::{Diag, Dtype, Op, Rect, Side, Solver, Uplo};
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

/// What a condition number is computed of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Condition {
    /// The norm of the matrix that was factored, a positive number.
    pub norm: f64,
    /// The address of the real number that becomes `1 / (norm(A) norm(A^-1))`.
    pub addr: usize,
}

/// A call of a solver that devices compute.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct System {
    /// Which one.
    pub solver: Solver,
    /// The element type.
    pub dtype: Dtype,
    /// The triangle of a positive definite or triangular matrix.
    pub uplo: Uplo,
    /// `op(A)` of getrs and trtrs, `op(Q)` of ormqr; of gecon, `ConjTrans` for the infinity norm, which is the one-norm of the conjugate
    /// transpose.
    pub op: Op,
    /// Whether the diagonal of trtrs is taken to be 1.
    pub diag: Diag,
    /// The side on which Q of ormqr stands.
    pub side: Side,
    /// The matrix, or its factor. Of orgqr the place of Q, whose first columns hold the reflectors.
    pub a: View,
    /// The right sides, or the other factor of a product with Q.
    pub b: Option<View>,
    /// The pivots of getrf, getrs, gesv and getri.
    pub pivots: Option<Pivots>,
    /// The address and the number of the scalar factors of the reflectors of geqrf, orgqr and ormqr.
    pub tau: Option<(usize, usize)>,
    /// Of gecon and pocon.
    pub condition: Option<Condition>,
}

impl System {
    /// The factorization that the call makes, if it makes one.
    #[must_use]
    pub const fn factors(&self) -> Option<Step> {
        match self.solver {
            Solver::Getrf | Solver::Gesv => Some(Step::Lu),
            Solver::Potrf | Solver::Posv => Some(Step::Cholesky),
            Solver::Geqrf => Some(Step::Qr),
            _ => None,
        }
    }

    /// What the call computes by a factor, if it does.
    #[must_use]
    pub const fn applies(&self) -> Option<Step> {
        match self.solver {
            Solver::Getrs | Solver::Gesv | Solver::Getri => Some(Step::LuSolve),
            Solver::Potrs | Solver::Posv => Some(Step::CholeskySolve),
            Solver::Ormqr | Solver::Orgqr => Some(Step::ApplyQ),
            _ => None,
        }
    }

    /// Both, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        [self.factors(), self.applies()].into_iter().flatten()
    }

    /// Whether the step by a factor, or the triangular solution, is of an identity, and the result takes the place of A.
    #[must_use]
    pub const fn of_identity(&self) -> bool {
        matches!(self.solver, Solver::Getri | Solver::Potri | Solver::Orgqr)
    }

    /// Whether it divides by the diagonal of A, in which LAPACK first looks for a zero.
    #[must_use]
    pub const fn divides(&self) -> bool {
        match self.solver {
            Solver::Getri | Solver::Potri => true,
            Solver::Trtrs => matches!(self.diag, Diag::NonUnit),
            _ => false,
        }
    }

    /// A, and B if there is one.
    pub fn matrices(&self) -> impl Iterator<Item = View> + use<> {
        [Some(self.a), self.b].into_iter().flatten()
    }

    /// The addresses of their bytes.
    pub fn places(&self) -> impl Iterator<Item = Rect> + use<> {
        self.matrices().filter_map(|view| view.place().ok()?)
    }

    /// Columns of B, or of the identity in its place; of a product with Q on its right, rows of B.
    #[must_use]
    pub fn sides(&self) -> usize {
        match (self.b, self.side) {
            (Some(b), Side::Left) => b.cols,
            (Some(b), Side::Right) => b.rows,
            (None, _) if self.of_identity() => self.a.cols,
            (None, _) => 0,
        }
    }

    /// Rows and columns of A that a step takes: reflectors are in its first columns.
    #[must_use]
    pub fn factor_size(&self, step: Step) -> (usize, usize) {
        match (step, self.tau) {
            (Step::ApplyQ, Some((_, count))) => (self.a.rows, count),
            _ => (self.a.rows, self.a.cols),
        }
    }

    /// What is to be computed by kernels of solvers.
    pub fn work(&self) -> impl Iterator<Item = DenseWork> {
        self.steps().map(|step| {
            let (m, n) = self.factor_size(step);
            DenseWork {
                step,
                dtype: self.dtype,
                sizes: [m, n, self.sides()],
            }
        })
    }

    /// The number of pivots.
    #[must_use]
    pub fn pivot_count(&self) -> usize {
        self.pivots.map_or(0, |_| self.a.rows.min(self.a.cols))
    }

    /// The address and the bytes of the pivots, or of the scalar factors of the reflectors, in the program's memory.
    #[must_use]
    pub fn beside(&self) -> Option<(usize, usize)> {
        let pivots = self.pivots.map(|p| (p.addr, self.pivot_count() * p.size()));
        let tau = self
            .tau
            .map(|(addr, count)| (addr, count * self.dtype.size()));
        pivots.or(tau)
    }

    /// Whether devices can compute it: matrices that fit each other, are not empty, and overlap neither each other nor what is beside
    /// them.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let rectangular = matches!(
            self.solver,
            Solver::Getrf | Solver::Geqrf | Solver::Orgqr | Solver::Ormqr
        );
        let span = |view: &View| Some(view.place().ok()??.span());
        let Some(a) = span(&self.a).filter(|_| rectangular || self.a.rows == self.a.cols) else {
            return false;
        };
        let mut all = vec![(a.start, a.end)];
        if let Some(b) = &self.b {
            let order = match self.side {
                Side::Left => b.rows,
                Side::Right => b.cols,
            };
            let Some(span) = span(b).filter(|_| order == self.a.rows) else {
                return false;
            };
            all.push((span.start, span.end));
        }
        if let Some((addr, bytes)) = self.beside() {
            let end = addr.checked_add(bytes).filter(|_| addr != 0);
            let Some(end) = end else {
                return false;
            };
            all.push((addr, end));
        }
        let fits = |count| 0 < count && count <= self.a.rows.min(self.a.cols);
        // Q, in whose place orgqr finds its reflectors, has no more columns than rows.
        let fits = self.tau.is_none_or(|(_, count)| fits(count))
            && (self.solver != Solver::Orgqr || self.a.cols <= self.a.rows);
        all.sort_unstable();
        fits && all.windows(2).all(|two| two[0].1 <= two[1].0)
    }
}

#[cfg(test)]
impl System {
    /// The Cholesky factorization of a matrix of this order, for tests that look at sizes only.
    pub(crate) fn potrf(order: usize) -> System {
        System {
            solver: Solver::Potrf,
            dtype: Dtype::D,
            uplo: Uplo::Lower,
            op: Op::None,
            diag: Diag::NonUnit,
            side: Side::Left,
            a: View {
                addr: 1 << 20,
                rows: order,
                cols: order,
                ld: order,
                element: 8,
            },
            b: None,
            pivots: None,
            tau: None,
            condition: None,
        }
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
        diag: Diag::NonUnit,
        side: Side::Left,
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
        tau: None,
        condition: None,
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
        assert!(Solver::ALL.iter().filter(|s| s.runs_on_devices()).count() == 14);
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

    #[test]
    fn reflectors_are_columns() {
        let (rows, count) = (10, 4);
        let orgqr = System {
            solver: Solver::Orgqr,
            b: None,
            pivots: None,
            a: View { cols: 6, ..A },
            tau: Some((3 << 20, count)),
            ..GESV
        };
        assert!(orgqr.is_plain());
        assert_eq!(orgqr.factor_size(Step::ApplyQ), (rows, count));
        assert_eq!(orgqr.work().map(|w| w.sizes).last(), Some([rows, count, 6]));
        let many = System {
            tau: Some((3 << 20, 7)),
            ..orgqr
        };
        assert!(!many.is_plain());
        // Rows of the product are right sides.
        let b = View {
            addr: 2 << 20,
            rows: 3,
            ..A
        };
        let right = System {
            solver: Solver::Ormqr,
            side: Side::Right,
            a: View { cols: count, ..A },
            b: Some(b),
            ..orgqr
        };
        assert!(right.is_plain());
        assert_eq!(right.sides(), 3);
        let left = System {
            side: Side::Left,
            ..right
        };
        assert!(!left.is_plain());
    }
}
