//! Tests of plans: the tasks of a plan together compute the same as the naive arithmetic on the whole problem.

use super::executor::{Mat, check, fill, run};
use super::redo::{self, Stop};
use super::{Access, Operand, Owned, Plan, Problem, Resources, Task, by_owners, lower};
use crate::base::kernel::TRANSPOSED_SHARE;
use crate::base::{DeviceId, DeviceSet, Diag, Dtype, Form, Op, Routine, Side, Uplo, Value};
use proptest::prelude::*;

mod chains;
mod distributed;
mod gemmt;
mod half;
mod host_part;
mod large;
mod strips;
mod vectors;

const TWO: Value = Value { re: 2.0, im: 1.0 };
const THREE: Value = Value { re: -3.0, im: 1.0 };
const OPS: [Op; 3] = [Op::None, Op::Trans, Op::ConjTrans];
const TILES: [usize; 5] = [1, 2, 3, 7, 64];
const PLENTY: usize = 1 << 30;

fn gemm(dtype: Dtype, ops: (Op, Op), (m, n, k): (usize, usize, usize), beta: Value) -> Problem {
    let stored = |op, r, c| match op {
        Op::None => Operand::matrix(r, c, r + 3),
        _ => Operand::matrix(c, r, c + 3),
    };
    Problem {
        routine: Routine::Gemm,
        dtype,
        form: Form::default(),
        op_a: ops.0,
        op_b: ops.1,
        m,
        n,
        k,
        alpha: TWO,
        beta,
        operands: vec![
            stored(ops.0, m, k),
            stored(ops.1, k, n),
            Operand::matrix(m, n, m),
        ],
    }
}

fn gemv(dtype: Dtype, op: Op, (m, n): (usize, usize), beta: Value, rev: (bool, bool)) -> Problem {
    let (len, out) = if op == Op::None { (n, m) } else { (m, n) };
    Problem {
        routine: Routine::Gemv,
        form: Form::default(),
        op_a: op,
        k: 1,
        operands: vec![
            Operand::matrix(m, n, m),
            Operand::vector(len, 2, rev.0),
            Operand::vector(out, 1, rev.1),
        ],
        ..gemm(dtype, (Op::None, Op::None), (m, n, 1), beta)
    }
}

fn ger(routine: Routine, dtype: Dtype, (m, n): (usize, usize), rev: (bool, bool)) -> Problem {
    Problem {
        routine,
        operands: vec![
            Operand::vector(m, 1, rev.0),
            Operand::vector(n, 3, rev.1),
            Operand::matrix(m, n, m + 1),
        ],
        ..gemm(dtype, (Op::None, Op::None), (m, n, 1), Value::ZERO)
    }
}

fn vectors(routine: Routine, dtype: Dtype, n: usize, rev: (bool, bool)) -> Problem {
    let two = routine.operands().len() == 2;
    let mut operands = vec![Operand::vector(n, 1, two && rev.0)];
    if two {
        operands.push(Operand::vector(n, 2, rev.1));
    }
    Problem {
        routine,
        operands,
        ..gemm(dtype, (Op::None, Op::None), (n, 1, 1), Value::ZERO)
    }
}

const LEVEL3: [Routine; 8] = [
    Routine::Symm,
    Routine::Hemm,
    Routine::Syrk,
    Routine::Herk,
    Routine::Syr2k,
    Routine::Her2k,
    Routine::Trmm,
    Routine::Trsm,
];

