//! The routines of level 2 with one triangle, and rotations, against their definitions. Everything that must not be
//! read is NaN, and must still be NaN afterwards.

use super::*;
use crate::base::Diag;

const UPLOS: [Uplo; 2] = [Uplo::Lower, Uplo::Upper];
const SIZES: [usize; 6] = [0, 1, 2, 5, 17, 70];

fn stored(uplo: Uplo, r: usize, c: usize) -> bool {
    match uplo {
        Uplo::Lower => r >= c,
        Uplo::Upper => r <= c,
    }
}

impl<T: Scalar> Matrix<T> {
    fn hide(mut self, hidden: impl Fn(usize, usize) -> bool) -> Self {
        for c in 0..self.cols {
            for r in (0..self.rows).filter(|&r| hidden(r, c)) {
                self.data[r + c * self.ld] = narrow::<T>(nan());
            }
        }
        self
    }

    /// Element `(r, c)` of the matrix of which a triangle is stored.
    fn mirrored(&self, uplo: Uplo, hermitian: bool, r: usize, c: usize) -> Z {
        match (stored(uplo, r, c), hermitian) {
            (true, true) if r == c => Z::new(self.get(r, c).re, 0.0),
            (true, _) => self.get(r, c),
            (false, true) => self.get(c, r).conj(),
            (false, false) => self.get(c, r),
        }
    }

    /// Sets the imaginary parts of the diagonal to NaN.
    fn unreal(mut self) -> Self {
        for i in (0..self.rows).filter(|_| T::DTYPE.is_complex()) {
            let at = i + i * self.ld;
            let v = self.data[at].to_value();
            self.data[at] = T::from_value(Value { im: f64::NAN, ..v });
        }
        self
    }

    /// Checks that the triangle is as `want` says, and that everything else is still NaN.
    fn check_triangle(&self, what: &str, uplo: Uplo, want: impl Fn(usize, usize) -> Z) {
        for (i, v) in self.data.iter().enumerate() {
            let (r, c) = (i % self.ld, i / self.ld);
            if r < self.rows && c < self.cols && stored(uplo, r, c) {
                assert_eq!(z(v.to_value()), want(r, c), "{what}: ({r}, {c})");
            } else {
                assert!(v.to_value().re.is_nan(), "{what}: wrote ({r}, {c})");
            }
        }
    }
}

fn check_symv<T: Scalar>(
    routine: Routine,
    n: usize,
    (incx, incy): (isize, isize),
    (alpha, beta): (Value, Value),
) {
    let (alpha, beta) = (fit_value::<T>(alpha), fit_value::<T>(beta));
    let hermitian = routine.hermitian();
    for uplo in UPLOS {
        let mut a = Matrix::<T>::new(1, n, n, 2).hide(|r, c| !stored(uplo, r, c));
        let (mut x, mut y) = (Vect::<T>::new(2, n, incx), Vect::<T>::new(3, n, incy));
        let want: Vec<Z> = (0..n)
            .map(|i| {
                let sum: Z = (0..n)
                    .map(|j| a.mirrored(uplo, hermitian, i, j) * x.get(j))
                    .sum();
                let product = if alpha.is_zero() {
                    Z::ZERO
                } else {
                    z(alpha) * sum
                };
                let old = if beta.is_zero() {
                    Z::ZERO
                } else {
                    z(beta) * y.get(i)
                };
                product + old
            })
            .collect();
        if hermitian {
            a = a.unreal();
        }
        if beta.is_zero() {
            y = y.all_nan();
        }
        if alpha.is_zero() {
            (a, x) = (a.all_nan(), x.all_nan());
        }
        go(&Kernel {
            form: half(uplo),
            m: n,
            n,
            alpha,
            beta,
            ..Kernel::of(routine, T::DTYPE, [a.dev(), x.dev(), y.dev()])
        });
        y.check(&format!("{routine:?} {uplo:?} {alpha:?} {beta:?}"), &want);
    }
}

fn check_syr<T: Scalar>(routine: Routine, n: usize, (incx, incy): (isize, isize), alpha: Value) {
    let mut alpha = fit_value::<T>(alpha);
    let (hermitian, two) = (routine.hermitian(), routine.operands().len() == 3);
    if hermitian && !two {
        alpha.im = 0.0;
    }
    let other = |v: Z| if hermitian { v.conj() } else { v };
    for uplo in UPLOS {
        let mut a = Matrix::<T>::new(1, n, n, 2).hide(|r, c| !stored(uplo, r, c));
        let before = Matrix::<T>::new(1, n, n, 2);
        let (mut x, mut y) = (Vect::<T>::new(2, n, incx), Vect::<T>::new(3, n, incy));
        let (vx, vy) = (x.values(), y.values());
        if hermitian && !alpha.is_zero() {
            a = a.unreal();
        }
        if alpha.is_zero() {
            (x, y) = (x.all_nan(), y.all_nan());
        }
        let (y_dev, a_dev) = (y.dev(), a.dev());
        let at = if two { [y_dev, a_dev] } else { [a_dev, y_dev] };
        go(&Kernel {
            form: half(uplo),
            m: n,
            n,
            alpha,
            ..Kernel::of(routine, T::DTYPE, [x.dev(), at[0], at[1]])
        });
        let what = format!("{routine:?} {uplo:?} {alpha:?}");
        a.check_triangle(&what, uplo, |r, c| {
            if alpha.is_zero() {
                return before.get(r, c);
            }
            let update = if two {
                z(alpha) * vx[r] * other(vy[c]) + other(z(alpha)) * vy[r] * other(vx[c])
            } else {
                z(alpha) * vx[r] * other(vx[c])
            };
            let value = before.get(r, c) + update;
            if hermitian && r == c {
                Z::new(value.re, 0.0)
            } else {
                value
            }
        });
    }
}

