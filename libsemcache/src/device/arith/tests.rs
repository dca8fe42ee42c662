//! Every kernel against naive loops over complex integers: results are exact. Everything that must not be read is NaN,
//! and everything that must not be written is a sentinel.

mod level2_half;
mod level3;
mod matrices;

use num_complex::Complex;

use super::*;
use crate::base::{Dtype, Form, Op, Uplo, Value};
use crate::device::api::Operand;

type Z = Complex<f64>;

const OPS: [Op; 3] = [Op::None, Op::Trans, Op::ConjTrans];
/// Zero, one, a real value and a complex value.
const SCALARS: [Value; 4] = [
    Value::ZERO,
    Value::ONE,
    Value { re: -2.0, im: 0.0 },
    Value { re: 3.0, im: -1.0 },
];
const INCS: [isize; 4] = [1, 2, -1, -3];

fn nan() -> Z {
    Z::new(f64::NAN, f64::NAN)
}

fn z(v: Value) -> Z {
    Z::new(v.re, v.im)
}

/// Drops the imaginary part for a real type.
fn fit<T: Scalar>(v: Z) -> Z {
    let im = if T::DTYPE.is_complex() { v.im } else { 0.0 };
    Z::new(v.re, im)
}

fn narrow<T: Scalar>(v: Z) -> T {
    T::from_value(Value { re: v.re, im: v.im })
}

/// Small integers that differ from element to element.
fn number<T: Scalar>(seed: usize, i: usize) -> Z {
    let a = (seed * 7 + i * 13 + i * i) % 11;
    let b = (seed * 5 + i * 3 + i * i * 2) % 7;
    #[expect(clippy::cast_precision_loss, reason = "small integers")]
    fit::<T>(Z::new(a as f64 - 5.0, b as f64 - 3.0))
}

/// A matrix in memory: `ld` is a little above the number of rows, and the gap is filled with NaN.
struct Matrix<T> {
    rows: usize,
    cols: usize,
    ld: usize,
    data: Vec<T>,
}

impl<T: Scalar> Matrix<T> {
    fn new(seed: usize, rows: usize, cols: usize, gap: usize) -> Self {
        let ld = rows.max(1) + gap;
        let data = (0..ld * cols.max(1))
            .map(|i| {
                let (r, c) = (i % ld, i / ld);
                narrow::<T>(if r < rows && c < cols {
                    number::<T>(seed, r + c * 31)
                } else {
                    nan()
                })
            })
            .collect();
        Matrix {
            rows,
            cols,
            ld,
            data,
        }
    }

    fn all_nan(mut self) -> Self {
        self.data.fill(narrow::<T>(nan()));
        self
    }

    fn dev(&mut self) -> Operand {
        Operand::matrix(self.data.as_mut_ptr().expose_provenance() as u64, self.ld)
    }

    fn get(&self, r: usize, c: usize) -> Z {
        z(self.data[r + c * self.ld].to_value())
    }

    fn op(&self, op: Op, r: usize, c: usize) -> Z {
        match op {
            Op::None => self.get(r, c),
            Op::Trans => self.get(c, r),
            Op::ConjTrans => self.get(c, r).conj(),
        }
    }

    /// Compares with `want(r, c)` and checks that the gap is still NaN.
    fn check(&self, what: &str, want: impl Fn(usize, usize) -> Z) {
        for (i, v) in self.data.iter().enumerate() {
            let (r, c) = (i % self.ld, i / self.ld);
            let got = z(v.to_value());
            if r < self.rows && c < self.cols {
                assert_eq!(
                    got,
                    want(r, c),
                    "{what}: ({r}, {c}) of {} x {}",
                    self.rows,
                    self.cols
                );
            } else {
                assert!(got.re.is_nan(), "{what}: wrote the gap at ({r}, {c})");
            }
        }
    }
}

/// A vector in memory, with NaN between the elements.
struct Vect<T> {
    n: usize,
    inc: isize,
    data: Vec<T>,
}

impl<T: Scalar> Vect<T> {
    fn of(values: &[Z], inc: isize) -> Self {
        let step = inc.unsigned_abs();
        let n = values.len();
        let mut data = vec![narrow::<T>(nan()); n * step + 1];
        for (i, v) in values.iter().enumerate() {
            let place = if inc < 0 { n - 1 - i } else { i };
            data[place * step] = narrow(*v);
        }
        Vect { n, inc, data }
    }

