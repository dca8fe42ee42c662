//! The routines of level 2 with one triangle of a matrix, and rotations.

use semcache::base::{Dtype, Form, Op, Routine, Side, Uplo, Value};
use semcache::blas::Call;

use super::operand::{Kind, Operand};
use super::{DIAGS, OPS, Sweep, UPLOS, int};

/// An order of which even single precision is moved in more than one panel.
const PANELS: usize = 365;

impl Sweep {
    pub(super) fn half(&mut self, dtype: Dtype) {
        use Routine::{Hemv, Her, Her2, Rot, Rotm, Symv, Syr, Syr2, Trmv, Trsv};
        for uplo in UPLOS {
            self.symv(Symv, dtype, uplo);
            self.syr(Syr, dtype, uplo);
            self.syr(Syr2, dtype, uplo);
            if dtype.is_complex() {
                self.symv(Hemv, dtype, uplo);
                self.syr(Her, dtype, uplo);
                self.syr(Her2, dtype, uplo);
            }
            for op in OPS {
                for diag in DIAGS {
                    let form = Form {
                        side: Side::Left,
                        uplo,
                        diag,
                    };
                    self.trmv(Trmv, dtype, form, op);
                    self.trmv(Trsv, dtype, form, op);
                }
            }
        }
        self.rotation(Rot, dtype);
        if !dtype.is_complex() {
            self.rotation(Rotm, dtype);
        }
    }

    pub(super) fn orders(&mut self) -> Vec<usize> {
        let mut orders: Vec<usize> = self.sizes().into_iter().map(|(_, n, _)| n).collect();
        if self.full || self.rng.below(2) == 0 {
            orders.push(PANELS);
        }
        orders
    }

    /// A distance between elements, and the increment of a call, of either sign.
    pub(super) fn increment(&mut self) -> (usize, i64) {
        let step = self.gap() + 1;
        let sign = if self.rng.below(2) == 0 { -1 } else { 1 };
        (step, sign * int(step))
    }

    fn symv(&mut self, routine: Routine, dtype: Dtype, uplo: Uplo) {
        for n in self.orders() {
            let (alpha, beta) = self.scalars();
            let la = n + self.gap();
            let ((sx, incx), (sy, incy)) = (self.increment(), self.increment());
            let half = Kind::Symmetric(uplo, routine == Routine::Hemv);
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, n, n, la, half),
                Operand::new(r, dtype, 1, n, sx, Kind::General),
                Operand::new(r, dtype, 1, n, sy, Kind::Result),
            ];
            let what =
                format!("{dtype:?} {routine:?} {uplo:?} {n} {incx} {incy} {alpha:?} {beta:?}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                form: Form {
                    uplo,
                    ..Form::default()
                },
                alpha,
                beta,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(n)],
                    &[(at[0], int(la)), (at[1], incx), (at[2], incy)],
                )
            });
        }
    }

    /// The elements in the other triangle must stay, whatever they are.
    fn syr(&mut self, routine: Routine, dtype: Dtype, uplo: Uplo) {
        let two = matches!(routine, Routine::Syr2 | Routine::Her2);
        for n in self.orders() {
            let (mut alpha, _) = self.scalars();
            if routine == Routine::Her {
                alpha.im = 0.0;
            }
            let la = n + self.gap();
            let ((sx, incx), (sy, incy)) = (self.increment(), self.increment());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, 1, n, sx, Kind::General),
                Operand::new(r, dtype, 1, n, sy, Kind::General),
                Operand::new(r, dtype, n, n, la, Kind::Result),
            ];
            let what = format!("{dtype:?} {routine:?} {uplo:?} {n} {incx} {incy} {alpha:?}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                form: Form {
                    uplo,
                    ..Form::default()
                },
                alpha,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(n)],
                    &if two {
                        vec![(at[0], incx), (at[1], incy), (at[2], int(la))]
                    } else {
                        vec![(at[0], incx), (at[2], int(la))]
                    },
                )
            });
        }
    }

    fn trmv(&mut self, routine: Routine, dtype: Dtype, form: Form, op: Op) {
        for n in self.orders() {
            let la = n + self.gap();
            let (sx, incx) = self.increment();
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, n, n, la, Kind::Triangular(form.uplo, form.diag)),
                Operand::new(r, dtype, 1, n, sx, Kind::Result),
            ];
            let what = format!("{dtype:?} {routine:?} {form:?} {op:?} {n} {incx}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                form,
                op_a: op,
                ..Call::new(
                    routine,
                    dtype,
                    &[int(n)],
                    &[(at[0], int(la)), (at[1], incx)],
                )
            });
        }
    }

    fn rotation(&mut self, routine: Routine, dtype: Dtype) {
        for n in self.orders() {
            let ((sx, incx), (sy, incy)) = (self.increment(), self.increment());
            let r = &mut self.rng;
            let mut operands = [
                Operand::new(r, dtype, 1, n, sx, Kind::Result),
                Operand::new(r, dtype, 1, n, sy, Kind::Result),
            ];
            let (alpha, beta) = (Value { re: 2.0, im: -1.0 }, Value { re: -1.0, im: 3.0 });
            let what = format!("{dtype:?} {routine:?} {n} {incx} {incy}");
            self.case(routine, dtype, &mut operands, &what, &|at| Call {
                alpha,
                beta,
                ..Call::new(routine, dtype, &[int(n)], &[(at[0], incx), (at[1], incy)])
            });
        }
    }
}
