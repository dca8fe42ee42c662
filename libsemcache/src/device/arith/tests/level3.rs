//! symm, the rank-k updates, trmm and trsm against the oracle: the special matrix is written out in full and
//! multiplied. Everything that must not be read is NaN, and must still be NaN afterwards.

use super::*;
use crate::base::{Diag, Side};
use testkit::oracle::Dense;

const SIDES: [Side; 2] = [Side::Left, Side::Right];
const UPLOS: [Uplo; 2] = [Uplo::Lower, Uplo::Upper];
const DIAGS: [Diag; 2] = [Diag::NonUnit, Diag::Unit];
/// The last sizes need several blocks, on the diagonal or of the product.
const SIZES: [usize; 6] = [0, 1, 2, 5, 17, 130];

fn stored(uplo: Uplo, r: usize, c: usize) -> bool {
    match uplo {
        Uplo::Lower => r >= c,
        Uplo::Upper => r <= c,
    }
}

/// A value of the oracle's flags.
trait Flag {
    fn flag(self) -> u8;
}

impl Flag for Op {
    fn flag(self) -> u8 {
        match self {
            Op::None => b'N',
            Op::Trans => b'T',
            Op::ConjTrans => b'C',
        }
    }
}

impl Flag for Uplo {
    fn flag(self) -> u8 {
        match self {
            Uplo::Lower => b'L',
            Uplo::Upper => b'U',
        }
    }
}

impl Flag for Diag {
    fn flag(self) -> u8 {
        match self {
            Diag::NonUnit => b'N',
            Diag::Unit => b'U',
        }
    }
}

impl<T: Scalar> Matrix<T> {
    fn full(&self) -> Dense {
        Dense::of(self.rows, self.cols, |r, c| self.get(r, c))
    }

    /// Sets the elements for which `hidden` is true to NaN.
    fn nan_where(mut self, hidden: impl Fn(usize, usize) -> bool) -> Self {
        for c in 0..self.cols {
            for r in 0..self.rows {
                if hidden(r, c) {
                    self.data[r + c * self.ld] = narrow::<T>(nan());
                }
            }
        }
        self
    }

    /// The real and imaginary parts of all elements as bits, so that NaN compares equal.
    fn bits(&self) -> Vec<(u64, u64)> {
        let bits = |v: Value| (v.re.to_bits(), v.im.to_bits());
        self.data.iter().map(|v| bits(v.to_value())).collect()
    }
}

/// `alpha product + beta old`, where a zero factor hides what it multiplies.
fn combine(alpha: Value, product: Z, beta: Value, old: Z) -> Z {
    let term = |f: Value, v: Z| if f.is_zero() { Z::ZERO } else { z(f) * v };
    term(alpha, product) + term(beta, old)
}

fn check_symm<T: Scalar>(routine: Routine, (m, n): (usize, usize), alpha: Value, beta: Value) {
    let (alpha, beta) = (fit_value::<T>(alpha), fit_value::<T>(beta));
    let hermitian = routine.hermitian();
    for side in SIDES {
        for uplo in UPLOS {
            let order = if side == Side::Left { m } else { n };
            let mut a = Matrix::<T>::new(1, order, order, 2).nan_where(|r, c| !stored(uplo, r, c));
            let mut b = Matrix::<T>::new(2, m, n, 1);
            let mut c = Matrix::<T>::new(3, m, n, 3);
            let whole = a.full().mirrored(uplo.flag(), hermitian);
            if hermitian && order > 0 && T::DTYPE.is_complex() {
                // The imaginary part of a Hermitian diagonal is not read.
                let v = a.data[0].to_value();
                a.data[0] = T::from_value(Value { im: f64::NAN, ..v });
            }
            let product = match side {
                Side::Left => whole.times(&b.full()),
                Side::Right => b.full().times(&whole),
            };
            let before = c.full();
            if beta.is_zero() {
                c = c.all_nan();
            }
            if alpha.is_zero() {
                a = a.all_nan();
                b = b.all_nan();
            }
            let inputs = (a.bits(), b.bits());
            go(&Kernel {
                form: Form { side, ..half(uplo) },
                m,
                n,
                k: order,
                alpha,
                beta,
                ..Kernel::of(routine, T::DTYPE, [a.dev(), b.dev(), c.dev()])
            });
            let what = format!("{routine:?} {side:?} {uplo:?} {alpha:?} {beta:?}");
            c.check(&what, |r, s| {
                combine(alpha, product.at(r, s), beta, before.at(r, s))
            });
            assert!(inputs == (a.bits(), b.bits()), "{what}: wrote an input");
        }
    }
}

