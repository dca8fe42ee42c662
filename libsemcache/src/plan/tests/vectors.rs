//! Plans of vector routines.

use super::*;

#[test]
fn vectors_equal_the_whole() {
    use Routine::{Asum, Axpby, Axpy, Copy, Dot, Dotc, Iamax, Nrm2, RealScal, Scal, Swap};
    for dtype in Dtype::ALL {
        for n in [1, 2, 6, 7, 8, 61] {
            for rev in [(false, false), (false, true), (true, false), (true, true)] {
                for routine in [Axpy, Axpby, Scal, RealScal, Copy, Swap] {
                    let p = vectors(routine, dtype, n, rev);
                    // Some pieces, or one element a piece.
                    let few = 4 * (dtype.size() + 16);
                    for memory in [PLENTY, 7 * few, few] {
                        // The copy of x that axpby makes is limited to its share of the memory.
                        let copies = routine == Axpby && rev.0 != rev.1;
                        let memory = if copies { 8 * memory } else { memory };
                        let plan = lower(&p, &resources(3, 8, memory));
                        check(&p, &plan, 3);
                        assert!(plan.tasks.iter().all(|t| t.device == DeviceId(2)));
                        let most = memory / TRANSPOSED_SHARE / dtype.size();
                        assert!(!copies || plan.tasks.iter().all(|t| t.kernel.m <= most));
                    }
                }
                for routine in [Dot, Dotc, Nrm2, Asum, Iamax] {
                    let p = vectors(routine, dtype, n, rev);
                    let plan = lower(&p, &resources(2, 8, PLENTY));
                    check(&p, &plan, 2);
                    assert_eq!(plan.tasks.len(), 1);
                    // The second vector has gaps, so that a device needs 16 bytes for each of its elements.
                    let each = dtype.size() + 16 * (p.operands.len() - 1);
                    let whole = lower(&p, &resources(2, 8, n * each * 10 / 9 + 2));
                    assert_eq!(whole, plan);
                    let memory = n * each;
                    let less = lower(&p, &resources(2, 8, memory));
                    if memory < 10 {
                        // A tenth is less than a byte.
                        assert_eq!(less, whole);
                        continue;
                    }
                    if routine == Iamax || n < 4 {
                        assert_eq!(less, Plan::default());
                        continue;
                    }
                    check(&p, &less, 2);
                    assert!((4..=7).contains(&less.tasks.len()));
                    for task in &less.tasks {
                        assert!(task.kernel.m * each * 4 <= memory && task.device == DeviceId(1));
                    }
                }
            }
        }
    }
}

#[test]
fn rotations_equal_the_whole() {
    for dtype in Dtype::ALL {
        for n in [1, 2, 7, 61] {
            for rev in [(false, false), (false, true), (true, false), (true, true)] {
                for routine in [Routine::Rot, Routine::Rotm] {
                    let p = Problem {
                        routine,
                        alpha: TWO,
                        beta: THREE,
                        ..vectors(Routine::Swap, dtype, n, rev)
                    };
                    for memory in [PLENTY, 28 * (dtype.size() + 16)] {
                        check(&p, &lower(&p, &resources(3, 8, memory)), 3);
                    }
                }
            }
        }
    }
}

#[test]
fn devices_compute_their_parts_of_vectors() {
    use Routine::{Asum, Axpby, Axpy, Copy, Dot, Dotc, Iamax, Nrm2, RealScal, Rot, Scal, Swap};
    let owners = [(7, 2), (8, 0), (40, 1), (61, 2)].map(|(end, device)| Owned {
        end,
        device: DeviceId(device),
    });
    for dtype in Dtype::ALL {
        for routine in [
            Axpy, Axpby, Scal, RealScal, Copy, Swap, Rot, Dot, Dotc, Nrm2, Asum,
        ] {
            let mut p = vectors(routine, dtype, 61, (false, false));
            // Elements with gaps between them are not divided.
            let two = p.operands.len() == 2;
            let machine = resources(3, 8, PLENTY);
            assert_eq!(by_owners(&p, &machine, &owners).is_none(), two);
            p.operands.iter_mut().for_each(|v| v.ld = 1);
            let plan = by_owners(&p, &machine, &owners).expect("parts of the vectors");
            check(&p, &plan, 3);
            let devices: Vec<u8> = plan.tasks.iter().map(|t| t.device.0).collect();
            assert_eq!(devices, [2, 0, 1, 2]);
            // Parts that do not fit are cut.
            let few = resources(3, 8, 4 * 10 * dtype.size() * p.operands.len());
            let plan = by_owners(&p, &few, &owners).expect("pieces");
            assert_eq!(plan.tasks.len(), 1 + 1 + 4 + 3);
            check(&p, &plan, 3);
            for wrong in [&owners[..3], &[], &[owners[1], owners[0], owners[3]]] {
                assert_eq!(by_owners(&p, &machine, wrong), None);
            }
            p.operands[0].reversed = true;
            assert_eq!(by_owners(&p, &machine, &owners), None);
        }
        // The indices of the largest elements of two parts do not tell which of these is larger.
        let p = vectors(Iamax, dtype, 61, (false, false));
        assert_eq!(by_owners(&p, &resources(3, 8, PLENTY), &owners), None);
    }
}
