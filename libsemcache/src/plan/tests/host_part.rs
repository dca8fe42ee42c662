//! Calls that are divided between devices and the host.

use super::*;
use crate::plan::host_part::{columns, divides_columns, host_part};
use crate::plan::strips::Strips;

/// Every kind of problem whose output has columns to divide, and some of those that have none.
fn problems(dtype: Dtype, form: Form, ops: (Op, Op), size: (usize, usize, usize)) -> Vec<Problem> {
    let mut all = vec![
        gemm(dtype, ops, size, THREE),
        gemmt::problem(dtype, form.uplo, ops, (size.1, size.2), Value::ZERO),
    ];
    let scalars = (TWO, THREE);
    all.extend(LEVEL3.map(|routine| level3(routine, dtype, form, ops.0, size, scalars)));
    all
}

/// The tasks of both parts as one plan, in which the host is the device after the last one.
fn together(p: &Problem, host_columns: usize, devices: usize, tile: usize) -> Plan {
    let part = host_part(p, host_columns).expect("both parts have columns");
    let mut tasks = lower(&part.devices, &resources(devices, tile, PLENTY)).tasks;
    for part_of in tasks.iter_mut().flat_map(|task| &mut task.parts) {
        let (row, col) = part.begins[part_of.operand];
        part_of.row += row;
        part_of.col += col;
    }
    tasks.extend(part.tasks.into_iter().map(|task| Task {
        device: DeviceId::at(devices),
        ..task
    }));
    Plan::of(tasks, Strips::default())
}

/// Devices and host together compute the whole; each element of the output is used by one of them alone, which `check`
/// asserts of all devices.
#[test]
fn both_parts_are_the_whole() {
    let sizes = [(1, 2, 1), (3, 2, 2), (9, 7, 5), (5, 19, 12), (17, 18, 1)];
    let mut turn = 0;
    for form in forms() {
        for (op_a, op_b) in OPS.into_iter().flat_map(|a| OPS.map(|b| (a, b))) {
            for size in sizes {
                turn += 1;
                let dtype = Dtype::ALL[turn % 4];
                for p in problems(dtype, form, (op_a, op_b), size) {
                    if !divides_columns(&p) {
                        assert_eq!(host_part(&p, 1), None);
                        continue;
                    }
                    let devices = 1 + turn % 3;
                    for host_columns in [1, p.n / 2, p.n - 1] {
                        check(&p, &together(&p, host_columns, devices, 4), devices + 1);
                    }
                    assert_eq!((host_part(&p, 0), host_part(&p, p.n)), (None, None));
                }
            }
        }
    }
}

#[test]
fn the_host_gets_its_share_at_the_start_of_a_page() {
    for uplo in [Uplo::Lower, Uplo::Upper] {
        let form = Form {
            uplo,
            ..Form::default()
        };
        for (routine, ld) in [
            (Routine::Symm, 16384),
            (Routine::Symm, 16388),
            (Routine::Syrk, 16384),
            (Routine::Syrk, 16385),
        ] {
            let mut p = level3(
                routine,
                Dtype::D,
                form,
                Op::None,
                (16384, 16384, 512),
                (Value::ONE, Value::ZERO),
            );
            let output = p.operands.len() - 1;
            p.operands[output].ld = ld;
            for share in [0.1, 0.25, 0.6] {
                let host = columns(&p, share, 4096).expect("columns for both");
                let part = host_part(&p, host).expect("both parts");
                let whole = p.work().flops();
                let of_host: f64 = part
                    .tasks
                    .iter()
                    .map(|t| {
                        let k = &t.kernel;
                        f64::from(k.routine.record().flops) * (k.m * k.n * k.k) as f64
                    })
                    .sum();
                assert!(
                    (of_host / whole - share).abs() < 0.07,
                    "{routine:?} {uplo:?} {ld} {share}: {}",
                    of_host / whole
                );
                // The first byte of the part that comes second.
                let (row, col) = match part.begins[output] {
                    (0, 0) => (0, p.n - host),
                    begin => begin,
                };
                assert_eq!((col * ld + row) * 8 % 4096, 0, "{routine:?} {uplo:?} {ld}");
            }
            assert_eq!(columns(&p, 0.0, 1), None);
            assert_eq!(columns(&p, 1.0, 1), None);
        }
    }
}