#[test]
fn symm_and_hemm_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for routine in [Routine::Symm, Routine::Hemm] {
                for alpha in SCALARS {
                    for beta in SCALARS {
                        check_symm::<T>(routine, (5, 3), alpha, beta);
                    }
                }
                for m in SIZES {
                    for n in [0, 1, 2, 5, 17] {
                        check_symm::<T>(routine, (m, n), SCALARS[3], SCALARS[2]);
                        check_symm::<T>(routine, (n, m), SCALARS[3], SCALARS[0]);
                    }
                }
            }
        });
    }
}

#[test]
fn symm_completes_blocks_across_their_edges() {
    for routine in [Routine::Symm, Routine::Hemm] {
        check_symm::<Complex<f32>>(routine, (515, 3), Value::ONE, SCALARS[2]);
        check_symm::<Complex<f64>>(routine, (2, 514), Value::ONE, SCALARS[0]);
    }
}

/// Checks syrk, herk, syr2k or her2k. `op` is one that the routine accepts.
fn check_rank_k<T: Scalar>(
    routine: Routine,
    op: Op,
    (n, k): (usize, usize),
    alpha: Value,
    beta: Value,
) {
    let (hermitian, two) = (routine.hermitian(), routine.operands().len() == 3);
    let real = |v: Value| if hermitian { Value { im: 0.0, ..v } } else { v };
    let alpha = fit_value::<T>(if two { alpha } else { real(alpha) });
    let beta = fit_value::<T>(real(beta));
    for uplo in UPLOS {
        let (rows, cols) = if op == Op::None { (n, k) } else { (k, n) };
        let mut a = Matrix::<T>::new(1, rows, cols, 2);
        let mut b = Matrix::<T>::new(2, rows, cols, 1);
        let mut c = Matrix::<T>::new(3, n, n, 3);
        let before = c.full();
        let (fa, fb) = (a.full().op(op.flag()), b.full().op(op.flag()));
        let want = before.updated(&fa, two.then_some(&fb), hermitian, (z(alpha), z(beta)));
        c = c.nan_where(|r, s| !stored(uplo, r, s) || beta.is_zero());
        if alpha.is_zero() {
            a = a.all_nan();
            b = b.all_nan();
        }
        let idle = alpha.is_zero() || k == 0;
        let untouched = c.bits();
        let inputs = (a.bits(), b.bits());
        let (b_dev, c_dev) = (b.dev(), c.dev());
        let at = if two { [b_dev, c_dev] } else { [c_dev, b_dev] };
        go(&Kernel {
            form: half(uplo),
            op_a: op,
            m: n,
            n,
            k,
            alpha,
            beta,
            ..Kernel::of(routine, T::DTYPE, [a.dev(), at[0], at[1]])
        });
        let what = format!("{routine:?} {uplo:?} {op:?} {n} {k} {alpha:?} {beta:?}");
        assert!(inputs == (a.bits(), b.bits()), "{what}: wrote an input");
        if idle && beta.is_one() {
            assert!(untouched == c.bits(), "{what}: nothing to do");
            continue;
        }
        for (i, v) in c.data.iter().enumerate() {
            let (r, s) = (i % c.ld, i / c.ld);
            let got = z(v.to_value());
            if r < n && s < n && stored(uplo, r, s) {
                let mut want = want.at(r, s);
                if hermitian && r == s {
                    want.im = 0.0;
                }
                assert_eq!(got, want, "{what}: ({r}, {s})");
            } else {
                assert!(got.re.is_nan(), "{what}: wrote ({r}, {s})");
            }
        }
    }
}

/// The transpositions that a rank-k update accepts.
fn turns<T: Scalar>(hermitian: bool) -> &'static [Op] {
    match (T::DTYPE.is_complex(), hermitian) {
        (false, _) => &OPS,
        (true, false) => &[Op::None, Op::Trans],
        (true, true) => &[Op::None, Op::ConjTrans],
    }
}