    fn new(seed: usize, n: usize, inc: isize) -> Self {
        let values: Vec<Z> = (0..n).map(|i| number::<T>(seed, i)).collect();
        Self::of(&values, inc)
    }

    fn all_nan(mut self) -> Self {
        self.data.fill(narrow::<T>(nan()));
        self
    }

    fn dev(&mut self) -> Operand {
        Operand::vector(self.data.as_mut_ptr().expose_provenance() as u64, self.inc)
    }

    fn get(&self, i: usize) -> Z {
        let place = if self.inc < 0 { self.n - 1 - i } else { i };
        z(self.data[place * self.inc.unsigned_abs()].to_value())
    }

    fn values(&self) -> Vec<Z> {
        (0..self.n).map(|i| self.get(i)).collect()
    }

    fn check(&self, what: &str, want: &[Z]) {
        assert_eq!(self.values(), want, "{what} inc {}", self.inc);
        let step = self.inc.unsigned_abs();
        for (i, v) in self.data.iter().enumerate() {
            if i % step != 0 || i / step >= self.n {
                assert!(
                    v.to_value().re.is_nan(),
                    "{what}: wrote between elements at {i}"
                );
            }
        }
    }
}

/// The form of a routine that has no other flag than `uplo`.
fn half(uplo: Uplo) -> Form {
    Form {
        uplo,
        ..Form::default()
    }
}

fn go(kernel: &Kernel) {
    // SAFETY: the tests build kernels over vectors of the full extent.
    unsafe { run(kernel) }
}

fn check_gemm<T: Scalar>(
    m: usize,
    n: usize,
    k: usize,
    op_a: Op,
    op_b: Op,
    alpha: Value,
    beta: Value,
) {
    let (alpha, beta) = (fit_value::<T>(alpha), fit_value::<T>(beta));
    let shape = |op, r, c| if op == Op::None { (r, c) } else { (c, r) };
    let (ar, ac) = shape(op_a, m, k);
    let (br, bc) = shape(op_b, k, n);
    let mut a = Matrix::<T>::new(1, ar, ac, 2);
    let mut b = Matrix::<T>::new(2, br, bc, 1);
    let mut c = Matrix::<T>::new(3, m, n, 3);
    let before: Vec<Z> = (0..m * n).map(|i| c.get(i % m, i / m)).collect();
    if beta.is_zero() {
        c = c.all_nan();
    }
    if alpha.is_zero() {
        a = a.all_nan();
        b = b.all_nan();
    }
    go(&Kernel {
        op_a,
        op_b,
        m,
        n,
        k,
        alpha,
        beta,
        ..Kernel::of(Routine::Gemm, T::DTYPE, [a.dev(), b.dev(), c.dev()])
    });
    c.check(
        &format!("gemm {op_a:?} {op_b:?} {alpha:?} {beta:?}"),
        |r, s| {
            let mut v = Z::ZERO;
            if !alpha.is_zero() {
                for l in 0..k {
                    v += a.op(op_a, r, l) * b.op(op_b, l, s);
                }
                v *= z(alpha);
            }
            if beta.is_zero() {
                v
            } else {
                v + z(beta) * before[r + s * m]
            }
        },
    );
}

fn fit_value<T: Scalar>(v: Value) -> Value {
    let v = fit::<T>(z(v));
    Value { re: v.re, im: v.im }
}

#[test]
fn gemm_is_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for op_a in OPS {
                for op_b in OPS {
                    for alpha in SCALARS {
                        for beta in SCALARS {
                            check_gemm::<T>(5, 7, 3, op_a, op_b, alpha, beta);
                        }
                    }
                    for (m, n, k) in [(1, 1, 1), (0, 3, 2), (3, 0, 2), (4, 3, 0), (17, 9, 33), (1, 40, 2)] {
                        check_gemm::<T>(m, n, k, op_a, op_b, SCALARS[3], SCALARS[0]);
                        check_gemm::<T>(m, n, k, op_a, op_b, SCALARS[3], SCALARS[2]);
                    }
                }
            }
        });
    }
}

#[test]
fn gemm_packs_across_block_edges() {
    for beta in [Value::ZERO, Value::ONE] {
        check_gemm::<Complex<f32>>(515, 3, 513, Op::ConjTrans, Op::None, Value::ONE, beta);
        check_gemm::<Complex<f64>>(2, 514, 513, Op::None, Op::ConjTrans, Value::ONE, beta);
    }
}

