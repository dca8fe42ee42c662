//! Plans of routines that use one triangle of a matrix.

use super::*;

const HALF: [Routine; 8] = [
    Routine::Symv,
    Routine::Hemv,
    Routine::Trmv,
    Routine::Trsv,
    Routine::Syr,
    Routine::Her,
    Routine::Syr2,
    Routine::Her2,
];

/// A problem of a level-2 routine with one triangle.
fn half(
    routine: Routine,
    dtype: Dtype,
    form: Form,
    op: Op,
    n: usize,
    (alpha, beta): (Value, Value),
    rev: (bool, bool),
) -> Problem {
    let (x, y) = (Operand::vector(n, 2, rev.0), Operand::vector(n, 1, rev.1));
    let a = Operand::matrix(n, n, n + 3);
    let operands = match routine {
        Routine::Symv | Routine::Hemv => vec![a, x, y],
        Routine::Trmv | Routine::Trsv => vec![a, x],
        Routine::Syr | Routine::Her => vec![x, a],
        _ => vec![x, y, a],
    };
    let real = |v: Value| Value { im: 0.0, ..v };
    Problem {
        routine,
        form,
        op_a: op,
        op_b: Op::None,
        k: 1,
        alpha: if routine == Routine::Her {
            real(alpha)
        } else {
            alpha
        },
        operands,
        ..gemm(dtype, (Op::None, Op::None), (n, n, 1), beta)
    }
}

#[test]
fn triangles_and_vectors_equal_the_whole() {
    let mut turn = 0;
    for routine in HALF {
        for form in forms().into_iter().filter(|f| f.side == Side::Left) {
            for op in OPS {
                for dtype in Dtype::ALL {
                    for n in [1, 2, 5, 33] {
                        turn += 1;
                        let rev = (turn % 2 == 0, turn % 3 == 0);
                        let beta = [Value::ZERO, Value::ONE, THREE][turn % 3];
                        let p = half(routine, dtype, form, op, n, (TWO, beta), rev);
                        let plan = lower(&p, &resources(3, 7, PLENTY));
                        check(&p, &plan, 3);
                        assert_eq!(plan.tasks.len(), 1);
                        assert_eq!(plan.tasks[0].device, DeviceId(2));
                        // One piece as long as nine tenths of the memory hold the operands.
                        let elements: usize = p.operands.iter().map(|o| o.rows * o.cols).sum();
                        let bytes = elements * dtype.size();
                        let most = resources(1, 7, bytes * 10 / 9 + 10);
                        assert_eq!(lower(&p, &most).tasks.len(), 1);
                        let less = lower(&p, &resources(1, 7, bytes));
                        assert!(less.tasks.len() != 1 || n == 1);
                    }
                }
            }
        }
    }
}

/// Memory for tiles of `tile` rows.
fn memory_for(tile: usize, dtype: Dtype) -> usize {
    8 * tile * (tile + 2) * dtype.size()
}

/// Asserts that a plan of tiles of at most `tile` rows is right, on the preferred device, and that no task needs more than
/// its share of the memory.
fn check_tiles(p: &Problem, tile: usize) {
    let memory = memory_for(tile, p.dtype);
    let plan = lower(p, &resources(3, 7, memory));
    check(p, &plan, 3);
    assert!(plan.tasks.iter().all(|t| t.device == DeviceId(2)));
    let lines = p.n.div_ceil(tile);
    let each = match p.routine {
        Routine::Symv | Routine::Hemv | Routine::Syr2 | Routine::Her2 => 2,
        _ => 1,
    };
    // As many tasks as tiles, twice for those beside the diagonal.
    let beside = lines * (lines - 1) / 2;
    let whole = plan.tasks.len() == 1;
    assert!(whole || plan.tasks.len() == lines + each * beside, "{p:?}");
    for task in plan.tasks.iter().filter(|_| !whole) {
        let held: usize = task.parts.iter().map(|p| p.rows * p.cols).sum();
        assert!(held * p.dtype.size() * 8 <= memory);
    }
}