#[test]
fn rank_k_updates_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for routine in [Routine::Syrk, Routine::Syr2k, Routine::Herk, Routine::Her2k] {
                for &op in turns::<T>(routine.hermitian()) {
                    for alpha in SCALARS {
                        for beta in SCALARS {
                            check_rank_k::<T>(routine, op, (5, 3), alpha, beta);
                            check_rank_k::<T>(routine, op, (3, 0), alpha, beta);
                        }
                    }
                    for n in SIZES {
                        for k in [0, 1, 2, 5, 17] {
                            check_rank_k::<T>(routine, op, (n, k), SCALARS[3], SCALARS[2]);
                            check_rank_k::<T>(routine, op, (n, k), SCALARS[3], SCALARS[0]);
                        }
                    }
                }
            }
        });
    }
}

/// A triangular matrix with which equations are solved exactly: powers of two (for complex types one of them imaginary)
/// on the diagonal, and small elements beside it, so that solutions do not grow.
fn triangle<T: Scalar>(order: usize) -> Matrix<T> {
    let mut a = Matrix::<T>::new(4, order, order, 2);
    for c in 0..order {
        for r in 0..order {
            let v = if r == c {
                let units = [(1.0, 0.0), (-2.0, 0.0), (0.0, 1.0), (0.5, 0.0), (1.0, 1.0)];
                let (re, im) = units[c % units.len()];
                if T::DTYPE.is_complex() {
                    Z::new(re, im)
                } else {
                    Z::new(if re == 0.0 { 4.0 } else { re }, 0.0)
                }
            } else if (r * 5 + c * 3) % 11 == 0 && r.abs_diff(c) < 20 {
                fit::<T>(Z::new(1.0, -1.0))
            } else {
                Z::ZERO
            };
            a.data[r + c * a.ld] = narrow(v);
        }
    }
    a
}

fn check_triangular<T: Scalar>(routine: Routine, (m, n): (usize, usize), op: Op, alpha: Value) {
    let solve = routine == Routine::Trsm;
    let alpha = fit_value::<T>(alpha);
    for side in SIDES {
        for uplo in UPLOS {
            for diag in DIAGS {
                let order = if side == Side::Left { m } else { n };
                let hidden = |r, c| !stored(uplo, r, c) || (diag == Diag::Unit && r == c);
                let a = if solve {
                    triangle::<T>(order)
                } else {
                    Matrix::<T>::new(1, order, order, 2)
                };
                let mut a = a.nan_where(hidden);
                let whole = a.full().triangle(uplo.flag(), diag.flag()).op(op.flag());
                let times = |x: &Dense| match side {
                    Side::Left => whole.times(x),
                    Side::Right => x.times(&whole),
                };
                let mut b = Matrix::<T>::new(2, m, n, 3);
                let x = b.full();
                if solve {
                    // B is computed so that the solution is x.
                    for (i, v) in times(&x).v.into_iter().enumerate() {
                        b.data[i % m + i / m * b.ld] = narrow(v);
                    }
                }
                if alpha.is_zero() {
                    a = a.all_nan();
                    b = b.nan_where(|_, _| true);
                }
                let input = a.bits();
                go(&Kernel {
                    form: Form { side, uplo, diag },
                    op_a: op,
                    m,
                    n,
                    k: order,
                    alpha,
                    ..Kernel::of(routine, T::DTYPE, [a.dev(), b.dev()])
                });
                let want = if solve { x } else { times(&x) };
                let what =
                    format!("{routine:?} {m} x {n} {side:?} {uplo:?} {op:?} {diag:?} {alpha:?}");
                b.check(&what, |r, c| {
                    combine(alpha, want.at(r, c), Value::ZERO, Z::ZERO)
                });
                assert!(input == a.bits(), "{what}: wrote A");
            }
        }
    }
}