#[test]
fn symmetric_ones_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for incx in INCS {
                for incy in INCS {
                    for alpha in SCALARS {
                        for beta in SCALARS {
                            for routine in [Routine::Symv, Routine::Hemv] {
                                check_symv::<T>(routine, 5, (incx, incy), (alpha, beta));
                            }
                        }
                        for routine in [Routine::Syr, Routine::Her, Routine::Syr2, Routine::Her2] {
                            check_syr::<T>(routine, 5, (incx, incy), alpha);
                        }
                    }
                }
            }
            for n in SIZES {
                for routine in [Routine::Symv, Routine::Hemv] {
                    check_symv::<T>(routine, n, (1, -2), (SCALARS[3], SCALARS[2]));
                }
                for routine in [Routine::Syr, Routine::Her] {
                    check_syr::<T>(routine, n, (1, -2), SCALARS[3]);
                }
                for routine in [Routine::Syr2, Routine::Her2] {
                    check_syr::<T>(routine, n, (-1, 2), SCALARS[3]);
                }
            }
        });
    }
}

/// A triangle whose inverse has integer elements: a diagonal of powers of two or minus one, and integers beside it, in
/// odd rows of even columns only.
fn solvable<T: Scalar>(n: usize, uplo: Uplo, diag: Diag) -> Matrix<T> {
    let mut a = Matrix::<T>::new(4, n, n, 1);
    for c in 0..n {
        for r in 0..n {
            let v = if r == c {
                Z::new([1.0, -1.0, 0.5][r % 3], 0.0)
            } else if r % 2 == 1 && c % 2 == 0 {
                number::<T>(5, r + c)
            } else {
                Z::ZERO
            };
            a.data[r + c * a.ld] = narrow(v);
        }
    }
    a.hide(|r, c| !stored(uplo, r, c) || (r == c && diag == Diag::Unit))
}

#[test]
fn triangular_ones_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for uplo in UPLOS {
                for diag in [Diag::NonUnit, Diag::Unit] {
                    for op in OPS {
                        for n in SIZES {
                            for inc in INCS {
                                check_triangular::<T>(uplo, op, diag, n, inc);
                            }
                        }
                    }
                }
            }
        });
    }
}

fn check_triangular<T: Scalar>(uplo: Uplo, op: Op, diag: Diag, n: usize, inc: isize) {
    let mut a = solvable::<T>(n, uplo, diag);
    let mut x = Vect::<T>::new(2, n, inc);
    let before = x.values();
    let entry = |i: usize, j: usize| {
        let (r, c) = if op == Op::None { (i, j) } else { (j, i) };
        if i == j && diag == Diag::Unit {
            Z::ONE
        } else if stored(uplo, r, c) {
            a.op(op, i, j)
        } else {
            Z::ZERO
        }
    };
    let product: Vec<Z> = (0..n)
        .map(|i| (0..n).map(|j| entry(i, j) * before[j]).sum())
        .collect();
    let what = format!("{uplo:?} {op:?} {diag:?} {n}");
    let trmv = Kernel {
        form: Form { diag, ..half(uplo) },
        op_a: op,
        m: n,
        n,
        ..Kernel::of(Routine::Trmv, T::DTYPE, [a.dev(), x.dev()])
    };
    go(&trmv);
    x.check(&format!("trmv {what}"), &product);
    go(&Kernel {
        routine: Routine::Trsv,
        ..trmv
    });
    x.check(&format!("trsv {what}"), &before);
}

fn real(re: f64) -> Value {
    Value { re, im: 0.0 }
}

#[test]
fn rotations_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for (incx, incy) in INCS.into_iter().flat_map(|i| INCS.map(|j| (i, j))) {
                for n in SIZES {
                    let (mut x, mut y) = (Vect::<T>::new(2, n, incx), Vect::<T>::new(3, n, incy));
                    let (vx, vy) = (x.values(), y.values());
                    let (dx, dy) = (x.dev(), y.dev());
                    let (c, s) = (3.0, -2.0);
                    let (alpha, beta) = (real(c), real(s));
                    go(&Kernel { m: n, alpha, beta, ..Kernel::of(Routine::Rot, dtype, [dx, dy]) });
                    let of = |a: f64, b: f64| -> Vec<Z> {
                        vx.iter().zip(&vy).map(|(x, y)| x * a + y * b).collect()
                    };
                    x.check("rot x", &of(c, s));
                    y.check("rot y", &of(-s, c));
                    (x, y) = (Vect::new(2, n, incx), Vect::new(3, n, incy));
                    let (alpha, beta) = (Value { re: 2.0, im: -3.0 }, Value { re: 5.0, im: 1.0 });
                    let at = [x.dev(), y.dev()];
                    go(&Kernel { m: n, alpha, beta, ..Kernel::of(Routine::Rotm, dtype, at) });
                    x.check("rotm x", &of(2.0, 5.0));
                    y.check("rotm y", &of(-3.0, 1.0));
                }
            }
        });
    }
}

#[test]
fn rotations_take_the_parts_of_complex_numbers_one_by_one() {
    let infinite = Z::new(f64::INFINITY, 1.0);
    let mut x = Vect::<Z>::of(&[infinite], 1);
    let mut y = Vect::<Z>::of(&[Z::ZERO], 1);
    go(&Kernel {
        alpha: real(2.0),
        beta: real(1.0),
        ..Kernel::of(Routine::Rot, Dtype::Z, [x.dev(), y.dev()])
    });
    assert_eq!(x.get(0), Z::new(f64::INFINITY, 2.0));
    assert_eq!(y.get(0), Z::new(f64::NEG_INFINITY, -1.0));
}
