//! Sums, copies and transpositions of matrices, and sums of vectors.

use semcache::base::{Dtype, Op, Routine};
use semcache::blas::Call;

use super::operand::{Kind, Operand};
use super::{OPS, Sweep, int};

impl Sweep {
    pub(super) fn matrices(&mut self, dtype: Dtype) {
        self.sum(dtype);
        self.geadd(dtype);
        for op in OPS {
            self.omatcopy(dtype, op);
            self.imatcopy(dtype, op);
        }
    }

    fn sum(&mut self, dtype: Dtype) {
        for n in self.orders() {
            let (alpha, beta) = self.scalars();
            let ((sx, incx), (sy, incy)) = (self.increment(), self.increment());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, 1, n, sx, Kind::General),
                Operand::new(r, dtype, 1, n, sy, Kind::Result),
            ];
            let what = format!("{dtype:?} axpby {n} {incx} {incy} {alpha:?} {beta:?}");
            self.case(Routine::Axpby, dtype, &mut operands, &what, &|at| Call {
                alpha,
                beta,
                ..Call::new(
                    Routine::Axpby,
                    dtype,
                    &[int(n)],
                    &[(at[0], incx), (at[1], incy)],
                )
            });
        }
    }

    fn geadd(&mut self, dtype: Dtype) {
        for (m, n, _) in self.sizes() {
            let (alpha, beta) = self.scalars();
            let (la, lc) = (m + self.gap(), m + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, m, n, la, Kind::General),
                Operand::new(r, dtype, m, n, lc, Kind::Result),
            ];
            let what = format!("{dtype:?} geadd {m} {n} {alpha:?} {beta:?}");
            self.case(Routine::Geadd, dtype, &mut operands, &what, &|at| Call {
                alpha,
                beta,
                ..Call::new(
                    Routine::Geadd,
                    dtype,
                    &[int(m), int(n)],
                    &[(at[0], int(la)), (at[1], int(lc))],
                )
            });
        }
    }

    fn omatcopy(&mut self, dtype: Dtype, op: Op) {
        for (m, n, _) in self.sizes() {
            let (alpha, _) = self.scalars();
            let (rows, cols) = if op == Op::None { (m, n) } else { (n, m) };
            let (la, lb) = (m + self.gap(), rows + self.gap());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, m, n, la, Kind::General),
                Operand::new(r, dtype, rows, cols, lb, Kind::Result),
            ];
            let what = format!("{dtype:?} omatcopy {op:?} {m} {n} {alpha:?}");
            self.case(Routine::Omatcopy, dtype, &mut operands, &what, &|at| Call {
                op_a: op,
                alpha,
                ..Call::new(
                    Routine::Omatcopy,
                    dtype,
                    &[int(m), int(n)],
                    &[(at[0], int(la)), (at[1], int(lb))],
                )
            });
        }
    }

    fn imatcopy(&mut self, dtype: Dtype, op: Op) {
        for (m, n, _) in self.sizes() {
            let (mut alpha, _) = self.scalars();
            if alpha.is_one() && op == Op::None {
                // The call would do nothing.
                alpha.re = 3.0;
            }
            // A matrix that is transposed in place is square.
            let n = if op == Op::None { n } else { m };
            let la = m + self.gap();
            let mut operands = [Operand::new(&mut self.rng, dtype, m, n, la, Kind::Result)];
            let what = format!("{dtype:?} imatcopy {op:?} {m} {n} {alpha:?}");
            self.case(Routine::Imatcopy, dtype, &mut operands, &what, &|at| Call {
                op_a: op,
                alpha,
                ..Call::new(
                    Routine::Imatcopy,
                    dtype,
                    &[int(m), int(n)],
                    &[(at[0], int(la))],
                )
            });
        }
    }
}
