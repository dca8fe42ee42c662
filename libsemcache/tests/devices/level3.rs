//! The kernels of level 3 with a symmetric, Hermitian or triangular matrix, under all their flags. Elements that such a
//! matrix does not have (its other triangle, a unit diagonal, the imaginary part of a Hermitian one) are NaN.

use std::panic::{AssertUnwindSafe, catch_unwind};

use semcache::base::{Diag, Dtype, Form, Op, Routine, Scalar, Side, Uplo, Value};
use semcache::device::api::{Backend, Kernel, Operand};
use semcache::device::arith;
use semcache::with_dtype;
use testkit::Rng;

use super::kernels::{C, Image, X, Y, on};

const SIDES: [Side; 2] = [Side::Left, Side::Right];
pub(super) const UPLOS: [Uplo; 2] = [Uplo::Lower, Uplo::Upper];
pub(super) const OPS: [Op; 3] = [Op::None, Op::Trans, Op::ConjTrans];
pub(super) const DIAGS: [Diag; 2] = [Diag::NonUnit, Diag::Unit];

/// Rows, columns or depth, columns between columns.
const SIZES: [(usize, usize, usize); 5] =
    [(1, 1, 0), (1, 3, 2), (3, 33, 1), (33, 3, 3), (100, 65, 4)];

const ZERO: Value = Value { re: 0.0, im: 0.0 };
pub(super) const ONE: Value = Value { re: 1.0, im: 0.0 };
pub(super) const NAN: Value = Value {
    re: f64::NAN,
    im: f64::NAN,
};
/// `alpha` and `beta`; no zero `alpha`, by contract.
const SCALARS: [(Value, Value); 4] = [
    (ONE, ZERO),
    (Value { re: -2.0, im: 1.0 }, ONE),
    (Value { re: 1.0, im: -1.0 }, Value { re: 2.0, im: 1.0 }),
    (Value { re: 3.0, im: -2.0 }, Value { re: -1.0, im: 2.0 }),
];

/// The tests of one element type, under all flags.
pub(super) struct Bench<'a, 'b> {
    image: &'a mut Image<'b>,
    rng: Rng,
    pub(super) dtype: Dtype,
    /// Number of cases so far: scalars take turns by it.
    cases: usize,
    /// Cases that were wrong.
    wrong: u32,
}

pub(super) fn run(b: &dyn Backend) {
    cases(b, &|bench| bench.level3());
}

/// The routines of level 2, with the same tools.
pub(super) fn level2(b: &dyn Backend) {
    cases(b, &|bench| bench.level2());
}

/// Triangular products that a device may not compute in place, with padding between columns. Elements that a triangle
/// does not have are NaN.
pub(super) fn large(b: &dyn Backend) {
    const HALF: u64 = 2 << 20;
    let (m, n) = (257, 260);
    let mut image = Image::of(b, 2 * HALF as usize);
    let mut rng = Rng::new(17);
    for (k, dtype) in Dtype::ALL.into_iter().enumerate() {
        for side in SIDES {
            for uplo in UPLOS {
                // Each type runs with one transposition and diagonal; each of those runs with some type.
                let (op, diag) = (OPS[k % 3], DIAGS[(k + usize::from(side == SIDES[0])) % 2]);
                image.fill(dtype, &mut rng);
                let order = if side == Side::Left { m } else { n };
                let (a, c) = (mat(0, order + 3), mat(HALF, m + 2));
                let mut bench = Bench {
                    image: &mut image,
                    rng: Rng::new(0),
                    dtype,
                    cases: 0,
                    wrong: 0,
                };
                bench.each(a, order, |r, c, _| {
                    let hidden = !stored(uplo, r, c) || (diag == Diag::Unit && r == c);
                    hidden.then_some(NAN)
                });
                let single = matches!(dtype, Dtype::S | Dtype::C);
                image.check(
                    "a large trmm",
                    false,
                    single,
                    &Kernel {
                        form: Form { side, uplo, diag },
                        op_a: op,
                        m,
                        n,
                        k: order,
                        alpha: SCALARS[3].0,
                        ..Kernel::of(Routine::Trmm, dtype, [a, c])
                    },
                );
            }
        }
    }
}

fn cases(b: &dyn Backend, all: &dyn Fn(&mut Bench<'_, '_>)) {
    let mut image = Image::new(b);
    let mut wrong = 0;
    for dtype in Dtype::ALL {
        let mut bench = Bench {
            image: &mut image,
            rng: Rng::new(13),
            dtype,
            cases: 0,
            wrong: 0,
        };
        all(&mut bench);
        wrong += bench.wrong;
    }
    assert_eq!(wrong, 0, "number of wrong cases");
}

