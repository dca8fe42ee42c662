//! The shape of large plans, and problems that cannot be planned.

use super::*;

fn big(n: usize) -> Problem {
    gemm(Dtype::D, (Op::None, Op::None), (n, n, n), Value::ZERO)
}

#[test]
fn a_large_gemm_gives_every_device_one_panel_and_early_work() {
    let plan = lower(&big(16384), &Resources::new(8, 2048, 140 << 30));
    assert_eq!(plan.tasks.len(), 512);
    for (i, t) in plan.tasks[..8].iter().enumerate() {
        assert_eq!(t.device.index(), i);
        assert_eq!(t.parts[2].access, Access::Overwrite);
        // Each device fetches another part of A first.
        assert_eq!((t.parts[0].row, t.parts[0].col), (2048 * i, 0));
    }
    for f in plan.footprints.iter().filter(|f| f.part.operand == 2) {
        assert_eq!(
            (f.part.col, f.part.cols, f.part.rows),
            (2048 * f.device.index(), 2048, 16384)
        );
    }
    assert_eq!(plan.footprints.len(), 24);
}

#[test]
fn a_whole_problem_is_one_task_like_itself() {
    for routine in LEVEL3 {
        for form in forms() {
            for beta in [Value::ZERO, THREE] {
                let p = level3(
                    routine,
                    Dtype::Z,
                    form,
                    Op::None,
                    (300, 700, 50),
                    (TWO, beta),
                );
                let plan = lower(&p, &Resources::new(1, usize::MAX, usize::MAX));
                let [task] = plan.tasks.as_slice() else {
                    panic!("{routine:?}: {} tasks", plan.tasks.len())
                };
                assert_eq!(task.kernel, p.kernel());
                for (i, (part, o)) in task.parts.iter().zip(&p.operands).enumerate() {
                    assert_eq!((part.operand, part.access), (i, p.access(i)));
                    assert_eq!((part.rows, part.cols), (o.rows, o.cols));
                }
            }
        }
    }
}

#[test]
fn triangles_that_cannot_be_planned() {
    for routine in LEVEL3 {
        let sizes = (100, 100, 100);
        let p = level3(
            routine,
            Dtype::D,
            Form::default(),
            Op::None,
            sizes,
            (TWO, THREE),
        );
        assert_eq!(
            lower(&p, &resources(2, 64, 3 * 15 * 16 * 8)),
            Plan::default()
        );
        assert_eq!(lower(&p, &resources(2, 64, 0)), Plan::default());
        assert!(lower(&p, &resources(2, 64, 24 * 20 * 20 * 8)).fits);
        let absurd = level3(
            routine,
            Dtype::D,
            Form::default(),
            Op::None,
            (5000, 5000, 5000),
            (TWO, THREE),
        );
        assert!(!lower(&absurd, &resources(1, 64, 1 << 16)).fits);
        let plan = lower(&absurd, &Resources::new(1, 1, PLENTY * 64));
        assert!(plan.fits && plan.tasks.len() <= 1 << 16);
        let empty = level3(
            routine,
            Dtype::D,
            Form::default(),
            Op::None,
            (0, 0, 4),
            (TWO, THREE),
        );
        let plan = lower(&empty, &resources(1, 64, PLENTY));
        assert!(plan.fits && plan.tasks.is_empty());
    }
    let nothing = level3(
        Routine::Syrk,
        Dtype::D,
        Form::default(),
        Op::None,
        (4, 4, 0),
        (TWO, THREE),
    );
    assert!(!lower(&nothing, &resources(1, 64, PLENTY)).fits);
}

/// Number of pairs of real operations (multiply and add) of a task.
fn pairs(t: &Task) -> usize {
    let whole = t.kernel.m * t.kernel.n * t.kernel.k;
    match t.kernel.routine {
        Routine::Syrk | Routine::Trmm | Routine::Trsm => whole / 2,
        _ => whole,
    }
}

#[test]
fn large_triangles_are_shared_fairly_and_computed_once() {
    let n = 16384;
    for routine in LEVEL3 {
        for form in forms() {
            for op in OPS {
                let sizes = (n, n, n);
                let p = level3(routine, Dtype::Z, form, op, sizes, (TWO, Value::ZERO));
                for devices in [1, 3, 8] {
                    let plan = lower(&p, &Resources::new(devices, 1024, 140 << 30));
                    let of = |d: usize| -> usize {
                        let tasks = plan.tasks.iter().filter(|t| t.device.index() == d);
                        tasks.map(pairs).sum()
                    };
                    let total: usize = (0..devices).map(of).sum();
                    let needed = match routine {
                        Routine::Syrk | Routine::Herk | Routine::Trmm | Routine::Trsm => {
                            n * n / 2 * n
                        }
                        _ => n * n * n,
                    };
                    // Only the kernels on the diagonal of a rank-k update count more operations than they do.
                    assert!(
                        total <= needed + needed / 10,
                        "{routine:?} {total} {needed}"
                    );
                    let most = (0..devices).map(of).max().expect("some");
                    assert!(most <= total / devices * 6 / 5, "{routine:?} {devices}");
                }
            }
        }
    }
}

