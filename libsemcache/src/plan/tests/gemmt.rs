//! Plans of gemmt.

use super::OPS;
use crate::base::{Dtype, Form, Op, Routine, Uplo, Value};
use crate::plan::executor::check;
use crate::plan::{Operand, Problem, Resources, lower};

pub(super) fn problem(
    dtype: Dtype,
    uplo: Uplo,
    (op_a, op_b): (Op, Op),
    (n, k): (usize, usize),
    beta: Value,
) -> Problem {
    let input = |rows, cols, op| match op {
        Op::None => Operand::matrix(rows, cols, rows),
        _ => Operand::matrix(cols, rows, cols),
    };
    Problem {
        routine: Routine::Gemmt,
        dtype,
        form: Form {
            uplo,
            ..Form::default()
        },
        op_a,
        op_b,
        m: n,
        n,
        k,
        alpha: Value { re: 2.0, im: 0.0 },
        beta,
        operands: vec![
            input(n, k, op_a),
            input(k, n, op_b),
            Operand::matrix(n, n, n),
        ],
    }
}

#[test]
fn the_triangle_is_computed() {
    let three = Value { re: 3.0, im: 0.0 };
    for uplo in [Uplo::Lower, Uplo::Upper] {
        for op_a in OPS {
            for op_b in OPS {
                for (i, size) in [(1, 1), (17, 5), (40, 33), (31, 70)]
                    .into_iter()
                    .enumerate()
                {
                    for beta in [Value::ZERO, Value::ONE, three] {
                        let dtype = Dtype::ALL[(i + op_a as usize) % 4];
                        let p = problem(dtype, uplo, (op_a, op_b), size, beta);
                        for devices in [1, 3] {
                            for memory in [1 << 30, 24 * 20 * 20 * 8] {
                                let machine = Resources::new(devices, 8, memory);
                                check(&p, &lower(&p, &machine), devices);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_large_triangle_is_computed_once() {
    for uplo in [Uplo::Lower, Uplo::Upper] {
        let n = 16384;
        let order = Routine::Gemmt.record().signature.most_order;
        let p = problem(Dtype::D, uplo, (Op::None, Op::None), (n, n), Value::ZERO);
        for (devices, tile) in [(1, n), (3, 2048), (8, 1024)] {
            let plan = lower(&p, &Resources::new(devices, tile, 140 << 30));
            let of = |d: usize| -> usize {
                let tasks = plan.tasks.iter().filter(|t| t.device.index() == d);
                tasks.map(|t| t.kernel.m * t.kernel.n * t.kernel.k).sum()
            };
            let total: usize = (0..devices).map(of).sum();
            // The squares on the diagonal count as whole squares.
            assert!(total <= (n * n / 2 + n * order / 2) * n);
            let most = (0..devices).map(of).max().expect("some");
            assert!(most <= total / devices * 6 / 5, "{devices} {tile}");
        }
    }
}