pub(super) fn stored(uplo: Uplo, r: usize, c: usize) -> bool {
    match uplo {
        Uplo::Lower => r >= c,
        Uplo::Upper => r <= c,
    }
}

/// The form of a routine that has only this flag.
pub(super) fn half(uplo: Uplo) -> Form {
    Form {
        uplo,
        ..Form::default()
    }
}

pub(super) fn real(re: f64) -> Value {
    Value { re, im: 0.0 }
}

pub(super) fn mat(addr: u64, ld: usize) -> Operand {
    Operand::matrix(addr, ld)
}

impl Bench<'_, '_> {
    fn level3(&mut self) {
        for size in SIZES {
            for uplo in UPLOS {
                for hermitian in [false, true] {
                    if hermitian && !self.dtype.is_complex() {
                        continue;
                    }
                    let [symm, one, two] = if hermitian {
                        [Routine::Hemm, Routine::Herk, Routine::Her2k]
                    } else {
                        [Routine::Symm, Routine::Syrk, Routine::Syr2k]
                    };
                    for side in SIDES {
                        self.symm(symm, side, uplo, size);
                    }
                    let wrong = if hermitian { Op::Trans } else { Op::ConjTrans };
                    for op in OPS {
                        if op != wrong || !self.dtype.is_complex() {
                            self.rank_k(one, uplo, op, size);
                            self.rank_k(two, uplo, op, size);
                        }
                    }
                }
                for op_a in OPS {
                    for op_b in OPS {
                        self.gemmt(uplo, op_a, op_b, size);
                    }
                }
                for side in SIDES {
                    for op in OPS {
                        for diag in DIAGS {
                            self.triangular(Routine::Trmm, (side, uplo, op, diag), size);
                            self.triangular(Routine::Trsm, (side, uplo, op, diag), size);
                        }
                    }
                }
            }
        }
    }

    /// Runs a kernel on the image in this process.
    pub(super) fn compute(&mut self, kernel: &Kernel) {
        let kernel = on(kernel, self.image.addr());
        // SAFETY: within the image.
        unsafe { arith::run(&kernel) };
    }

    /// New numbers, and the scalars of the next case.
    pub(super) fn fresh(&mut self, real: (bool, bool)) -> (Value, Value) {
        self.image.fill(self.dtype, &mut self.rng);
        self.cases += 1;
        let (alpha, beta) = SCALARS[self.cases % SCALARS.len()];
        let fit = |real: bool, v: Value| {
            let complex = self.dtype.is_complex() && !real;
            Value {
                im: if complex { v.im } else { 0.0 },
                ..v
            }
        };
        (fit(real.0, alpha), fit(real.1, beta))
    }

    /// Sets the elements of a square matrix in the image to the values that `f` returns, where it returns one.
    pub(super) fn each(
        &mut self,
        m: Operand,
        order: usize,
        f: impl Fn(usize, usize, Value) -> Option<Value>,
    ) {
        let base = self.image.host.as_mut_ptr().cast::<u8>();
        for c in 0..order {
            for r in 0..order {
                with_dtype!(self.dtype, T => {
                    let at = base.wrapping_add(m.addr as usize).cast::<T>();
                    let at = at.wrapping_add(r + c * m.ld());
                    // SAFETY: within the image, which is aligned.
                    unsafe {
                        if let Some(v) = f(r, c, at.read().to_value()) {
                            at.write(T::from_value(v));
                        }
                    }
                });
            }
        }
    }

    /// The whole of an area, as NaN.
    pub(super) fn hide(&mut self, area: u64) {
        let (from, to) = (area as usize / 16, (area + Y) as usize / 16);
        self.image.host[from..to].fill(u128::MAX);
    }

    pub(super) fn check(&mut self, kernel: &Kernel) {
        let single = matches!(self.dtype, Dtype::S | Dtype::C);
        let what = format!("{kernel:?}");
        let image = &mut *self.image;
        let right = catch_unwind(AssertUnwindSafe(|| {
            image.check(&what, false, single, kernel)
        }));
        // All wrong cases are reported, by the panics' own messages: a GPU may not be at hand for a second run.
        self.wrong += u32::from(right.is_err());
        assert!(self.wrong < 40, "too many are wrong to go on");
    }

