//! Runs plans on small matrices with naive arithmetic, for the tests. Each task sees only its parts: they
//! are copied out, the kernel runs on the copies, and what the task may write is copied back.

use super::{Access, Operand, Part, Plan, Problem, Routine, Task, TaskOp};
use crate::base::{Dtype, Scalar, Value};
use crate::device::api::Op;

/// Overwritten parts hold this before their kernel runs: who reads it computes something else.
const POISON: Value = Value {
    re: 7919.0,
    im: 0.0,
};

/// A column-major matrix without gaps; of a vector: its elements in memory order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Mat<T> {
    pub(super) rows: usize,
    pub(super) data: Vec<T>,
}

impl<T: Scalar> Mat<T> {
    /// Small integers that differ from element to element, within what every type adds up exactly.
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

    fn cut(&self, p: &Part) -> Mat<T> {
        let mut data = Vec::with_capacity(p.rows * p.cols);
        for c in p.col..p.col + p.cols {
            for r in p.row..p.row + p.rows {
                data.push(self.at(r, c));
            }
        }
        Mat { rows: p.rows, data }
    }

    fn paste(&mut self, p: &Part, from: &Mat<T>) {
        for c in 0..p.cols {
            for r in 0..p.rows {
                self.set(p.row + r, p.col + c, from.at(r, c));
            }
        }
    }
}

fn op_at<T: Scalar>(m: &Mat<T>, op: Op, r: usize, c: usize) -> T {
    match op {
        Op::None => m.at(r, c),
        Op::Trans => m.at(c, r),
        Op::ConjTrans => m.at(c, r).conj(),
    }
}

/// One kernel on its own operands; reductions add to the returned value (of iamax: nothing).
pub(super) fn kernel<T: Scalar>(p: &Problem, op: &TaskOp, mats: &mut [Mat<T>]) -> T {
    let (alpha, beta) = (T::from_value(op.alpha), T::from_value(op.beta));
    let zero = T::from_value(Value::ZERO);
    // Logical element i of vector operand v, of which this task has n.
    let pos = |v: usize, n: usize, i: usize| if p.operands[v].reversed { n - 1 - i } else { i };
    let scaled = |c: T| if op.beta.is_zero() { zero } else { beta * c };
    let n = op.m;
    match p.routine {
        Routine::Gemm => {
            for i in 0..op.m {
                for j in 0..op.n {
                    let mut sum = zero;
                    for l in 0..op.k {
                        sum = sum + op_at(&mats[0], p.op_a, i, l) * op_at(&mats[1], p.op_b, l, j);
                    }
                    let c = scaled(mats[2].at(i, j)) + alpha * sum;
                    mats[2].set(i, j, c);
                }
            }
        }
        Routine::Symm
        | Routine::Hemm
        | Routine::Syrk
        | Routine::Herk
        | Routine::Syr2k
        | Routine::Her2k
        | Routine::Trmm
        | Routine::Trsm => todo!(),
        Routine::Gemv => {
            let (out, len) = if p.op_a == Op::None {
                (op.m, op.n)
            } else {
                (op.n, op.m)
            };
            for i in 0..out {
                let mut sum = zero;
                for j in 0..len {
                    sum = sum + op_at(&mats[0], p.op_a, i, j) * mats[1].at(pos(1, len, j), 0);
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
                    let y = if p.routine == Routine::Gerc {
                        y.conj()
                    } else {
                        y
                    };
                    let a = mats[2].at(i, j) + alpha * mats[0].at(pos(0, op.m, i), 0) * y;
                    mats[2].set(i, j, a);
                }
            }
        }
        Routine::Scal | Routine::RealScal => {
            for i in 0..n {
                let x = alpha * mats[0].at(i, 0);
                mats[0].set(i, 0, x);
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
    }
    zero
}

/// The whole problem as one kernel.
fn whole(p: &Problem) -> TaskOp {
    TaskOp {
        m: p.m,
        n: p.n,
        k: p.k,
        alpha: p.alpha,
        beta: p.beta,
        product: None,
    }
}

fn run<T: Scalar>(p: &Problem, task: &Task, mats: &mut [Mat<T>]) -> T {
    let mut cuts: Vec<_> = task.parts.iter().map(|s| mats[s.operand].cut(s)).collect();
    for (part, cut) in task.parts.iter().zip(&mut cuts) {
        if part.access == Access::Overwrite {
            cut.data.fill(T::from_value(POISON));
        }
    }
    let value = kernel(p, &task.op, &mut cuts);
    for (part, cut) in task.parts.iter().zip(&cuts) {
        if part.access != Access::Read {
            mats[part.operand].paste(part, cut);
        }
    }
    value
}

fn check_typed<T: Scalar>(p: &Problem, plan: &Plan) {
    let start: Vec<Mat<T>> = (0..p.operands.len())
        .map(|i| Mat::fill(&p.operands[i], i + 1))
        .collect();
    let mut expected = start.clone();
    let value = kernel(p, &whole(p), &mut expected);
    let mut found = start;
    let zero = T::from_value(Value::ZERO);
    let sum = plan
        .tasks
        .iter()
        .fold(zero, |sum, task| sum + run(p, task, &mut found));
    assert_eq!(found, expected, "{p:?}");
    assert_eq!(sum, value, "{p:?}");
}

/// Asserts that a plan computes its problem, and that it keeps its other promises.
pub(super) fn check(p: &Problem, plan: &Plan, devices: usize) {
    assert!(plan.fits);
    let mut overwritten: Vec<Vec<bool>> = p
        .operands
        .iter()
        .map(|o| vec![false; o.rows * o.cols])
        .collect();
    for task in &plan.tasks {
        assert!(task.device.index() < devices);
        assert_eq!(task.parts.len(), p.operands.len());
        for (i, part) in task.parts.iter().enumerate() {
            assert_eq!(part.operand, i);
            assert!(part.rows > 0 && part.cols > 0, "{part:?}");
            let o = &p.operands[i];
            assert!(part.row + part.rows <= o.rows && part.col + part.cols <= o.cols);
            let covers = |f: &&super::Footprint| f.device == task.device && f.covers(part);
            assert_eq!(plan.footprints.iter().filter(covers).count(), 1);
            // Of an operand that the call overwrites, no element is used before it is overwritten, and
            // none is overwritten twice.
            if p.access(i) == Access::Overwrite {
                for c in part.col..part.col + part.cols {
                    for r in part.row..part.row + part.rows {
                        let was = &mut overwritten[i][r + c * o.rows];
                        assert_eq!(*was, part.access != Access::Overwrite);
                        *was = true;
                    }
                }
            } else {
                assert_eq!(part.access, p.access(i));
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
