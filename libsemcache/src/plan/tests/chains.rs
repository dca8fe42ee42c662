//! Chains on other devices than planned.

use std::collections::VecDeque;

use super::*;
use crate::plan::strips::Strips;
use crate::plan::{Chain, chains};
use testkit::Rng;

/// The tasks of a plan with each chain on a device that `rng` draws, the devices in an order that it draws.
fn dealt(problem: &Problem, plan: &Plan, devices: u8, rng: &mut Rng) -> (Plan, usize) {
    let all = chains(problem, plan);
    let mut given = plan.clone();
    let mut queues = vec![VecDeque::new(); usize::from(devices)];
    for Chain { tasks, .. } in &all {
        let device = rng.below(usize::from(devices));
        given.give(tasks.iter().map(|&at| (at, DeviceId::at(device))));
        queues[device].extend(tasks.iter().copied());
    }
    let mut order = Vec::new();
    while order.len() < plan.tasks.len() {
        let device = rng.below(usize::from(devices));
        order.extend(queues[device].pop_front());
    }
    let tasks = order.iter().map(|&at| given.tasks[at].clone());
    (Plan::of(tasks.collect(), Strips::default()), all.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// The result is the same, each chain has its tasks in order, and each task is in one chain.
    #[test]
    fn on_any_devices_chains_compute_the_whole(
        routine in proptest::sample::select(&LEVEL3[..]),
        product in proptest::bool::ANY,
        form in proptest::sample::select(forms()),
        op in proptest::sample::select(&OPS[..]),
        size in (1usize..70, 1usize..70, 1usize..40),
        beta in proptest::sample::select(&[Value::ZERO, THREE][..]),
        tile in proptest::sample::select(&[2usize, 5, 16, 23][..]),
        memory in proptest::option::of(24usize..80),
        apart in proptest::bool::ANY,
        seed in 0u64..1000,
    ) {
        let p = match product {
            true => gemm(Dtype::D, (op, Op::None), size, beta),
            false => level3(routine, Dtype::D, form, op, size, (TWO, beta)),
        };
        let memory = memory.map_or(PLENTY, |tiles| tiles * 16 * 16 * 8);
        let machine = Resources { apart, ..resources(3, tile, memory) };
        let plan = lower(&p, &machine);
        if plan.fits {
            let mut seen: Vec<usize> = Vec::new();
            for Chain { device, tasks } in chains(&p, &plan) {
                prop_assert!(tasks.windows(2).all(|w| w[0] < w[1]));
                prop_assert!(tasks.iter().all(|&at| plan.tasks[at].device == device));
                seen.extend(tasks);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..plan.tasks.len()).collect::<Vec<_>>());
            let (dealt, _) = dealt(&p, &plan, 3, &mut Rng::new(seed));
            check(&p, &dealt, 3);
        }
    }
}

/// Of operands that fit, a chain is one tile of the output, or one line of tiles of a solution.
#[test]
fn there_are_many_chains() {
    let size = (128, 128, 128);
    let machine = Resources {
        apart: true,
        ..resources(2, 16, PLENTY)
    };
    let count = |p: &Problem| chains(p, &lower(p, &machine)).len();
    let product = gemm(Dtype::D, (Op::None, Op::None), size, Value::ONE);
    assert_eq!(count(&product), 64);
    for routine in LEVEL3 {
        let p = level3(routine, Dtype::D, forms()[0], Op::None, size, (TWO, THREE));
        let least = match routine {
            Routine::Trmm | Routine::Trsm => 8,
            _ => 36,
        };
        assert!(count(&p) >= least, "{routine:?}: {}", count(&p));
    }
}
