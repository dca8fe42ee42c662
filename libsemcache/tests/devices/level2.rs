//! The kernels of level 2 with one triangle of a matrix, and rotations, under all their flags. Elements that such a
//! matrix does not have (its other triangle, a unit diagonal, the imaginary part of a Hermitian one) are NaN.

use semcache::base::Routine::{
    Axpby, Geadd, Hemv, Her, Her2, Imatcopy, Omatcopy, Rot, Rotm, Symv, Syr, Syr2, Trmv, Trsv,
};
use semcache::base::{Diag, Form, Op, Routine, Uplo, Value};
use semcache::device::api::{Kernel, Operand};

use super::kernels::{C, X, Y};
use super::level3::{Bench, DIAGS, NAN, ONE, OPS, UPLOS, half, mat, real, solvable, stored};

/// Order, and columns of padding between columns.
const ORDERS: [(usize, usize); 6] = [(1, 0), (2, 3), (31, 1), (64, 0), (65, 2), (150, 4)];
/// Of x and y.
const INCS: [(isize, isize); 4] = [(1, 1), (2, -1), (-3, 2), (-1, -2)];

fn vec(addr: u64, inc: isize) -> Operand {
    Operand::vector(addr, inc)
}

impl Bench<'_, '_> {
    pub(super) fn level2(&mut self) {
        for (n, pad) in ORDERS {
            for incs in INCS {
                for uplo in UPLOS {
                    for routine in [Symv, Syr, Syr2, Hemv, Her, Her2] {
                        if routine.hermitian() && !self.dtype.is_complex() {
                            continue;
                        }
                        self.symmetric(routine, uplo, (n, pad), incs);
                    }
                    for op in OPS {
                        for diag in DIAGS {
                            self.triangular_vector((uplo, op, diag), (n, pad), incs.0);
                        }
                    }
                }
                self.rotations(n * 7, incs);
                self.sum(n * 7, incs);
            }
        }
        for size in [(1, 1, 0), (1, 9, 2), (40, 1, 3), (33, 65, 1), (150, 90, 0)] {
            self.matrices(size);
        }
    }

    /// axpby
    fn sum(&mut self, n: usize, incs: (isize, isize)) {
        for _ in 0..4 {
            let (alpha, beta) = self.fresh((false, false));
            if beta.is_zero() {
                self.hide(Y);
            }
            self.check(&Kernel {
                m: n,
                alpha,
                beta,
                ..Kernel::of(Axpby, self.dtype, [vec(X, incs.0), vec(Y, incs.1)])
            });
        }
    }

    /// geadd, omatcopy and imatcopy.
    fn matrices(&mut self, (m, n, pad): (usize, usize, usize)) {
        for _ in 0..4 {
            let (alpha, beta) = self.fresh((false, false));
            if beta.is_zero() {
                self.hide(Y);
            }
            self.check(&Kernel {
                m,
                n,
                alpha,
                beta,
                ..Kernel::of(Geadd, self.dtype, [mat(X, m + pad), mat(Y, m)])
            });
        }
        for op_a in OPS {
            let (rows, square) = if op_a == Op::None { (m, n) } else { (n, m) };
            let (alpha, _) = self.fresh((false, false));
            self.hide(C);
            let copy = Kernel {
                op_a,
                m,
                n,
                alpha,
                ..Kernel::of(Omatcopy, self.dtype, [mat(X, m), mat(C, rows + pad)])
            };
            self.check(&copy);
            self.fresh((false, false));
            self.check(&Kernel {
                n: square,
                ..Kernel {
                    routine: Imatcopy,
                    at: [mat(X, m + pad), mat(C, 1), mat(C, 1)],
                    ..copy
                }
            });
        }
    }

    /// The other triangle, and the imaginary parts of a Hermitian diagonal, as NaN.
    fn half(&mut self, a: Operand, n: usize, hermitian: bool, uplo: Uplo) {
        self.each(a, n, |r, c, v| match stored(uplo, r, c) {
            false => Some(NAN),
            true if hermitian && r == c => Some(Value { im: f64::NAN, ..v }),
            true => None,
        });
    }

    /// symv, syr, syr2 and the Hermitian ones.
    fn symmetric(
        &mut self,
        routine: Routine,
        uplo: Uplo,
        (n, pad): (usize, usize),
        incs: (isize, isize),
    ) {
        let (alpha, beta) = self.fresh((routine == Her, false));
        let (a, x, y) = (mat(C, n + pad), vec(X, incs.0), vec(Y, incs.1));
        self.half(a, n, routine.hermitian(), uplo);
        let at = match routine {
            Symv | Hemv => [a, x, y],
            Syr | Her => [x, a, y],
            _ => [x, y, a],
        };
        if matches!(routine, Symv | Hemv) && beta.is_zero() {
            self.hide(Y);
        }
        self.check(&Kernel {
            form: half(uplo),
            m: n,
            n,
            alpha,
            beta,
            ..Kernel::of(routine, self.dtype, at)
        });
    }

    fn triangular_vector(
        &mut self,
        (uplo, op, diag): (Uplo, Op, Diag),
        (n, pad): (usize, usize),
        inc: isize,
    ) {
        self.fresh((false, false));
        let dtype = self.dtype;
        let complex = dtype.is_complex();
        let (a, x) = (mat(C, n + pad), vec(X, inc));
        let product = Kernel {
            form: Form { diag, ..half(uplo) },
            op_a: op,
            m: n,
            n,
            ..Kernel::of(Trmv, dtype, [a, x])
        };
        let hidden = |r: usize, c: usize| !stored(uplo, r, c) || (diag == Diag::Unit && r == c);
        self.each(a, n, |r, c, _| hidden(r, c).then_some(NAN));
        self.check(&product);
        self.fresh((false, false));
        self.each(a, n, |r, c, v| {
            Some(if hidden(r, c) {
                NAN
            } else {
                solvable(r, c, v, complex)
            })
        });
        // Right-hand sides with integer solutions.
        self.compute(&product);
        self.check(&Kernel {
            routine: Trsv,
            ..product
        });
    }

    fn rotations(&mut self, n: usize, incs: (isize, isize)) {
        let of = |routine, dtype, alpha, beta| Kernel {
            m: n,
            alpha,
            beta,
            ..Kernel::of(routine, dtype, [vec(X, incs.0), vec(Y, incs.1)])
        };
        let dtype = self.dtype;
        for (c, s) in [(2.0, -1.0), (ONE.re, 0.0), (0.0, 1.0)] {
            self.fresh((false, false));
            self.check(&of(Rot, dtype, real(c), real(s)));
        }
        if dtype.is_complex() {
            return;
        }
        for [h11, h21, h12, h22] in [[2.0, -3.0, 5.0, 1.0], [1.0, -1.0, 1.0, 0.0]] {
            self.fresh((false, false));
            let (alpha, beta) = (Value { re: h11, im: h21 }, Value { re: h12, im: h22 });
            self.check(&of(Rotm, dtype, alpha, beta));
        }
    }
}