#[test]
fn gemm_of_unaligned_operands() {
    let n = 5;
    for beta in [Value::ZERO, Value::ONE] {
        let mut a = Matrix::<f64>::new(1, n, n, 0);
        let mut b = Matrix::<f64>::new(2, n, n, 0);
        let mut bytes = vec![0u8; n * n * 8 + 4];
        let at = bytes.as_mut_ptr().wrapping_add(4).cast::<f64>();
        for i in 0..n * n {
            let v = if beta.is_zero() { f64::NAN } else { 1.0 };
            // SAFETY: within `bytes`.
            unsafe { at.add(i).write_unaligned(v) };
        }
        let c = Operand::matrix(at.expose_provenance() as u64, n);
        go(&Kernel {
            op_b: Op::Trans,
            m: n,
            n,
            k: n,
            beta,
            ..Kernel::of(Routine::Gemm, Dtype::D, [a.dev(), b.dev(), c])
        });
        for i in 0..n * n {
            let mut want = beta.re;
            for l in 0..n {
                want += a.get(i % n, l).re * b.get(i / n, l).re;
            }
            // SAFETY: within `bytes`.
            assert_eq!(unsafe { at.add(i).read_unaligned() }, want);
        }
    }
}

#[test]
fn ger_propagates_nan_past_zeros() {
    let mut a = Matrix::<f64>::new(1, 2, 2, 0);
    let (mut x, mut y) = ([f64::NAN, 1.0], [0.0, 0.0]);
    let vector = |v: &mut [f64; 2]| Operand::vector(v.as_mut_ptr() as u64, 1);
    go(&Kernel {
        m: 2,
        n: 2,
        ..Kernel::of(
            Routine::Ger,
            Dtype::D,
            [vector(&mut x), vector(&mut y), a.dev()],
        )
    });
    assert!(a.data[0].is_nan() && !a.data[1].is_nan());
}

#[test]
fn gemm_and_gemv_propagate_nan_past_zeros() {
    let mut a = Matrix::<f64>::new(1, 2, 2, 0).all_nan();
    let mut b = Matrix::<f64>::new(1, 2, 2, 0);
    b.data.fill(0.0);
    let mut c = Matrix::<f64>::new(3, 2, 2, 0);
    go(&Kernel {
        m: 2,
        n: 2,
        k: 2,
        ..Kernel::of(Routine::Gemm, Dtype::D, [a.dev(), b.dev(), c.dev()])
    });
    assert!(c.data.iter().all(|v| v.is_nan()));
    for op in OPS {
        let mut x = Vect::<f64>::of(&[Z::ZERO; 2], 1);
        let mut y = Vect::<f64>::new(2, 2, 1);
        go(&Kernel {
            op_a: op,
            m: 2,
            n: 2,
            beta: Value::ONE,
            ..Kernel::of(Routine::Gemv, Dtype::D, [a.dev(), x.dev(), y.dev()])
        });
        assert!(y.data[..2].iter().all(|v| v.is_nan()), "{op:?}");
    }
}

fn check_gemv<T: Scalar>(
    m: usize,
    n: usize,
    op: Op,
    alpha: Value,
    beta: Value,
    incx: isize,
    incy: isize,
) {
    let (alpha, beta) = (fit_value::<T>(alpha), fit_value::<T>(beta));
    let (rows, cols) = if op == Op::None { (m, n) } else { (n, m) };
    let mut a = Matrix::<T>::new(1, m, n, 2);
    let mut x = Vect::<T>::new(2, cols, incx);
    let mut y = Vect::<T>::new(3, rows, incy);
    let before = y.values();
    if beta.is_zero() && m > 0 && n > 0 {
        y = y.all_nan();
    }
    if alpha.is_zero() {
        a = a.all_nan();
        x = x.all_nan();
    }
    go(&Kernel {
        op_a: op,
        m,
        n,
        alpha,
        beta,
        ..Kernel::of(Routine::Gemv, T::DTYPE, [a.dev(), x.dev(), y.dev()])
    });
    let want: Vec<Z> = (0..rows)
        .map(|i| {
            if m == 0 || n == 0 {
                return before[i];
            }
            let mut v = Z::ZERO;
            if !alpha.is_zero() {
                v = (0..cols).map(|j| a.op(op, i, j) * x.get(j)).sum::<Z>() * z(alpha);
            }
            if beta.is_zero() {
                v
            } else {
                v + z(beta) * before[i]
            }
        })
        .collect();
    y.check(&format!("gemv {op:?} {m} x {n} {alpha:?} {beta:?}"), &want);
}

