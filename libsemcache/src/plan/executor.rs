//! Test executor: runs plans on small matrices with naive arithmetic. Each task sees only its parts: these are copied
//! out, the kernel runs on the copies, and parts that the task may write are copied back. Elements that a kernel must
//! not read are NaN in its copies.

mod half;

use super::{Access, Operand, Part, Plan, Problem, Task};
use crate::base::kernel::Kernel;
use crate::base::{Diag, Dtype, Op, Routine, Scalar, Side, Uplo, Value};

/// The value of overwritten parts before their kernel runs: a kernel that reads them gets a wrong result.
const POISON: Value = Value {
    re: 7919.0,
    im: 0.0,
};

/// A column-major matrix without gaps, or the elements of a vector in memory order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Mat<T> {
    pub(super) rows: usize,
    pub(super) data: Vec<T>,
}

impl<T: Scalar> Mat<T> {
    /// Small integers that differ from element to element, and whose sums every type holds exactly.
    pub(super) fn fill(o: &Operand, seed: usize) -> Mat<T> {
        let data = (0..o.rows * o.cols)
            .map(|i| {
                let x = (i * 7 + seed * 13 + i / 5) % 9;
                T::from_value(Value {
                    re: x as f64 - 4.0,
                    im: ((x + i) % 5) as f64 - 2.0,
                })
            })
            .collect();
        Mat { rows: o.rows, data }
    }

    fn at(&self, r: usize, c: usize) -> T {
        self.data[r + c * self.rows]
    }

    fn set(&mut self, r: usize, c: usize, v: T) {
        self.data[r + c * self.rows] = v;
    }

    pub(super) fn cut(&self, p: &Part) -> Mat<T> {
        let mut data = Vec::with_capacity(p.rows * p.cols);
        for c in p.col..p.col + p.cols {
            for r in p.row..p.row + p.rows {
                data.push(self.at(r, c));
            }
        }
        Mat { rows: p.rows, data }
    }

    pub(super) fn paste(&mut self, p: &Part, from: &Mat<T>) {
        for c in 0..p.cols {
            for r in 0..p.rows {
                self.set(p.row + r, p.col + c, from.at(r, c));
            }
        }
    }
}

fn all(rows: usize, cols: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..cols).flat_map(move |j| (0..rows).map(move |i| (i, j)))
}

fn dot<T: Scalar>(n: usize, term: impl Fn(usize) -> T) -> T {
    (0..n).fold(T::from_value(Value::ZERO), |sum, l| sum + term(l))
}

fn real<T: Scalar>(x: T) -> T {
    T::from_value(Value {
        im: 0.0,
        ..x.to_value()
    })
}

/// Whether an element is in this triangle, the diagonal included.
fn in_triangle(uplo: Uplo, r: usize, c: usize) -> bool {
    match uplo {
        Uplo::Lower => r >= c,
        Uplo::Upper => r <= c,
    }
}

fn op_at<T: Scalar>(m: &Mat<T>, op: Op, r: usize, c: usize) -> T {
    match op {
        Op::None => m.at(r, c),
        Op::Trans => m.at(c, r),
        Op::ConjTrans => m.at(c, r).conj(),
    }
}