/// A routine with a symmetric or triangular matrix. Sizes, `op` and scalars that the routine does not accept are
/// changed into ones that it does.
fn level3(
    routine: Routine,
    dtype: Dtype,
    form: Form,
    op: Op,
    (m, n, k): (usize, usize, usize),
    (alpha, beta): (Value, Value),
) -> Problem {
    use Routine::{Hemm, Her2k, Herk, Symm, Syr2k, Syrk, Trmm, Trsm};
    let hermitian = matches!(routine, Hemm | Herk | Her2k);
    let rank_k = matches!(routine, Syrk | Herk | Syr2k | Her2k);
    let op = match (op, hermitian && rank_k, dtype.is_complex()) {
        (Op::Trans, true, _) => Op::ConjTrans,
        (Op::ConjTrans, false, true) if rank_k => Op::Trans,
        (op, ..) => op,
    };
    let real = |v: Value| Value { im: 0.0, ..v };
    let alpha = if routine == Herk { real(alpha) } else { alpha };
    let beta = if hermitian && rank_k {
        real(beta)
    } else {
        beta
    };
    let (m, n) = if rank_k { (n, n) } else { (m, n) };
    let order = if form.side == Side::Left { m } else { n };
    let matrix = |r: usize, c: usize| Operand::matrix(r, c, r + 2);
    let input = if op == Op::None {
        matrix(n, k)
    } else {
        matrix(k, n)
    };
    let operands = match routine {
        Symm | Hemm => vec![matrix(order, order), matrix(m, n), matrix(m, n)],
        Syrk | Herk => vec![input, matrix(n, n)],
        Syr2k | Her2k => vec![input, input, matrix(n, n)],
        Trmm | Trsm => vec![matrix(order, order), matrix(m, n)],
        other => unreachable!("{other:?}"),
    };
    Problem {
        routine,
        dtype,
        form,
        op_a: if matches!(routine, Symm | Hemm) {
            Op::None
        } else {
            op
        },
        op_b: Op::None,
        m,
        n,
        k: if rank_k { k } else { order },
        alpha,
        beta,
        operands,
    }
}

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for side in [Side::Left, Side::Right] {
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for diag in [Diag::NonUnit, Diag::Unit] {
                forms.push(Form { side, uplo, diag });
            }
        }
    }
    forms
}

/// Three devices are not equally fast.
fn resources(devices: usize, tile: usize, memory: usize) -> Resources {
    let unequal = [1.0, 5.0, 3.0].into_iter().zip(0..);
    Resources {
        grain: 1,
        devices: match devices {
            3 => DeviceSet::of(unequal.map(|(speed, id)| (DeviceId(id), speed))),
            equal => DeviceSet::equal(equal),
        },
        prefer: DeviceId(u8::try_from(devices - 1).expect("small")),
        ..Resources::new(devices, tile, memory)
    }
}

/// Sizes of 1, around the tile, odd, tall and wide.
fn sizes(t: usize) -> Vec<(usize, usize, usize)> {
    let one_less = (t - 1).max(1);
    vec![
        (1, 1, 1),
        (one_less, t, t + 1),
        (t + 1, one_less, t),
        (t, t + 1, one_less),
        (2 * t + 1, 2 * t + 1, 2 * t + 1),
        (5 * t + 2, 3, t + 2),
        (2, 6 * t + 1, 5),
        (3, 2, 5 * t),
    ]
}