#[test]
fn tiles_of_triangles_equal_the_whole() {
    let mut turn = 0;
    for routine in HALF {
        for form in forms().into_iter().filter(|f| f.side == Side::Left) {
            for op in OPS {
                for dtype in Dtype::ALL {
                    for tile in [1, 3, 8] {
                        // Two, three and more lines of tiles, the last one full, or one element shorter or longer.
                        for n in [tile * 4 - 1, tile * 4, tile * 4 + 1, tile * 7 + 2] {
                            for rev in [(false, false), (false, true), (true, false), (true, true)]
                            {
                                turn += 1;
                                let beta = [Value::ZERO, Value::ONE, THREE][turn % 3];
                                let p = half(routine, dtype, form, op, n, (TWO, beta), rev);
                                check_tiles(&p, tile);
                            }
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn tiles_of_triangles_equal_the_whole_at_any_size(
        routine in proptest::sample::select(&HALF[..]),
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        form in proptest::sample::select(forms()),
        op in proptest::sample::select(&OPS[..]),
        n in 1usize..90,
        rev in any::<(bool, bool)>(),
        alpha in proptest::sample::select(&[Value::ONE, TWO][..]),
        beta in proptest::sample::select(&[Value::ZERO, Value::ONE, THREE][..]),
        tile in 1usize..30,
    ) {
        let form = Form { side: Side::Left, ..form };
        check_tiles(&half(routine, dtype, form, op, n, (alpha, beta), rev), tile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn stopped_calls_by_tiles_are_finished_rightly_or_not_at_all(
        routine in proptest::sample::select(&HALF[..]),
        form in proptest::sample::select(forms()),
        op in proptest::sample::select(&OPS[..]),
        n in 24usize..40,
        beta in proptest::sample::select(&[Value::ZERO, THREE][..]),
        at in 0usize..1000,
        written_back in proptest::option::of(0usize..4),
    ) {
        let form = Form { side: Side::Left, ..form };
        let p = half(routine, Dtype::D, form, op, n, (TWO, beta), (false, true));
        let plan = lower(&p, &resources(1, 7, memory_for(7, Dtype::D)));
        prop_assert!(plan.tasks.len() > 3);
        let at = at % (plan.tasks.len() + 1);
        // Of the final pieces every first, second, third or fourth is in host memory already, or none is.
        let fate = |i: usize| match written_back {
            Some(each) if i.is_multiple_of(each + 1) => 0,
            _ => 9,
        };
        let finished = stops(&p, &plan, at, DeviceId(0), &fate);
        prop_assert!(finished || written_back.is_some());
    }
}

#[test]
fn triangles_without_a_plan() {
    for routine in HALF {
        let of = |n| {
            let scalars = (TWO, THREE);
            let rev = (false, false);
            half(
                routine,
                Dtype::D,
                Form::default(),
                Op::None,
                n,
                scalars,
                rev,
            )
        };
        assert!(!lower(&of(9), &resources(1, 7, 0)).fits);
        assert!(!lower(&of(9), &resources(1, 7, memory_for(1, Dtype::D) - 1)).fits);
        // At most 256 lines of tiles.
        let memory = memory_for(10, Dtype::D);
        assert!(lower(&of(2560), &resources(1, 7, memory)).fits);
        assert!(!lower(&of(2561), &resources(1, 7, memory)).fits);
        assert!(!lower(&of(1 << 40), &resources(1, 7, memory)).fits);
        let nothing = lower(&of(0), &resources(1, 7, 0));
        assert!(nothing.fits && nothing.tasks.is_empty());
    }
}

#[test]
fn a_tile_of_a_large_triangle_is_a_part_of_the_memory() {
    // A matrix of 32 GiB with a memory of 16 GiB.
    let n = 1 << 16;
    for routine in HALF {
        let scalars = (TWO, THREE);
        let form = Form::default();
        let p = half(
            routine,
            Dtype::D,
            form,
            Op::None,
            n,
            scalars,
            (false, false),
        );
        let plan = lower(&p, &resources(1, 7, 16 << 30));
        let lines = plan.tasks.iter().filter(|t| t.kernel.routine == routine);
        assert_eq!(lines.count(), 5, "{routine:?}");
        assert!(plan.tasks.iter().all(|t| t.kernel.m.abs_diff(n / 5) <= 4));
    }
}

#[test]
fn of_a_triangle_only_panels_are_touched() {
    for routine in HALF {
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for n in [1, 100, 1023, 1024, 2000, 4200] {
                let form = Form {
                    uplo,
                    ..Form::default()
                };
                let p = half(
                    routine,
                    Dtype::D,
                    form,
                    Op::None,
                    n,
                    (TWO, Value::ONE),
                    (false, true),
                );
                let plan = lower(&p, &resources(1, 64, PLENTY));
                for part in &plan.tasks[0].parts {
                    let touched = crate::plan::touched(&p, &plan.tasks[0].kernel, part);
                    if p.operands[part.operand].vector || n < 1024 {
                        assert_eq!(touched, [*part]);
                        continue;
                    }
                    let holds = |r: usize, c: usize| {
                        let within = |q: &&crate::plan::Part| {
                            (q.row..q.row + q.rows).contains(&r)
                                && (q.col..q.col + q.cols).contains(&c)
                        };
                        touched.iter().filter(within).count()
                    };
                    for c in (0..n).step_by(7).chain([n - 1]) {
                        let rows = if uplo == Uplo::Lower { c..n } else { 0..c + 1 };
                        assert!([rows.start, rows.end - 1].iter().all(|&r| holds(r, c) == 1));
                        assert!((0..n).step_by(37).all(|r| holds(r, c) <= 1));
                    }
                    let moved: usize = touched.iter().map(|q| q.rows * q.cols).sum();
                    let panels = touched.len();
                    assert!((2..=8).contains(&panels), "{n}: {panels}");
                    let part_of = n * n / 2 + n * n.div_ceil(panels) / 2 + n;
                    assert!(moved <= part_of, "{n}: {moved} of {part_of}");
                    assert!(touched.iter().all(|q| q.access == part.access));
                }
            }
        }
    }
    // The kernel of a routine without a triangle touches its parts as a whole.
    let p = gemm(Dtype::D, (Op::None, Op::None), (600, 600, 600), Value::ONE);
    let plan = lower(&p, &resources(1, 2048, PLENTY));
    for part in &plan.tasks[0].parts {
        assert_eq!(
            crate::plan::touched(&p, &plan.tasks[0].kernel, part),
            [*part]
        );
    }
}

#[test]
fn on_a_diagonal_only_panels_are_touched() {
    use Routine::{Her2k, Herk, Symm, Syr2k, Syrk, Trmm, Trsm};
    const N: usize = 2500;
    for routine in [Symm, Trmm, Trsm, Syrk, Herk, Syr2k, Her2k] {
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for beta in [Value::ZERO, TWO] {
                let form = Form {
                    uplo,
                    ..Form::default()
                };
                let p = level3(routine, Dtype::Z, form, Op::None, (N, N, N), (TWO, beta));
                let plan = lower(&p, &resources(1, 1000, PLENTY));
                let (mut squares, mut overwritten) = (0, 0);
                for (task, part) in plan
                    .tasks
                    .iter()
                    .flat_map(|t| t.parts.iter().map(move |p| (t, p)))
                {
                    let touched = crate::plan::touched(&p, &task.kernel, part);
                    let own =
                        task.kernel.routine == routine && routine.triangle() == Some(part.operand);
                    if !own {
                        assert_eq!(touched, [*part]);
                        continue;
                    }
                    squares += 1;
                    let of = |r: usize, c: usize| -> Vec<Access> {
                        let holds = |q: &&crate::plan::Part| {
                            (q.row..q.row + q.rows).contains(&r)
                                && (q.col..q.col + q.cols).contains(&c)
                        };
                        touched.iter().filter(holds).map(|q| q.access).collect()
                    };
                    for c in (part.col..part.col + part.cols).step_by(9) {
                        for r in (part.row..part.row + part.rows).step_by(7) {
                            let stored =
                                (uplo == Uplo::Lower && r >= c) || (uplo == Uplo::Upper && r <= c);
                            let found = of(r, c);
                            assert!(found.len() <= 1 && (!stored || found.len() == 1));
                            if found == [Access::Overwrite] {
                                // A rectangle beside the diagonal is written without being read: all of it is in the
                                // stored triangle, and beta is zero.
                                assert!(stored && task.kernel.beta.is_zero());
                                overwritten += 1;
                            } else {
                                assert!(found.iter().all(|a| *a == part.access));
                            }
                        }
                    }
                }
                assert!(squares >= 3, "{routine:?}");
                let fresh = beta.is_zero() && matches!(routine, Syrk | Herk | Syr2k | Her2k);
                assert_eq!(overwritten > 0, fresh, "{routine:?} {beta:?}");
            }
        }
    }
}