/// Runs one kernel on its own operands, of which `reversed` says which are vectors with a negative increment. Returns the
/// sum of a reduction, zero for other routines; iamax is replaced by a sum.
pub(super) fn kernel<T: Scalar>(
    p: &Problem,
    op: &Kernel,
    reversed: &[bool],
    mats: &mut [Mat<T>],
) -> T {
    let (alpha, beta) = (T::from_value(op.alpha), T::from_value(op.beta));
    let zero = T::from_value(Value::ZERO);
    // The position in memory order of the logical element i of the kernel's operand v, a vector of n elements.
    let pos = |v: usize, n: usize, i: usize| if reversed[v] { n - 1 - i } else { i };
    let scaled = |c: T| if op.beta.is_zero() { zero } else { beta * c };
    let n = op.m;
    if op.routine == Routine::Gemm {
        let (a, b) = (mats[0].clone(), mats[1].clone());
        let a = |i, l| op_at(&a, op.op_a, i, l);
        let b = |l, j| op_at(&b, op.op_b, l, j);
        for (i, j) in all(op.m, op.n) {
            let c = scaled(mats[2].at(i, j)) + alpha * dot(op.k, |l| a(i, l) * b(l, j));
            mats[2].set(i, j, c);
        }
        return zero;
    }
    let hermitian = matches!(p.routine, Routine::Hemm | Routine::Herk | Routine::Her2k);
    let left = p.form.side == Side::Left;
    match op.routine {
        Routine::Gemm | Routine::GemmBatch => unreachable!("a product"),
        Routine::Gemmt => {
            assert!(op.m == op.n && op.n <= p.routine.record().signature.most_order);
            let (a, b) = (mats[0].clone(), mats[1].clone());
            for (i, j) in all(op.n, op.n).filter(|&(i, j)| in_triangle(p.form.uplo, i, j)) {
                let sum = dot(op.k, |l| op_at(&a, p.op_a, i, l) * op_at(&b, p.op_b, l, j));
                let c = scaled(mats[2].at(i, j)) + alpha * sum;
                mats[2].set(i, j, c);
            }
        }
        Routine::Symm | Routine::Hemm => {
            let (a, b) = (mats[0].clone(), mats[1].clone());
            let a = |i: usize, j: usize| {
                let is_stored = in_triangle(p.form.uplo, i, j);
                let x = if is_stored { a.at(i, j) } else { a.at(j, i) };
                match (hermitian, i == j, is_stored) {
                    (true, true, _) => real(x),
                    (true, false, false) => x.conj(),
                    _ => x,
                }
            };
            for (i, j) in all(op.m, op.n) {
                let sum = if left {
                    dot(op.m, |l| a(i, l) * b.at(l, j))
                } else {
                    dot(op.n, |l| b.at(i, l) * a(l, j))
                };
                let c = scaled(mats[2].at(i, j)) + alpha * sum;
                mats[2].set(i, j, c);
            }
        }
        Routine::Syrk | Routine::Herk | Routine::Syr2k | Routine::Her2k => {
            assert_eq!(op.m, op.n);
            let (c, inputs) = mats.split_last_mut().expect("an output");
            let other = |x: T| if hermitian { x.conj() } else { x };
            let (a, b) = (&inputs[0], inputs.last().expect("an input"));
            let times = |x, y, i: usize, j: usize| {
                dot(op.k, |l| {
                    op_at(x, p.op_a, i, l) * other(op_at(y, p.op_a, j, l))
                })
            };
            for (i, j) in all(op.n, op.n).filter(|&(i, j)| in_triangle(p.form.uplo, i, j)) {
                let mut sum = alpha * times(a, b, i, j);
                if inputs.len() == 2 {
                    sum = sum + other(alpha) * times(b, a, i, j);
                }
                let diagonal = |x: T| if hermitian && i == j { real(x) } else { x };
                let value = scaled(diagonal(c.at(i, j))) + sum;
                c.set(i, j, diagonal(value));
            }
        }
        Routine::Trmm | Routine::Trsm => {
            let order = if left { op.m } else { op.n };
            assert_eq!(op.k, order);
            let a = mats[0].clone();
            let one = T::from_value(Value::ONE);
            let entry = |i: usize, j: usize| match (i == j, p.form.diag) {
                (true, Diag::Unit) => one,
                _ if in_triangle(p.form.uplo, i, j) => a.at(i, j),
                _ => zero,
            };
            let a = |i: usize, j: usize| match p.op_a {
                Op::None => entry(i, j),
                Op::Trans => entry(j, i),
                Op::ConjTrans => entry(j, i).conj(),
            };
            let old = mats[1].clone();
            if op.alpha.is_zero() {
                for (i, j) in all(op.m, op.n) {
                    mats[1].set(i, j, zero);
                }
            } else if p.routine == Routine::Trmm {
                for (i, j) in all(op.m, op.n) {
                    let sum = if left {
                        dot(order, |l| a(i, l) * old.at(l, j))
                    } else {
                        dot(order, |l| old.at(i, l) * a(l, j))
                    };
                    mats[1].set(i, j, alpha * sum);
                }
            } else {
                // Whichever triangle is stored, an unknown is computed after those that it depends on.
                let lower = (p.form.uplo == Uplo::Lower) == (p.op_a == Op::None);
                let x = &mut mats[1];
                for step in 0..order {
                    let i = if lower == left {
                        step
                    } else {
                        order - 1 - step
                    };
                    for other in 0..(if left { op.n } else { op.m }) {
                        let at = |l: usize| if left { (l, other) } else { (other, l) };
                        let known = |l: usize| l != i && if lower == left { l < i } else { l > i };
                        let sum = dot(order, |l| {
                            if !known(l) {
                                return zero;
                            }
                            let (r, c) = at(l);
                            x.at(r, c) * if left { a(i, l) } else { a(l, i) }
                        });
                        let (r, c) = at(i);
                        // The diagonals in the tests have modulus one, so the conjugate is the inverse.
                        let value = (alpha * old.at(r, c) - sum) * a(i, i).conj();
                        x.set(r, c, value);
                    }
                }
            }
        }
        Routine::Gemv => {
            let (out, len) = if op.op_a == Op::None {
                (op.m, op.n)
            } else {
                (op.n, op.m)
            };
            for i in 0..out {
                let mut sum = zero;
                for j in 0..len {
                    sum = sum + op_at(&mats[0], op.op_a, i, j) * mats[1].at(pos(1, len, j), 0);
                }
                let at = pos(2, out, i);
                let y = scaled(mats[2].at(at, 0)) + alpha * sum;
                mats[2].set(at, 0, y);
            }
        }
        Routine::Ger | Routine::Gerc => {
            for i in 0..op.m {
                for j in 0..op.n {
                    let y = mats[1].at(pos(1, op.n, j), 0);
                    let y = if op.routine == Routine::Gerc {
                        y.conj()
                    } else {
                        y
                    };
                    let a = mats[2].at(i, j) + alpha * mats[0].at(pos(0, op.m, i), 0) * y;
                    mats[2].set(i, j, a);
                }
            }
        }
        r if r.triangle().is_some() || matches!(r, Routine::Rot | Routine::Rotm) => {
            half::kernel(p, op, mats, &|v, i| pos(v, n, i));
        }
        Routine::Scal | Routine::RealScal => {
            for i in 0..n {
                let x = alpha * mats[0].at(i, 0);
                mats[0].set(i, 0, x);
            }
        }
        Routine::Geadd | Routine::Omatcopy | Routine::Imatcopy => {
            let a = mats[0].clone();
            let out = mats.last_mut().expect("an output");
            let (rows, cols) = match p.op_a {
                Op::None => (op.m, op.n),
                _ => (op.n, op.m),
            };
            for (i, j) in all(rows, cols) {
                let x = alpha * op_at(&a, p.op_a, i, j);
                let old = if p.routine == Routine::Geadd {
                    scaled(out.at(i, j))
                } else {
                    zero
                };
                out.set(i, j, x + old);
            }
        }
        Routine::Axpby => {
            for i in 0..n {
                let iy = pos(1, n, i);
                let y = alpha * mats[0].at(pos(0, n, i), 0) + scaled(mats[1].at(iy, 0));
                mats[1].set(iy, 0, y);
            }
        }
        Routine::Axpy | Routine::Copy | Routine::Swap => {
            for i in 0..n {
                let (ix, iy) = (pos(0, n, i), pos(1, n, i));
                let (x, y) = (mats[0].at(ix, 0), mats[1].at(iy, 0));
                match p.routine {
                    Routine::Axpy => mats[1].set(iy, 0, y + alpha * x),
                    Routine::Copy => mats[1].set(iy, 0, x),
                    _ => {
                        mats[0].set(ix, 0, y);
                        mats[1].set(iy, 0, x);
                    }
                }
            }
        }
        Routine::Dot | Routine::Dotc => {
            return (0..n).fold(zero, |sum, i| {
                let x = mats[0].at(pos(0, n, i), 0);
                let x = if p.routine == Routine::Dotc {
                    x.conj()
                } else {
                    x
                };
                sum + x * mats[1].at(pos(1, n, i), 0)
            });
        }
        Routine::Nrm2 | Routine::Asum | Routine::Iamax => {
            return (0..n).fold(zero, |sum, i| sum + mats[0].at(i, 0) * mats[0].at(i, 0));
        }
        other => unreachable!("{other:?}"),
    }
    zero
}