    /// symm and hemm.
    fn symm(
        &mut self,
        routine: Routine,
        side: Side,
        uplo: Uplo,
        (m, n, pad): (usize, usize, usize),
    ) {
        let (alpha, beta) = self.fresh((false, false));
        let order = if side == Side::Left { m } else { n };
        let (a, b, c) = (mat(X, order + pad), mat(Y, m + pad), mat(C, m + pad));
        self.each(a, order, |r, c, v| match stored(uplo, r, c) {
            false => Some(NAN),
            true if routine.hermitian() && r == c => Some(Value { im: f64::NAN, ..v }),
            true => None,
        });
        if beta.is_zero() {
            self.hide(C);
        }
        self.check(&Kernel {
            form: Form { side, ..half(uplo) },
            m,
            n,
            k: order,
            alpha,
            beta,
            ..Kernel::of(routine, self.dtype, [a, b, c])
        });
    }

    fn rank_k(&mut self, routine: Routine, uplo: Uplo, op: Op, (n, k, pad): (usize, usize, usize)) {
        let (hermitian, two) = (routine.hermitian(), routine.operands().len() == 3);
        let (alpha, beta) = self.fresh((hermitian && !two, hermitian));
        let rows = if op == Op::None { n } else { k };
        let (a, b, c) = (mat(X, rows + pad), mat(Y, rows + 2 * pad), mat(C, n + pad));
        self.each(c, n, |r, c, _| (!stored(uplo, r, c)).then_some(NAN));
        if beta.is_zero() {
            self.hide(C);
        }
        self.check(&Kernel {
            form: half(uplo),
            op_a: op,
            m: n,
            n,
            k,
            alpha,
            beta,
            ..Kernel::of(routine, self.dtype, if two { [a, b, c] } else { [a, c, b] })
        });
    }

    fn gemmt(&mut self, uplo: Uplo, op_a: Op, op_b: Op, (n, k, pad): (usize, usize, usize)) {
        let (alpha, beta) = self.fresh((false, false));
        let rows = |op, rows, cols| if op == Op::None { rows } else { cols };
        let a = mat(X, rows(op_a, n, k) + pad);
        let b = mat(Y, rows(op_b, k, n) + 2 * pad);
        let c = mat(C, n + pad);
        self.each(c, n, |r, c, _| (!stored(uplo, r, c)).then_some(NAN));
        if beta.is_zero() {
            self.hide(C);
        }
        self.check(&Kernel {
            form: half(uplo),
            op_a,
            op_b,
            m: n,
            n,
            k,
            alpha,
            beta,
            ..Kernel::of(Routine::Gemmt, self.dtype, [a, b, c])
        });
    }

    /// trmm and trsm.
    fn triangular(
        &mut self,
        routine: Routine,
        (side, uplo, op, diag): (Side, Uplo, Op, Diag),
        (m, n, pad): (usize, usize, usize),
    ) {
        let (alpha, _) = self.fresh((false, false));
        let dtype = self.dtype;
        let solve = routine == Routine::Trsm;
        let order = if side == Side::Left { m } else { n };
        let (a, b) = (mat(X, order + pad), mat(C, m + pad));
        if solve {
            self.each(a, order, |r, c, v| {
                Some(solvable(r, c, v, dtype.is_complex()))
            });
        }
        self.each(a, order, |r, c, _| {
            let hidden = !stored(uplo, r, c) || (diag == Diag::Unit && r == c);
            hidden.then_some(NAN)
        });
        let kernel = Kernel {
            form: Form { side, uplo, diag },
            op_a: op,
            m,
            n,
            k: order,
            alpha,
            ..Kernel::of(routine, dtype, [a, b])
        };
        if solve {
            // Right-hand sides with integer solutions.
            self.compute(&Kernel {
                routine: Routine::Trmm,
                alpha: ONE,
                ..kernel
            });
        }
        self.check(&kernel);
    }
}

/// The elements of a triangular matrix whose inverse is as exact as the matrix, however it is computed: powers of two
/// on the diagonal, and few elements off the diagonal, so that every product of three of them is zero.
pub(super) fn solvable(r: usize, c: usize, v: Value, complex: bool) -> Value {
    if r == c {
        return [
            ONE,
            Value { re: -2.0, im: 0.0 },
            Value { re: 0.5, im: 0.0 },
            Value {
                re: if complex { 0.0 } else { 4.0 },
                im: 1.0,
            },
        ][r % 4];
    }
    if r % 3 > c % 3 && (r * 5 + c * 3) % 7 < 2 {
        Value {
            re: v.re.clamp(-1.0, 1.0),
            im: v.im.clamp(-1.0, 1.0),
        }
    } else {
        ZERO
    }
}