#[test]
fn gemm_equals_the_whole() {
    for tile in TILES {
        for (i, dtype) in Dtype::ALL.into_iter().enumerate() {
            for a in OPS {
                for b in OPS {
                    for (j, size) in sizes(tile).into_iter().enumerate() {
                        let beta = [Value::ZERO, Value::ONE, THREE][(i + j) % 3];
                        // With large tiles each size is tested with one number of devices only.
                        let range = if tile < 64 {
                            1..=4
                        } else {
                            1 + (i + j) % 4..=1 + (i + j) % 4
                        };
                        for devices in range {
                            let p = gemm(dtype, (a, b), size, beta);
                            check(&p, &lower(&p, &resources(devices, tile, PLENTY)), devices);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn gemm_out_of_core_equals_the_whole() {
    for dtype in [Dtype::S, Dtype::Z] {
        for (a, b) in [
            (Op::None, Op::None),
            (Op::Trans, Op::None),
            (Op::None, Op::ConjTrans),
        ] {
            for size in [(70, 65, 90), (33, 200, 17), (150, 20, 60)] {
                for devices in [1, 3] {
                    for tile in [7, 16, 64] {
                        let p = gemm(dtype, (a, b), size, Value::ZERO);
                        let memory = 16 * 20 * 20 * dtype.size();
                        let plan = lower(&p, &resources(devices, tile, memory));
                        check(&p, &plan, devices);
                        for d in 0..devices {
                            let of = |t: &&Task| t.device.index() == d;
                            let held = plan.footprints.iter().filter(|f| f.device.index() == d);
                            let held: usize = held.map(|f| f.part.rows * f.part.cols).sum();
                            let bytes = |t: &Task| t.parts.iter().map(|p| p.rows * p.cols).sum();
                            let largest: usize =
                                plan.tasks.iter().filter(of).map(bytes).max().unwrap_or(0);
                            assert!(held.min(largest) * dtype.size() <= memory);
                            let tiles = plan.tasks.iter().flat_map(|t| &t.parts);
                            let tile = tiles.map(|p| p.rows * p.cols).max().unwrap_or(0);
                            let in_core = held * dtype.size() <= memory - memory / 10;
                            assert!(in_core || 3 * tile * dtype.size() <= memory);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn level_3_equals_the_whole() {
    let scalars = [
        (TWO, Value::ZERO),
        (TWO, THREE),
        (Value::ONE, Value::ONE),
        (Value::ZERO, THREE),
    ];
    let sizes = [
        (1, 1, 1),
        (2, 1, 3),
        (3, 4, 2),
        (9, 7, 5),
        (5, 19, 12),
        (21, 6, 4),
        (17, 18, 1),
    ];
    let mut turn = 0;
    for routine in LEVEL3 {
        for form in forms() {
            for op in OPS {
                for (i, dtype) in Dtype::ALL.into_iter().enumerate() {
                    for size in sizes {
                        for tile in [1, 3, 4] {
                            // Numbers of devices and scalars take turns: only pairs of neighbouring loops are tested in
                            // full.
                            turn += 1;
                            let (devices, scalars) = (1 + turn % 3, scalars[(turn / 3 + i) % 4]);
                            let p = level3(routine, dtype, form, op, size, scalars);
                            check(&p, &lower(&p, &resources(devices, tile, PLENTY)), devices);
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
    fn level_3_equals_the_whole_at_any_size(
        routine in proptest::sample::select(&LEVEL3[..]),
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        form in proptest::sample::select(forms()),
        op in proptest::sample::select(&OPS[..]),
        size in (1usize..70, 1usize..70, 1usize..40),
        alpha in proptest::sample::select(&[Value::ONE, TWO, Value::ZERO][..]),
        beta in proptest::sample::select(&[Value::ZERO, Value::ONE, THREE][..]),
        devices in 1usize..4,
        tile in proptest::sample::select(&[1usize, 2, 5, 16, 23, 64][..]),
        memory in proptest::option::of(10usize..80),
    ) {
        let p = level3(routine, dtype, form, op, size, (alpha, beta));
        // Either enough memory for all operands, or for some tiles of 16 x 16.
        let memory = memory.map_or(PLENTY, |tiles| tiles * 16 * 16 * dtype.size());
        let plan = lower(&p, &resources(devices, tile, memory));
        // Enough for tiles of up to 20, two inputs three times each; tiles smaller than 16 may be too many.
        let room = memory >= 24 * 20 * 20 * dtype.size() && tile >= 16;
        if plan.fits || memory == PLENTY || room {
            check(&p, &plan, devices);
        }
        if plan.fits && memory < PLENTY {
            for task in &plan.tasks {
                let held: usize = task.parts.iter().map(|p| p.rows * p.cols).sum();
                prop_assert!(held * dtype.size() <= memory);
            }
        }
    }
}

/// A call that stopped: the results of the tasks on device `lost` are lost; of these, `fate` says which were written
/// back, partly written back or evicted to host memory. Returns whether the host could finish the call; if so, asserts
/// that the result is right.
fn stops(p: &Problem, plan: &Plan, at: usize, lost: DeviceId, fate: &dyn Fn(usize) -> u8) -> bool {
    let start: Vec<Mat<f64>> = fill(p);
    let mut expected = start.clone();
    for task in &plan.tasks {
        run(p, task, &mut expected);
    }
    let (mut host, mut device) = (start.clone(), start);
    let (mut written_back, mut torn, mut gone) = (Vec::new(), Vec::new(), false);
    let outputs = |t: &'_ Task| t.parts.iter().copied().find(|p| p.access != Access::Read);
    for (i, task) in plan.tasks.iter().enumerate().take(at) {
        run(p, task, &mut device);
        let part = outputs(task).expect("an output");
        let now = device[part.operand].cut(&part);
        if task.device != lost {
            host[part.operand].paste(&part, &now);
            continue;
        }
        let later = &plan.tasks[i + 1..];
        let is_last = !later
            .iter()
            .any(|t| outputs(t).map(|p| redo::key(&p)) == Some(redo::key(&part)));
        match fate(i) {
            // Only final pieces are written back.
            0..=3 if is_last => {
                host[part.operand].paste(&part, &now);
                written_back.push(redo::key(&part));
            }
            4 if is_last => {
                let mut nan = now;
                nan.data.fill(f64::NAN);
                host[part.operand].paste(&part, &nan);
                torn.push(redo::key(&part));
            }
            5 => {
                host[part.operand].paste(&part, &now);
                gone = p.access(part.operand) == Access::Update;
            }
            _ => {}
        }
    }
    let stop = Stop {
        at,
        lost: Some(lost),
        written_back: &|p| written_back.contains(&redo::key(p)),
        torn: &|p| torn.contains(&redo::key(p)),
        gone: &|operand| gone && p.access(operand) != Access::Read,
    };
    let Ok(again) = redo::redo(p, plan, &stop) else {
        return false;
    };
    for i in again {
        run(p, &plan.tasks[i], &mut host);
    }
    assert_eq!(host, expected, "{p:?}");
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn stopped_calls_are_finished_rightly_or_not_at_all(
        routine in proptest::sample::select([&LEVEL3[..], &[Routine::Gemm]].concat()),
        form in proptest::sample::select(forms()),
        op in proptest::sample::select(&OPS[..]),
        size in (1usize..25, 1usize..25, 1usize..12),
        beta in proptest::sample::select(&[Value::ZERO, THREE][..]),
        devices in 1usize..4,
        (at, lost) in (0usize..1000, 0usize..3),
        seed in any::<u64>(),
        events in 0u64..3,
    ) {
        let p = if routine == Routine::Gemm {
            gemm(Dtype::D, (op, Op::None), size, beta)
        } else {
            level3(routine, Dtype::D, form, op, size, (TWO, beta))
        };
        let plan = lower(&p, &resources(devices, 4, PLENTY));
        let at = at % (plan.tasks.len() + 1);
        let lost = DeviceId(u8::try_from(lost % devices).expect("small"));
        // Either no result is written back, or some are, or all kinds of events occur.
        let fate = |i: usize| {
            let x = (seed ^ i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            match events {
                0 => 9,
                1 if x.is_multiple_of(3) => 0,
                1 => 9,
                _ => u8::try_from(x % 40).expect("small"),
            }
        };
        let finished = stops(&p, &plan, at, lost, &fate);
        prop_assert!(finished || events > 0);
    }
}

#[test]
fn a_tile_that_was_written_back_cannot_be_read_as_it_was() {
    // Two lines of B: the first line to be finished is final, and reads the second line as it was before the call.
    let p = level3(
        Routine::Trmm,
        Dtype::D,
        Form {
            uplo: Uplo::Upper,
            ..Form::default()
        },
        Op::None,
        (8, 4, 0),
        (TWO, Value::ONE),
    );
    let plan = lower(&p, &resources(1, 4, PLENTY));
    assert_eq!(plan.tasks.len(), 3);
    let (all, lost) = (plan.tasks.len(), DeviceId(0));
    assert!(stops(&p, &plan, all, lost, &|_| 9));
    // The lines are written back in the order in which they become final.
    assert!(stops(&p, &plan, all, lost, &|i| if i == 1 { 0 } else { 9 }));
    assert!(stops(&p, &plan, all, lost, &|_| 0));
    assert!(!stops(&p, &plan, all, lost, &|i| if i == 2 {
        0
    } else {
        9
    }));
    // In trsm, products read a solution as it was written back.
    let p = Problem {
        routine: Routine::Trsm,
        ..p
    };
    let plan = lower(&p, &resources(1, 4, PLENTY));
    assert_eq!(plan.tasks.len(), 3);
    assert!(stops(&p, &plan, all, lost, &|i| if i == 0 { 0 } else { 9 }));
    assert!(stops(&p, &plan, all, lost, &|i| if i == 2 { 0 } else { 9 }));
    assert!(!stops(&p, &plan, all, lost, &|i| if i == 0 {
        4
    } else {
        9
    }));
}

#[test]
fn what_a_pass_computed_is_not_computed_again() {
    let p = gemm(Dtype::D, (Op::None, Op::None), (8, 8, 8), THREE);
    let plan = lower(&p, &resources(2, 4, PLENTY));
    let stop = |written_back| Stop {
        at: plan.tasks.len(),
        lost: Some(DeviceId(1)),
        written_back,
        torn: &|_| false,
        gone: &|_| false,
    };
    assert_eq!(redo::redo(&p, &plan, &stop(&|_| true)), Ok(Vec::new()));
    let of_the_lost = redo::redo(&p, &plan, &stop(&|_| false)).expect("can");
    assert_eq!(of_the_lost.len(), plan.tasks.len() / 2);
}

#[test]
fn gemv_and_ger_equal_the_whole() {
    for tile in TILES {
        for dtype in Dtype::ALL {
            for (i, (m, n, _)) in sizes(tile).into_iter().enumerate() {
                for devices in 1..=4 {
                    // In one piece, or with a memory of a few elements.
                    for memory in [PLENTY, 40 * dtype.size(), 12 * dtype.size()] {
                        for rev in [(false, false), (false, true), (true, false), (true, true)] {
                            let beta = [Value::ZERO, THREE][i % 2];
                            for op in OPS {
                                let p = gemv(dtype, op, (m, n), beta, rev);
                                check(&p, &lower(&p, &resources(devices, tile, memory)), devices);
                            }
                            for routine in [Routine::Ger, Routine::Gerc] {
                                let p = ger(routine, dtype, (m, n), rev);
                                check(&p, &lower(&p, &resources(devices, tile, memory)), devices);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A sum, copy or transposition of matrices of which the first has `m` rows and `n` columns.
fn matrices(
    routine: Routine,
    dtype: Dtype,
    op_a: Op,
    (m, n): (usize, usize),
    beta: Value,
) -> Problem {
    let (rows, cols) = if op_a == Op::None { (m, n) } else { (n, m) };
    let both = [Operand::matrix(m, n, m), Operand::matrix(rows, cols, rows)];
    let count = routine.operands().len();
    Problem {
        routine,
        op_a,
        m,
        n,
        beta,
        operands: both[2 - count..].to_vec(),
        ..gemm(dtype, (Op::None, Op::None), (1, 1, 1), beta)
    }
}

#[test]
fn sums_and_copies_of_matrices_equal_the_whole() {
    use Routine::{Geadd, Imatcopy, Omatcopy};
    for tile in TILES {
        for (i, (m, n, _)) in sizes(tile).into_iter().enumerate() {
            let dtype = Dtype::ALL[i % 4];
            for devices in 1..=4 {
                for memory in [PLENTY, 40 * dtype.size(), 24 * dtype.size()] {
                    let beta = [Value::ZERO, THREE][i % 2];
                    let p = matrices(Geadd, dtype, Op::None, (m, n), beta);
                    check(&p, &lower(&p, &resources(devices, tile, memory)), devices);
                    for op in OPS {
                        let p = matrices(Omatcopy, dtype, op, (m, n), Value::ONE);
                        check(&p, &lower(&p, &resources(devices, tile, memory)), devices);
                    }
                    let p = matrices(Imatcopy, dtype, Op::None, (m, n), Value::ONE);
                    check(&p, &lower(&p, &resources(devices, tile, memory)), devices);
                }
            }
        }
    }
}

#[test]
fn a_square_is_transposed_by_one_kernel_beside_a_copy() {
    for op in [Op::Trans, Op::ConjTrans] {
        let p = matrices(Routine::Imatcopy, Dtype::Z, op, (33, 33), Value::ONE);
        let plan = lower(&p, &resources(3, 8, PLENTY));
        check(&p, &plan, 3);
        assert_eq!(plan.tasks.len(), 1);
        let least = 33 * 33 * 16 * TRANSPOSED_SHARE;
        assert!(lower(&p, &resources(3, 8, least)).fits);
        assert!(!lower(&p, &resources(3, 8, least - 1)).fits);
    }
}

#[test]
fn too_little_memory_or_no_device() {
    let p = gemm(Dtype::D, (Op::None, Op::None), (100, 100, 100), Value::ONE);
    assert_eq!(
        lower(&p, &resources(1, 64, 3 * 15 * 16 * 8)),
        Plan::default()
    );
    assert_eq!(lower(&p, &resources(1, 64, 0)), Plan::default());
    assert!(lower(&p, &resources(1, 64, 12 * 19 * 19 * 8)).fits);
    assert_eq!(lower(&p, &Resources::new(0, 64, PLENTY)), Plan::default());
    let p = gemv(Dtype::D, Op::None, (9, 9), Value::ONE, (false, false));
    assert!(!lower(&p, &resources(1, 64, 8)).fits);
    let p = vectors(Routine::Axpy, Dtype::Z, 9, (false, false));
    assert!(!lower(&p, &resources(1, 64, 8)).fits);
    // More tasks than a plan may have.
    let p = vectors(Routine::Axpy, Dtype::D, 1 << 30, (false, false));
    assert!(!lower(&p, &resources(1, 64, 1024)).fits);
    let p = gemv(
        Dtype::D,
        Op::None,
        (1 << 14, 1 << 14),
        Value::ONE,
        (false, false),
    );
    assert!(!lower(&p, &resources(1, 64, 1024)).fits);
    let p = gemm(
        Dtype::D,
        (Op::None, Op::None),
        (5000, 5000, 5000),
        Value::ONE,
    );
    assert!(!lower(&p, &resources(1, 64, 1 << 16)).fits);
    // The preferred device does not exist.
    let small = vectors(Routine::Axpy, Dtype::D, 9, (false, false));
    let prefer = DeviceId(9);
    let plan = lower(
        &small,
        &Resources {
            prefer,
            ..Resources::new(2, 64, PLENTY)
        },
    );
    assert_eq!(plan.tasks[0].device, DeviceId(0));
    let nothing_to_add = gemm(Dtype::D, (Op::None, Op::None), (4, 4, 0), THREE);
    assert!(!lower(&nothing_to_add, &resources(1, 64, PLENTY)).fits);
    let empty = gemm(Dtype::D, (Op::None, Op::None), (0, 4, 4), THREE);
    let plan = lower(&empty, &resources(1, 64, PLENTY));
    assert!(plan.fits && plan.tasks.is_empty());
}