/// The operand of which one triangle is stored, if it is an input.
fn half_input(routine: Routine) -> Option<usize> {
    matches!(
        routine,
        Routine::Symm
            | Routine::Hemm
            | Routine::Trmm
            | Routine::Trsm
            | Routine::Symv
            | Routine::Hemv
            | Routine::Trmv
            | Routine::Trsv
    )
    .then_some(0)
}

/// The operand of which one triangle is written.
fn half_output(p: &Problem) -> Option<usize> {
    matches!(
        p.routine,
        Routine::Syrk
            | Routine::Herk
            | Routine::Syr2k
            | Routine::Her2k
            | Routine::Syr
            | Routine::Her
            | Routine::Syr2
            | Routine::Her2
            | Routine::Gemmt
    )
    .then(|| p.operands.len() - 1)
}

/// Replaces by NaN the elements of the first operand that the routine's own kernel must not read.
fn poison<T: Scalar>(p: &Problem, mats: &mut [Mat<T>]) {
    let Some(half) = half_input(p.routine) else {
        return;
    };
    let triangular = matches!(
        p.routine,
        Routine::Trmm | Routine::Trsm | Routine::Trmv | Routine::Trsv
    );
    let unit = triangular && p.form.diag == Diag::Unit;
    let nan = T::from_value(Value {
        re: f64::NAN,
        im: f64::NAN,
    });
    let order = mats[half].rows;
    for (r, c) in all(order, order) {
        if !in_triangle(p.form.uplo, r, c) || (unit && r == c) {
            mats[half].set(r, c, nan);
        }
    }
}