#[test]
fn gemv_is_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for op in OPS {
                for incx in INCS {
                    for incy in INCS {
                        for alpha in SCALARS {
                            for beta in SCALARS {
                                check_gemv::<T>(5, 3, op, alpha, beta, incx, incy);
                            }
                        }
                        for (m, n) in [(0, 3), (3, 0), (1, 1), (17, 2), (2, 19)] {
                            check_gemv::<T>(m, n, op, SCALARS[3], SCALARS[2], incx, incy);
                            check_gemv::<T>(m, n, op, SCALARS[3], SCALARS[0], incx, incy);
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn ger_is_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for routine in [Routine::Ger, Routine::Gerc] {
                let conj = routine == Routine::Gerc;
                for alpha in SCALARS {
                    let alpha = fit_value::<T>(alpha);
                    for (incx, incy) in [(1, 1), (2, -1), (-3, 2), (-1, -1)] {
                        for (m, n) in [(5, 4), (1, 1), (0, 2), (2, 0), (17, 3)] {
                            let mut x = Vect::<T>::new(1, m, incx);
                            let mut y = Vect::<T>::new(2, n, incy);
                            let mut a = Matrix::<T>::new(3, m, n, 2);
                            let old = Matrix::<T>::new(3, m, n, 2);
                            if alpha.is_zero() {
                                x = x.all_nan();
                                y = y.all_nan();
                            }
                            let at = [x.dev(), y.dev(), a.dev()];
                            go(&Kernel { m, n, alpha, ..Kernel::of(routine, dtype, at) });
                            a.check("ger", |r, c| {
                                if alpha.is_zero() {
                                    return old.get(r, c);
                                }
                                let v = if conj { y.get(c).conj() } else { y.get(c) };
                                old.get(r, c) + z(alpha) * x.get(r) * v
                            });
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn vector_updates_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for n in [0, 1, 2, 9, 33] {
                for incx in INCS {
                    for alpha in SCALARS {
                        let alpha = fit_value::<T>(alpha);
                        let mut x = Vect::<T>::new(1, n, incx);
                        let old = x.values();
                        go(&Kernel { m: n, alpha, ..Kernel::of(Routine::Scal, dtype, [x.dev()]) });
                        let scaled = |v: &Z| if incx > 0 { z(alpha) * v } else { *v };
                        x.check("scal", &old.iter().map(scaled).collect::<Vec<_>>());
                    }
                    for incy in INCS {
                        let fresh = || (Vect::<T>::new(1, n, incx), Vect::<T>::new(2, n, incy));
                        for alpha in SCALARS {
                            let alpha = fit_value::<T>(alpha);
                            let (mut x, mut y) = fresh();
                            let want: Vec<Z> =
                                (0..n).map(|i| y.get(i) + z(alpha) * x.get(i)).collect();
                            if alpha.is_zero() {
                                x = x.all_nan();
                            }
                            let at = [x.dev(), y.dev()];
                            go(&Kernel { m: n, alpha, ..Kernel::of(Routine::Axpy, dtype, at) });
                            y.check("axpy", &want);
                            for beta in SCALARS {
                                let beta = fit_value::<T>(beta);
                                let (mut x, mut y) = fresh();
                                let want: Vec<Z> = (0..n)
                                    .map(|i| z(alpha) * x.get(i) + z(beta) * y.get(i))
                                    .collect();
                                if alpha.is_zero() {
                                    x = x.all_nan();
                                }
                                if beta.is_zero() {
                                    y = y.all_nan();
                                }
                                let at = [x.dev(), y.dev()];
                                let axpby = Kernel::of(Routine::Axpby, dtype, at);
                                go(&Kernel { m: n, alpha, beta, ..axpby });
                                y.check("axpby", &want);
                            }
                        }
                        let (mut x, mut y) = fresh();
                        go(&Kernel { m: n, ..Kernel::of(Routine::Copy, dtype, [x.dev(), y.dev()]) });
                        y.check("copy", &x.values());
                        let (mut x, mut y) = fresh();
                        let (ox, oy) = (x.values(), y.values());
                        go(&Kernel { m: n, ..Kernel::of(Routine::Swap, dtype, [x.dev(), y.dev()]) });
                        x.check("swap", &oy);
                        y.check("swap", &ox);
                    }
                }
            }
        });
    }
}

fn real_out<T: Scalar>(f: impl Fn(u64) -> Kernel) -> f64 {
    let mut out = [0x7fff_ffff_ffff_ffff_u64, 0x1234];
    go(&f(out.as_mut_ptr().expose_provenance() as u64));
    assert_eq!(out[1], 0x1234);
    if single::<T>() {
        assert_eq!(out[0] >> 32, 0x7fff_ffff, "wrote more than one f32");
        f64::from(f32::from_bits(out[0] as u32))
    } else {
        f64::from_bits(out[0])
    }
}

#[test]
fn reductions_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for n in [0, 1, 2, 7, 8, 9, 40] {
                for incx in INCS {
                    let mut x = Vect::<T>::new(1, n, incx);
                    let v = x.values();
                    let abs = |v: &Z| v.re.abs() + v.im.abs();
                    let positive = incx > 0 && n > 0;

                    let x_dev = x.dev();
                    let of = |routine, out| Kernel { m: n, out, ..Kernel::of(routine, dtype, [x_dev]) };
                    let got = real_out::<T>(|out| of(Routine::Asum, out));
                    assert_eq!(got, if positive { v.iter().map(abs).sum() } else { 0.0 });

                    let squares: f64 = v.iter().map(|v| v.norm_sqr()).sum();
                    let got = real_out::<T>(|out| of(Routine::Nrm2, out));
                    let want = squares.sqrt();
                    assert_eq!(got, if single::<T>() { f64::from(want as f32) } else { want });

                    let mut at = [-1i64];
                    let out = at.as_mut_ptr().expose_provenance() as u64;
                    go(&of(Routine::Iamax, out));
                    let mut want = 0;
                    for (i, value) in v.iter().enumerate() {
                        if want == 0 || abs(value) > abs(&v[want - 1]) {
                            want = i + 1;
                        }
                    }
                    assert_eq!(at[0], if positive { want as i64 } else { 0 });

                    for incy in INCS {
                        let mut y = Vect::<T>::new(2, n, incy);
                        for routine in [Routine::Dot, Routine::Dotc] {
                            let conj = routine == Routine::Dotc;
                            let mut sum = [narrow::<T>(nan()); 2];
                            let out = sum.as_mut_ptr().expose_provenance() as u64;
                            let at = [x.dev(), y.dev()];
                            go(&Kernel { m: n, out, ..Kernel::of(routine, dtype, at) });
                            let want: Z = (0..n)
                                .map(|i| if conj { v[i].conj() } else { v[i] } * y.get(i))
                                .sum();
                            assert_eq!(z(sum[0].to_value()), want);
                            assert!(sum[1].to_value().re.is_nan());
                        }
                    }
                }
            }
        });
    }
}

