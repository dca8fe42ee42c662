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
    /// The triangle of a positive definite, symmetric or triangular matrix.
    pub uplo: Uplo,
    /// `op(A)` of getrs, trtrs and gels, `op(Q)` of ormqr and ormlq; of gecon, `ConjTrans` for the infinity norm, which is the one-norm of the conjugate
    /// transpose.
    pub op: Op,
    /// Whether the diagonal of trtrs and trtri is taken to be 1.
    pub diag: Diag,
    /// The side on which Q of ormqr and ormlq stands.
    pub side: Side,
    /// The matrix, or its factor. Of orgqr and orglq the place of Q, whose first columns or rows hold the reflectors.
    pub a: View,
    /// The right sides, or the other factor of a product with Q. Of gels the right sides and, in as many rows as A has rows or columns,
    /// the solutions.
    pub b: Option<View>,
    /// The pivots of getrf, getrs, gesv, getri, sytrf, sytrs and sysv, and the permutation of geqp3.
    pub pivots: Option<Pivots>,
    /// The address and the number of the scalar factors of the reflectors of geqrf, geqp3, orgqr and ormqr, and of gelqf, orglq and
    /// ormlq.
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
            Solver::Sytrf | Solver::Sysv => Some(Step::Symmetric),
            Solver::Geqrf | Solver::Gelqf | Solver::Gels => Some(Step::Qr),
            _ if self.solver.is_finished_by_host() => Some(Step::Qr),
            _ => None,
        }
    }

    /// Whether the call is one for factors, which the program gets.
    #[must_use]
    pub const fn is_factorization(&self) -> bool {
        let factors = self.factors().is_some() && self.b.is_none();
        factors || matches!(self.solver, Solver::Geqp3)
    }

    /// What the call computes by a factor, if it does.
    #[must_use]
    pub const fn applies(&self) -> Option<Step> {
        match self.solver {
            Solver::Getrs | Solver::Gesv | Solver::Getri => Some(Step::LuSolve),
            Solver::Potrs | Solver::Posv => Some(Step::CholeskySolve),
            Solver::Sytrs | Solver::Sysv => Some(Step::SymmetricSolve),
            Solver::Ormqr | Solver::Orgqr | Solver::Ormlq | Solver::Orglq => Some(Step::ApplyQ),
            Solver::Gels => Some(Step::ApplyQ),
            _ if self.solver.is_finished_by_host() => Some(Step::ApplyQ),
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
        matches!(
            self.solver,
            Solver::Getri | Solver::Potri | Solver::Trtri | Solver::Orgqr | Solver::Orglq
        )
    }

    /// Whether reflectors are rows of A. A device works on the conjugate transpose of A then: `A = L Q` says `A^H = Q^H L^H`, which is a QR
    /// factorization, and LAPACK computes the same reflectors of the conjugated rows as of the columns of `A^H`, with the same scalar
    /// factors (gelq2 and geqr2). So what LAPACK stores of either is the conjugate transpose of the other.
    #[must_use]
    pub const fn by_rows(&self) -> bool {
        match self.solver {
            Solver::Gelqf | Solver::Orglq | Solver::Ormlq => true,
            Solver::Gels => self.a.rows < self.a.cols,
            _ => false,
        }
    }

    /// The size of the matrix that a device works on: of A, or of its conjugate transpose without gaps.
    #[must_use]
    pub const fn worked(&self) -> View {
        match self.by_rows() {
            false => self.a,
            true => View {
                rows: self.a.cols,
                cols: self.a.rows,
                ld: self.a.cols,
                ..self.a
            },
        }
    }

    /// Whether gels finds the shortest of many solutions, instead of one that leaves the least residual.
    #[must_use]
    pub const fn is_underdetermined(&self) -> bool {
        matches!(self.op, Op::None) == self.by_rows()
    }

    /// `op(A)` or `op(Q)` of a step on the matrix that a device works on.
    #[must_use]
    pub const fn op_of(&self, step: Step) -> Op {
        let adjoint = adjoint(self.dtype);
        match (self.solver, step) {
            // R^-1 Q^H B, or Q R^-H B.
            (Solver::Gels, Step::ApplyQ) if self.is_underdetermined() => Op::None,
            (solver, Step::ApplyQ) if solver.scales() => adjoint,
            // Q by rows is the conjugate transpose of Q by columns.
            (Solver::Ormlq, _) if matches!(self.op, Op::None) => adjoint,
            (Solver::Ormlq, _) => Op::None,
            _ => self.op,
        }
    }

    /// The triangle of the matrix that a device works on with which it solves: which one, how, and with what diagonal.
    #[must_use]
    pub const fn triangle(&self) -> (Uplo, Op, Diag) {
        match self.solver {
            Solver::Gels if self.is_underdetermined() => {
                (Uplo::Upper, adjoint(self.dtype), Diag::NonUnit)
            }
            _ if self.solver.scales() => (Uplo::Upper, Op::None, Diag::NonUnit),
            _ => (self.uplo, self.op, self.diag),
        }
    }

    /// Whether it divides by the diagonal of A, in which LAPACK first looks for a zero.
    #[must_use]
    pub const fn divides(&self) -> bool {
        match self.solver {
            Solver::Getri | Solver::Potri => true,
            Solver::Trtrs | Solver::Trtri => matches!(self.diag, Diag::NonUnit),
            _ => false,
        }
    }

    /// Whether it multiplies a triangle by its conjugate transpose.
    #[must_use]
    pub const fn squares(&self) -> bool {
        matches!(self.solver, Solver::Potri | Solver::Lauum)
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
            (None, _) if self.of_identity() => self.worked().cols,
            (None, _) => 0,
        }
    }

    /// Rows and columns that a step takes of the matrix that a device works on: reflectors are in its first columns.
    #[must_use]
    pub fn factor_size(&self, step: Step) -> (usize, usize) {
        let View { rows, cols, .. } = self.worked();
        match (step, self.tau) {
            (Step::ApplyQ, Some((_, count))) => (rows, count),
            _ => (rows, cols),
        }
    }

    /// Bytes of the pivots, or of the scalar factors of reflectors, that a device finds.
    #[must_use]
    pub fn found(&self) -> usize {
        let least = self.a.rows.min(self.a.cols);
        match self.factors() {
            Some(Step::Qr) => least * self.dtype.size(),
            Some(step) => least * step.pivot(),
            None => 0,
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

    /// The number of pivots, or of columns that are permuted.
    #[must_use]
    pub fn pivot_count(&self) -> usize {
        match (self.pivots, self.solver) {
            (None, _) => 0,
            (_, Solver::Geqp3) => self.a.cols,
            _ => self.a.rows.min(self.a.cols),
        }
    }

    /// The address and the bytes of the pivots, and of the scalar factors of the reflectors, in the program's memory.
    pub fn beside(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let pivots = self.pivots.map(|p| (p.addr, self.pivot_count() * p.size()));
        let tau = self
            .tau
            .map(|(addr, count)| (addr, count * self.dtype.size()));
        [pivots, tau].into_iter().flatten()
    }

    /// Whether devices can compute it: matrices that fit each other, are not empty, and overlap neither each other nor what is beside
    /// them.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let rectangular = matches!(
            self.solver,
            Solver::Getrf
                | Solver::Geqrf
                | Solver::Geqp3
                | Solver::Orgqr
                | Solver::Ormqr
                | Solver::Gelqf
                | Solver::Orglq
                | Solver::Ormlq
        ) || self.solver.scales();
        let worked = self.worked();
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
            let Some(span) = span(b).filter(|_| order == worked.rows) else {
                return false;
            };
            all.push((span.start, span.end));
        }
        for (addr, bytes) in self.beside() {
            let end = addr.checked_add(bytes).filter(|_| addr != 0);
            let Some(end) = end else {
                return false;
            };
            all.push((addr, end));
        }
        let fits = |count| 0 < count && count <= self.a.rows.min(self.a.cols);
        // Q, in whose place orgqr finds its reflectors, has no more columns than rows, that of orglq no more rows than columns.
        let of_columns = matches!(self.solver, Solver::Orgqr | Solver::Orglq);
        let fits = self.tau.is_none_or(|(_, count)| fits(count))
            && (!of_columns || worked.cols <= worked.rows);
        all.sort_unstable();
        fits && all.windows(2).all(|two| two[0].1 <= two[1].0)
    }
}