#[test]
fn trmm_and_trsm_are_exact_on_integers() {
    for dtype in Dtype::ALL {
        with_dtype!(dtype, T => {
            for routine in [Routine::Trmm, Routine::Trsm] {
                for op in OPS {
                    for alpha in SCALARS {
                        check_triangular::<T>(routine, (5, 3), op, alpha);
                        check_triangular::<T>(routine, (3, 5), op, alpha);
                    }
                    for m in SIZES {
                        for n in [0, 1, 2, 5, 17] {
                            check_triangular::<T>(routine, (m, n), op, SCALARS[3]);
                            check_triangular::<T>(routine, (n, m), op, SCALARS[1]);
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn an_infinity_does_not_meet_the_zeros_beside_a_triangle() {
    for side in SIDES {
        for uplo in UPLOS {
            let mut a = Matrix::<f64>::new(1, 3, 3, 0).nan_where(|r, c| !stored(uplo, r, c));
            let mut b = Matrix::<f64>::new(2, 3, 3, 0);
            b.data.fill(f64::INFINITY);
            a.data
                .iter_mut()
                .filter(|v| !v.is_nan())
                .for_each(|v| *v = 1.0);
            go(&Kernel {
                form: Form { side, ..half(uplo) },
                m: 3,
                n: 3,
                k: 3,
                ..Kernel::of(Routine::Trmm, Dtype::D, [a.dev(), b.dev()])
            });
            assert!(
                b.data.iter().all(|v| *v == f64::INFINITY),
                "{side:?} {uplo:?}"
            );
        }
    }
}

#[test]
fn division_stays_in_range() {
    let solve = |d: Z, v: Z| {
        let mut a = Vect::<Z>::of(&[d], 1);
        let mut b = Vect::<Z>::of(&[v], 1);
        let mat = |v: &mut Vect<Z>| Operand::matrix(v.dev().addr, 1);
        go(&Kernel::of(
            Routine::Trsm,
            Dtype::Z,
            [mat(&mut a), mat(&mut b)],
        ));
        b.get(0)
    };
    let big = 2f64.powi(1000);
    assert_eq!(solve(Z::new(big, big), Z::new(0.0, big)), Z::new(0.5, 0.5));
    assert_eq!(
        solve(Z::new(0.0, 1.0 / big), Z::new(1.0 / big, 0.0)),
        Z::new(0.0, -1.0)
    );
    assert_eq!(solve(Z::new(3.0, 4.0), Z::new(-1.0, 7.0)), Z::new(1.0, 1.0));
    assert_eq!(solve(Z::new(4.0, -3.0), Z::new(7.0, 1.0)), Z::new(1.0, 1.0));
}

/// Every operand lies at half an element's alignment.
#[test]
fn operands_need_not_be_aligned() {
    const N: usize = 3;
    let value = |i: usize| (i * 7 % 5) as f64 - 2.0;
    let run = |shift: usize| {
        let mut bytes = vec![0u8; 3 * N * N * 8 + 8];
        let at = bytes.as_mut_ptr().wrapping_add(shift).cast::<f64>();
        let mat =
            |i: usize| Operand::matrix(at.wrapping_add(i * N * N).expose_provenance() as u64, N);
        let all = 3 * N * N;
        for i in 0..all {
            let v = if i % (N + 1) == 0 { 1.0 } else { value(i) };
            // SAFETY: within `bytes`.
            unsafe { at.add(i).write_unaligned(v) };
        }
        let kernel = |routine, at| Kernel {
            form: Form {
                side: Side::Right,
                ..half(Uplo::Lower)
            },
            op_a: Op::Trans,
            m: N,
            n: N,
            k: N,
            beta: SCALARS[2],
            ..Kernel::of(routine, Dtype::D, at)
        };
        let (a, b, c) = (mat(0), mat(1), mat(2));
        let kernels = [
            kernel(Routine::Symm, [a, b, c]),
            kernel(Routine::Syrk, [a, c, b]),
            kernel(Routine::Syr2k, [a, b, c]),
            kernel(Routine::Trmm, [a, b, c]),
            kernel(Routine::Trsm, [a, c, b]),
        ];
        kernels.iter().for_each(go);
        // SAFETY: within `bytes`.
        let value = |i| unsafe { at.add(i).read_unaligned() };
        (0..all).map(value).collect::<Vec<_>>()
    };
    assert_eq!(run(0), run(4));
}

#[test]
fn spans_of_square_operands() {
    let mat = Operand::matrix;
    let span = |addr, elements: usize| {
        Some(Span {
            addr,
            bytes: elements * 8,
        })
    };
    let (a, b, c) = (mat(1000, 5), mat(2000, 6), mat(3000, 7));
    let alpha = Value::ONE;
    let symm = |side, alpha| Kernel {
        form: Form {
            side,
            ..half(Uplo::Upper)
        },
        m: 2,
        n: 3,
        k: if side == Side::Left { 2 } else { 3 },
        alpha,
        ..Kernel::of(Routine::Symm, Dtype::D, [a, b, c])
    };
    let (b3, c3) = (span(2000, 14), span(3000, 16));
    assert_eq!(spans(&symm(Side::Left, alpha)), [span(1000, 7), b3, c3]);
    assert_eq!(spans(&symm(Side::Right, alpha)), [span(1000, 13), b3, c3]);
    assert_eq!(spans(&symm(Side::Left, Value::ZERO)), [None, None, c3]);
    let syr2k = |op, alpha| Kernel {
        form: half(Uplo::Upper),
        op_a: op,
        m: 2,
        n: 2,
        k: 4,
        alpha,
        ..Kernel::of(Routine::Syr2k, Dtype::D, [a, b, c])
    };
    let c2 = span(3000, 9);
    assert_eq!(
        spans(&syr2k(Op::None, alpha)),
        [span(1000, 17), span(2000, 20), c2]
    );
    assert_eq!(
        spans(&syr2k(Op::Trans, alpha)),
        [span(1000, 9), span(2000, 10), c2]
    );
    assert_eq!(spans(&syr2k(Op::None, Value::ZERO)), [None, None, c2]);
    let trsm = |m, alpha| Kernel {
        form: Form {
            diag: Diag::Unit,
            ..half(Uplo::Upper)
        },
        m,
        n: 3,
        k: m,
        alpha,
        ..Kernel::of(Routine::Trsm, Dtype::D, [a, b])
    };
    assert_eq!(spans(&trsm(2, alpha)), [span(1000, 7), b3, None]);
    assert_eq!(spans(&trsm(2, Value::ZERO)), [None, b3, None]);
    assert_eq!(spans(&trsm(0, alpha)), [None; 3]);
}

fn check_gemmt<T: Scalar>((n, k): (usize, usize), alpha: Value, beta: Value) {
    const OPS: [Op; 3] = [Op::None, Op::Trans, Op::ConjTrans];
    let (alpha, beta) = (fit_value::<T>(alpha), fit_value::<T>(beta));
    for uplo in UPLOS {
        for op_a in OPS {
            for op_b in OPS {
                let stored_as = |op, rows, cols| {
                    if op == Op::None {
                        (rows, cols)
                    } else {
                        (cols, rows)
                    }
                };
                let ((ra, ca), (rb, cb)) = (stored_as(op_a, n, k), stored_as(op_b, k, n));
                let (mut a, mut b) = (
                    Matrix::<T>::new(1, ra, ca, 2),
                    Matrix::<T>::new(2, rb, cb, 1),
                );
                let mut c = Matrix::<T>::new(3, n, n, 3);
                let before = c.full();
                let product = a.full().op(op_a.flag()).times(&b.full().op(op_b.flag()));
                c = if beta.is_zero() {
                    c.all_nan()
                } else {
                    c.nan_where(|r, s| !stored(uplo, r, s))
                };
                go(&Kernel {
                    form: half(uplo),
                    op_a,
                    op_b,
                    m: n,
                    n,
                    k,
                    alpha,
                    beta,
                    ..Kernel::of(Routine::Gemmt, T::DTYPE, [a.dev(), b.dev(), c.dev()])
                });
                for s in 0..n {
                    for r in 0..n {
                        let got = c.get(r, s);
                        if stored(uplo, r, s) {
                            let want = combine(alpha, product.at(r, s), beta, before.at(r, s));
                            assert_eq!(got, want, "{uplo:?} {op_a:?} {op_b:?} {r} {s}");
                        } else {
                            assert!(got.re.is_nan(), "{uplo:?} {op_a:?} {op_b:?} {r} {s}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn gemmt() {
    let v = |re, im| Value { re, im };
    for n in SIZES {
        for k in [1, 7] {
            for (alpha, beta) in [(v(1.0, 0.0), v(0.0, 0.0)), (v(2.0, -1.0), v(-1.0, 1.0))] {
                check_gemmt::<f32>((n, k), alpha, beta);
                check_gemmt::<f64>((n, k), alpha, beta);
                check_gemmt::<Complex<f32>>((n, k), alpha, beta);
                check_gemmt::<Complex<f64>>((n, k), alpha, beta);
            }
        }
    }
}