fn norm<T: Scalar>(values: &[Z]) -> f64 {
    let mut x = Vect::<T>::of(values, 1);
    let n = values.len();
    let dev = x.dev();
    real_out::<T>(|out| Kernel {
        m: n,
        out,
        ..Kernel::of(Routine::Nrm2, T::DTYPE, [dev])
    })
}

#[test]
fn nrm2_survives_both_ends_of_the_range() {
    let r = |v: f64| Z::new(v, 0.0);
    let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-14, "{got} {want}");
    near(norm::<f64>(&[r(3e300), r(-4e300)]), 5e300);
    near(norm::<f64>(&[r(3e-300), r(4e-300)]), 5e-300);
    near(norm::<Complex<f64>>(&[Z::new(3e-310, 4e-310)]), 5e-310);
    near(norm::<f64>(&[r(1e-300), r(1.0)]), 1.0);
    near(norm::<f64>(&[r(3e-154), r(4e-154), r(1e-300)]), 5e-154);
    near(norm::<f64>(&[r(1e200), r(1e-200), r(1.0)]), 1e200);
    assert_eq!(
        norm::<f32>(&[r(f64::from(3e38f32) / 2.0), r(0.0)]),
        f64::from(1.5e38f32)
    );
    assert_eq!(norm::<f64>(&[r(f64::INFINITY), r(1.0)]), f64::INFINITY);
    assert!(norm::<f64>(&[r(f64::NAN), r(1e300)]).is_nan());
    assert!(norm::<f64>(&[r(f64::NAN), r(1e-300)]).is_nan());
    assert!(norm::<f64>(&[r(f64::NAN)]).is_nan());
    assert_eq!(norm::<f64>(&[r(0.0), r(-0.0)]), 0.0);
}