/// The transposition that makes an adjoint: real types have one name for it.
#[must_use]
pub const fn adjoint(dtype: Dtype) -> Op {
    match dtype.is_complex() {
        true => Op::ConjTrans,
        false => Op::Trans,
    }
}

/// The least normal and the largest real number of a precision.
pub(super) fn range(dtype: Dtype) -> (f64, f64) {
    match dtype.real() {
        Dtype::S => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
        _ => (f64::MIN_POSITIVE, f64::MAX),
    }
}

/// The distance from 1 to the next number of a precision.
pub(super) fn precision(dtype: Dtype) -> f64 {
    match dtype.real() {
        Dtype::S => f32::EPSILON.into(),
        _ => f64::EPSILON,
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
        assert!(Solver::ALL.iter().filter(|s| s.runs_on_devices()).count() == 27);
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

    #[test]
    fn reflectors_by_rows_are_columns_of_the_adjoint() {
        let flat = View { rows: 4, ..A };
        let gelqf = System {
            solver: Solver::Gelqf,
            b: None,
            pivots: None,
            a: flat,
            tau: Some((3 << 20, 4)),
            ..GESV
        };
        assert!(gelqf.is_plain() && gelqf.by_rows());
        assert_eq!(gelqf.work().map(|w| w.sizes).last(), Some([10, 4, 0]));
        assert_eq!(gelqf.found(), 4 * 8);
        let orglq = System {
            solver: Solver::Orglq,
            tau: Some((3 << 20, 3)),
            ..gelqf
        };
        assert_eq!(orglq.work().map(|w| w.sizes).last(), Some([10, 3, 4]));
        assert!(orglq.is_plain());
        let tall = System {
            a: View { cols: 3, ..A },
            ..orglq
        };
        assert!(!tall.is_plain());
        let ormlq = System {
            solver: Solver::Ormlq,
            b: Some(View {
                addr: 2 << 20,
                cols: 3,
                ..A
            }),
            ..gelqf
        };
        assert!(ormlq.is_plain());
        assert_eq!(ormlq.op_of(Step::ApplyQ), Op::Trans);
    }

    #[test]
    fn least_squares_are_of_a_tall_matrix() {
        let b = View {
            addr: 2 << 20,
            cols: 3,
            ..A
        };
        for (rows, cols, op, shortest) in [
            (10, 4, Op::None, false),
            (10, 4, Op::Trans, true),
            (4, 10, Op::None, true),
            (4, 10, Op::Trans, false),
            (10, 10, Op::None, false),
        ] {
            let gels = System {
                solver: Solver::Gels,
                a: View { rows, cols, ..A },
                b: Some(b),
                pivots: None,
                op,
                ..GESV
            };
            assert!(gels.is_plain());
            let worked = gels.worked();
            assert_eq!((worked.rows, worked.cols), (rows.max(cols), rows.min(cols)));
            let of_q = if shortest { Op::None } else { Op::Trans };
            assert_eq!(gels.op_of(Step::ApplyQ), of_q);
            let of_r = if shortest { Op::Trans } else { Op::None };
            assert_eq!(gels.triangle(), (Uplo::Upper, of_r, Diag::NonUnit));
        }
    }
}
