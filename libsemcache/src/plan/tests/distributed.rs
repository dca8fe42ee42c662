//! Plans of calls whose output has a distribution.

use std::sync::Arc;

use super::*;
use crate::base::distribution::{Distributed, Distribution};
use crate::plan::distributed;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// The result is the same, and each tile that lies in one block is computed by the block's owner.
    #[test]
    fn owners_compute_the_whole(
        routine in proptest::sample::select(&LEVEL3[..]),
        product in proptest::bool::ANY,
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        form in proptest::sample::select(forms()),
        op in proptest::sample::select(&OPS[..]),
        size in (1usize..70, 1usize..70, 1usize..40),
        beta in proptest::sample::select(&[Value::ZERO, Value::ONE, THREE][..]),
        (block, grid) in ((1usize..40, 1usize..40), (1usize..4, 1usize..3)),
        at in (0usize..30, 0usize..30),
        memory in proptest::option::of(10usize..80),
        tile in proptest::sample::select(&[3usize, 7, 16, 300][..]),
    ) {
        let p = match product {
            true => gemm(dtype, (op, Op::None), size, beta),
            false => level3(routine, dtype, form, op, size, (TWO, beta)),
        };
        let devices = grid.0 * grid.1;
        let of = Distribution::new((p.m + at.0, p.n + at.1), block, |i, j| {
            Some(DeviceId::at(i % grid.0 * grid.1 + j % grid.1))
        });
        let output = Distributed { of: Arc::new(of.expect("a distribution")), row: at.0, col: at.1 };
        let memory = memory.map_or(PLENTY, |tiles| tiles * 16 * 16 * dtype.size());
        // The usual tiles are longer than these matrices.
        let machine = Resources { fixed: tile < 300, ..Resources::new(devices, tile, memory) };
        let plan = distributed(&p, &machine, &output);
        prop_assert!(plan.is_some() || memory < PLENTY);
        if let Some(plan) = plan {
            check(&p, &plan, devices);
            for task in &plan.tasks {
                let written = task.parts.iter().find(|part| part.access != Access::Read);
                let part = written.expect("a task writes");
                let first = output.owner(part.row, part.col);
                let corners = [
                    output.owner(part.row + part.rows - 1, part.col),
                    output.owner(part.row, part.col + part.cols - 1),
                    output.owner(part.row + part.rows - 1, part.col + part.cols - 1),
                ];
                let inside = block.0 >= part.rows && block.1 >= part.cols && corners == [first; 3];
                let in_lines = matches!(p.routine, Routine::Trmm | Routine::Trsm);
                prop_assert!(in_lines || !inside || task.device == first);
            }
        }
    }
}

#[test]
fn an_owner_that_cannot_be_used_owns_nothing() {
    let p = gemm(Dtype::D, (Op::None, Op::None), (8, 8, 8), Value::ZERO);
    let of = Distribution::new((8, 8), (4, 4), |i, _| Some(DeviceId::at(i)));
    let output = Distributed {
        of: Arc::new(of.expect("a distribution")),
        row: 0,
        col: 0,
    };
    assert!(distributed(&p, &Resources::new(1, 4, PLENTY), &output).is_none());
    assert!(distributed(&p, &Resources::new(2, 4, PLENTY), &output).is_some());
}

/// The lines of a solution are dealt to all devices, although each meets the blocks of two of the four only.
#[test]
fn lines_of_a_solution_go_to_all_devices() {
    let size = (64, 64, 64);
    let p = level3(
        Routine::Trsm,
        Dtype::D,
        forms()[0],
        Op::None,
        size,
        (TWO, TWO),
    );
    let of = Distribution::new((64, 64), (8, 8), |i, j| {
        Some(DeviceId::at(i % 2 * 2 + j % 2))
    });
    let output = Distributed {
        of: Arc::new(of.expect("a distribution")),
        row: 0,
        col: 0,
    };
    // A line as wide as a block, and as wide as two.
    for tile in [8, 16] {
        let machine = Resources {
            fixed: true,
            ..Resources::new(4, tile, PLENTY)
        };
        let plan = distributed(&p, &machine, &output).expect("a plan");
        check(&p, &plan, 4);
        for device in 0..4 {
            let of = plan.tasks.iter().filter(|t| t.device.index() == device);
            assert_eq!(of.count() * 4, plan.tasks.len());
        }
    }
}