#[test]
fn special_values_of_scal_and_iamax() {
    let inf = f64::INFINITY;
    // Zero times NaN stays NaN; a scalar without imaginary part does not multiply Inf by a zero imaginary part.
    let mut x = Vect::<f64>::of(&[Z::new(f64::NAN, 0.0), Z::new(1.0, 0.0)], 1);
    go(&Kernel {
        m: 2,
        alpha: Value::ZERO,
        ..Kernel::of(Routine::Scal, Dtype::D, [x.dev()])
    });
    assert!(x.data[0].is_nan() && x.data[1] == 0.0);
    for routine in [Routine::Scal, Routine::RealScal] {
        let mut x = Vect::<Z>::of(&[Z::new(inf, 1.0)], 1);
        go(&Kernel {
            alpha: Value { re: 2.0, im: 0.0 },
            ..Kernel::of(routine, Dtype::Z, [x.dev()])
        });
        assert_eq!(x.data[0], Z::new(inf, 2.0));
    }
    let largest = |values: &[f64]| {
        let values: Vec<Z> = values.iter().map(|v| Z::new(*v, 0.0)).collect();
        let mut x = Vect::<f64>::of(&values, 1);
        let mut at = [0i64];
        go(&Kernel {
            m: values.len(),
            out: at.as_mut_ptr().expose_provenance() as u64,
            ..Kernel::of(Routine::Iamax, Dtype::D, [x.dev()])
        });
        at[0]
    };
    assert_eq!(largest(&[1.0, f64::NAN, -3.0, 3.0]), 3);
    assert_eq!(largest(&[f64::NAN, 5.0]), 1);
    assert_eq!(largest(&[2.0, -inf, inf]), 2);
}

#[test]
fn spans_are_tight_and_skip_what_is_not_read() {
    let mat = Operand::matrix;
    let mut gemm = Kernel {
        op_a: Op::Trans,
        m: 2,
        n: 3,
        k: 4,
        ..Kernel::of(
            Routine::Gemm,
            Dtype::D,
            [mat(1000, 5), mat(2000, 6), mat(3000, 7)],
        )
    };
    let span = |addr, elements: usize| {
        Some(Span {
            addr,
            bytes: elements * 8,
        })
    };
    assert_eq!(
        spans(&gemm),
        [span(1000, 9), span(2000, 16), span(3000, 16)]
    );
    gemm.alpha = Value::ZERO;
    assert_eq!(spans(&gemm), [None, None, span(3000, 16)]);
    let x = Operand::vector(64, -2);
    let got = spans(&Kernel {
        m: 3,
        out: 8,
        ..Kernel::of(Routine::Nrm2, Dtype::C, [x])
    });
    assert_eq!(got, [span(64, 5), None, Some(Span { addr: 8, bytes: 4 })]);
}

#[test]
fn what_a_zero_alpha_leaves_to_touch() {
    use Routine::*;
    let at = [1000, 2000, 3000].map(|addr| Operand::vector(addr, 1));
    for routine in Routine::ALL.iter().copied() {
        let kernel = Kernel {
            alpha: Value::ZERO,
            out: 4000,
            ..Kernel::of(routine, Dtype::D, at)
        };
        let touched: Vec<u64> = spans(&kernel).iter().flatten().map(|s| s.addr).collect();
        let want: &[u64] = match routine {
            Gemm | GemmBatch | Symm | Hemm | Syr2k | Her2k | Gemmt | Gemv | Symv | Hemv => &[3000],
            Geadd | Omatcopy | Axpby => &[2000],
            Imatcopy => &[1000],
            Syrk | Herk | Trmm | Trsm => &[2000],
            Ger | Gerc | Syr | Her | Syr2 | Her2 | Axpy => &[],
            Trmv | Trsv | Copy | Swap | Rot | Rotm => &[1000, 2000],
            Scal | RealScal => &[1000],
            Dot | Dotc => &[1000, 2000, 4000],
            Nrm2 | Asum | Iamax => &[1000, 4000],
        };
        assert_eq!(touched, want, "{routine:?}");
    }
}
