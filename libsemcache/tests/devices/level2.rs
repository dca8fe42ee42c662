//! The kernels of level 2 with one triangle of a matrix, and rotations, under all their flags. What such a matrix does
//! not have (its other triangle, a unit diagonal, the imaginary part of a Hermitian one) is NaN.

use semcache::base::{Diag, Op, Uplo, Value};
use semcache::device::api::{DevMat, DevVec, Kernel};
use semcache::device::arith;

use super::kernels::{C, X, Y};
use super::level3::{Bench, DIAGS, NAN, ONE, OPS, UPLOS, mat, solvable, stored};

/// Order, columns between columns.
const ORDERS: [(usize, usize); 6] = [(1, 0), (2, 3), (31, 1), (64, 0), (65, 2), (150, 4)];
/// Of x and y.
const INCS: [(isize, isize); 4] = [(1, 1), (2, -1), (-3, 2), (-1, -2)];

fn vec(addr: u64, inc: isize) -> DevVec {
    DevVec { addr, inc }
}

impl Bench<'_, '_> {
    pub(super) fn level2(&mut self) {
        for (n, pad) in ORDERS {
            for incs in INCS {
                for uplo in UPLOS {
                    for hermitian in [false, true] {
                        if hermitian && !self.dtype.is_complex() {
                            continue;
                        }
                        self.symv(hermitian, uplo, (n, pad), incs);
                        self.syr(false, hermitian, uplo, (n, pad), incs);
                        self.syr(true, hermitian, uplo, (n, pad), incs);
                    }
                    for op in OPS {
                        for diag in DIAGS {
                            self.triangular_vector((uplo, op, diag), (n, pad), incs.0);
                        }
                    }
                }
                self.rotations(n * 7, incs);
            }
        }
    }

    /// The other triangle, and the imaginary parts of a Hermitian diagonal, as NaN.
    fn half(&mut self, a: DevMat, n: usize, hermitian: bool, uplo: Uplo) {
        self.each(a, n, |r, c, v| match stored(uplo, r, c) {
            false => Some(NAN),
            true if hermitian && r == c => Some(Value { im: f64::NAN, ..v }),
            true => None,
        });
    }

    fn symv(
        &mut self,
        hermitian: bool,
        uplo: Uplo,
        (n, pad): (usize, usize),
        incs: (isize, isize),
    ) {
        let (alpha, beta) = self.fresh((false, false));
        let dtype = self.dtype;
        let a = mat(C, n + pad);
        self.half(a, n, hermitian, uplo);
        if beta.is_zero() {
            self.hide(Y);
        }
        self.check("symv", &|at| Kernel::Symv {
            dtype,
            hermitian,
            uplo,
            n,
            alpha,
            a: mat(at + a.addr, a.ld),
            x: vec(at + X, incs.0),
            beta,
            y: vec(at + Y, incs.1),
        });
    }

    fn syr(
        &mut self,
        two: bool,
        hermitian: bool,
        uplo: Uplo,
        (n, pad): (usize, usize),
        incs: (isize, isize),
    ) {
        let (alpha, _) = self.fresh((hermitian && !two, false));
        let dtype = self.dtype;
        let a = mat(C, n + pad);
        self.half(a, n, hermitian, uplo);
        self.check("syr", &|at| {
            let (x, y) = (vec(at + X, incs.0), vec(at + Y, incs.1));
            let a = mat(at + a.addr, a.ld);
            if two {
                Kernel::Syr2 {
                    dtype,
                    hermitian,
                    uplo,
                    n,
                    alpha,
                    x,
                    y,
                    a,
                }
            } else {
                Kernel::Syr {
                    dtype,
                    hermitian,
                    uplo,
                    n,
                    alpha,
                    x,
                    a,
                }
            }
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
        let a = mat(C, n + pad);
        let product = |at: u64| Kernel::Trmv {
            dtype,
            uplo,
            op,
            diag,
            n,
            a: mat(at + a.addr, a.ld),
            x: vec(at + X, inc),
        };
        let hidden = |r: usize, c: usize| !stored(uplo, r, c) || (diag == Diag::Unit && r == c);
        self.each(a, n, |r, c, _| hidden(r, c).then_some(NAN));
        self.check("trmv", &product);
        self.fresh((false, false));
        self.each(a, n, |r, c, v| {
            Some(if hidden(r, c) {
                NAN
            } else {
                solvable(r, c, v, complex)
            })
        });
        // Right-hand sides with integer solutions.
        let addr = self.addr();
        // SAFETY: within the image.
        unsafe { arith::run(&product(addr)) };
        self.check("trsv", &|at| Kernel::Trsv {
            dtype,
            uplo,
            op,
            diag,
            n,
            a: mat(at + a.addr, a.ld),
            x: vec(at + X, inc),
        });
    }

    fn rotations(&mut self, n: usize, incs: (isize, isize)) {
        let dtype = self.dtype;
        for (c, s) in [(2.0, -1.0), (ONE.re, 0.0), (0.0, 1.0)] {
            self.fresh((false, false));
            self.check("rot", &|at| Kernel::Rot {
                dtype,
                n,
                x: vec(at + X, incs.0),
                y: vec(at + Y, incs.1),
                c,
                s,
            });
        }
        if dtype.is_complex() {
            return;
        }
        for h in [[2.0, -3.0, 5.0, 1.0], [1.0, -1.0, 1.0, 0.0]] {
            self.fresh((false, false));
            self.check("rotm", &|at| Kernel::Rotm {
                dtype,
                n,
                x: vec(at + X, incs.0),
                y: vec(at + Y, incs.1),
                h,
            });
        }
    }
}
