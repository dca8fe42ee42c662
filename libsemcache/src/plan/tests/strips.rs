//! The strips of products.

use super::*;
use crate::base::{DeviceSet, TileSize};
use crate::plan::tiling::{Order, Tiling};
use crate::plan::{Part, tilings};
use std::collections::{BTreeMap, BTreeSet};

/// The strips of a plan by device, operand and first column: first row, rows and columns.
type Found = BTreeMap<(DeviceId, usize, usize), BTreeSet<(usize, usize, usize)>>;

/// Checks that each part lies in its strip, that strips of an operand do not overlap on a device, and that no two devices
/// write one strip. Returns the bytes of the largest strip in device memory.
fn strips(p: &Problem, plan: &Plan) -> usize {
    let (mut found, mut largest) = (Found::new(), 0);
    let mut written: BTreeMap<(usize, usize), DeviceId> = BTreeMap::new();
    for task in &plan.tasks {
        for part in &task.parts {
            let strip: Part = plan.strips.around(task.device, part);
            assert!(strip.covers(part) && (strip.col, strip.cols) == (part.col, part.cols));
            let of = found.entry((task.device, strip.operand, strip.col));
            of.or_default().insert((strip.row, strip.rows, strip.cols));
            // As the cache lays a strip out: short columns start at multiples of 16 bytes.
            let column = strip.rows * p.dtype.size();
            let column = column.next_multiple_of(if column < 256 { 16 } else { 256 });
            largest = largest.max(column * strip.cols);
            if part.access != Access::Read {
                let owner = written.entry((strip.row, strip.col)).or_insert(task.device);
                assert_eq!(*owner, task.device, "two devices write a strip");
            }
        }
    }
    // The kernel of gemmt takes tiles on the diagonal in squares of its own.
    for of in found.values().filter(|_| p.routine != Routine::Gemmt) {
        let of: Vec<_> = of.iter().collect();
        assert!(of.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{of:?}");
    }
    largest
}

/// A product or the update of a triangle, and the transpositions of its two inputs.
fn problem(
    routine: Routine,
    ops: (Op, Op),
    uplo: Uplo,
    dtype: Dtype,
    size: (usize, usize, usize),
) -> (Problem, (Op, Op)) {
    let form = Form {
        uplo,
        ..Form::default()
    };
    match routine {
        Routine::Gemm => (gemm(dtype, ops, size, THREE), ops),
        Routine::Gemmt => (
            gemmt::problem(dtype, uplo, ops, (size.1, size.2), THREE),
            ops,
        ),
        _ => {
            let p = level3(routine, dtype, form, ops.0, size, (TWO, THREE));
            let other = if p.op_a == Op::None {
                Op::Trans
            } else {
                Op::None
            };
            let ops = (p.op_a, other);
            (p, ops)
        }
    }
}

const ROUTINES: [Routine; 6] = [
    Routine::Gemm,
    Routine::Gemmt,
    Routine::Syrk,
    Routine::Herk,
    Routine::Syr2k,
    Routine::Her2k,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn three_strips_of_every_tiling_fit(
        routine in proptest::sample::select(&ROUTINES[..]),
        ops in (proptest::sample::select(&OPS[..]), proptest::sample::select(&OPS[..])),
        uplo in proptest::sample::select(&[Uplo::Lower, Uplo::Upper][..]),
        size in (1usize..9000, 1usize..9000, 1usize..9000),
        devices in 1usize..4,
        share in 2usize..90,
    ) {
        let (p, _) = problem(routine, ops, uplo, Dtype::D, size);
        let all: usize = p.operands.iter().map(|o| o.rows * o.cols * 8).sum();
        let machine = resources(devices, 2048, (all / 100 * share / devices).max(3 << 19));
        for tiling in tilings(&p, &machine).into_iter().filter(|t| !t.in_core) {
            let plan = lower(&p, &Resources { tiling: Some(tiling), ..machine });
            prop_assert!(plan.fits);
            let largest = strips(&p, &plan);
            prop_assert!(3 * largest <= machine.memory, "{tiling:?}: {largest} of {}", machine.memory);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn tiles_in_strips_equal_the_whole(
        routine in proptest::sample::select(&ROUTINES[..]),
        ops in (proptest::sample::select(&OPS[..]), proptest::sample::select(&OPS[..])),
        uplo in proptest::sample::select(&[Uplo::Lower, Uplo::Upper][..]),
        size in (1usize..70, 1usize..70, 1usize..70),
        devices in 1usize..4,
        (side, parts) in (2usize..9, 2usize..5),
        blocks in (1usize..4, 1usize..4),
    ) {
        let (p, ops) = problem(routine, ops, uplo, Dtype::Z, size);
        let mut machine = resources(devices, 64, 1000);
        machine.tiling = Some(Tiling {
            tile: TileSize::long(side, parts, ops),
            block_rows: blocks.0,
            block_cols: blocks.1,
            order: [Order::ColumnsOfBlocks, Order::RowsOfBlocks][side % 2],
            in_core: false,
        });
        let plan = lower(&p, &machine);
        check(&p, &plan, devices);
        strips(&p, &plan);
    }
}

/// A narrow product of long columns writes and reads columns of 64 KiB with little memory.
#[test]
fn a_narrow_product_moves_long_columns() {
    use crate::base::work::RunShares;
    let p = gemm(
        Dtype::D,
        (Op::None, Op::None),
        (16384, 16384, 512),
        Value::ZERO,
    );
    let mut machine = Resources::new(1, 2048, 256 << 20);
    machine.pace.runs = RunShares([0.35, 0.58, 0.57, 0.84, 1.0]);
    let first = tilings(&p, &machine)[0];
    assert!(first.tile.strip >= 8192, "{first:?}");
    assert!(first.tile.n < first.tile.strip);
}

#[test]
fn strips_move_with_their_plan() {
    let p = gemm(Dtype::D, (Op::None, Op::None), (96, 64, 96), Value::ZERO);
    let mut machine = resources(1, 64, 1000);
    machine.tiling = Some(Tiling {
        tile: TileSize::long(16, 3, (Op::None, Op::None)),
        block_rows: 1,
        block_cols: 1,
        order: Order::ColumnsOfBlocks,
        in_core: false,
    });
    let plan = lower(&p, &machine);
    machine.devices = DeviceSet::only(DeviceId(2));
    let moved = lower(&p, &machine);
    for (here, there) in plan.tasks.iter().zip(&moved.tasks) {
        assert_eq!(there.device, DeviceId(2));
        let second = |plan: &Plan, t: &Task| plan.strips.around(t.device, &t.parts[1]);
        assert_eq!(second(&plan, here).rows, 48);
        assert_eq!(second(&plan, here), second(&moved, there));
    }
}