#[test]
fn a_large_solution_starts_with_two_tiles_and_needs_ever_fewer() {
    for form in forms() {
        for routine in [Routine::Trsm, Routine::Trmm] {
            for op in OPS {
                let n = 16384;
                let p = level3(routine, Dtype::D, form, op, (n, n, n), (TWO, Value::ZERO));
                let plan = lower(&p, &Resources::new(1, 2048, 140 << 30));
                assert_eq!(plan.tasks[0].kernel.routine, p.routine);
                let mut seen = std::collections::HashSet::new();
                let mut arrived = Vec::new();
                for task in &plan.tasks {
                    seen.extend(task.parts.iter().map(place_of));
                    arrived.push(seen.len());
                }
                assert_eq!(arrived[0], 2);
                // There are 36 tiles of A and 64 of B in all; half of the kernels run before two thirds of these have
                // arrived.
                assert_eq!((arrived.len(), arrived[arrived.len() - 1]), (288, 100));
                assert!(arrived[143] <= 68, "{}", arrived[143]);
                // The first block has 10 tiles of A and 16 of B.
                assert!(arrived[39] <= 26, "{}", arrived[39]);
            }
        }
    }
}

fn place_of(p: &crate::plan::Part) -> (usize, usize, usize) {
    (p.operand, p.row, p.col)
}

#[test]
fn few_columns_are_split_by_rows_and_small_ones_not_at_all() {
    let by_rows = gemm(
        Dtype::D,
        (Op::None, Op::None),
        (16384, 256, 4096),
        Value::ONE,
    );
    let plan = lower(&by_rows, &Resources::new(4, 2048, PLENTY * 64));
    let c: Vec<_> = plan
        .footprints
        .iter()
        .filter(|f| f.part.operand == 2)
        .collect();
    assert_eq!(c.len(), 4);
    assert!(c.iter().all(|f| f.part.rows == 4096 && f.part.cols == 256));
    let small = gemm(Dtype::D, (Op::None, Op::None), (300, 300, 300), Value::ONE);
    let machine = Resources {
        prefer: DeviceId(2),
        ..Resources::new(4, 2048, PLENTY)
    };
    let plan = lower(&small, &machine);
    assert_eq!(plan.tasks.len(), 1);
    assert_eq!(plan.tasks[0].device, DeviceId(2));
    let some = gemm(Dtype::D, (Op::None, Op::None), (512, 800, 512), Value::ONE);
    let plan = lower(&some, &machine);
    let c: Vec<_> = plan
        .footprints
        .iter()
        .filter(|f| f.part.operand == 2)
        .map(|f| f.part.cols)
        .collect();
    assert_eq!(c.len(), 3);
    assert!(c.iter().all(|&cols| cols >= 256));
}

#[test]
fn an_absurd_tile_is_made_larger() {
    let plan = lower(&big(4096), &Resources::new(1, 1, PLENTY * 64));
    assert!(plan.fits && plan.tasks.len() <= 1 << 16);
}

#[test]
fn a_resident_gemv_is_one_kernel_per_device() {
    let n = 32768;
    for op in OPS {
        let p = gemv(Dtype::D, op, (n, n), Value::ZERO, (false, false));
        let plan = lower(&p, &Resources::new(4, 2048, 100 << 30));
        assert_eq!(plan.tasks.len(), 4);
        let alone = lower(&p, &Resources::new(1, 2048, 100 << 30));
        assert_eq!(alone.tasks.len(), 1);
        // Operands of 8 GiB with a memory of 4 GiB.
        let through = lower(&p, &Resources::new(1, 2048, 4 << 30));
        assert!((8..=10).contains(&through.tasks.len()));
    }
    let wide = gemv(
        Dtype::D,
        Op::None,
        (16, 1 << 22),
        Value::ZERO,
        (false, false),
    );
    assert_eq!(
        lower(&wide, &Resources::new(4, 2048, 100 << 30))
            .tasks
            .len(),
        1
    );
    let small = gemv(
        Dtype::D,
        Op::None,
        (1000, 1000),
        Value::ZERO,
        (false, false),
    );
    assert_eq!(
        lower(&small, &Resources::new(4, 2048, 100 << 30))
            .tasks
            .len(),
        1
    );
}

#[test]
fn blocks_reuse_tiles_out_of_core() {
    // Operands of 6 GiB with a memory of 2 GiB, where the tile that was used longest ago is evicted.
    let memory = 2 << 30;
    let plan = lower(&big(16384), &Resources::new(1, 1024, memory));
    assert!(plan.fits);
    let (mut moved, mut held) = (0usize, Vec::<((usize, usize, usize), usize)>::new());
    for t in &plan.tasks {
        for part in &t.parts {
            let key = (part.operand, part.row, part.col);
            let bytes = part.rows * part.cols * 8;
            match held.iter().position(|h| h.0 == key) {
                Some(at) => {
                    held.remove(at);
                }
                None => moved += bytes,
            }
            held.push((key, bytes));
            while held.iter().map(|h| h.1).sum::<usize>() > memory {
                held.remove(0);
            }
        }
    }
    // Each byte of A and B is fetched once for each block of 8 tiles that needs it, which is twice; each byte of C
    // once.
    let matrix = 16384 * 16384 * 8;
    assert!(
        moved <= 5 * matrix + matrix / 10,
        "{} %",
        moved * 100 / matrix
    );
}
