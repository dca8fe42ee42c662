//! One triangle of `C := alpha op(A) op(B) + beta C` on several devices: tiles and shares as in a rank-k update.
//!
//! What lies beside the diagonal is plain products. Squares on it, of which only the triangle is written, are cut
//! down to what the kernel of their own takes.

use super::problem::{Access, Problem, Task};
use super::rank_k::{self, Cell};
use super::split::Span;
use super::tiles::{self, part, stored};
use super::{Resources, Value};
use crate::base::{Routine, Uplo};
use crate::device::api::{GEMMT_MOST, Kernel};

pub(super) fn lower(p: &Problem, machine: &Resources) -> Option<Vec<Vec<Task>>> {
    rank_k::triangle(p, machine, 1, &|cell, tasks| {
        if cell.row != cell.col {
            tasks.push(product(p, cell));
            return;
        }
        for block in blocks(cell.row) {
            tasks.push(diagonal(p, Cell { row: block, ..cell }));
            let beside = match p.form.uplo {
                Uplo::Lower => Span {
                    start: block.end(),
                    len: cell.row.end() - block.end(),
                },
                Uplo::Upper => Span {
                    start: cell.row.start,
                    len: block.start - cell.row.start,
                },
            };
            if beside.len > 0 {
                tasks.push(product(
                    p,
                    Cell {
                        row: beside,
                        col: block,
                        ..cell
                    },
                ));
            }
        }
    })
}

/// A span in pieces of nearly equal length, none longer than the kernel takes.
fn blocks(span: Span) -> impl Iterator<Item = Span> {
    let count = span.len.div_ceil(GEMMT_MOST).max(1);
    let at = move |i: usize| span.start + span.len * i / count;
    (0..count).map(move |i| Span {
        start: at(i),
        len: at(i + 1) - at(i),
    })
}

/// The triangle of a square on the diagonal.
fn diagonal(p: &Problem, cell: Cell) -> Task {
    let rows = cell.row;
    Task {
        // Whatever beta is: half of the square is not written.
        parts: vec![
            stored(0, p.op_a, rows, cell.depth),
            stored(1, p.op_b, cell.depth, rows),
            part(2, rows, rows, Access::Update),
        ],
        ..task(p, cell, rows, false)
    }
}

/// A tile beside the diagonal.
fn product(p: &Problem, cell: Cell) -> Task {
    task(p, cell, cell.col, true)
}

fn task(p: &Problem, cell: Cell, cols: Span, product: bool) -> Task {
    let Cell { row, depth, .. } = cell;
    let beta = if cell.first { p.beta } else { Value::ONE };
    Task {
        device: cell.device,
        kernel: Kernel {
            routine: if product { Routine::Gemm } else { p.routine },
            m: row.len,
            n: cols.len,
            k: depth.len,
            beta,
            ..p.kernel()
        },
        parts: vec![
            stored(0, p.op_a, row, depth),
            stored(1, p.op_b, depth, cols),
            part(2, row, cols, tiles::written(beta)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::super::executor::check;
    use super::super::{Operand, lower};
    use super::*;
    use crate::base::{Dtype, Form, Op};

    const OPS: [Op; 3] = [Op::None, Op::Trans, Op::ConjTrans];

    fn problem(
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
            let p = problem(Dtype::D, uplo, (Op::None, Op::None), (n, n), Value::ZERO);
            for (devices, tile) in [(1, n), (3, 2048), (8, 1024)] {
                let plan = lower(&p, &Resources::new(devices, tile, 140 << 30));
                let of = |d: usize| -> usize {
                    let tasks = plan.tasks.iter().filter(|t| t.device.index() == d);
                    tasks.map(|t| t.kernel.m * t.kernel.n * t.kernel.k).sum()
                };
                let total: usize = (0..devices).map(of).sum();
                // The squares on the diagonal count whole.
                assert!(total <= (n * n / 2 + n * GEMMT_MOST / 2) * n);
                let most = (0..devices).map(of).max().expect("some");
                assert!(most <= total / devices * 6 / 5, "{devices} {tile}");
            }
        }
    }

    #[test]
    fn no_block_exceeds_the_kernel() {
        for len in [1, 2, 1023, 1024, 1025, 1279, 2048, 2049, 5000] {
            let span = Span { start: 7, len };
            let mut next = 7;
            for block in blocks(span) {
                assert_eq!(block.start, next);
                assert!(block.len > 0 && block.len <= GEMMT_MOST);
                next = block.end();
            }
            assert_eq!(next, span.end());
        }
    }
}