/// The matrices before the call: small integers. A triangle to be solved with has a diagonal of numbers of modulus one
/// and few other elements, in chains of at most four, so that the solution has small integers too.
pub(super) fn fill<T: Scalar>(p: &Problem) -> Vec<Mat<T>> {
    let mut mats: Vec<Mat<T>> = (0..p.operands.len())
        .map(|i| Mat::fill(&p.operands[i], i + 1))
        .collect();
    if matches!(p.routine, Routine::Trsm | Routine::Trsv) {
        let order = mats[0].rows;
        for (r, c) in all(order, order) {
            let x = mats[0].at(r, c).to_value();
            let turn = |re: f64, im: f64| T::from_value(Value { re, im });
            let complex = turn(0.0, 1.0).to_value().im != 0.0;
            let sign = if x.re < 0.0 { -1.0 } else { 1.0 };
            let small = if complex && x.im > 0.0 {
                turn(0.0, sign)
            } else {
                turn(sign, 0.0)
            };
            let linked = r % 4 == c % 4 + 1;
            let value = if r == c || linked {
                small
            } else {
                turn(0.0, 0.0)
            };
            mats[0].set(r, c, value);
        }
    }
    mats
}

/// Runs one task on whole matrices.
pub(super) fn run<T: Scalar>(p: &Problem, task: &Task, mats: &mut [Mat<T>]) -> T {
    let mut cuts: Vec<_> = task.parts.iter().map(|s| mats[s.operand].cut(s)).collect();
    for (part, cut) in task.parts.iter().zip(&mut cuts) {
        if part.access == Access::Overwrite {
            cut.data.fill(T::from_value(POISON));
        }
    }
    if task.kernel.routine == p.routine {
        poison(p, &mut cuts);
    }
    let reversed = task
        .parts
        .iter()
        .map(|part| p.operands[part.operand].reversed);
    let reversed: Vec<bool> = reversed.collect();
    let value = kernel(p, &task.kernel, &reversed, &mut cuts);
    for (part, cut) in task.parts.iter().zip(&cuts) {
        if part.access != Access::Read {
            mats[part.operand].paste(part, cut);
        }
    }
    value
}

fn check_typed<T: Scalar>(p: &Problem, plan: &Plan) {
    let start: Vec<Mat<T>> = fill(p);
    let mut expected = start.clone();
    poison(p, &mut expected);
    let reversed: Vec<bool> = p.operands.iter().map(|o| o.reversed).collect();
    let value = kernel(p, &p.kernel(), &reversed, &mut expected);
    if let Some(half) = half_input(p.routine) {
        expected[half] = start[half].clone();
    }
    if let Some(half) = half_output(p) {
        for (r, c) in all(p.n, p.n).filter(|&(r, c)| !in_triangle(p.form.uplo, r, c)) {
            assert_eq!(expected[half].at(r, c), start[half].at(r, c));
        }
    }
    let mut found = start;
    let zero = T::from_value(Value::ZERO);
    let sum = plan
        .tasks
        .iter()
        .fold(zero, |sum, task| sum + run(p, task, &mut found));
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let differs = found
            .data
            .iter()
            .zip(&expected.data)
            .position(|(f, e)| f != e);
        assert_eq!(differs, None, "operand {i} of {p:?}");
        assert!(found.data.iter().all(|x| small(*x)), "{p:?}");
    }
    assert_eq!(sum, value, "{p:?}");
}

/// Whether every element type holds the number exactly.
fn small<T: Scalar>(x: T) -> bool {
    let Value { re, im } = x.to_value();
    re.abs().max(im.abs()) < 16_777_216.0
}

/// Asserts that a kernel may have this part of a matrix of which one triangle is stored: a square on the diagonal for
/// the routine's own kernel, a part inside the triangle for a product.
fn check_half(p: &Problem, task: &Task, part: &Part) {
    if task.kernel.routine == p.routine {
        assert_eq!((part.row, part.rows), (part.col, part.cols), "{part:?}");
        return;
    }
    match p.form.uplo {
        Uplo::Lower => assert!(part.row >= part.col + part.cols, "{part:?}"),
        Uplo::Upper => assert!(part.col >= part.row + part.rows, "{part:?}"),
    }
}

/// Asserts that a plan computes its problem, and that its tasks keep the promises of parts, footprints and devices.
pub(super) fn check(p: &Problem, plan: &Plan, devices: usize) {
    assert!(plan.fits);
    let elements = |o: &Operand| o.rows * o.cols;
    let mut touched: Vec<Vec<bool>> = p
        .operands
        .iter()
        .map(|o| vec![false; elements(o)])
        .collect();
    let mut writer: Vec<Vec<_>> = p.operands.iter().map(|o| vec![None; elements(o)]).collect();
    for task in &plan.tasks {
        assert!(task.device.index() < devices);
        let product = task.kernel.routine != p.routine;
        let products: &[Routine] = match (p.routine.level(), half_output(p)) {
            (3, _) => &[Routine::Gemm],
            (_, None) => &[Routine::Gemv],
            (_, Some(_)) => &[Routine::Ger, Routine::Gerc],
        };
        assert!(!product || products.contains(&task.kernel.routine));
        assert_eq!(task.parts.len(), if product { 3 } else { p.operands.len() });
        for (i, part) in task.parts.iter().enumerate() {
            assert!(product || part.operand == i);
            assert!(part.rows > 0 && part.cols > 0, "{part:?}");
            let o = &p.operands[part.operand];
            assert!(part.row + part.rows <= o.rows && part.col + part.cols <= o.cols);
            let covers = |f: &&super::Footprint| f.device == task.device && f.part.covers(part);
            assert_eq!(plan.footprints.iter().filter(covers).count(), 1);
            if half_input(p.routine).or(half_output(p)) == Some(part.operand) {
                check_half(p, task, part);
            }
            if p.access(part.operand) == Access::Read {
                assert_eq!(part.access, Access::Read);
                continue;
            }
            // Only B of trmm and trsm, and x of trmv and trsv, are read without being written.
            let in_place = matches!(
                p.routine,
                Routine::Trmm | Routine::Trsm | Routine::Trmv | Routine::Trsv
            );
            assert!(part.access != Access::Read || (in_place && product));
            for c in part.col..part.col + part.cols {
                for r in part.row..part.row + part.rows {
                    let at = r + c * o.rows;
                    // All tasks that use an element of an output run on one device.
                    let device = writer[part.operand][at].get_or_insert(task.device);
                    assert_eq!(*device, task.device);
                    // No element is overwritten after it was used, and if the call overwrites the operand, the first
                    // task that uses an element overwrites it.
                    let before = std::mem::replace(&mut touched[part.operand][at], true);
                    assert!(!before || part.access != Access::Overwrite);
                    let all_new = p.access(part.operand) == Access::Overwrite;
                    assert!(before || !all_new || part.access == Access::Overwrite);
                }
            }
        }
    }
    match p.dtype {
        Dtype::S => check_typed::<f32>(p, plan),
        Dtype::D => check_typed::<f64>(p, plan),
        Dtype::C => check_typed::<num_complex::Complex<f32>>(p, plan),
        Dtype::Z => check_typed::<num_complex::Complex<f64>>(p, plan),
    }
}
